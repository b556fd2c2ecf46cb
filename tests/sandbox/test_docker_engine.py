"""What only Docker has: images of all kinds, labels and names of others, and nothing of ours that is left."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import docker
import pytest

from agentkit.errors import (
    EngineUnavailableError,
    ImageError,
    SandboxBusyError,
    SandboxError,
)
from agentkit.sandbox.docker import images as docker_images
from agentkit.sandbox.docker.client import Address, DockerClient, unavailable
from agentkit.sandbox.docker.plan import HELD, HELPER
from agentkit.sandbox.docker_engine import DockerEngine
from agentkit.sandbox.engine import INSTANCE, MANAGED, STORE, SavedImage
from tests.sandbox.box import SECOND, Box, Boxes
from tests.sandbox.engines import CANDIDATES, eventually

pytestmark = pytest.mark.docker

IMAGE = CANDIDATES["docker"].image


@pytest.fixture(params=["docker"])
async def engine(request: pytest.FixtureRequest) -> Any:
    """Return the engine."""
    engine = DockerEngine()
    yield engine
    await engine.close()


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    """Return the library's own client."""
    client = docker.from_env()
    yield client
    client.close()


def inspect(client: docker.DockerClient, image: str) -> dict[str, Any]:
    """Return what the engine knows of an image."""
    return client.images.get(image).attrs


@pytest.fixture
def awkward_image(client: docker.DockerClient) -> Iterator[str]:
    """Return an image that has everything a sandbox must not take over, and no Python."""
    base = client.containers.create(IMAGE, ["sh", "-c", "rm /usr/bin/python3*; mkdir -p /workspace /data"], user="0")
    try:
        base.start()
        base.wait()
        settings = [
            'CMD ["false"]',
            'ENTRYPOINT ["sh", "-c", "exit 9"]',
            "USER 4321",
            "WORKDIR /nowhere",
            "VOLUME /data",
            "ENV FROM_IMAGE=yes",
            "LABEL agentkit.managed=1 agentkit.store=another agentkit.docker.base=none other=label",
            'HEALTHCHECK --interval=1s CMD ["false"]',
        ]
        client.api.commit(str(base.id), "agentkit-awkward", "1", changes=settings)
    finally:
        base.remove(v=True)
    yield "agentkit-awkward:1"
    client.images.remove("agentkit-awkward:1")


async def test_image_gives_its_files_and_environment_alone(
    awkward_image: str, boxes: Boxes, client: docker.DockerClient
) -> None:
    """Its command, user, folder, health check and labels are not the sandbox's (SPEC 12.1; T11)."""
    box = await boxes.start(image=awkward_image)

    said = await box.sh('echo "$(id -u) $(pwd) $FROM_IMAGE"; touch /workspace/ours')

    assert said == "1000 /workspace yes"
    found = client.api.inspect_container(box.name)
    assert found["Config"]["Labels"][STORE] == boxes.store
    assert found["Config"]["Labels"]["other"] == "label"
    assert "Health" not in found["State"]
    assert await box.find() is not None


async def test_sandbox_without_python_works(awkward_image: str, boxes: Boxes) -> None:
    """Commands, files and processes go through the engine's own exec where the runner can't run."""
    box = await boxes.start(image=awkward_image)
    assert (await box.run(shell="command -v python3")).code != 0

    await box.write("/workspace/a/b", b"content")
    ran = await box.run(shell="cat a/b; echo err >&2; exit 3")
    late = await box.run(shell="echo begun; sleep 60", seconds=1)

    assert (ran.stdout, ran.stderr, ran.code) == (b"content", b"err\n", 3)
    assert (late.text, late.exit.timed_out) == ("begun", True)
    assert [entry.name for entry in await (await box.inside()).entries("/workspace")] == ["a"]


async def test_volumes_of_an_image_are_not_left_behind(
    awkward_image: str, boxes: Boxes, client: docker.DockerClient
) -> None:
    """The anonymous volume that an image declares goes with its container (T11)."""
    box = await boxes.start(image=awkward_image)
    [volume] = [
        mount["Name"] for mount in client.api.inspect_container(box.name)["Mounts"] if mount["Type"] == "volume"
    ]

    await box.remove()

    assert volume not in [volume["Name"] for volume in client.api.volumes()["Volumes"] or ()]


async def test_image_without_a_shell_is_told(boxes: Boxes, client: docker.DockerClient) -> None:
    """An image that can't host a sandbox is an error that says what it takes, and leaves nothing (T17)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    client.api.import_image_from_data(buffer.getvalue(), repository="agentkit-empty", tag="1")
    try:
        box = boxes.box(image="agentkit-empty:1")

        with pytest.raises(ImageError, match="sh and sleep"):
            await box.engine.create(box.plan)

        assert await box.find() is None
    finally:
        client.images.remove("agentkit-empty:1")


async def test_container_of_others_is_left_alone(boxes: Boxes, client: docker.DockerClient) -> None:
    """A container that has our name but no label of ours is an error for every call, and lives on (report 19)."""
    box = boxes.box()
    theirs = client.containers.create(IMAGE, ["true"], name=box.name)
    try:
        for call in (box.find(), box.engine.remove(box.name), box.engine.stop(box.name, grace=SECOND)):
            with pytest.raises(SandboxError, match="isn't ours"):
                await call
        with pytest.raises(SandboxError):
            await box.engine.create(box.plan)

        theirs.reload()
        assert theirs.status == "created"
    finally:
        theirs.remove()


async def test_image_of_others_is_left_alone(boxes: Boxes, client: docker.DockerClient) -> None:
    """An image under a tag of ours without a label of ours is neither listed, restored nor deleted."""
    snapshot = boxes.snapshot()
    client.api.tag(IMAGE, "agentkit/snapshot", snapshot)
    try:
        with pytest.raises(SandboxError, match="isn't ours"):
            await boxes.engine.delete_saved(snapshot)

        assert snapshot not in [image.id for image in await boxes.engine.saved()]
        assert client.images.get(f"agentkit/snapshot:{snapshot}")
    finally:
        client.images.remove(f"agentkit/snapshot:{snapshot}")


async def test_volume_of_others_is_left_alone(boxes: Boxes, client: docker.DockerClient) -> None:
    """A volume that only has a name like ours stays."""
    volume = client.volumes.create(f"agentkit-{boxes.store}-cache")
    try:
        with pytest.raises(SandboxError, match="isn't ours"):
            await boxes.engine.remove_volume("cache", boxes.store)

        assert client.volumes.get(volume.name)
    finally:
        volume.remove()


async def test_container_is_made_safe(boxes: Boxes, client: docker.DockerClient) -> None:
    """No privileges, memory bounded with its swap, an init, nothing mounted (SPEC 12.9; T14, T15)."""
    box = await boxes.start(memory="200m", pids=99, cpus=1.5, env={"TOKEN": "in-the-spec"})

    found = client.api.inspect_container(box.name)

    host = found["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (200 << 20, 200 << 20, 99)
    assert host["NanoCpus"] == 1_500_000_000
    assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], None, False)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["Init"], host["NetworkMode"], host["IpcMode"], host["PidMode"]) == (True, "none", "private", "")
    assert (found["Mounts"], host["Binds"], host["Devices"], host["RestartPolicy"]["Name"]) == ([], None, None, "no")
    assert found["Config"]["User"] == "1000:1000"
    assert "in-the-spec" not in json.dumps(found)


async def test_more_processors_than_there_are_is_no_error(boxes: Boxes) -> None:
    """A spec made for a larger machine works on a small one, with all there are."""
    box = await boxes.start(cpus=512)

    assert await box.sh("echo on") == "on"


async def test_secrets_are_in_no_image(boxes: Boxes, client: docker.DockerClient) -> None:
    """Neither the spec's variables nor a command's are in a snapshot: config, history, or files (SPEC 12.9; T11)."""
    box = await boxes.start(env={"FROM_SPEC": "secret-of-spec"}, entrypoint=["sleep", "600"])
    await box.sh("true", env={"FROM_CALL": "secret-of-call"})

    image = await box.save(boxes.snapshot())

    reference = f"agentkit/snapshot:{image.id}"
    told = json.dumps([inspect(client, reference), client.images.get(reference).history()])
    packed = b"".join(client.images.get(reference).save())
    assert "secret-of" not in told
    assert b"secret-of" not in packed
    assert inspect(client, reference)["Config"]["Cmd"] == ["sh"]


async def test_nothing_of_a_command_is_in_logs(boxes: Boxes, client: docker.DockerClient) -> None:
    """What commands print is not kept by the engine."""
    box = await boxes.start()

    await box.sh("echo printed-by-a-command; echo $TOKEN", env={"TOKEN": "secret-of-call"})

    assert client.containers.get(box.name).logs() == b""


async def test_entrypoint_gets_the_environment_and_its_end_stops_the_sandbox(boxes: Boxes) -> None:
    """It runs under the main process with the spec's variables; its exit code is the sandbox's (SPEC 12.1, 12.6)."""
    line = 'echo "$A $HOME $(pwd)" >/workspace/said; while [ ! -e /workspace/end ]; do sleep 0.1; done; exit 7'
    box = await boxes.start(entrypoint=["sh", "-c", line], env={"A": 'it\'s "A"\n$B'})
    guest = await box.inside()
    await eventually(lambda: guest.stat("/workspace/said"))
    said = await box.read("/workspace/said")

    await box.write("/workspace/end", b"")
    async with asyncio.timeout(20):
        await box.engine.wait(box.name)

    found = await box.find()
    assert said == b'it\'s "A"\n$B /home/agent /workspace\n'
    assert found is not None
    assert found.exit_code == 7


async def test_entrypoint_starts_again_with_the_sandbox(boxes: Boxes) -> None:
    """After a stop it runs again, with its variables, though nothing of them is on the disk."""
    box = await boxes.start(entrypoint=["sh", "-c", "echo $A >>/workspace/said; exec sleep 600"], env={"A": "1"})
    guest = await box.inside()
    await eventually(lambda: guest.stat("/workspace/said"))

    await box.stop()
    await box.start()
    await box.inside()

    async def twice() -> bool:
        return await box.read("/workspace/said") == b"1\n1\n"

    await eventually(twice)


async def test_container_that_was_never_started_is_completed(boxes: Boxes, client: docker.DockerClient) -> None:
    """One whose owner died between creation and start is found, and started as it should have been."""
    box = await boxes.start()
    created = client.api.inspect_container(box.name)
    await box.remove()
    config = {**created["Config"], "HostConfig": created["HostConfig"]}
    client.api.create_container_from_config(config, name=box.name)  # type: ignore[no-untyped-call]  # the stubs' gap

    found = await box.find()
    await box.start()

    assert found is not None
    assert (found.is_running, found.exit_code, found.stopped_at) == (False, None, None)
    assert await box.sh("touch /workspace/x ~/x; pwd") == "/workspace"


async def test_paused_container_is_busy(box: Box, client: docker.DockerClient) -> None:
    """Entering while the engine holds it still is an error that says to try again (T10)."""
    client.api.pause(box.name)
    try:
        with pytest.raises(SandboxBusyError):
            await box.engine.enter(box.name, box.plan)
        found = await box.find()
    finally:
        client.api.unpause(box.name)

    assert found is not None
    assert found.is_running
    assert await box.sh("echo on") == "on"


async def test_exit_without_memory_is_told(boxes: Boxes, client: docker.DockerClient) -> None:
    """A sandbox whose main process is killed for memory says so; one that is killed otherwise doesn't (T14)."""
    box = await boxes.start(memory="64m")
    other = await boxes.start("other")

    pid = client.api.inspect_container(other.name)["State"]["Pid"]
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    await other.engine.wait(other.name)
    # The main process ends for want of memory if it is the entrypoint's own that takes it all.
    await box.remove()
    line = "b = bytearray()\nwhile True: b.extend(bytes(1 << 20))"
    greedy = await boxes.start("greedy", memory="64m", entrypoint=["python3", "-c", line])
    await greedy.inside()
    async with asyncio.timeout(30):
        await greedy.engine.wait(greedy.name)

    killed, starved = await other.find(), await greedy.find()
    assert killed is not None
    assert (killed.exit_code, killed.out_of_memory) == (137, False)
    assert starved is not None
    assert (starved.exit_code, starved.out_of_memory) == (137, True)


async def test_cancelled_creation_leaves_nothing(boxes: Boxes, client: docker.DockerClient) -> None:
    """Whoever gives up while an instance is being made leaves none behind."""
    box = boxes.box()
    engine = DockerEngine()
    creating = asyncio.create_task(engine.create(box.plan))
    await asyncio.sleep(0.05)

    creating.cancel()
    await asyncio.gather(creating, return_exceptions=True)
    await engine.close()

    assert client.containers.list(all=True, filters={"name": box.name}) == []


async def test_cancelled_snapshot_leaves_nothing(boxes: Boxes, client: docker.DockerClient) -> None:
    """Whoever gives up while a snapshot is being made leaves none behind, and the sandbox goes on."""
    box = await boxes.start()
    await box.sh("head -c 50m /dev/urandom >big")
    saving = asyncio.create_task(box.save(boxes.snapshot()))
    await asyncio.sleep(0.1)

    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)

    async def none_left() -> bool:
        images = client.images.list("agentkit/snapshot", filters={"label": f"{STORE}={boxes.store}"})
        return images == [] and not client.api.inspect_container(box.name)["State"]["Paused"]

    await asyncio.sleep(1)
    await eventually(none_left)
    assert await box.sh("echo on") == "on"


async def test_deleted_snapshot_stays_for_its_container_and_no_longer(
    boxes: Boxes, client: docker.DockerClient
) -> None:
    """The image of a deleted snapshot is kept under another tag while a container needs it, then removed."""
    box = await boxes.start("0")
    image = await box.save(boxes.snapshot())
    restored = await boxes.restore(image.id, "1")

    await box.engine.delete_saved(image.id)
    held = client.images.list(f"{HELD}:{image.id}")
    await restored.remove()
    after = client.images.list(f"{HELD}:{image.id}")

    assert (len(held), len(after)) == (1, 0)


async def test_snapshot_is_written_anew_once_its_chain_is_long(boxes: Boxes, client: docker.DockerClient) -> None:
    """Twenty layers become one, with the settings, files, owners and links of before; the old ones go (report 25)."""
    box = await boxes.start("0", env={"A": "1"})
    await box.sh("echo content >file; chmod 640 file; ln file hard; ln -s file soft; mkfifo pipe")
    image: SavedImage | None = None
    for number in range(docker_images.MAX_ADDED_LAYERS + 1):
        await box.write("/workspace/number", str(number).encode())
        image = await box.save(boxes.snapshot(number))
        if number:
            await box.engine.delete_saved(boxes.snapshot(number - 1))
        await box.remove()
        box = await boxes.restore(image.id, str(number + 1), env={"A": "1"})

    assert image is not None
    found = inspect(client, f"agentkit/snapshot:{image.id}")
    assert len(found["RootFS"]["Layers"]) < docker_images.MAX_ADDED_LAYERS
    assert found["Config"]["Env"] == inspect(client, IMAGE)["Config"]["Env"]
    assert await box.sh("stat -c '%U %a %h' file; readlink soft; stat -c %F pipe; cat number; echo $A") == (
        f"UNKNOWN 640 2\nfile\nfifo\n{docker_images.MAX_ADDED_LAYERS}1"
    )
    assert client.images.list(all=True, filters={"label": f"{STORE}={boxes.store}", "dangling": True}) == []


async def test_container_that_a_user_runs_from_a_snapshot_is_theirs(boxes: Boxes, client: docker.DockerClient) -> None:
    """It has the image's labels, and still is neither listed nor removed (SPEC 12.7; T11)."""
    box = await boxes.start()
    image = await box.save(boxes.snapshot())
    theirs = client.containers.create(f"agentkit/snapshot:{image.id}", ["true"], name=f"theirs-{boxes.store}")
    try:
        with pytest.raises(SandboxError, match="isn't ours"):
            await box.engine.remove(f"theirs-{boxes.store}")

        assert [one.name for one in await boxes.instances()] == [box.name]
    finally:
        theirs.remove()


async def test_leftovers_of_killed_processes_are_removed(boxes: Boxes, client: docker.DockerClient) -> None:
    """Helpers and images without a name go once they are old; those of others stay (report 21)."""
    box = await boxes.start()
    image = await box.save(boxes.snapshot())
    helper = client.containers.create(IMAGE, ["true"], labels={HELPER: boxes.snapshot(7)})
    theirs = client.containers.create(IMAGE, ["true"])
    nameless = client.api.commit(str(helper.id), conf={"Labels": {MANAGED: "1"}})["Id"]
    ours = DockerClient(None, None)

    docker_images.remove_stale(ours, before=datetime.now(UTC) - timedelta(hours=1))
    kept = client.containers.list(all=True, filters={"id": str(helper.id)})
    docker_images.remove_stale(ours, before=datetime.now(UTC) + timedelta(seconds=5))
    ours.close()

    assert len(kept) == 1
    assert client.containers.list(all=True, filters={"id": str(helper.id)}) == []
    assert client.images.list(all=True, filters={"label": MANAGED, "dangling": True}) == []
    assert nameless
    assert [saved.id for saved in await boxes.saved()] == [image.id]
    theirs.remove()


@pytest.mark.parametrize("left", ["helper", "import", "held"])
async def test_half_made_snapshot_is_cleared_away(boxes: Boxes, client: docker.DockerClient, left: str) -> None:
    """Deleting a snapshot takes what a process left that was killed while it made or deleted it."""
    box = await boxes.start()
    image = await box.save(boxes.snapshot(0))
    half = boxes.snapshot(1)
    reference = f"agentkit/snapshot:{image.id}"
    if left == "helper":
        client.containers.create(reference, ["true"], labels={HELPER: half, INSTANCE: "", MANAGED: ""})
    elif left == "import":
        client.api.import_image_from_data(
            b"".join(client.containers.get(box.name).get_archive("/workspace")[0]),
            repository="agentkit/import",
            tag=half,
            changes=[f"LABEL {MANAGED}=1"],
        )
    else:
        client.api.tag(reference, HELD, half)
        client.images.remove(reference)

    deleted = await box.engine.delete_saved(half)

    assert not deleted
    assert client.containers.list(all=True, filters={"label": f"{HELPER}={half}"}) == []
    for repository in ("agentkit/import", HELD):
        assert client.images.list(f"{repository}:{half}") == []
    assert len(await boxes.saved()) == (0 if left == "held" else 1)


async def test_image_that_cannot_be_one_is_told(engine: DockerEngine) -> None:
    """A name that no image can have is an error about the image."""
    with pytest.raises(ImageError, match="A B C"):
        await engine.prepare("A B C")


async def test_unknown_address_is_told() -> None:
    """An address that can't be spoken to, or where nobody is, is an error that names it and what may help (T20)."""
    with pytest.raises(EngineUnavailableError, match="ssh"):
        DockerEngine("ssh://host")
    for url, reason in (("unix:///nowhere/docker.sock", "No such file"), ("tcp://127.0.0.1:9", "refused")):
        engine = DockerEngine(url)
        with pytest.raises(EngineUnavailableError, match=reason) as told:
            await engine.check()
        assert url in str(told.value)
        assert "DOCKER_HOST" in str(told.value)
        await engine.close()


def test_forbidden_socket_is_told() -> None:
    """Who may not use the socket is told so (T20)."""
    error = unavailable(Address(url="unix:///run/docker.sock"), PermissionError(13, "Permission denied"))

    assert "unix:///run/docker.sock: Permission denied" in str(error)
    assert "group docker" in str(error)
