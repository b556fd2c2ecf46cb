"""Connections in memory: two pipes with bounded buffers, so that a writer waits for its reader as on a socket."""

from __future__ import annotations

import asyncio

from agentkit.clock import Clock
from agentkit.testing.fake_clock import resting

_BUFFER = 65_536


class Pipe:
    """Bytes on their way from one end to the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buffer = bytearray()
        self._has_ended = False
        self._is_broken = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return what is there, waiting for something; nothing at the end."""
        while not self._buffer:
            if self._is_broken:
                raise ConnectionResetError("the connection was closed by the other side")
            if self._has_ended:
                return b""
            await self._wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._changed.set()
        return data

    async def write(self, data: bytes) -> None:
        """Put something in, waiting while it is full."""
        while len(self._buffer) >= _BUFFER and not self._is_broken:
            await self._wait()
        if self._is_broken or self._has_ended:
            raise BrokenPipeError("the connection was closed")
        self._buffer += data
        self._changed.set()

    def end(self) -> None:
        """Nothing comes any more; what is there can be read."""
        self._has_ended = True
        self._changed.set()

    def break_off(self) -> None:
        """The reader has gone: writers fail."""
        self._is_broken = True
        self._changed.set()

    async def _wait(self) -> None:
        # One reader and one writer at most, and never both waiting: each wakes the other.
        self._changed.clear()
        with resting(self._clock):
            await self._changed.wait()


class InMemoryConnection:
    """One end of a connection; see ``Connection``."""

    def __init__(self, incoming: Pipe, outgoing: Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def read(self) -> bytes:
        """See ``Connection``."""
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        """See ``Connection``."""
        await self._outgoing.write(data)

    async def end(self) -> None:
        """See ``Connection``."""
        self._outgoing.end()

    async def close(self) -> None:
        """See ``Connection``."""
        self.drop()

    def drop(self) -> None:
        """Close without waiting."""
        self._outgoing.end()
        self._incoming.break_off()


def connection_pair(clock: Clock) -> tuple[InMemoryConnection, InMemoryConnection]:
    """Return the two ends of a new connection."""
    there, back = Pipe(clock), Pipe(clock)
    return InMemoryConnection(back, there), InMemoryConnection(there, back)
