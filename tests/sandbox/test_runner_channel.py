"""The channel to a real runner when something is wrong with it: silence, loss, death, garbage (reports 6, 7, 14)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.runner_guest import RUNNER, RunnerGuest, open_runner
from tests.sandbox.local_runner import (
    IMPATIENT,
    LocalChannel,
    Place,
    a_guest,
    a_place,
    eventually,
    processes_with,
    run,
)


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the runner's user."""
    with a_place() as place:
        yield place


class BentChannel:
    """A channel on which frames from the runner are changed on the way."""

    def __init__(self, channel: LocalChannel, bend: Callable[[int, int, bytes], list[bytes]]) -> None:
        self._channel = channel
        self._bend = bend
        self._decoder = frames.Decoder(frames.MAX_REPLY)
        self._begun = False

    async def read(self) -> bytes:
        data = await self._channel.read()
        if not self._begun:
            self._begun = True
            assert data.startswith(frames.MAGIC)
            return frames.MAGIC + self._bent(data.removeprefix(frames.MAGIC))
        if not data:
            return b""
        # A frame without a meaning: nothing at all would be the end.
        return self._bent(data) or frames.encode(0, frames.PONG)

    def _bent(self, data: bytes) -> bytes:
        return b"".join(part for frame in self._decoder.feed(data) for part in self._bend(*frame))

    async def write(self, data: bytes) -> None:
        await self._channel.write(data)

    async def close(self) -> None:
        await self._channel.close()

    def errors(self) -> str:
        return "said by the runner"


@asynccontextmanager
async def a_bent_guest(place: Place, bend: Callable[[int, int, bytes], list[bytes]]) -> AsyncIterator[RunnerGuest]:
    """Open a runner over a bent channel."""
    channel = BentChannel(await place.channel(), bend)
    guest = await open_runner(channel, RunnerSettings(run_directory=str(place.root)), patience=IMPATIENT)
    assert guest is not None
    try:
        yield guest
    finally:
        await guest.close()


async def pid_of(place: Place, guest: RunnerGuest) -> int:
    """Return the runner's pid."""
    return int((await run(guest, place.command("sh", "-c", "echo $PPID"))).stdout)


async def test_lost_output_is_an_error(place: Place) -> None:
    """A command whose output isn't whole never looks as if it were."""

    def lose(call: int, kind: int, payload: bytes) -> list[bytes]:
        is_lost = kind == frames.OUTPUT and b"second" in payload
        return [] if is_lost else [frames.encode(call, kind, payload)]

    async with a_bent_guest(place, lose) as guest:
        with pytest.raises(SandboxConnectionError, match="only"):
            await run(guest, place.command("sh", "-c", "echo first; sleep 0.1; echo second"))


async def test_command_that_never_ends_for_the_owner_fails_past_its_time_limit(place: Place) -> None:
    """The owner has a limit of its own, for a runner that is there but tells of no end."""

    def withhold(call: int, kind: int, payload: bytes) -> list[bytes]:
        return [] if kind == frames.END else [frames.encode(call, kind, payload)]

    async with a_bent_guest(place, withhold) as guest:
        with pytest.raises(SandboxConnectionError, match="time limit"):
            await run(guest, place.command("true", timeout=timedelta(seconds=0.1)))

        assert not guest.is_open


async def test_silence_is_noticed(place: Place) -> None:
    """A runner that says nothing any more fails what waits for it, with or without a time limit."""
    async with a_guest(place, patience=IMPATIENT) as guest:
        pid = await pid_of(place, guest)
        waiting = asyncio.create_task(run(guest, place.command("sleep", "600")))
        await eventually(lambda: processes_with(str(place.root)))

        os.kill(pid, signal.SIGSTOP)

        with pytest.raises(SandboxConnectionError, match="nothing was heard"):
            await asyncio.wait_for(waiting, 20)
        assert not guest.is_open
        os.kill(pid, signal.SIGCONT)


async def test_pause_of_the_engine_is_no_silence(place: Place) -> None:
    """While the engine holds the instance still to save it, everybody waits."""
    asked = asyncio.Event()

    async def is_paused() -> bool:
        asked.set()
        return True

    async with a_guest(place, patience=IMPATIENT, is_paused=is_paused) as guest:
        pid = await pid_of(place, guest)
        os.kill(pid, signal.SIGSTOP)
        waiting = asyncio.create_task(run(guest, place.command("echo", "after")))
        await asyncio.wait_for(asked.wait(), 20)

        os.kill(pid, signal.SIGCONT)

        assert (await waiting).stdout == "after\n"


async def test_silent_command_is_waited_for(place: Place) -> None:
    """A command may print nothing for longer than a runner may be silent."""
    async with a_guest(place, patience=IMPATIENT) as guest:
        result = await run(guest, place.command("sh", "-c", "sleep 1; echo done"))

        assert result.stdout == "done\n"


async def test_killed_runner_fails_everything_at_once(place: Place) -> None:
    """Commands, file calls and followed logs end with one error, and later calls with the same."""
    async with a_guest(place) as guest:
        pid = await pid_of(place, guest)
        command = asyncio.create_task(run(guest, place.command("sleep", "600")))
        await eventually(lambda: processes_with(str(place.root)))

        os.kill(pid, signal.SIGKILL)

        with pytest.raises(SandboxConnectionError, match="ended"):
            await command
        with pytest.raises(SandboxConnectionError):
            await guest.stat("/")
        assert not guest.is_open


async def test_next_runner_ends_what_a_killed_one_left(place: Place) -> None:
    """Its commands were reported as failed, so they don't go on; those that had ended left theirs on purpose."""
    async with a_guest(place) as guest:
        left = await run(guest, place.command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"))
        command = asyncio.create_task(run(guest, place.command("sleep", "601")))
        await eventually(lambda: len(processes_with(str(place.root))) == 2)
        os.kill(await pid_of(place, guest), signal.SIGKILL)
        await asyncio.wait([command])

        async with a_guest(place):
            survivors = processes_with(str(place.root))

    assert isinstance(command.exception(), SandboxConnectionError)
    assert survivors == [int(left.stdout)]


async def test_asked_to_end_the_runner_waits_for_its_commands(place: Place) -> None:
    """SIGTERM goes to every process when a sandbox stops: the last words of a command still arrive."""
    script = "trap 'echo last words; exit 3' TERM; echo ready >ready; while :; do sleep 0.05; done"
    async with a_guest(place) as guest:
        pid = await pid_of(place, guest)
        command = asyncio.create_task(run(guest, place.command("sh", "-c", script)))
        await eventually(lambda: (place.root / "ready").exists())

        os.kill(pid, signal.SIGTERM)
        await guest.stat("/")
        [child] = [int(line) for line in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        os.kill(child, signal.SIGTERM)

        assert (await command).stdout == "last words\n"
        await eventually(lambda: not guest.is_open)


async def test_idle_runner_ends_when_asked(place: Place) -> None:
    """A stop isn't held up by it, and whoever waits for something else is told."""
    async with a_guest(place) as guest:
        pid = await pid_of(place, guest)

        os.kill(pid, signal.SIGTERM)

        await eventually(lambda: not guest.is_open)


async def test_no_python_is_told_apart(place: Place) -> None:
    """An image that can't host the runner is no error: the engine takes another way in."""
    argv = ("sh", "-c", "echo agentkit-no-python")

    assert await open_runner(await place.channel(argv), RunnerSettings()) is None


async def test_old_python_is_told_apart() -> None:
    """One that can't read the runner says so before it tries."""
    bootstrap = RUNNER[-1].replace("(3, 8)", "(4, 0)")
    with a_place() as place:
        channel = await place.channel((*RUNNER[:-1], bootstrap))

        assert await open_runner(channel, RunnerSettings()) is None


@pytest.mark.parametrize(
    ("program", "said"), [("echo exec failed: no such file", "exec failed"), ("exit 3", "said nothing")]
)
async def test_whatever_isnt_the_runner_is_shown(place: Place, program: str, said: str) -> None:
    """Garbage or an early end is an error that quotes it."""
    with pytest.raises(SandboxConnectionError, match=said):
        await open_runner(await place.channel(("sh", "-c", program)), RunnerSettings())


async def test_activity_is_written_for_the_watchdog(place: Place) -> None:
    """The lease holds the machine's uptime, the limit is what was set."""
    async with a_guest(place) as guest:
        before = float(Path("/proc/uptime").read_text().split()[0])

        await guest.touch()
        await guest.set_inactivity(timedelta(minutes=3))

        lease = float((place.root / "run/lease").read_text())
        assert before <= lease <= float(Path("/proc/uptime").read_text().split()[0])
        assert float((place.root / "run/inactivity").read_text()) == 180


async def test_memory_of_the_runner_is_its_own(place: Place) -> None:
    """A command can't look into it for the secrets of others, though it is the same user's."""
    if place.user is None:
        pytest.skip("needs root, to give the runner a user of its own")
    async with a_guest(place) as guest:
        result = await run(guest, place.command("sh", "-c", "cat /proc/$PPID/environ /proc/$PPID/mem"))

    assert result.exit.exit_code == 1
    assert result.stderr.count("Permission denied") == 2
