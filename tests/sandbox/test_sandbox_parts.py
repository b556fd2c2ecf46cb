"""Files, processes, events and settings of a sandbox, and how it lives with the rest of its agent (SPEC 12)."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, JobContext
from agentkit.errors import (
    ConfigurationError,
    EngineUnavailableError,
    ImageError,
    PortTimeoutError,
    ProcessExistsError,
    QuotaError,
    SandboxFileNotFoundError,
    SandboxStoppedError,
    UnsupportedByEngineError,
)
from agentkit.host import AgentContext
from agentkit.sandbox import Allowlist, BucketMount, Sandbox, SandboxSpec, Volume
from agentkit.testing import InMemoryEngine, InMemoryProcess, ManualRuntime
from tests.sandbox.sandbox_host import Coder, Given

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def serve(process: InMemoryProcess) -> int:
    """Take ten seconds to come up, then listen."""
    process.print("starting")
    await process.sleep(10)

    async def answer(connection: Any) -> None:
        await connection.end()

    await process.listen(8000, answer)
    return 0


async def fail(process: InMemoryProcess) -> int:
    """Say why, and end."""
    process.print("no such option")
    return 2


@pytest.fixture
def memory_engine() -> InMemoryEngine:
    """Return an engine that has the programs above."""
    return InMemoryEngine(commands={"serve": serve, "fail": fail})


@pytest.fixture
async def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent whose sandbox runs."""
    ada = runtime.get(Coder, "ada")
    await ada.use(lambda sandbox: sandbox.start())
    return ada


# --- files


async def test_files_are_read_written_listed_and_moved(coder: Coder) -> None:
    """Bytes and text, relative to the workspace and absolute, directories made as needed."""

    async def scenario(sandbox: Sandbox) -> Any:
        files = sandbox.files
        await files.write("src/main.py", "print('hé')", mode=0o755)
        await files.write("/tmp/raw", b"\xff\x00")
        await files.mkdir("empty/deep")
        await files.move("src/main.py", "src/app.py")
        stat = await files.stat("src/app.py")
        assert stat is not None
        seen = {
            "list": [(info.name, info.type) for info in await files.list()],
            "text": await files.read_text("/workspace/src/app.py"),
            "raw": await files.read("/tmp/raw"),
            "stat": (stat.path, stat.size, oct(stat.mode)),
            "gone": await files.stat("src/main.py"),
            "removed": [await files.remove("empty"), await files.remove("empty")],
        }
        with pytest.raises(SandboxFileNotFoundError, match=r"src/main\.py"):
            await files.read("src/main.py")
        return seen

    seen = await coder.use(scenario)

    assert seen == {
        "list": [("empty", "directory"), ("src", "directory")],
        "text": "print('hé')",
        "raw": b"\xff\x00",
        "stat": ("/workspace/src/app.py", 12, "0o755"),
        "gone": None,
        "removed": [True, False],
    }


async def test_file_that_is_too_long_is_not_read(coder: Coder) -> None:
    """What runs inside can't fill the owner's memory (SPEC 19)."""
    await coder.use(lambda sandbox: sandbox.files.write("long", b"x" * 1_000))

    with pytest.raises(QuotaError, match="max_bytes=999"):
        await coder.use(lambda sandbox: sandbox.files.read("long", max_bytes=999))
    assert len(await coder.use(lambda sandbox: sandbox.files.read_text("long", max_bytes=1_000))) == 1_000


async def test_directory_goes_in_and_comes_out(coder: Coder, tmp_path: Path) -> None:
    """``upload`` and ``download`` of a directory and of a file."""
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("content")

    async def scenario(sandbox: Sandbox) -> str:
        await sandbox.files.upload(source, "project")
        await sandbox.files.download("project", tmp_path / "copy")
        await sandbox.files.upload(source / "deep" / "file", "single")
        return await sandbox.files.read_text("single")

    single = await coder.use(scenario)

    assert single == "content"
    assert (tmp_path / "copy" / "deep" / "file").read_text() == "content"


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_impossible_paths_are_refused(coder: Coder, path: str) -> None:
    """Before the sandbox is asked."""
    with pytest.raises(ConfigurationError):
        await coder.use(lambda sandbox: sandbox.files.read(path))


# --- processes


async def test_process_is_found_by_its_name(runtime: ManualRuntime, coder: Coder) -> None:
    """Its log outlives the connection; it is killed by name, and its name is taken only while it runs (SPEC 12.3)."""
    await coder.use(lambda sandbox: sandbox.processes.start("dev", "sh", "-c", "echo up; sleep 1h"))
    await runtime.advance(SECOND)
    await runtime.crash()

    async def scenario(sandbox: Sandbox) -> Any:
        process = await sandbox.processes.get("dev")
        assert process is not None
        with pytest.raises(ProcessExistsError):
            await sandbox.processes.start("dev", "true")
        log = "".join([text async for text in process.logs()])
        killed = [await process.kill(), await process.kill()]
        again = await sandbox.processes.start("dev", "true")
        return log, killed, await again.wait(), await sandbox.processes.get("other")

    log, killed, exit_code, other = await coder.use(scenario)

    assert (log, killed, exit_code, other) == ("up\n", [True, False], 0, None)


async def test_port_is_waited_for(runtime: ManualRuntime, coder: Coder) -> None:
    """Until something listens, by the clock inside."""

    async def scenario(sandbox: Sandbox) -> None:
        process = await sandbox.processes.start("dev", "serve")
        await process.wait_port(8000)

    waiting = asyncio.ensure_future(coder.use(scenario))
    await runtime.advance(9 * SECOND)
    before = waiting.done()
    await runtime.advance(2 * SECOND)

    assert (before, waiting.done()) == (False, True)
    await waiting


async def test_port_that_nobody_opens_is_an_error_with_the_log(runtime: ManualRuntime, coder: Coder) -> None:
    """After the timeout, or as soon as the process has ended."""

    async def late(sandbox: Sandbox) -> None:
        await (await sandbox.processes.start("late", "serve")).wait_port(8000, timeout=3)

    async def dead(sandbox: Sandbox) -> None:
        await (await sandbox.processes.start("dead", "fail")).wait_port(8000)

    waiting = [asyncio.ensure_future(coder.use(late)), asyncio.ensure_future(coder.use(dead))]
    await runtime.advance(5 * SECOND)

    with pytest.raises(PortTimeoutError, match=r"waited 0:00:03.*starting"):
        await waiting[0]
    with pytest.raises(PortTimeoutError, match=r"'dead' ended with 2.*no such option"):
        await waiting[1]


async def test_processes_of_a_stopped_sandbox_are_gone(coder: Coder) -> None:
    """Asking for them says that it doesn't run; after a restart there are none."""
    await coder.use(lambda sandbox: sandbox.processes.start("dev", "sleep", "1h"))
    await coder.use(lambda sandbox: sandbox.stop())

    with pytest.raises(SandboxStoppedError):
        await coder.use(lambda sandbox: sandbox.processes.list())
    await coder.use(lambda sandbox: sandbox.ensure_started())
    assert await coder.use(lambda sandbox: sandbox.processes.list()) == []


# --- exposed ports


async def test_exposed_port_keeps_the_agent(runtime: ManualRuntime, coder: Coder) -> None:
    """Its address leads somewhere for as long as the sandbox runs, though nobody calls the agent."""

    async def scenario(agent: Coder) -> tuple[str, int]:
        await agent.sandbox.processes.start("dev", "sleep", "1d")
        return await agent.sandbox.expose(8000), id(agent)

    url, before = await coder.do(scenario)
    await runtime.advance(9 * MINUTE)
    same = await coder.do(lambda agent: asyncio.sleep(0, id(agent)))
    await runtime.advance(15 * MINUTE)

    assert url.startswith("http://127.0.0.1:")
    assert same == before
    assert (await coder.use(lambda sandbox: sandbox.info())).state == "stopped"


async def test_only_listed_ports_are_exposed(runtime: ManualRuntime, given: Given) -> None:
    """``SandboxSpec.ports`` are the only ones, if there are any."""
    given.spec = SandboxSpec(ports=[3000])
    eve = runtime.get(Coder, "eve")
    await eve.use(lambda sandbox: sandbox.start())

    with pytest.raises(ConfigurationError, match="8000"):
        await eve.use(lambda sandbox: sandbox.expose(8000))
    assert await eve.use(lambda sandbox: sandbox.expose(3000))


# --- events, warnings, secrets


async def test_events_tell_what_happens_and_no_secrets(
    runtime: ManualRuntime, coder: Coder, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts, stops, snapshots, pulls; neither commands nor variables nor contents are in them or in the log."""
    caplog.set_level(logging.DEBUG)

    async def scenario(sandbox: Sandbox) -> None:
        await sandbox.exec("echo", "hidden-word", env={"TOKEN": "hidden-value"}, stdin="hidden-input")
        await sandbox.files.write("hidden-file", "hidden-content")
        await sandbox.snapshot("hidden-name")
        await sandbox.stop()
        await sandbox.start()
        await sandbox.destroy()

    await coder.use(scenario)
    await runtime.advance(0)

    types = [event.type for event in runtime.events if event.type.startswith("sandbox:")]
    assert types == [
        "sandbox:pull",
        "sandbox:start",
        "sandbox:snapshot",
        "sandbox:stop",
        "sandbox:pull",
        "sandbox:snapshot",
        "sandbox:remove",
        "sandbox:start",
        "sandbox:stop",
    ]
    assert "hidden" not in str([event.payload for event in runtime.events])
    assert "hidden" not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("agentkit")
    )


async def test_full_network_is_warned_of_once(given: Given, caplog: pytest.LogCaptureFixture) -> None:
    """Not at each start (SPEC 12.9)."""

    class Open(InMemoryEngine):
        features = InMemoryEngine.features | {"network"}

    given.spec = SandboxSpec(network="full")
    async with ManualRuntime(Coder, engine=Open(), deps=given) as runtime:
        for name in ("ada", "bob"):
            await runtime.get(Coder, name).use(lambda sandbox: sandbox.start())
            await runtime.get(Coder, name).use(lambda sandbox: sandbox.destroy())
            await runtime.get(Coder, name).use(lambda sandbox: sandbox.start())

    assert len([record for record in caplog.records if 'network="full"' in record.getMessage()]) == 1


# --- what can't be started


async def test_missing_image_leaves_nothing(given: Given) -> None:
    """Trap T17: the error names it; the next start is a first one."""
    engine = InMemoryEngine(images={"there": {}})
    given.spec = SandboxSpec(image="not-there")
    async with ManualRuntime(Coder, engine=engine, deps=given) as runtime:
        coder = runtime.get(Coder, "ada")
        with pytest.raises(ImageError, match="not-there"):
            await coder.use(lambda sandbox: sandbox.start())
        given.spec = SandboxSpec(image="there")
        await runtime.evict(Coder, "ada")
        await coder.use(lambda sandbox: sandbox.start())

    assert given.stops == []


async def test_start_that_fails_on_the_way_in_leaves_nothing(
    runtime: ManualRuntime, memory_engine: InMemoryEngine, given: Given
) -> None:
    """A container that can't be entered isn't left running."""
    enter = memory_engine.enter

    async def refuse(*_: Any) -> Any:
        reason = "has no shell"
        raise ImageError("any", reason)

    memory_engine.enter = refuse  # type: ignore[assignment, method-assign]  # this engine is the test's own
    eve = runtime.get(Coder, "eve")
    with pytest.raises(ImageError):
        await eve.use(lambda sandbox: sandbox.start())
    left = await memory_engine.instances()
    memory_engine.enter = enter  # type: ignore[method-assign]  # see above
    await eve.use(lambda sandbox: sandbox.start())
    await runtime.advance(0)

    assert left == []
    assert given.stops == []


async def test_what_an_engine_cannot_do_is_refused(runtime: ManualRuntime, given: Given) -> None:
    """Never left out in silence."""
    given.spec = SandboxSpec(mounts=[BucketMount("/srv", "/srv")])

    with pytest.raises(UnsupportedByEngineError):
        await runtime.get(Coder, "eve").use(lambda sandbox: sandbox.start())


async def test_no_engine_says_what_was_tried(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Report 29: from any call, and nothing is changed by it."""
    await runtime.crash()
    memory_engine.is_available = False
    for action in (
        lambda sandbox: sandbox.exec("true"),
        lambda sandbox: sandbox.start(),
        lambda sandbox: sandbox.ensure_started(),
        lambda sandbox: sandbox.stop(),
        lambda sandbox: sandbox.destroy(),
        lambda sandbox: sandbox.snapshot(),
        lambda sandbox: sandbox.info(),
    ):
        with pytest.raises(EngineUnavailableError, match="is_available"):
            await coder.use(action)
    memory_engine.is_available = True

    assert (await coder.use(lambda sandbox: sandbox.exec("true"))).ok


async def test_sandbox_that_never_started_says_so(runtime: ManualRuntime) -> None:
    """A command doesn't start one by itself; stopping and destroying it is no error."""
    eve = runtime.get(Coder, "eve")

    with pytest.raises(SandboxStoppedError, match=r"never started.*ensure_started"):
        await eve.use(lambda sandbox: sandbox.exec("true"))
    await eve.use(lambda sandbox: sandbox.stop())
    await eve.use(lambda sandbox: sandbox.destroy())
    info = await eve.use(lambda sandbox: sandbox.info())

    assert (info.state, info.instance, info.last_stop, info.engine) == ("absent", None, None, "memory")


# --- with the rest of the agent


async def test_sandbox_outlives_a_transaction_that_fails(runtime: ManualRuntime) -> None:
    """What an engine did can't be taken back; it is known although the block around it stored nothing (SPEC 3.4)."""
    eve = runtime.get(Coder, "eve")

    async def scenario(agent: Coder) -> None:
        async with agent.transaction():
            await agent.storage.put("inside", 1)
            await agent.sandbox.start()
            await agent.sandbox.files.write("a", "1")
            raise LookupError

    with pytest.raises(LookupError):
        await eve.do(scenario)
    await runtime.crash()

    assert await eve.do(lambda agent: agent.storage.get("inside")) is None
    assert await eve.use(lambda sandbox: sandbox.files.read_text("a")) == "1"


async def test_sandbox_may_be_started_in_on_start_and_in_jobs(memory_engine: InMemoryEngine) -> None:
    """Start-up finds it started already the next time; a scheduled callback uses it."""

    class Starter(Agent[None]):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.sandbox = self.lifecycle.use(Sandbox())

        async def on_start(self) -> None:
            await self.sandbox.ensure_started()
            await self.schedule_every(HOUR, self.work)

        async def work(self) -> None:
            await self.sandbox.ensure_started()
            await self.sandbox.exec(shell="echo x >> log")

        async def log(self) -> str:
            await self.sandbox.ensure_started()
            return await self.sandbox.files.read_text("log")

    async with ManualRuntime(Starter, engine=memory_engine) as runtime:
        starter = runtime.get(Starter, "ada")
        await runtime.activate(Starter, "ada")
        await runtime.advance(DAY + MINUTE)
        text = await starter.log()

    assert text == "x\n" * 24


async def test_agent_may_have_two_sandboxes(memory_engine: InMemoryEngine) -> None:
    """Each with a container, jobs and snapshots of its own."""

    class Two(Agent[None]):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.build = self.lifecycle.use(Sandbox(id="build"))
            self.test = self.lifecycle.use(Sandbox(id="test"))

        async def play(self) -> list[Any]:
            for sandbox in (self.build, self.test):
                await sandbox.start()
                await sandbox.files.write("name", sandbox.id)
                await sandbox.snapshot()
            await self.build.destroy()
            return [await self.test.files.read_text("name"), len(await self.test.snapshots.list())]

    async with ManualRuntime(Two, engine=memory_engine) as runtime:
        seen = await runtime.get(Two, "ada").play()
        [instance] = await memory_engine.instances()
        await runtime.advance(70 * DAY)

    assert seen == ["test", 1]
    assert instance.labels["agentkit.sandbox"] == "test"
    assert await memory_engine.instances() == []
    assert await memory_engine.saved() == []


async def test_volume_outlives_every_container(runtime: ManualRuntime, given: Given) -> None:
    """It is shared by the sandboxes of the store that name it, and is no part of a snapshot."""
    given.spec = SandboxSpec(volumes=[Volume("cache", "/cache")])
    eve, bob = runtime.get(Coder, "eve"), runtime.get(Coder, "bob")
    await eve.use(lambda sandbox: sandbox.start())
    await eve.use(lambda sandbox: sandbox.files.write("/cache/a", "1"))
    await eve.use(lambda sandbox: sandbox.destroy())

    await bob.use(lambda sandbox: sandbox.start())

    assert await bob.use(lambda sandbox: sandbox.files.read_text("/cache/a")) == "1"
    await bob.use(lambda sandbox: sandbox.destroy())
    assert [await bob.use(lambda sandbox: sandbox.remove_volume("cache")) for _ in range(2)] == [True, False]


async def test_memory_limit_takes_no_sandbox_out_of_sight(memory_engine: InMemoryEngine, given: Given) -> None:
    """Sealing deletes recovery loops, but the container is still looked after (SPEC 7.2)."""

    class Heavy(Coder):
        options = AgentOptions(max_alarm_memory_limit_strikes=0)

        async def on_job(self, context: JobContext) -> None:
            raise MemoryError

    async with ManualRuntime(Heavy, engine=memory_engine, deps=given) as runtime:
        heavy = runtime.get(Heavy, "ada")
        await heavy.use(lambda sandbox: sandbox.start())
        await heavy.do(lambda agent: agent.lifecycle.jobs.push("work", after=1))
        await runtime.advance(2 * DAY)

    assert [stop.reason for _, stop in given.stops] == ["inactive"]
    assert await memory_engine.instances() == []


async def test_clean_shutdown_leaves_it_running(runtime: ManualRuntime, coder: Coder) -> None:
    """A deploy closes the way in, not the container (SPEC 12.8)."""
    await coder.use(lambda sandbox: sandbox.files.write("a", "1"))
    before = (await coder.use(lambda sandbox: sandbox.info())).instance

    await runtime.close()
    await runtime.start()

    assert await coder.use(lambda sandbox: sandbox.files.read_text("a")) == "1"
    assert (await coder.use(lambda sandbox: sandbox.info())).instance == before


# --- the package


def test_import_opens_no_engine() -> None:
    """``import agentkit.sandbox`` and its names load neither Docker's library nor that of buckets."""
    code = (
        "import sys, agentkit.sandbox as package\n"
        "for name in package.__all__: getattr(package, name)\n"
        "print(sorted({'docker', 'boto3', 'botocore', 'h11', 'requests'} & set(sys.modules)))"
    )

    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert out == "[]\n"


def test_allowlist_is_checked_when_it_is_given() -> None:
    """A wrong host is found where the spec is written."""
    with pytest.raises(ConfigurationError, match="names of hosts"):
        Allowlist(["https://pypi.org"])
