"""Two connections joined."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.network.relay import Relay, StreamConnection, together
from tests.sandbox.streams import connected


async def test_bytes_go_both_ways_and_each_side_ends_alone() -> None:
    """One side may have sent all it has while the other goes on."""
    async with connected() as (first, left), connected() as (second, right):
        relay = asyncio.create_task(Relay(first, second).run())
        await left.send(b"question")
        left.writer.write_eof()
        asked = await right.rest()
        await right.send(b"answer")
        is_over_early = relay.done()
        right.writer.write_eof()

        answered = await left.rest()

        await relay
        assert (asked, answered, is_over_early) == (b"question", b"answer", False)


async def test_sender_waits_for_a_slow_reader() -> None:
    """What one side doesn't take stays with the sender, not in the memory of the owner."""
    async with connected() as (first, left), connected() as (second, right):
        relay = asyncio.create_task(Relay(first, second).run())
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 64 << 20:
                await left.send(bytes(1 << 16))
                sent += 1 << 16
            left.writer.write_eof()

        sender = asyncio.create_task(send())
        before = -1
        while before != sent:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.2)
        stuck_at = sent
        received = len(await right.rest())
        right.writer.write_eof()

        await asyncio.gather(sender, relay)
        assert stuck_at < 8 << 20
        assert received == 64 << 20


async def test_silence_ends_it() -> None:
    """A relay with a limit ends when nothing has come for so long, counted anew with each piece."""
    async with connected() as (first, left), connected() as (second, right):
        relay = asyncio.create_task(Relay(first, second, idle=timedelta(seconds=0.5)).run())
        began_at = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < began_at + 0.8:
            await left.send(b"x")
            await right.reader.readexactly(1)
            await asyncio.sleep(0.01)
        is_over_early = relay.done()

        with pytest.raises(TimeoutError):
            await relay

        assert not is_over_early


async def test_broken_side_ends_it() -> None:
    """A connection that breaks ends the relay with its error, though the other side waits for more."""

    class Broken(StreamConnection):
        async def read(self) -> bytes:
            raise SandboxConnectionError

    async with connected() as (first, _), connected() as (second, _):
        broken = Broken(first._reader, first._writer)

        with pytest.raises(SandboxConnectionError):
            await Relay(second, broken).run()


async def test_first_error_ends_the_others() -> None:
    """Nothing goes on alone."""
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await together(wait(), fail())

    assert ended == [True]
