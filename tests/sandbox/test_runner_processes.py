"""Background processes through a real runner: they outlive it, and what became of them is known (SPEC 12.3)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit.errors import CommandNotFoundError, ProcessExistsError, SandboxFileNotFoundError
from agentkit.sandbox.guest import ProcessPlan
from agentkit.sandbox.runner.runner_guest import RunnerGuest
from tests.sandbox.local_runner import Place, a_guest, a_place, eventually, processes_with, run

SOON = timedelta(seconds=0.3)


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the runner's user."""
    with a_place() as place:
        yield place


@pytest.fixture
async def guest(place: Place) -> AsyncIterator[RunnerGuest]:
    """A runner that serves this test."""
    async with a_guest(place) as guest:
        yield guest


def plan(place: Place, name: str, script: str, **env: str) -> ProcessPlan:
    """Return a plan for a shell script."""
    return ProcessPlan(name=name, argv=("sh", "-c", script), cwd=str(place.root), env=env)


async def printed(guest: RunnerGuest, name: str, *, follow: bool = False) -> str:
    """Return what a process has printed."""
    return b"".join([data async for data in guest.logs(name, follow=follow)]).decode()


def lives(pid: int) -> bool:
    """Tell whether a process lives."""
    return pid in processes_with("")


async def test_process_is_told_and_waited_for(place: Place, guest: RunnerGuest) -> None:
    """Its name, words, number, log and, once it has ended, its exit code; both streams are in the log."""
    script = "echo out; echo bad >&2; echo $MORE; while ! [ -e go ]; do sleep 0.01; done; exit 5"
    info = await guest.start_process(plan(place, "dev server/ä", script, MORE="x"))
    place.write("go", "")

    code = await guest.wait_process("dev server/ä")

    [listed] = await guest.processes()
    assert (info.name, info.argv[0], info.pid > 1, info.exit_code) == ("dev server/ä", "sh", True, None)
    assert (code, listed.exit_code, listed.pid) == (5, 5, info.pid)
    assert await printed(guest, "dev server/ä") == "out\nbad\nx\n"
    assert Path(info.log).read_text() == "out\nbad\nx\n"


async def test_process_outlives_the_connection(place: Place) -> None:
    """The next runner finds it running, with its log, and learns how it ended."""
    async with a_guest(place) as guest:
        info = await guest.start_process(
            plan(place, "server", "echo one; while ! [ -e go ]; do sleep 0.01; done; exit 4")
        )

    async with a_guest(place) as guest:
        [listed] = await guest.processes()
        waiting = asyncio.create_task(guest.wait_process("server"))
        place.write("go", "")

        assert (listed.pid, listed.exit_code) == (info.pid, None)
        assert await printed(guest, "server") == "one\n"
        assert await waiting == 4


async def test_end_that_nobody_saw_is_known(place: Place) -> None:
    """A process that ends while no runner is there has its exit code written down."""
    async with a_guest(place) as guest:
        info = await guest.start_process(plan(place, "job", "while ! [ -e go ]; do sleep 0.01; done; exit 9"))
    place.write("go", "")
    await eventually(lambda: not lives(info.pid))

    async with a_guest(place) as guest:
        assert await guest.wait_process("job") == 9


async def test_kill_of_the_runner_leaves_it_running(place: Place) -> None:
    """Not only an orderly end of the connection does."""
    async with a_guest(place) as guest:
        info = await guest.start_process(plan(place, "server", "exec sleep 600"))
        pid = int((await run(guest, place.command("sh", "-c", "echo $PPID"))).stdout)
        os.kill(pid, signal.SIGKILL)

    async with a_guest(place) as guest:
        [listed] = await guest.processes()

        assert (listed.pid, listed.exit_code) == (info.pid, None)
        assert lives(info.pid)


async def test_name_is_taken_while_it_runs(place: Place, guest: RunnerGuest) -> None:
    """Two that are started at once are one; one that has ended is replaced, with a log of its own."""
    together = await asyncio.gather(
        guest.start_process(plan(place, "one", "echo first; exec sleep 600")),
        guest.start_process(plan(place, "one", "echo first; exec sleep 600")),
        return_exceptions=True,
    )
    with pytest.raises(ProcessExistsError):
        await guest.start_process(plan(place, "one", "true"))
    await guest.kill_process("one", grace=SOON)

    await guest.start_process(plan(place, "one", "echo second"))

    assert await guest.wait_process("one") == 0
    assert await printed(guest, "one") == "second\n"
    assert sorted(type(result).__name__ for result in together) == ["ProcessExistsError", "ProcessInfo"]


async def test_what_cannot_be_started_leaves_nothing(place: Place, guest: RunnerGuest) -> None:
    """The errors are those of commands."""
    with pytest.raises(CommandNotFoundError):
        await guest.start_process(ProcessPlan(name="bad", argv=("no-such-program",), cwd=str(place.root)))
    with pytest.raises(SandboxFileNotFoundError):
        await guest.start_process(ProcessPlan(name="bad", argv=("true",), cwd="/no/such/directory"))

    assert await guest.processes() == []


async def test_kill_asks_first(place: Place, guest: RunnerGuest) -> None:
    """A process may end in its own way within the grace."""
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    await guest.start_process(plan(place, "polite", script))
    await until_printed(guest, "polite", "ready")

    was_running = await guest.kill_process("polite", grace=timedelta(seconds=30))

    assert was_running
    assert await guest.wait_process("polite") == 3
    assert (await printed(guest, "polite")).endswith("bye\n")
    assert not await guest.kill_process("polite", grace=SOON)


async def until_printed(guest: RunnerGuest, name: str, text: str) -> None:
    """Wait until a process has printed something."""
    async with asyncio.timeout(15):
        while text not in await printed(guest, name):
            await asyncio.sleep(0.01)


async def test_kill_ends_the_whole_tree(place: Place, guest: RunnerGuest) -> None:
    """Children that left the session, lost their parent, ignore the request, or wiped their environment."""
    script = """
        trap "" TERM
        setsid sh -c 'echo $$; exec sleep 600' &
        (sh -c 'echo $$; exec sleep 601' &)
        (env -i setsid sh -c 'echo $$; exec sleep 602' &)
        echo $$
        sleep 603
    """
    await guest.start_process(plan(place, "tree", script))
    async with asyncio.timeout(15):
        while len(members := [int(line) for line in (await printed(guest, "tree")).split()]) < 4:
            await asyncio.sleep(0.01)
    began = [pid for pid in members if lives(pid)]

    await guest.kill_process("tree", grace=SOON)

    assert len(began) == 4
    assert [pid for pid in members if lives(pid)] == []
    assert await guest.wait_process("tree") == 128 + signal.SIGKILL


async def test_what_a_daemon_left_is_ended_too(place: Place, guest: RunnerGuest) -> None:
    """A process that has ended doesn't run, but its children are still its own."""
    await guest.start_process(plan(place, "daemon", "setsid sleep 600 & echo $!"))
    await guest.wait_process("daemon")
    child = int(await printed(guest, "daemon"))
    lived = lives(child)

    was_running = await guest.kill_process("daemon", grace=SOON)

    assert lived
    assert not was_running
    assert not lives(child)


async def test_another_process_of_the_same_number_is_not_taken_for_it(place: Place, guest: RunnerGuest) -> None:
    """Numbers are used again: when a process began tells which one it is."""
    await guest.start_process(plan(place, "old", "true"))
    await guest.wait_process("old")
    stranger = await guest.start_process(plan(place, "stranger", "exec sleep 600"))
    [state] = [path for path in (place.root / "run/processes").iterdir() if (path / "exit").exists()]
    (state / "exit").unlink()
    (state / "process").write_text(f"{stranger.pid} 1 {stranger.pid} 1")

    old = next(info for info in await guest.processes() if info.name == "old")
    was_running = await guest.kill_process("old", grace=SOON)

    assert old.exit_code == 255
    assert not was_running
    assert lives(stranger.pid)


async def test_followed_log_ends_with_the_process(place: Place, guest: RunnerGuest) -> None:
    """What it prints comes as it does, its last words included; an ended one's log ends at once."""
    script = "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two"
    await guest.start_process(plan(place, "talker", script))
    received = b""

    async with asyncio.timeout(20):
        async for data in guest.logs("talker", follow=True):
            received += data
            place.write("go", "")

    assert received == b"one\ntwo\n"
    assert await printed(guest, "talker", follow=True) == "one\ntwo\n"


async def test_log_of_many_megabytes_is_whole(place: Place, guest: RunnerGuest) -> None:
    """It lies in a file: no reader is needed while it grows."""
    await guest.start_process(plan(place, "loud", "head -c 20000000 /dev/zero"))
    await guest.wait_process("loud")

    assert len(await printed(guest, "loud")) == 20_000_000


async def test_unknown_name(place: Place, guest: RunnerGuest) -> None:
    """It was never started here."""
    with pytest.raises(LookupError, match="nobody"):
        await guest.wait_process("nobody")
    with pytest.raises(LookupError, match="nobody"):
        await printed(guest, "nobody")

    assert not await guest.kill_process("nobody", grace=SOON)
    assert await guest.processes() == []


async def test_keeper_holds_neither_channel_nor_session(place: Place) -> None:
    """The runner's pipes close with it, though what it started goes on; and each has a session of its own."""
    guest = await place.open()
    info = await guest.start_process(plan(place, "server", "exec sleep 600"))
    keeper = int(Path(f"/proc/{info.pid}/stat").read_text().rpartition(")")[2].split()[1])

    # Waits for the end of both pipes, too.
    await guest.close()

    assert lives(info.pid)
    assert os.getsid(info.pid) == info.pid
    assert os.getsid(keeper) == keeper
    files = {os.readlink(link) for link in Path(f"/proc/{keeper}/fd").iterdir()}
    assert files <= {"/dev/null", info.log}


async def test_keeper_waits_for_its_process_when_asked_to_end(place: Place, guest: RunnerGuest) -> None:
    """SIGTERM goes to every process when a sandbox stops; how this one ended is still written down."""
    info = await guest.start_process(plan(place, "job", "trap 'exit 6' TERM; while :; do sleep 0.02; done"))
    keeper = int(Path(f"/proc/{info.pid}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(keeper, signal.SIGTERM)
    still_lives = lives(info.pid)
    os.kill(info.pid, signal.SIGTERM)

    assert still_lives
    assert await guest.wait_process("job") == 6


async def test_secrets_of_a_process_are_written_nowhere(place: Place, guest: RunnerGuest) -> None:
    """Its environment is in no file of its state."""
    await guest.start_process(plan(place, "server", "exec sleep 600", TOKEN="hush-hush"))

    files = [path for path in place.root.rglob("*") if path.is_file()]

    assert len(files) > 2
    assert not any(b"hush-hush" in path.read_bytes() for path in files)
