"""Ports through a real runner: connections into the sandbox, and out of it to a proxy of the owner's."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from agentkit.errors import SandboxConnectionError, SandboxError
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.runner.runner_guest import RunnerGuest
from tests.sandbox.local_runner import Place, a_guest, a_place, run


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the runner's user."""
    with a_place() as place:
        yield place


@pytest.fixture
async def guest(place: Place) -> AsyncIterator[RunnerGuest]:
    """A runner that serves this test."""
    async with a_guest(place, proxy_port=free_port()) as guest:
        yield guest


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@asynccontextmanager
async def echo(host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve a port that sends back what it gets, in capitals, and ends when the other side does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"<end>")
        writer.close()

    server = await asyncio.start_server(answer, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def rest_of(connection: Connection) -> bytes:
    """Return all that comes until the end."""
    received = b""
    while data := await connection.read():
        received += data
    return received


async def test_listening_is_seen_without_connecting(guest: RunnerGuest) -> None:
    """On loopback, on any address, of both families; and no longer once it has ended."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as server:
            server.bind((host, 0))
            port = server.getsockname()[1]
            bound = await guest.is_listening(port)
            server.listen()
            server.setblocking(False)

            assert not bound
            assert await guest.is_listening(port)
            with pytest.raises(BlockingIOError):
                server.accept()
        assert not await guest.is_listening(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_connection_carries_both_directions_and_their_ends(guest: RunnerGuest, host: str) -> None:
    """What is sent arrives, and one direction may end before the other."""
    async with echo(host) as port:
        connection = await guest.connect(port)

        await connection.write(b"hello ")
        first = await connection.read()
        await connection.write(b"again")
        await connection.end()

        assert first == b"HELLO "
        assert await rest_of(connection) == b"AGAIN<end>"
        assert await connection.read() == b""
        await connection.close()


async def test_nobody_listens(guest: RunnerGuest) -> None:
    """It is refused as a socket would be, naming the port."""
    port = free_port()

    with pytest.raises(ConnectionRefusedError, match=str(port)):
        await guest.connect(port)


async def test_megabytes_go_both_ways_at_once(guest: RunnerGuest) -> None:
    """Neither direction waits for the other."""
    data = os.urandom(5_000_000).lower()
    async with echo() as port:
        connection = await guest.connect(port)

        async def send() -> None:
            for start in range(0, len(data), 100_000):
                await connection.write(data[start : start + 100_000])
            await connection.end()

        _, received = await asyncio.gather(send(), rest_of(connection))

        assert received == data.upper() + b"<end>"
        await connection.close()


async def test_connection_that_nobody_reads_delays_no_other(place: Place, guest: RunnerGuest) -> None:
    """It stands still; commands and other connections go on."""
    async with echo() as port:
        stuck, quick = await guest.connect(port), await guest.connect(port)
        sending = asyncio.create_task(stuck.write(b"x" * 50_000_000))

        await quick.write(b"quick")

        assert await quick.read() == b"QUICK"
        assert (await run(guest, place.command("echo", "on"))).stdout == "on\n"
        assert not sending.done()
        sending.cancel()
        await asyncio.wait([sending])
        await stuck.close()
        await quick.close()


async def test_connection_that_is_dropped_inside_ends(guest: RunnerGuest) -> None:
    """A server that resets the connection is an end like any other, and sending on doesn't hang."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        connection = await guest.connect(server.sockets[0].getsockname()[1])
        await connection.write(b"x" * 100)

        async with asyncio.timeout(20):
            assert await connection.read() == b""
            await connection.write(b"x" * 3_000_000)
        await connection.close()


async def test_closed_connection_is_closed_inside(guest: RunnerGuest) -> None:
    """The server sees the end when the owner drops its side."""
    ended = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(watch, "127.0.0.1", 0) as server:
        connection = await guest.connect(server.sockets[0].getsockname()[1])

        await connection.close()

        await asyncio.wait_for(ended.wait(), 20)


async def test_end_of_the_runner_ends_connections(place: Place) -> None:
    """Whoever reads is told that the way in broke, not that the server had no more to say."""
    async with echo() as port:
        guest = await place.open()
        connection = await guest.connect(port)
        reading = asyncio.create_task(connection.read())
        await asyncio.sleep(0)

        await guest.close()

        with pytest.raises(SandboxConnectionError):
            await reading


async def test_proxy_gets_each_connection_from_inside(place: Place) -> None:
    """A program inside talks to the owner's handler, several at a time."""
    port = free_port()

    async def handle(connection: Connection) -> None:
        asked = await connection.read()
        await connection.write(b"you said " + asked)

    client = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
    client += "s.sendall(sys.argv[2].encode()); s.shutdown(1); print(s.makefile().read())"
    async with a_guest(place, proxy_port=port) as guest:
        await guest.serve_proxy(handle)

        results = await asyncio.gather(
            *(run(guest, place.command("python3", "-c", client, str(port), f"word{number}")) for number in range(5))
        )

    assert [result.stdout for result in results] == [f"you said word{number}\n" for number in range(5)]


async def test_proxy_ends_with_the_guest(place: Place) -> None:
    """Handlers are cancelled, and the port is free for the next runner."""
    port = free_port()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(connection: Connection) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with a_guest(place, proxy_port=port) as guest:
        await guest.serve_proxy(hang)
        waiting = asyncio.create_task(asyncio.open_connection("127.0.0.1", port))
        _, writer = await waiting
        await begun.wait()

    writer.close()
    assert cancelled.is_set()
    async with a_guest(place, proxy_port=port) as guest:
        await guest.serve_proxy(hang)
        assert await guest.is_listening(port)


async def test_proxy_port_that_is_taken_is_an_error(place: Place) -> None:
    """Something else inside listens there and stays."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with a_guest(place, proxy_port=port) as guest:
            with pytest.raises(SandboxError, match=str(port)):
                await guest.serve_proxy(lambda connection: connection.close())
