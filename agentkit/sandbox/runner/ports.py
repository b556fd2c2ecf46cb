"""Connections that are relayed by the runner: to ports inside, and from inside to a proxy of the owner's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner.call import LinkCall
from agentkit.sandbox.runner.link import RunnerLink

logger = logging.getLogger(__name__)


class RelayedConnection:
    """See ``Connection``: one call of the link, whose input and output are the two directions."""

    def __init__(self, link: RunnerLink, call: LinkCall) -> None:
        self._link = link
        self._call = call
        self._is_at_end = False

    async def read(self) -> bytes:
        """See ``Connection``."""
        if self._is_at_end:
            return b""
        kind, data = await self._call.next()
        self._is_at_end = kind != frames.OUTPUT
        return data if kind == frames.OUTPUT else b""

    async def write(self, data: bytes) -> None:
        """See ``Connection``."""
        await self._call.send(data)

    async def end(self) -> None:
        """See ``Connection``."""
        self._call.end_input()

    async def close(self) -> None:
        """See ``Connection``."""
        await self._link.leave(self._call)


async def connect(link: RunnerLink, port: int) -> RelayedConnection:
    """Open a connection to a port of the loopback interface inside.

    Raises:
        ConnectionRefusedError: Nothing listens there.
        SandboxConnectionError: The channel has ended.
    """
    call = link.begin("connect", port=port)
    is_connected = False
    try:
        await call.next()
        is_connected = True
    finally:
        if not is_connected:
            await link.leave(call)
    return RelayedConnection(link, call)


class Served:
    """A port inside whose connections are handled here, each by a task."""

    def __init__(self, link: RunnerLink, handle: Callable[[Connection], Awaitable[None]]) -> None:
        self._link = link
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, port: int) -> None:
        """Listen; returns once connections are accepted.

        Raises:
            SandboxError: The port is taken.
            SandboxConnectionError: The channel has ended.
        """
        call = self._link.begin("serve", port=port)
        self._link.on_accepted[call.id] = self._accept
        await call.next()

    def _accept(self, call: LinkCall) -> None:
        task = asyncio.create_task(self._serve(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, call: LinkCall) -> None:
        connection = RelayedConnection(self._link, call)
        try:
            with contextlib.suppress(SandboxConnectionError):
                await self._handle(connection)
        finally:
            await connection.close()

    async def close(self) -> None:
        """End what is being handled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
