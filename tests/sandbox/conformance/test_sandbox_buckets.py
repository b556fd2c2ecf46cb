"""Buckets on every engine: there at start, pushed as it goes, there again after each start (SPEC 12.11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]  # has no types
import pytest

from agentkit.sandbox import BucketMount, Sandbox, SandboxEngine, SandboxSpec
from agentkit.sandbox.engine import STORE
from agentkit.testing import ManualRuntime
from tests.sandbox.bucket_world import give_credentials, s3_server
from tests.sandbox.engines import CANDIDATES, eventually, needs
from tests.sandbox.sandbox_host import Coder, Given

BUCKET = "agentkit-test"


@dataclass(slots=True)
class Objects:
    """The bucket's side."""

    endpoint: str
    client: Any

    def put(self, key: str, content: str) -> None:
        """Write an object."""
        self.client.put_object(Bucket=BUCKET, Key=f"work/{key}", Body=content.encode())

    def all(self) -> dict[str, str]:
        """Return all objects."""
        found = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        read = self.client.get_object
        return {
            each["Key"].removeprefix("work/"): read(Bucket=BUCKET, Key=each["Key"])["Body"].read().decode()
            for each in found
        }


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """Return a bucket with one object."""
    give_credentials(monkeypatch)
    with s3_server() as endpoint:
        client = boto3.session.Session().client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket=BUCKET)
        objects = Objects(endpoint, client)
        objects.put("input.txt", "given")
        yield objects
        client.close()


@pytest.fixture
def given(engine: SandboxEngine, objects: Objects) -> Given:
    """Return a spec with the bucket."""
    mount = BucketMount(f"s3://{BUCKET}/work", "/data", endpoint=objects.endpoint)
    return Given(spec=SandboxSpec(image=CANDIDATES[engine.name].image, mounts=[mount]))


@pytest.fixture
async def runtime(engine: SandboxEngine, given: Given, tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    """Return a runtime on an engine; nothing of its store is left behind."""
    async with ManualRuntime(Coder, store=f"sqlite:///{tmp_path}/a.db", engine=engine, deps=given) as runtime:
        yield runtime
        for instance in await engine.instances():
            if instance.labels.get(STORE) == runtime.store.id:
                await engine.remove(instance.name)
        for image in await engine.saved():
            if image.labels.get(STORE) == runtime.store.id:
                await engine.delete_saved(image.id)


@pytest.fixture
def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent."""
    return runtime.get(Coder, "ada")


async def test_bucket_is_there_at_start_and_gets_what_commands_change(coder: Coder, objects: Objects) -> None:
    """Pulled before the first command; what a command has written is in the bucket when it returns."""

    async def scenario(sandbox: Sandbox) -> str:
        await sandbox.start()
        text = await sandbox.files.read_text("/data/input.txt")
        await sandbox.exec(shell="echo made > /data/output.txt", check=True)
        return text

    assert await coder.use(scenario) == "given"
    assert await asyncio.to_thread(objects.all) == {"input.txt": "given", "output.txt": "made\n"}


async def test_written_file_is_pushed_within_ten_seconds(
    runtime: ManualRuntime, coder: Coder, objects: Objects, engine: SandboxEngine
) -> None:
    """Though no command runs; by the time inside."""
    await coder.use(lambda sandbox: sandbox.start())
    await coder.use(lambda sandbox: sandbox.files.write("/data/note.txt", "written"))

    async def is_pushed() -> bool:
        # Real engines have real time; the agent must not be evicted meanwhile, which pushes, too.
        await runtime.advance(1 if engine.name == "memory" else 0)
        return "note.txt" in await asyncio.to_thread(objects.all)

    await eventually(is_pushed, within=20)


async def test_bucket_is_there_again_after_each_start(runtime: ManualRuntime, coder: Coder, objects: Objects) -> None:
    """After a stop, and in a new container from a snapshot, which holds none of it; what others changed is seen."""
    await coder.use(lambda sandbox: sandbox.start())
    await coder.use(lambda sandbox: sandbox.files.write("/data/note.txt", "written"))
    saved = await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.stop())
    await asyncio.to_thread(objects.put, "input.txt", "given anew")

    await coder.use(lambda sandbox: sandbox.ensure_started())
    restarted = await coder.use(lambda sandbox: sandbox.files.read_text("/data/input.txt"))
    await coder.use(lambda sandbox: sandbox.destroy())
    await asyncio.to_thread(objects.put, "input.txt", "given once more")
    await coder.use(lambda sandbox: sandbox.start(saved))
    restored = await coder.use(lambda sandbox: sandbox.files.read_text("/data/input.txt"))

    assert (restarted, restored) == ("given anew", "given once more")
    assert (await asyncio.to_thread(objects.all))["note.txt"] == "written"


@needs("owner_may_die")
async def test_what_a_dead_owner_left_is_pushed_at_the_next_attach(
    runtime: ManualRuntime, coder: Coder, objects: Objects
) -> None:
    """It was written by a background process while nobody was there to push it."""
    await coder.use(lambda sandbox: sandbox.start())
    line = "sleep 1; echo late > /data/late.txt"
    await coder.use(lambda sandbox: sandbox.processes.start("late", "sh", "-c", line))
    await runtime.crash()
    await runtime.advance(2)

    async def is_written() -> bool:
        return await coder.use(lambda sandbox: sandbox.files.stat("/data/late.txt")) is not None

    await eventually(is_written)
    await runtime.crash()
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert (await asyncio.to_thread(objects.all))["late.txt"] == "late\n"


@needs("host_directories")
async def test_host_directory_is_seen_from_both_sides(
    runtime: ManualRuntime, coder: Coder, given: Given, engine: SandboxEngine, tmp_path: Path
) -> None:
    """Where the engine can: a directory that was named is read and written in place."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "in.txt").write_text("from outside")
    given.spec = SandboxSpec(image=given.spec.image, mounts=[BucketMount(str(shared), "/shared")])

    await coder.use(lambda sandbox: sandbox.start())
    text = await coder.use(lambda sandbox: sandbox.files.read_text("/shared/in.txt"))
    await coder.use(lambda sandbox: sandbox.exec(shell="echo from inside > /shared/out.txt", check=True))

    assert text == "from outside"
    assert (shared / "out.txt").read_text() == "from inside\n"
