"""The owner's end of the channel against an other end that isn't the runner: code inside can write to its pipes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from agentkit.errors import SandboxConnectionError, SandboxError
from agentkit.sandbox.command import Command
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner.link import Patience, RunnerLink
from agentkit.sandbox.runner.runner_guest import RunnerGuest
from tests.sandbox.local_runner import content, eventually

FIRST = 1  # the id of the first call


class Stage:
    """A channel whose other end says what the test says."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard = b""
        self.takes = asyncio.Event()
        self.takes.set()

    async def read(self) -> bytes:
        return await self._said.get()

    async def write(self, data: bytes) -> None:
        await self.takes.wait()
        self.heard += data

    async def close(self) -> None:
        pass

    def errors(self) -> str:
        return ""

    def say(self, *said: bytes) -> None:
        """Say frames."""
        self._said.put_nowait(b"".join(said))


@asynccontextmanager
async def a_stage() -> AsyncIterator[tuple[Stage, RunnerLink, RunnerGuest]]:
    """Open a link to a stage."""
    stage = Stage()
    link = RunnerLink(stage, Patience(cancel=0.1))
    link.start(frames.Decoder(frames.MAX_REPLY))
    guest = RunnerGuest(link, 3128, None)
    try:
        yield stage, link, guest
    finally:
        await guest.close()


@contextmanager
def fails(match: str) -> Iterator[None]:
    """Expect the one error that callers know."""
    with pytest.raises(SandboxConnectionError, match=match):
        yield


def end(payload: bytes) -> bytes:
    """Return the last frame of the first call."""
    return frames.encode(FIRST, frames.END, payload)


@pytest.mark.parametrize(
    "said",
    [
        end(b"[" * 100_000),
        end(b"[]"),
        end(b"no json"),
        end(b"\xff"),
        frames.encode(FIRST, frames.CREDIT, b"x"),
        frames.encode_credit(FIRST, frames.OUTPUT, 1),
        frames.encode_credit(FIRST, frames.INPUT, 2**32 - 1),
        frames.encode(FIRST, frames.OUTPUT),
        frames.encode(FIRST, 99, b"x"),
        frames.encode(FIRST, frames.OUTPUT_END) * 1000,
        frames.encode(frames.FIRST_ACCEPTED, frames.ACCEPT, b'{"parent": 77}'),
        frames.encode(frames.FIRST_ACCEPTED, frames.ACCEPT, b"[]"),
        frames.HEADER.pack(FIRST, frames.OUTPUT, frames.MAX_REPLY + 1),
    ],
)
async def test_frame_that_no_runner_sends_ends_the_link_at_once(said: bytes) -> None:
    """Whoever waits gets the one error that a broken connection is, and nobody waits in vain."""
    async with a_stage() as (stage, link, guest):
        asking = asyncio.create_task(guest.stat("/x"))
        await eventually(lambda: stage.heard)

        stage.say(said)

        with fails("can't be read"):
            await asyncio.wait_for(asking, 5)
        assert not link.is_open


@pytest.mark.parametrize(
    "reply",
    [
        b"{}",
        b'{"error": "file"}',
        b'{"error": 5}',
        b'{"file": {"evil": 1}}',
        b'{"file": {"path": 1, "type": "file", "size": 1, "mode": 1, "modified_at_ms": 1, "target": null}}',
        b'{"file": {"path": "/x", "type": "odd", "size": 1, "mode": 1, "modified_at_ms": 1, "target": null}}',
    ],
)
async def test_answer_without_what_belongs_in_it_is_a_broken_connection(reply: bytes) -> None:
    """It never comes out as an error of Python's."""
    async with a_stage() as (stage, _, guest):
        asking = asyncio.create_task(guest.stat("/x"))
        await eventually(lambda: stage.heard)

        stage.say(end(reply))

        with fails("can't be read"):
            await asyncio.wait_for(asking, 5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("remove", end(b'{"was_there": "yes"}')),
        ("processes", end(b'{"processes": [{"name": 1}]}')),
        ("processes", end(b'{"processes": {}}')),
        ("wait_process", end(b'{"exit_code": null}')),
        ("entries", frames.encode(FIRST, frames.OUTPUT, b"[[[\n")),
        ("entries", frames.encode(FIRST, frames.OUTPUT, b"{}\n")),
        ("run", end(b'{"exit_code": 0, "timed_out": false, "out_of_memory": false, "duration": NaN, "left": 0}')),
        ("run", frames.encode(FIRST, frames.READY)),
    ],
)
async def test_no_answer_is_taken_on_trust(call: str, said: bytes) -> None:
    """Each kind of answer is checked for what it must be."""

    async def ask(guest: RunnerGuest) -> Any:
        if call == "run":
            return [piece async for piece in guest.run(Command(argv=("true",), cwd="/"))]
        arguments = () if call == "processes" else ("x",)
        return await getattr(guest, call)(*arguments)

    async with a_stage() as (stage, _, guest):
        asking = asyncio.create_task(ask(guest))
        await eventually(lambda: stage.heard)

        stage.say(said)

        with fails("can't be read|came"):
            await asyncio.wait_for(asking, 5)


async def test_output_beyond_its_window_ends_the_link() -> None:
    """A reader that takes nothing holds no more than a window of it."""
    async with a_stage() as (stage, link, guest):
        reading = guest.read("/x")
        first = asyncio.ensure_future(anext(reading))
        await eventually(lambda: stage.heard)

        for _ in range(1000):
            stage.say(frames.encode(FIRST, frames.OUTPUT, bytes(frames.CHUNK)))

        await first
        await eventually(lambda: not link.is_open)
        with fails("more than was asked for"):
            async for _ in reading:
                pass


async def test_input_is_held_back_by_credits() -> None:
    """What nobody takes isn't queued: the source waits."""
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        while True:
            asked += 100_000
            yield bytes(100_000)

    async with a_stage() as (stage, _, guest):
        writing = asyncio.create_task(guest.write("/x", endless()))
        await eventually(lambda: len(stage.heard) > frames.WINDOW)
        before = asked
        stage.say(frames.encode_credit(FIRST, frames.INPUT, frames.WINDOW))
        await eventually(lambda: len(stage.heard) > 2 * frames.WINDOW)

        assert before < frames.WINDOW + 200_000
        assert asked < 2 * frames.WINDOW + 200_000
        writing.cancel()
        await asyncio.wait([writing])


async def test_connections_from_inside_are_bounded() -> None:
    """A flood of them is dropped beyond a number, and an id that is in use ends the link."""
    handled = 0

    async def handle(connection: Connection) -> None:
        nonlocal handled
        handled += 1
        await connection.read()

    async with a_stage() as (stage, link, guest):
        serving = asyncio.create_task(guest.serve_proxy(handle))
        await eventually(lambda: stage.heard)
        stage.say(frames.encode(FIRST, frames.READY))
        await serving

        first = frames.FIRST_ACCEPTED
        stage.say(*(frames.encode(first + number, frames.ACCEPT, b'{"parent": 1}') for number in range(2000)))
        await eventually(lambda: handled == 256)
        refused = frames.encode(first + 1999, frames.CANCEL)
        await eventually(lambda: refused in stage.heard)
        assert (handled, link.is_open) == (256, True)

        stage.say(frames.encode(first, frames.ACCEPT, b'{"parent": 1}'))
        await eventually(lambda: not link.is_open)


async def test_runner_that_takes_nothing_is_given_up() -> None:
    """What is to be sent is bounded, whoever asks for it."""
    async with a_stage() as (stage, link, guest):
        stage.takes.clear()
        command = Command(argv=("true", "x" * 1_000_000), cwd="/")

        async def ask() -> None:
            [piece async for piece in guest.run(command)]

        tasks = [asyncio.create_task(ask()) for _ in range(100)]
        await eventually(lambda: not link.is_open)

        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {SandboxConnectionError}
        stage.takes.set()


async def test_directory_without_end_is_refused() -> None:
    """The owner's memory is not filled with what a listing claims to hold."""
    entry = b'{"path": "/x", "type": "file", "size": 1, "mode": 1, "modified_at_ms": 1, "target": null}'
    line = b"[" + b",".join([entry] * 500) + b"]\n"

    async with a_stage() as (stage, _, guest):
        asking = asyncio.create_task(guest.entries("/x"))
        await eventually(lambda: stage.heard)
        heard = 0
        while not asking.done():
            stage.say(frames.encode(FIRST, frames.OUTPUT, line[: frames.CHUNK]))
            if len(line) > frames.CHUNK:
                stage.say(frames.encode(FIRST, frames.OUTPUT, line[frames.CHUNK :]))
            heard += 1
            await asyncio.sleep(0)

        with pytest.raises(SandboxError, match="more than 200,000"):
            await asking


async def test_source_that_is_left_is_closed() -> None:
    """A write to a link that has ended takes nothing more of its source."""
    async with a_stage() as (_, link, guest):
        link.end("gone")

        with fails("gone"):
            await guest.write("/x", content(b"x"))
