"""The engine in memory: played commands, time that the test moves, stops, snapshots and volumes (SPEC 18)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentkit import Agent
from agentkit.errors import (
    EngineUnavailableError,
    ImageError,
    NameInUseError,
    ProcessExistsError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileNotFoundError,
    SandboxStoppedError,
    SnapshotNotFoundError,
    UnsupportedByEngineError,
)
from agentkit.host import AgentContext
from agentkit.sandbox import BucketMount, Sandbox, Volume
from agentkit.sandbox.command import Command
from agentkit.sandbox.engine import MANAGED, SNAPSHOT, Instance, PullProgress
from agentkit.sandbox.guest import PROXY_PORT, Connection, ProcessPlan
from agentkit.testing import FakeClock, InMemoryEngine, InMemoryProcess, ManualRuntime
from tests.testing.in_memory.machines import SECOND, pieces, plan_of, run, sh, started

HOUR = timedelta(hours=1)


async def found(engine: InMemoryEngine, name: str = "a") -> Instance:
    """Return an instance that is there."""
    instance = await engine.find(name)
    assert instance is not None
    return instance


async def turns() -> None:
    """Let what was set off get going."""
    for _ in range(10):
        await asyncio.sleep(0)


def move(clock: FakeClock, duration: timedelta) -> None:
    """Move a clock on."""
    clock.move_to(clock.now() + duration)


# --- commands that a test plays


async def test_command_gets_all_that_it_was_run_with() -> None:
    """Arguments, directory, variables, input and files are those of the call."""
    seen: list[Any] = []

    async def pytest_command(process: InMemoryProcess) -> int:
        seen.extend([process.argv, process.cwd, process.env["A"], process.env["HOME"], process.stdin])
        process.files.write("report", "fine")
        process.print("1", "passed", sep=" ", end="!\n")
        process.write_error("a warning\n")
        return 3

    _, guest = await started({"pytest": pytest_command})

    done = await run(guest, "pytest", "-q", cwd="/tmp", env={"A": "b"}, stdin=b"in")

    assert seen == [("pytest", "-q"), "/tmp", "b", "/home/agent", b"in"]
    assert (done.code, done.out, done.err) == (3, "1 passed!\n", "a warning\n")
    assert (await sh(guest, "cat /tmp/report")).out == "fine"


async def test_mistake_in_a_command_reaches_whoever_ran_it() -> None:
    """A failed assertion in a played command fails the test, with its traceback."""

    async def broken(process: InMemoryProcess) -> int:
        process.print("before")
        raise AssertionError("not called like this")

    _, guest = await started({"broken": broken})

    with pytest.raises(AssertionError, match="not called like this"):
        await sh(guest, "broken")


async def test_memory_error_plays_a_command_killed_for_its_memory() -> None:
    """It ends with 137 and says why (SPEC 12.2)."""

    async def greedy(process: InMemoryProcess) -> int:
        raise MemoryError

    _, guest = await started({"greedy": greedy})

    done = await run(guest, "greedy")

    assert (done.code, done.exit.out_of_memory) == (137, True)


async def test_text_is_cut_between_characters() -> None:
    """Whatever a command writes at one time, no character is broken (T6)."""

    async def halves(process: InMemoryProcess) -> None:
        process.write(b"\xe2")
        process.write(b"\x82\xac")
        process.write(b"\xff")

    _, guest = await started({"halves": halves})

    assert (await run(guest, "halves")).out == "€\N{REPLACEMENT CHARACTER}"


async def test_cancelled_caller_ends_the_command() -> None:
    """No task is left behind (SPEC 12.2)."""
    ended: list[str] = []

    async def server(process: InMemoryProcess) -> None:
        try:
            await process.forever()
        finally:
            ended.append("server")

    _, guest = await started({"server": server})
    before = asyncio.all_tasks()
    running = asyncio.ensure_future(run(guest, "sh", "-c", "server; echo never"))
    await turns()

    running.cancel()
    await asyncio.wait([running])

    assert ended == ["server"]
    assert asyncio.all_tasks() == before


async def test_streams_may_be_merged() -> None:
    """Errors then come where the output goes, in the order of the writes (T7)."""

    async def both(process: InMemoryProcess) -> None:
        process.print("one")
        process.write_error("two\n")
        process.print("three")

    _, guest = await started({"both": both})

    assert (await run(guest, "both", merge_stderr=True)).out == "one\ntwo\nthree\n"


async def test_directory_that_is_missing_is_an_error() -> None:
    """As on a real engine it isn't the command that fails (T9)."""
    _, guest = await started()

    with pytest.raises(SandboxFileNotFoundError):
        await run(guest, "true", cwd="/nothing")


async def test_command_runs_as_the_user_that_is_asked_for() -> None:
    """By number, or as root, who has no capabilities."""
    _, guest = await started()

    assert (await run(guest, "id", "-u", user="root")).out == "0\n"
    assert (await run(guest, "id", "-g", user="12:34")).out == "34\n"
    assert (await sh(guest, "touch f; chmod 600 f")).code == 0
    assert (await run(guest, "cat", "/workspace/f", user="0:0")).code == 1


async def test_command_may_be_played_from_some_moment_on() -> None:
    """In instances that run already, too; and the built-in ones may be played."""

    async def ls(process: InMemoryProcess) -> None:
        process.print("played")

    engine, guest = await started()
    before = await run(guest, "ls")

    engine.play("ls", ls)

    assert (before.out, (await run(guest, "ls")).out) == ("", "played\n")


# --- time


class Builder(Agent):
    """Builds in its sandbox, in jobs."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.sandbox = self.lifecycle.use(Sandbox())

    async def build(self, payload: str) -> None:
        """Run a command that takes its time."""
        await self.sandbox.ensure_started()
        result = await self.sandbox.exec("make", payload, timeout=3600)
        await self.storage.put("built", [result.exit_code, result.stdout, result.duration.total_seconds()])

    async def built(self) -> Any:
        """Return what came of it."""
        return await self.storage.get("built")


async def test_command_of_a_job_takes_time_of_the_test() -> None:
    """``advance`` goes on while a played command sleeps, and both see the same clock (SPEC 18)."""

    async def make(process: InMemoryProcess) -> None:
        await process.sleep(600)
        process.print("built", process.argv[1])

    async with ManualRuntime(Builder, engine=InMemoryEngine({"make": make})) as runtime:
        ada = runtime.get(Builder, "ada")
        await ada.schedule(60, "build", "docs")

        await runtime.advance(659)
        before = await ada.built()
        await runtime.advance(1)

        assert before is None
        assert await ada.built() == [0, "built docs\n", 600.0]


async def test_clock_stands_while_a_command_does_real_work() -> None:
    """A played command that awaits anything but the clock isn't overtaken by it (SPEC 18)."""
    moments: list[Any] = []

    async def make(process: InMemoryProcess) -> None:
        await asyncio.sleep(0.05)
        moments.append(process.clock.now())

    async with ManualRuntime(Builder, engine=InMemoryEngine({"make": make})) as runtime:
        began_at = runtime.clock.now()
        await runtime.get(Builder, "ada").schedule(60, "build", "docs")

        await runtime.advance(HOUR)

    assert moments == [began_at + 60 * SECOND]


async def test_unused_instance_stops_when_its_time_is_over() -> None:
    """To the millisecond, each use counting anew, with 75 (SPEC 12.5)."""
    clock = FakeClock()
    engine, guest = await started(clock=clock, plan=plan_of(inactivity=10 * SECOND))
    move(clock, 9 * SECOND)
    await guest.touch()
    move(clock, 10 * SECOND - timedelta(milliseconds=1))
    before = await found(engine)

    move(clock, timedelta(milliseconds=1))

    after = await found(engine)
    assert before.is_running
    assert (after.is_running, after.exit_code, after.stopped_at) == (False, 75, clock.now())


async def test_inactivity_may_be_set_while_it_runs() -> None:
    """It counts from the last use, and holds at once."""
    clock = FakeClock()
    engine, guest = await started(clock=clock, plan=plan_of(inactivity=HOUR))
    move(clock, 20 * SECOND)

    await guest.set_inactivity(30 * SECOND)
    move(clock, 10 * SECOND)

    assert (await found(engine)).exit_code == 75


async def test_old_instance_stops() -> None:
    """However much it is used, with 76, counted from its start (SPEC 12.6)."""
    clock = FakeClock()
    engine, guest = await started(clock=clock, plan=plan_of(inactivity=HOUR, max_lifetime=100))
    for _ in range(4):
        move(clock, 25 * SECOND)
        if (await found(engine)).is_running:
            await guest.touch()

    assert (await found(engine)).exit_code == 76
    await engine.start(plan_of(max_lifetime=100))
    assert (await found(engine)).is_running


async def test_processes_have_ten_seconds_when_it_stops_by_itself() -> None:
    """SIGTERM comes first; one that heeds it may finish, one that doesn't is killed (SPEC 12.5)."""
    clock = FakeClock()
    asked: list[str] = []

    async def stubborn(process: InMemoryProcess) -> None:
        process.on_terminate = lambda: asked.append("stubborn")
        await process.forever()

    engine, guest = await started({"stubborn": stubborn}, clock=clock, plan=plan_of(inactivity=60 * SECOND))
    await guest.start_process(ProcessPlan(name="p", argv=("stubborn",), cwd="/"))
    await turns()
    move(clock, 60 * SECOND)
    at_once = (asked[:], (await found(engine)).is_running)

    move(clock, 10 * SECOND)

    assert at_once == (["stubborn"], True)
    assert (await found(engine)).exit_code == 75


# --- stops


async def _stop(engine: InMemoryEngine) -> None:
    await engine.stop("a", grace=10 * SECOND)


async def _kill(engine: InMemoryEngine) -> None:
    engine.kill("a")


async def _run_out_of_memory(engine: InMemoryEngine) -> None:
    engine.run_out_of_memory("a")


async def _restart(engine: InMemoryEngine) -> None:
    engine.restart()


@pytest.mark.parametrize(
    ("act", "exit_code", "out_of_memory"),
    [(_stop, 143, False), (_kill, 137, False), (_run_out_of_memory, 137, True), (_restart, 143, False)],
)
async def test_how_an_instance_ended_is_told(act: Any, exit_code: int, out_of_memory: bool) -> None:
    """As Docker tells it; everything under way fails, and the disk is kept (SPEC 12.6)."""
    engine, guest = await started()
    await sh(guest, "echo kept > f")
    running = asyncio.ensure_future(sh(guest, "sleep 100"))
    await turns()

    await act(engine)

    with pytest.raises(SandboxStoppedError):
        await running
    ended = await found(engine)
    assert (ended.exit_code, ended.out_of_memory, guest.is_open) == (exit_code, out_of_memory, False)
    await engine.wait("a")
    await engine.start(plan_of())
    assert (await sh(await engine.enter("a", plan_of()), "cat /workspace/f")).out == "kept\n"


async def test_stop_kills_what_outlasts_its_grace() -> None:
    """The main process then ends as a killed one does."""
    clock = FakeClock()

    async def stubborn(process: InMemoryProcess) -> None:
        process.on_terminate = lambda: None
        await process.forever()

    engine, guest = await started({"stubborn": stubborn}, clock=clock)
    await guest.start_process(ProcessPlan(name="p", argv=("stubborn",), cwd="/"))
    await turns()
    stopping = asyncio.ensure_future(engine.stop("a", grace=3 * SECOND))
    await turns()
    move(clock, 3 * SECOND)

    await stopping

    assert (await found(engine)).exit_code == 137


async def test_end_of_the_entrypoint_stops_the_instance() -> None:
    """With its exit code, but for those that mean something of our own (SPEC 12.1)."""

    async def serve(process: InMemoryProcess) -> int:
        await process.sleep(5)
        return int(process.argv[1])

    clock = FakeClock()
    codes = []
    for code in ("0", "9", "75"):
        engine, _ = await started({"serve": serve}, clock=clock, plan=plan_of(entrypoint=["serve", code]))
        await turns()
        move(clock, 5 * SECOND)
        await engine.wait("a")
        codes.append((await found(engine)).exit_code)

    assert codes == [0, 9, 1]


async def test_broken_way_in_ends_commands_but_not_the_instance() -> None:
    """Background processes go on, and another way in can be opened."""
    engine, guest = await started()
    await guest.start_process(ProcessPlan(name="p", argv=("sleep", "100"), cwd="/"))
    running = asyncio.ensure_future(sh(guest, "sleep 100"))
    await turns()

    engine.disconnect("a")

    with pytest.raises(SandboxConnectionError):
        await running
    with pytest.raises(SandboxConnectionError):
        await guest.stat("/")
    again = await engine.enter("a", plan_of())
    assert [(process.name, process.exit_code) for process in await again.processes()] == [("p", None)]


async def test_engine_may_be_away() -> None:
    """Every call says so, and all is there again afterwards."""
    engine, _ = await started()

    engine.is_available = False

    with pytest.raises(EngineUnavailableError):
        await engine.check()
    with pytest.raises(EngineUnavailableError):
        await engine.find("a")
    engine.is_available = True
    assert (await found(engine)).is_running


async def test_nothing_is_left_when_it_is_removed() -> None:
    """Neither tasks nor the instance; leaving ``async with`` removes all of them."""
    before = asyncio.all_tasks()
    async with InMemoryEngine(clock=FakeClock()) as engine:
        await engine.create(plan_of())
        guest = await engine.enter("a", plan_of())
        await guest.start_process(ProcessPlan(name="p", argv=("sleep", "100"), cwd="/"))
        await turns()

    assert await engine.instances() == []
    assert asyncio.all_tasks() == before


async def test_name_is_taken_until_it_is_removed() -> None:
    """One instance at a time exists under a name, running or not (T18)."""
    engine, _ = await started()
    await engine.stop("a", grace=SECOND)

    with pytest.raises(NameInUseError):
        await engine.create(plan_of())
    await engine.remove("a")
    await engine.remove("a")
    await engine.create(plan_of())


async def test_instance_that_no_label_says_is_ours_is_left_alone() -> None:
    """It is found as what it is, and not listed (SPEC 12.7)."""
    engine = InMemoryEngine(clock=FakeClock())
    plan = plan_of()
    labels = {key: value for key, value in plan.labels.items() if key != MANAGED}
    await engine.create(replace(plan, labels=labels))

    assert await engine.instances() == []
    with pytest.raises(SandboxError, match="no label"):
        await engine.find("a")


# --- images, snapshots, volumes


async def test_image_brings_its_files() -> None:
    """Where a test says which images there are, another one is an error."""
    engine = InMemoryEngine(images={"tools": {"/etc/tool.conf": "fast"}}, clock=FakeClock())
    progress: list[PullProgress] = []
    await engine.prepare("tools", progress.append)
    await engine.create(plan_of(image="tools"))

    guest = await engine.enter("a", plan_of(image="tools"))

    assert (await sh(guest, "cat /etc/tool.conf")).out == "fast"
    assert [update.image for update in progress] == ["tools"]
    with pytest.raises(ImageError):
        await engine.create(plan_of("b", image="other"))
    with pytest.raises(ImageError):
        await engine.prepare("other")


async def test_snapshot_holds_the_disk_and_nothing_else() -> None:
    """No processes, nothing of /run, of volumes or of buckets; and it doesn't change any more (SPEC 12.7, T12)."""
    spec: dict[str, Any] = {
        "volumes": [Volume("cache", "/cache")],
        "mounts": [BucketMount("s3://bucket", "/workspace/data")],
    }
    engine, guest = await started(plan=plan_of(**spec))
    await sh(guest, "echo 1 > f; echo 1 > /tmp/f; echo 1 > /run/f; echo 1 > /cache/f; echo 1 > data/f")
    image = await engine.save("a", "s1", plan_of().labels)
    await sh(guest, "echo 2 > f")
    await engine.remove("a")
    await engine.create(plan_of("b", source="s1"))

    restored = await engine.enter("b", plan_of("b"))

    done = await sh(restored, "cat f /tmp/f; ls /run; ls /cache; ls data")
    assert (done.out, done.err) == ("1\n1\n", "")
    assert (image.labels[SNAPSHOT], image.size > 0) == ("s1", True)


async def test_copy_of_a_snapshot_outlives_it() -> None:
    """Deleting one leaves the other whole."""
    engine, guest = await started()
    await sh(guest, "echo 1 > f")
    await engine.save("a", "s1", plan_of().labels)
    await engine.copy_saved("s1", "s2", plan_of().labels)

    deleted = [await engine.delete_saved("s1"), await engine.delete_saved("s1")]

    assert deleted == [True, False]
    assert [image.id for image in await engine.saved()] == ["s2"]
    await engine.create(plan_of("b", source="s2"))
    with pytest.raises(SnapshotNotFoundError):
        await engine.create(plan_of("c", source="s1"))
    with pytest.raises(SnapshotNotFoundError):
        await engine.copy_saved("s1", "s3", {})


async def test_volume_is_shared_and_outlives_instances() -> None:
    """By name within a store, until it is removed (SPEC 12.1)."""
    plan, other = plan_of(volumes=[Volume("cache", "/cache")]), plan_of("b", volumes=[Volume("cache", "/mnt/c")])
    engine, guest = await started(plan=plan)
    await sh(guest, "echo 1 > /cache/f")
    await engine.remove("a")
    await engine.create(other)

    shared = await sh(await engine.enter("b", other), "cat /mnt/c/f")

    assert shared.out == "1\n"
    assert [await engine.remove_volume("cache", "s"), await engine.remove_volume("cache", "s")] == [True, False]


async def test_directory_of_the_host_is_refused() -> None:
    """An engine in memory has no host."""
    engine = InMemoryEngine(clock=FakeClock())

    with pytest.raises(UnsupportedByEngineError, match="directory of the host"):
        await engine.create(plan_of(mounts=[BucketMount("/srv/data", "/data")]))


# --- background processes and ports


async def _echo_server(process: InMemoryProcess) -> None:
    async def answer(connection: Connection) -> None:
        while data := await connection.read():
            await connection.write(data.upper())

    process.print("listening")
    await process.listen(8000, answer)


async def test_background_process_is_followed_to_its_end() -> None:
    """Its log comes as it is written, and ends with it (SPEC 12.3)."""
    clock = FakeClock()

    async def worker(process: InMemoryProcess) -> int:
        for number in range(3):
            process.print(number)
            await process.sleep(10)
        return 5

    _, guest = await started({"worker": worker}, clock=clock)
    info = await guest.start_process(ProcessPlan(name="w", argv=("worker",), cwd="/"))
    following = asyncio.ensure_future(_all(guest.logs("w", follow=True)))
    waiting = asyncio.ensure_future(guest.wait_process("w"))
    for _ in range(3):
        await turns()
        move(clock, 10 * SECOND)

    assert await waiting == 5
    assert await following == b"0\n1\n2\n"
    assert (await sh(guest, f"cat {info.log}")).out == "0\n1\n2\n"


async def _all(stream: Any) -> bytes:
    return b"".join([piece async for piece in stream])


async def test_name_of_a_process_is_free_once_it_has_ended() -> None:
    """Not before; and one that is killed has ended when ``kill`` returns."""
    _, guest = await started()
    plan = ProcessPlan(name="p", argv=("sleep", "100"), cwd="/")
    await guest.start_process(plan)

    with pytest.raises(ProcessExistsError):
        await guest.start_process(plan)
    killed = [await guest.kill_process("p", grace=SECOND), await guest.kill_process("p", grace=SECOND)]

    assert killed == [True, False]
    assert [process.exit_code for process in await guest.processes()] == [143]
    await guest.start_process(plan)
    with pytest.raises(LookupError):
        await guest.wait_process("unknown")


async def test_mistake_in_a_background_process_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """In its log and in ours, since nobody waits for it."""

    async def broken(process: InMemoryProcess) -> int:
        raise ValueError("wrong")

    _, guest = await started({"broken": broken})
    await guest.start_process(ProcessPlan(name="b", argv=("broken",), cwd="/"))
    with caplog.at_level(logging.ERROR):
        code = await guest.wait_process("b")

    assert (code, await _all(guest.logs("b", follow=False))) == (1, b"ValueError: wrong\n")
    assert "the process b failed" in caplog.text


async def test_port_of_a_process_can_be_connected_to() -> None:
    """From outside and from inside, while the process lives (SPEC 12.4)."""

    async def client(process: InMemoryProcess) -> None:
        connection = await process.connect(8000)
        await connection.write(b"inside")
        process.write(await connection.read())

    _, guest = await started({"server": _echo_server, "client": client})
    before = await guest.is_listening(8000)
    await guest.start_process(ProcessPlan(name="s", argv=("server",), cwd="/"))
    await turns()
    connection = await guest.connect(8000)
    await connection.write(b"outside")

    assert (before, await guest.is_listening(8000)) == (False, True)
    assert await connection.read() == b"OUTSIDE"
    assert (await run(guest, "client")).out == "INSIDE"
    await guest.kill_process("s", grace=timedelta(0))
    await turns()
    assert await connection.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await guest.connect(8000)


async def test_proxy_is_there_while_the_way_in_is_open() -> None:
    """Commands reach the owner's proxy on its port, and nobody once the owner is gone (SPEC 12.9)."""

    async def fetch(process: InMemoryProcess) -> int:
        try:
            connection = await process.connect(PROXY_PORT)
        except ConnectionRefusedError:
            return 7
        await connection.write(b"pypi.org")
        process.write(await connection.read())
        return 0

    async def proxy(connection: Connection) -> None:
        await connection.write(b"proxied " + await connection.read())

    engine, guest = await started({"fetch": fetch})
    await guest.serve_proxy(proxy)
    with_owner = await run(guest, "fetch")

    await guest.close()

    without_owner = await run(await engine.enter("a", plan_of()), "fetch")
    assert (with_owner.out, without_owner.code) == ("proxied pypi.org", 7)


# --- files


async def test_packed_tree_can_be_unpacked_elsewhere() -> None:
    """Content, modes, times and links come along."""
    clock = FakeClock()
    _, guest = await started(clock=clock)
    await sh(guest, "mkdir -p tree/d; echo x > tree/d/f; chmod 750 tree/d/f; ln -s d/f tree/l")
    archive = b"".join([piece async for piece in guest.pack("/workspace/tree")])
    move(clock, 60 * SECOND)

    await guest.unpack("/tmp/copy", pieces(archive))

    there = {info.path: info async for info in guest.walk("/tmp/copy")}
    original = await guest.stat("/workspace/tree/d/f")
    assert original is not None
    assert set(there) == {f"/tmp/copy/{name}" for name in ("tree", "tree/d", "tree/d/f", "tree/l")}
    assert there["/tmp/copy/tree/l"].target == "d/f"
    copied = there["/tmp/copy/tree/d/f"]
    assert (copied.mode, copied.modified_at_ms) == (0o750, original.modified_at_ms)


async def test_file_is_written_whole_or_not_at_all() -> None:
    """A source that breaks off changes nothing (SPEC 12.4)."""
    _, guest = await started()
    await guest.write("/workspace/f", pieces(b"old"))

    async def broken() -> Any:
        yield b"new"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await guest.write("/workspace/f", broken())

    assert (await sh(guest, "cat f")).out == "old"


async def test_output_is_given_while_the_command_runs() -> None:
    """It needn't have ended (SPEC 12.2)."""
    clock = FakeClock()
    _, guest = await started(clock=clock)

    async with aclosing(guest.run(Command(argv=("sh", "-c", "echo a; sleep 5; echo b"), cwd="/"))) as outputs:
        first = await anext(outputs)
        move(clock, 5 * SECOND)
        second = await anext(outputs)

    assert [getattr(first, "text", None), getattr(second, "text", None)] == ["a\n", "b\n"]
