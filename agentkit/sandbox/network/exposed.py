"""Ports of a sandbox on the owner's loopback interface: each connection is relayed to the same port inside (SPEC 12.4).

The listener is the owner's, so its address stays the same while the instance is stopped, started or replaced; and
neither other machines nor other sandboxes reach it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context
from dataclasses import dataclass

from agentkit.errors import ConfigurationError
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.network.relay import BROKEN, Relay, StreamConnection
from agentkit.sandbox.spec import check_port

logger = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class _Listener:
    """One exposed port."""

    server: asyncio.Server
    url: str


class ExposedPorts:
    """The ports of one sandbox that this process listens for; they belong to one event loop.

    Attributes:
        open_connections: How many there are at the moment.
    """

    def __init__(
        self,
        connect: Callable[[int], Awaitable[Connection]],
        *,
        ports: Sequence[int] = (),
        hold: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Open nothing yet.

        Args:
            connect: Connects to a port of the instance there is now; called anew for each connection.
            ports: The only ports that may be exposed; empty means any.
            hold: Makes what is held for as long as a connection is open.
        """
        self._connect = connect
        self._ports = frozenset(ports)
        self._hold = hold
        self._listeners: dict[int, _Listener] = {}
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.open_connections = 0

    async def expose(self, port: int) -> str:
        """Return ``http://127.0.0.1:…``, which leads to a port inside until ``close``; the same each time.

        While nothing listens inside, or the sandbox doesn't run, connections are closed at once.

        Raises:
            ConfigurationError: The port is none, or not one of those that may be exposed.
        """
        check_port(port)
        if self._ports and port not in self._ports:
            allowed = ", ".join(str(number) for number in sorted(self._ports))
            raise ConfigurationError(f"port {port} is not in SandboxSpec.ports ({allowed}); add it there")
        async with self._opening:
            if port not in self._listeners:
                self._listeners[port] = await self._listen(port)
        return self._listeners[port].url

    async def close(self) -> None:
        """Close all ports and connections."""
        async with self._opening:
            listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener.server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _listen(self, port: int) -> _Listener:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(port, StreamConnection(reader, writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        # In no context: whoever connects acts neither as the call that exposed the port nor within its transaction.
        listening = asyncio.start_server(accepted, _LOOPBACK, 0)
        server = await asyncio.get_running_loop().create_task(listening, context=Context())
        host, number = server.sockets[0].getsockname()
        return _Listener(server, f"http://{host}:{number}")

    async def _serve(self, port: int, outside: Connection) -> None:
        self.open_connections += 1
        try:
            with self._hold():
                await self._relay(port, outside)
        except BROKEN as error:
            logger.debug("a connection to port %d of a sandbox broke: %s", port, error)
        finally:
            self.open_connections -= 1
            with suppress(*BROKEN):
                await outside.close()

    async def _relay(self, port: int, outside: Connection) -> None:
        inside = await self._connect(port)
        try:
            await Relay(outside, inside).run()
        finally:
            with suppress(*BROKEN):
                await inside.close()
