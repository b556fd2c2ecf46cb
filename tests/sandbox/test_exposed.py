"""Ports of a sandbox on the owner's loopback interface."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from agentkit.errors import ConfigurationError, SandboxStoppedError
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.network.exposed import ExposedPorts
from agentkit.sandbox.network.relay import StreamConnection
from tests.sandbox.streams import Peer, Server, answering, serving

HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Inside:
    """The ports of an instance that may be stopped and replaced.

    Attributes:
        ports: Which real port stands for one inside; None while the instance doesn't run.
        held: How many connections are held at the moment.
    """

    def __init__(self) -> None:
        self.ports: dict[int, Server] | None = {}
        self.held = 0

    async def connect(self, port: int) -> Connection:
        """See ``Guest.connect``."""
        if self.ports is None:
            raise SandboxStoppedError("stopped")
        if port not in self.ports:
            raise ConnectionRefusedError
        return StreamConnection(*await asyncio.open_connection("127.0.0.1", self.ports[port].port))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count."""
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1


@pytest.fixture
def inside() -> Inside:
    """Return an instance in which nothing listens."""
    return Inside()


@pytest.fixture
async def exposed(inside: Inside) -> AsyncIterator[ExposedPorts]:
    """Return its ports."""
    exposed = ExposedPorts(inside.connect, hold=inside.hold)
    yield exposed
    await exposed.close()


@asynccontextmanager
async def open_url(url: str) -> AsyncIterator[Peer]:
    """Connect to what ``expose`` gave."""
    host, _, port = url.removeprefix("http://").partition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    try:
        yield peer
    finally:
        peer.writer.transport.abort()


async def get(url: str) -> bytes:
    """Return what a request to an URL gives; nothing if the connection is closed."""
    async with open_url(url) as peer:
        await peer.send(b"GET / HTTP/1.1\r\n\r\n")
        return await peer.last()


async def until(condition: object, value: object) -> None:
    """Wait until a callable gives a value."""
    async with asyncio.timeout(20):
        while condition() != value:  # type: ignore[operator]  # a lambda
            await asyncio.sleep(0.01)


async def test_url_leads_to_the_port_inside(inside: Inside, exposed: ExposedPorts) -> None:
    """A request to the URL is answered by the server inside, and only this machine reaches it (SPEC 12.4)."""
    async with answering(HI) as server:
        inside.ports = {8000: server}
        url = await exposed.expose(8000)

        response = await get(url)

    assert url.startswith("http://127.0.0.1:")
    assert response == HI
    assert server.heads == [b"GET / HTTP/1.1\r\n\r\n"]


async def test_same_port_has_the_same_url(inside: Inside, exposed: ExposedPorts) -> None:
    """Exposing twice, also at one time, opens one listener."""
    first, second = await asyncio.gather(exposed.expose(8000), exposed.expose(8000))

    other = await exposed.expose(8001)

    assert first == second
    assert other != first


async def test_url_survives_stop_and_start(inside: Inside, exposed: ExposedPorts) -> None:
    """While the instance is stopped connections are closed; the one that comes after it is reached by the same URL."""
    async with answering(HI) as first, answering(HI.replace(b"hi", b"yo")) as second:
        inside.ports = {8000: first}
        url = await exposed.expose(8000)
        before = await get(url)
        inside.ports = None
        stopped = await get(url)
        inside.ports = {}
        unheard = await get(url)
        inside.ports = {8000: second}

        after = await get(url)

    assert (before[-2:], stopped, unheard, after[-2:]) == (b"hi", b"", b"", b"yo")
    assert await exposed.expose(8000) == url


async def test_each_side_ends_alone(inside: Inside, exposed: ExposedPorts) -> None:
    """A program that ends its sending still hears the answer."""

    async def answer(peer: Peer) -> None:
        await peer.send((await peer.rest()).upper())

    async with serving(answer) as server:
        inside.ports = {8000: server}
        async with open_url(await exposed.expose(8000)) as peer:
            await peer.send(b"hello")
            peer.writer.write_eof()

            received = await peer.rest()

    assert received == b"HELLO"


async def test_open_connection_is_held_until_it_ends(inside: Inside, exposed: ExposedPorts) -> None:
    """An open connection counts as activity, a closed one doesn't (SPEC 12.5)."""

    async def answer(peer: Peer) -> None:
        await peer.send(b"x")
        await peer.rest()

    async with serving(answer) as server:
        inside.ports = {8000: server}
        async with open_url(await exposed.expose(8000)) as peer:
            await peer.reader.readexactly(1)
            while_open = (inside.held, exposed.open_connections)
            await peer.close()
            await until(lambda: (inside.held, exposed.open_connections), (0, 0))

    assert while_open == (1, 1)


async def test_close_ends_listener_and_connections(inside: Inside, exposed: ExposedPorts) -> None:
    """Nothing of a sandbox stays open behind its capability."""

    async def answer(peer: Peer) -> None:
        await peer.send(b"x")
        await peer.rest()

    async with serving(answer) as server:
        inside.ports = {8000: server}
        url = await exposed.expose(8000)
        async with open_url(url) as peer:
            await peer.reader.readexactly(1)

            await exposed.close()

            rest = await peer.last()
            with pytest.raises(ConnectionRefusedError):
                await get(url)
    assert rest == b""
    assert (inside.held, exposed.open_connections) == (0, 0)


async def test_connections_act_as_nobody(inside: Inside) -> None:
    """Whoever connects is not taken for the call in which the port was exposed."""
    caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")
    seen: list[str] = []

    async def connect(port: int) -> Connection:
        seen.append(caller.get())
        raise ConnectionRefusedError

    exposed = ExposedPorts(connect)
    caller.set("a job")
    url = await exposed.expose(8000)

    await get(url)

    await exposed.close()
    assert seen == ["nobody"]


async def test_only_ports_of_the_spec_are_exposed(inside: Inside) -> None:
    """With ``SandboxSpec.ports``, another port is an error that names those allowed."""
    exposed = ExposedPorts(inside.connect, ports=[8000, 3000])
    await exposed.expose(8000)

    with pytest.raises(ConfigurationError, match="3000, 8000"):
        await exposed.expose(22)

    await exposed.close()


@pytest.mark.parametrize("port", [0, -1, 65_536, "8000", True])
async def test_impossible_port_is_refused(exposed: ExposedPorts, port: int) -> None:
    """A port is a number from 1 to 65535."""
    with pytest.raises(ConfigurationError, match="a port is a number"):
        await exposed.expose(port)
