"""The proxy of a sandbox with an ``Allowlist``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from agentkit.sandbox.guest import Connection
from agentkit.sandbox.network.proxy import MAX_CONNECTIONS, AllowlistProxy, ProxyTimeouts, Refused, proxy_variables
from agentkit.sandbox.network.relay import StreamConnection
from agentkit.sandbox.network.request import MAX_HEAD
from agentkit.sandbox.spec import Allowlist
from tests.sandbox.streams import Peer, Server, answering, connected, serving

HOSTS = Allowlist(["pypi.org", "*.pythonhosted.org", "93.184.216.34", "inside.example"]).hosts
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@dataclass(slots=True)
class World:
    """What lies beyond the proxy: names, addresses, and one server that stands for all hosts.

    Attributes:
        server: What every address leads to.
        addresses: What names resolve to, for once each if there are several answers.
        looked_up: Names that were looked up.
        reached: Addresses and ports that were connected to.
        refused: What the owner was told.
        silent: Addresses that don't answer.
    """

    server: Server
    addresses: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    reached: list[tuple[str, int]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Find a name; unknown ones have a public address."""
        self.looked_up.append(host)
        answers = self.addresses.get(host, [["151.101.0.223"]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: str, port: int) -> Connection:
        """Connect to the server, whatever the address."""
        self.reached.append((address, port))
        if address in self.silent:
            raise ConnectionRefusedError
        return StreamConnection(*await asyncio.open_connection("127.0.0.1", self.server.port))

    def proxy(self, timeouts: ProxyTimeouts | None = None) -> AllowlistProxy:
        """Return a proxy whose guard is the real one."""
        return AllowlistProxy(
            HOSTS, on_refused=self.refused.append, resolve=self.resolve, connect=self.connect, timeouts=timeouts
        )


@asynccontextmanager
async def asking(proxy: AllowlistProxy) -> AsyncIterator[Peer]:
    """Give a program's connection to the proxy."""
    async with connected() as (connection, peer):
        handling = asyncio.create_task(proxy.handle(connection))
        try:
            yield peer
        finally:
            peer.writer.transport.abort()
            await asyncio.wait_for(handling, 20)


async def ask(world: World, request: bytes) -> bytes:
    """Send one request and return the whole response."""
    async with asking(world.proxy()) as peer:
        await peer.send(request)
        return await peer.rest()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Return a world whose hosts all say hi."""
    async with answering(OK) as server:
        yield World(server)


async def test_request_reaches_its_host(world: World) -> None:
    """A plain request goes to the address of the host that was asked for, and its answer comes back."""
    response = await ask(world, b"GET http://PyPI.org/simple/?a=b HTTP/1.1\r\nHost: pypi.org\r\nAccept: */*\r\n\r\n")

    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"hi"
    assert b"connection: close" in head.lower()
    assert world.reached == [("151.101.0.223", 80)]
    assert world.server.heads[0].startswith(b"GET /simple/?a=b HTTP/1.1\r\nhost: pypi.org\r\n")


async def test_tunnel_carries_bytes_as_they_are() -> None:
    """A tunnel to port 443 carries whatever the two ends say, each ending its sending alone."""

    async def answer(peer: Peer) -> None:
        hello = await peer.rest()
        await peer.send(hello[::-1] + b"\x00\xff")

    async with serving(answer) as server, asking(World(server).proxy()) as peer:
        await peer.send(b"CONNECT files.pythonhosted.org:443 HTTP/1.1\r\nHost: x\r\n\r\nearly")
        accepted = await peer.until(b"\r\n\r\n")
        await peer.send(b" late")
        peer.writer.write_eof()

        received = await peer.rest()

    assert accepted.startswith(b"HTTP/1.1 200 ")
    assert received == b"early late"[::-1] + b"\x00\xff"


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "pythonhosted.org",
        "evilpythonhosted.org",
        "pypi.org.evil.example",
        "notpypi.org",
        "1.1.1.1",
        "2130706433",
        "0x7f.0.0.1",
        "metadata.google.internal",
        "localhost",
    ],
)
@pytest.mark.parametrize(
    "form", ["CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://{host}/ HTTP/1.0\r\n\r\n"]
)
async def test_host_that_is_not_listed_is_refused(world: World, host: str, form: str) -> None:
    """It is neither looked up nor reached; program and owner learn which host it was and how to allow it."""
    response = await ask(world, form.format(host=host).encode())

    assert response.startswith(b"HTTP/1.1 403 Forbidden by agentkit (" + host.encode())
    assert f"Allowlist([..., '{host}'])" in response.decode()
    assert (world.looked_up, world.reached) == ([], [])
    assert [refused.host for refused in world.refused] == [host]


async def test_listed_address_is_reached(world: World) -> None:
    """An address that the owner wrote down is as good as a name, if it is public."""
    world.addresses["93.184.216.34"] = [["93.184.216.34"]]

    response = await ask(world, b"GET http://93.184.216.34/ HTTP/1.0\r\n\r\n")

    assert response.endswith(b"hi")
    assert world.reached == [("93.184.216.34", 80)]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.1.1", "::1", "::ffff:192.168.0.1", "fd00:ec2::254"]
)
async def test_listed_name_of_an_inner_address_is_refused(world: World, address: str) -> None:
    """A name that is allowed leads to no private, loopback, link-local or metadata address (SPEC 12.9)."""
    world.addresses["inside.example"] = [[address]]

    response = await ask(world, b"CONNECT inside.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")

    assert response.startswith(b"HTTP/1.1 403 ")
    assert b"not of the public internet" in response
    assert world.reached == []


async def test_name_that_changes_its_address_gains_nothing(world: World) -> None:
    """The name is looked up once, and the address that was checked is the one that is reached (DNS rebinding)."""
    world.addresses["inside.example"] = [["151.101.0.223"], ["127.0.0.1"]]

    await ask(world, b"GET http://inside.example/ HTTP/1.0\r\n\r\n")

    assert world.looked_up == ["inside.example"]
    assert world.reached == [("151.101.0.223", 80)]


async def test_inner_addresses_among_public_ones_are_left_out(world: World) -> None:
    """The public ones are tried in turn, the others never."""
    world.addresses["inside.example"] = [["10.0.0.1", "1.1.1.1", "127.0.0.1", "9.9.9.9"]]
    world.silent = {"1.1.1.1"}

    response = await ask(world, b"GET http://inside.example/ HTTP/1.0\r\n\r\n")

    assert response.endswith(b"hi")
    assert world.reached == [("1.1.1.1", 80), ("9.9.9.9", 80)]


@pytest.mark.parametrize("port", [22, 25, 8080, 8443, 65535, 0, 99999])
@pytest.mark.parametrize(
    "form", ["CONNECT pypi.org:{port} HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://pypi.org:{port}/ HTTP/1.0\r\n\r\n"]
)
async def test_ports_but_80_and_443_are_refused(world: World, port: int, form: str) -> None:
    """An allowed host is allowed for the web (SPEC 12.9)."""
    response = await ask(world, form.format(port=port).encode())

    assert response.startswith(b"HTTP/1.1 403 ")
    assert b"only the ports 80 and 443" in response
    assert world.reached == []


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET //pypi.org/ HTTP/1.1",
        b"GET ftp://pypi.org/ HTTP/1.1",
        b"GET https://pypi.org/ HTTP/1.1",
        b"GET http://user@pypi.org/ HTTP/1.1",
        b"GET http://pypi.org@evil.example/ HTTP/1.1",
        b"GET http://pypi.org:80@evil.example/ HTTP/1.1",
        b"GET http://evil.example#@pypi.org/ HTTP/1.1",
        b"GET http://evil.example\\@pypi.org/ HTTP/1.1",
        b"GET http://pypi.org%2eevil.example/ HTTP/1.1",
        b"GET http://[::1]/ HTTP/1.1",
        b"GET http://pypi.org:x/ HTTP/1.1",
        b"GET http:/pypi.org/ HTTP/1.1",
        b"GET http:///pypi.org HTTP/1.1",
        b"CONNECT pypi.org HTTP/1.1",
        b"CONNECT user@pypi.org:443 HTTP/1.1",
        b"CONNECT [::1]:443 HTTP/1.1",
        b"CONNECT http://pypi.org:443 HTTP/1.1",
        b"CONNECT pypi.org:443/path HTTP/1.1",
        b"GET http://pypi.org/ a HTTP/1.1",
        b"GET  http://pypi.org/ HTTP/1.1",
        b"GET http://pypi.org/\x00 HTTP/1.1",
        b"GET http://pypi\xc2\xad.org/ HTTP/1.1",
        b"nonsense",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x05\x01\x00",
    ],
)
async def test_anything_else_is_refused(world: World, line: bytes) -> None:
    """What is no plain request for a proxy, or could be read in two ways, gets a 400 and reaches nobody."""
    response = await ask(world, line + b"\r\nHost: pypi.org\r\n\r\n")

    assert response.startswith(b"HTTP/1.1 400 ")
    assert b"agentkit: " in response
    assert (world.looked_up, world.reached) == ([], [])


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: +5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n b\r\n",
        b"X: a\r\n\tb\r\n",
        b"X: a\nY: b\r\n",
        b"X: a\rY: b\r\n",
        b"X: a\x00\r\n",
        b" X: a\r\n",
        b"Host: evil.example\r\n",
        b"X\r\n",
    ],
)
async def test_smuggling_is_refused(world: World, headers: bytes) -> None:
    """A head that two readers may take for different requests is refused before anybody is looked up."""
    request = b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n" + headers + b"\r\nhello"

    response = await ask(world, request)

    assert response[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 501")
    assert world.looked_up == []


async def test_server_gets_one_request_with_the_host_that_was_checked(world: World) -> None:
    """Neither another ``Host`` nor a second request on the same connection reaches a neighbour on the same address."""
    request = (
        b"GET http://pypi.org/ HTTP/1.1\r\nHost: evil.example\r\nConnection: keep-alive, X-Own, Host\r\nX-Own: 1\r\n"
    )
    request += b"Proxy-Authorization: Basic eDp5\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nX-Kept: 1\r\n\r\n"

    response = await ask(world, request + b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")

    assert response.count(b"HTTP/1.1") == 1
    assert world.server.heads == [b"GET / HTTP/1.1\r\nhost: pypi.org\r\nX-Kept: 1\r\nconnection: close\r\n\r\n"]


@pytest.mark.parametrize(
    ("framing", "body", "received"),
    [
        (b"Content-Length: 5\r\n", b"helloGET / HTTP/1.1\r\n\r\n", b"hello"),
        (
            b"Transfer-Encoding: chunked\r\n",
            b"2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\nmore",
            b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        ),
    ],
)
async def test_body_is_sent_as_long_as_it_was_said_to_be(framing: bytes, body: bytes, received: bytes) -> None:
    """The server gets the body, framed anew, and nothing of what follows it."""
    bodies = []

    async def answer(peer: Peer) -> None:
        await peer.until(b"\r\n\r\n")
        bodies.append(await peer.reader.readexactly(len(received)))
        await peer.send(OK)
        bodies.append(await peer.rest())

    async with serving(answer) as server:
        await ask(World(server), b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n" + framing + b"\r\n" + body)

    assert b"".join(bodies) == received


async def test_answer_may_come_before_the_body_ends() -> None:
    """A server that refuses an upload is heard at once."""

    async def answer(peer: Peer) -> None:
        await peer.until(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    async with serving(answer) as server, asking(World(server).proxy()) as peer:
        await peer.send(b"PUT http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nContent-Length: 1000000\r\n\r\nhello")

        response = await peer.rest()

    assert response.startswith(b"HTTP/1.1 413 ")


async def test_program_that_waits_for_leave_to_send_gets_it() -> None:
    """``Expect: 100-continue`` works through the proxy."""

    async def answer(peer: Peer) -> None:
        head = await peer.until(b"\r\n\r\n")
        assert b"100-continue" in head
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + await peer.reader.readexactly(5))

    async with serving(answer) as server, asking(World(server).proxy()) as peer:
        await peer.send(
            b"PUT http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        )
        leave = await peer.until(b"\r\n\r\n")
        await peer.send(b"hello")

        response = await peer.rest()

    assert leave.startswith(b"HTTP/1.1 100 ")
    assert response.endswith(b"hello")


@pytest.mark.parametrize(
    ("response", "status"),
    [
        (b"", b"HTTP/1.1 502"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 502"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", b"HTTP/1.1 502"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"HTTP/1.1 200"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n0\r\n\r\n", b"HTTP/1.1 200"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"HTTP/1.1 200"),
    ],
)
async def test_answers_of_all_kinds_are_understood(response: bytes, status: bytes) -> None:
    """Old and new servers' answers come through whole; what is no answer becomes a 502."""
    async with answering(response) as server:
        received = await ask(World(server), b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n")

    assert received.startswith(status)
    assert b"old" not in response or b"old" in received
    assert b"103" not in received


async def test_answer_that_is_cut_off_is_not_passed_for_whole() -> None:
    """A program can tell that the rest of a download is missing."""
    async with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n") as server:
        received = await ask(World(server), b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n")

    assert b"hello" in received
    assert not received.endswith(b"0\r\n\r\n")


async def test_head_without_end_is_refused(world: World) -> None:
    """An endless head is cut off, and takes no more of the owner's memory than its limit."""
    async with asking(world.proxy()) as peer:
        await peer.send(b"GET http://pypi.org/ HTTP/1.1\r\nX: " + b"x" * (MAX_HEAD + 1))
        response = await peer.rest()

    assert response.startswith(b"HTTP/1.1 431 ")


async def test_slow_head_is_refused(world: World) -> None:
    """A connection that asks for nothing is not kept."""
    async with asking(world.proxy(ProxyTimeouts(head=timedelta(seconds=0.1)))) as peer:
        await peer.send(b"GET http://pypi.org/ HTTP/1.1\r\n")
        response = await peer.rest()

    assert response.startswith(b"HTTP/1.1 408 ")


async def test_silent_tunnel_is_closed() -> None:
    """A tunnel in which nothing moves doesn't stay open for ever."""

    async def answer(peer: Peer) -> None:
        await peer.rest()

    timeouts = ProxyTimeouts(idle=timedelta(seconds=0.2))
    async with serving(answer) as server, asking(World(server).proxy(timeouts)) as peer:
        await peer.send(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.until(b"\r\n\r\n")

        rest = await peer.rest()

    assert rest == b""


async def test_name_that_is_not_found_and_host_that_does_not_answer(world: World) -> None:
    """Both are a 502 that says which it was, and neither is the owner's concern."""
    world.addresses["pypi.org"] = [[]]
    world.silent = {"151.101.0.223"}

    nameless = await ask(world, b"GET http://pypi.org/ HTTP/1.0\r\n\r\n")
    silent = await ask(world, b"GET http://a.pythonhosted.org/ HTTP/1.0\r\n\r\n")

    assert b"502" in nameless
    assert b"'pypi.org' is not found" in nameless
    assert b"no address of 'a.pythonhosted.org' answers" in silent
    assert world.refused == []


async def test_name_server_that_never_answers_holds_nobody_up(world: World) -> None:
    """A look-up has a limit."""

    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return ()

    proxy = AllowlistProxy(HOSTS, resolve=never, timeouts=ProxyTimeouts(connect=timedelta(seconds=0.1)))
    async with asking(proxy) as peer:
        await peer.send(b"GET http://pypi.org/ HTTP/1.0\r\n\r\n")
        response = await peer.rest()

    assert response.startswith(b"HTTP/1.1 502 ")


async def test_owner_is_told_once_of_each_host(world: World) -> None:
    """A program that tries again and again fills no log."""
    proxy = world.proxy()
    for host in ("a.example", "a.example", "b.example"):
        async with asking(proxy) as peer:
            await peer.send(f"GET http://{host}/ HTTP/1.0\r\n\r\n".encode())
            await peer.rest()

    assert [(refused.host, refused.port) for refused in world.refused] == [("a.example", 80), ("b.example", 80)]


async def test_connections_are_bounded(world: World) -> None:
    """What runs inside can't use up the owner's sockets; a connection that ends makes room."""
    proxy = world.proxy()
    request = b"GET http://pypi.org/ HTTP/1.0\r\n\r\n"
    async with AsyncExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            await stack.enter_async_context(asking(proxy))
        async with asking(proxy) as peer:
            await peer.send(request)
            refused = await peer.rest()
        for _ in range(MAX_CONNECTIONS):
            await stack.enter_async_context(asking(proxy))
        async with asking(proxy) as peer:
            dropped = await peer.rest()
    async with asking(proxy) as peer:
        await peer.send(request)
        accepted = await peer.rest()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert dropped == b""
    assert accepted.startswith(b"HTTP/1.1 200 ")


async def test_names_of_this_machine_are_refused_by_the_real_guard() -> None:
    """With nothing put in its place, a listed name of the owner's own machine leads nowhere."""
    async with answering(OK) as server:
        proxy = AllowlistProxy(["localhost"])
        async with asking(proxy) as peer:
            await peer.send(b"GET http://localhost/ HTTP/1.0\r\n\r\n")
            response = await peer.rest()
        await proxy.close()

    assert b"not of the public internet (loopback" in response
    assert server.accepted == 0


def test_programs_are_told_of_the_proxy() -> None:
    """In the spelling of each program, and never for what runs inside."""
    variables = proxy_variables()

    assert variables["https_proxy"] == variables["HTTPS_PROXY"] == variables["http_proxy"] == "http://127.0.0.1:3128"
    assert "127.0.0.1" in variables["NO_PROXY"]
