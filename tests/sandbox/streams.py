"""Sockets of this process for tests: both ends of a connection, and a server that says what it is told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentkit.sandbox.network.relay import StreamConnection

Answer = Callable[["Peer"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One end of a connection, as a program uses it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send, waiting while the other side takes nothing."""
        self.writer.write(data)
        await self.writer.drain()

    async def until(self, end: bytes) -> bytes:
        """Return what comes, up to a mark."""
        return await asyncio.wait_for(self.reader.readuntil(end), 20)

    async def rest(self) -> bytes:
        """Return all that comes until the other side ends."""
        return await asyncio.wait_for(self.reader.read(), 20)

    async def last(self) -> bytes:
        """Return all that comes until the other side ends or breaks off."""
        try:
            return await self.rest()
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        """Close both ways."""
        self.writer.close()
        await asyncio.wait_for(self.writer.wait_closed(), 20)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[StreamConnection, Peer]]:
    """Give a ``Connection`` and the program at its other end."""
    ours, theirs = socket.socketpair()
    connection = StreamConnection(*await asyncio.open_connection(sock=ours))
    peer = Peer(*await asyncio.open_connection(sock=theirs))
    try:
        yield connection, peer
    finally:
        await connection.close()
        peer.writer.transport.abort()
        with_error = await asyncio.gather(peer.writer.wait_closed(), return_exceptions=True)
        assert not [error for error in with_error if error is not None and not isinstance(error, OSError)]


@dataclass(slots=True)
class Server:
    """A server on the loopback interface.

    Attributes:
        port: Where it listens.
        heads: Of the requests that came, by ``answering``.
        accepted: Connections so far.
    """

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    accepted: int = 0


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    """Serve each connection with a function; errors of connections that the other side broke are expected."""
    server = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.accepted += 1
        try:
            await answer(Peer(reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()


@asynccontextmanager
async def answering(response: bytes) -> AsyncIterator[Server]:
    """Serve HTTP: keep each head and give one response."""

    async def answer(peer: Peer) -> None:
        server.heads.append(await peer.until(b"\r\n\r\n"))
        await peer.send(response)

    async with serving(answer) as server:
        yield server
