"""Connections in memory: ends, closings, and writers that wait for their readers."""

from __future__ import annotations

import asyncio

import pytest

from agentkit.testing import FakeClock
from agentkit.testing.in_memory.ports import connection_pair


async def test_what_is_written_arrives_until_the_end() -> None:
    """Each direction ends for itself."""
    here, there = connection_pair(FakeClock())

    await here.write(b"question")
    await here.end()
    await there.write(b"answer")

    assert (await there.read(), await there.read()) == (b"question", b"")
    assert await here.read() == b"answer"


async def test_writer_waits_while_nobody_reads() -> None:
    """Nothing piles up without bound."""
    here, there = connection_pair(FakeClock())
    await here.write(bytes(70_000))
    writing = asyncio.ensure_future(here.write(b"more"))
    await asyncio.sleep(0)
    assert not writing.done()

    first = await there.read()
    await writing

    assert (len(first), await there.read()) == (70_000, b"more")


async def test_closed_connection_fails_the_other_side() -> None:
    """What was sent before can still be read."""
    here, there = connection_pair(FakeClock())
    await here.write(b"last words")

    await here.close()

    assert (await there.read(), await there.read()) == (b"last words", b"")
    with pytest.raises(BrokenPipeError):
        await there.write(b"too late")


async def test_closing_wakes_a_writer_that_waits() -> None:
    """It fails instead of waiting for ever."""
    here, there = connection_pair(FakeClock())
    await here.write(bytes(70_000))
    writing = asyncio.ensure_future(here.write(b"more"))
    await asyncio.sleep(0)

    await there.close()

    with pytest.raises(BrokenPipeError):
        await writing
