"""Carry bytes between two connections, both ways, until both have ended; used by the proxy and by exposed ports."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final

from agentkit.errors import SandboxError
from agentkit.sandbox.guest import Connection

#: What a connection raises when it breaks; the sandbox's own errors when the instance or the way into it is gone.
BROKEN: Final = (OSError, SandboxError)
_PIECE: Final = 1 << 16
_LINGER: Final = 10.0


class StreamConnection:
    """A socket of this process as a ``Connection``."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """See ``Connection``."""
        return await self._reader.read(_PIECE)

    async def write(self, data: bytes) -> None:
        """See ``Connection``."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """See ``Connection``."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    async def close(self) -> None:
        """See ``Connection``: what was sent still goes out, unless the peer takes none of it for 10 s."""
        self._writer.close()
        try:
            async with asyncio.timeout(_LINGER):
                await self._writer.wait_closed()
        except OSError:  # broken already, or the time is over
            pass
        finally:
            self._writer.transport.abort()


class Relay:
    """Two connections joined; what one sends, the other gets, no faster than it takes it.

    Either side may end its sending while the other goes on. It is over when both have ended, when one breaks, or when
    nothing has come from either for ``idle``.
    """

    def __init__(self, first: Connection, second: Connection, *, idle: timedelta | None = None) -> None:
        self._first = first
        self._second = second
        self._idle = None if idle is None else idle.total_seconds()
        self._deadline: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Carry until it is over; both connections are left for the caller to close.

        Raises:
            TimeoutError: Nothing came for too long.
            OSError: A connection broke.
            SandboxError: The instance, or the way into it, is gone.
        """
        async with asyncio.timeout(self._idle) as self._deadline:
            await together(self._carry(self._first, self._second), self._carry(self._second, self._first))

    async def _carry(self, source: Connection, target: Connection) -> None:
        while data := await source.read():
            self._note()
            await target.write(data)
            self._note()
        await target.end()

    def _note(self) -> None:
        if self._deadline is not None and self._idle is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._idle)


async def together(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until they are done; the first error ends the others and is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
