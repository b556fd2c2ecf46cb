"""The way out of a sandbox with an ``Allowlist``: a proxy in the owner's process, which connects for the programs.

The runner listens on the sandbox's loopback interface and hands each connection to ``AllowlistProxy.handle``. The name
asked for is looked up here, once; the addresses found are checked, and the connection goes to one of them (SPEC 12.9).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

import h11

from agentkit.sandbox.guest import PROXY_PORT, Connection
from agentkit.sandbox.network.addresses import objection_to
from agentkit.sandbox.network.exchange import Exchange
from agentkit.sandbox.network.relay import BROKEN, Relay, StreamConnection
from agentkit.sandbox.network.request import MAX_HEAD, PORTS, ProxyRequest, RefusedError, check_head, read_request

logger = logging.getLogger(__name__)

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Connector = Callable[[str, int], Awaitable[Connection]]

#: Connections of one sandbox at a time: what runs inside must not use up the owner's.
MAX_CONNECTIONS: Final = 128
#: A look-up may hold its thread for long, and a name server can be slow on purpose.
_LOOKUP_THREADS: Final = 4
_MAX_REMEMBERED: Final = 1_000
_LINGER: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something inside asked for a host that it may not reach.

    Attributes:
        host: Its name, as was asked for.
        port: Which port.
        reason: Why not.
    """

    host: str
    port: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTimeouts:
    """How long the proxy waits.

    Attributes:
        head: For a program to say what it wants.
        connect: For a name to be found, and again for each address to answer.
        idle: While nothing is sent either way.
    """

    head: timedelta = timedelta(seconds=30)
    connect: timedelta = timedelta(seconds=10)
    idle: timedelta = timedelta(minutes=10)


class AllowlistProxy:
    """Lets the programs of one sandbox reach hosts by name, over HTTP and HTTPS, and nothing else.

    A tunnel's content is not read: what a host makes of a TLS name or ``Host`` other than its own is up to that host.
    The proxies named in the owner's environment are not used, for they would look names up again.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        on_refused: Callable[[Refused], None] | None = None,
        resolve: Resolver | None = None,
        connect: Connector | None = None,
        objection: Callable[[str], str | None] = objection_to,
        timeouts: ProxyTimeouts | None = None,
    ) -> None:
        """Put a proxy together; it opens nothing by itself.

        Args:
            hosts: Those of an ``Allowlist``: names, or ``*.name`` for every name below one.
            on_refused: Told once of each host and port that was refused; by default it is logged.
            resolve: Finds the addresses of a name.
            connect: Connects to an address.
            objection: Says why an address may not be reached, or None.
            timeouts: How long to wait.
        """
        self._names = frozenset(host for host in hosts if not host.startswith("*."))
        self._suffixes = tuple(host[1:] for host in hosts if host.startswith("*."))
        self._on_refused = on_refused or _log_refused
        self._resolve = resolve or self._resolve_by_system
        self._connect = connect or connect_by_system
        self._objection = objection
        self._timeouts = timeouts or ProxyTimeouts()
        # Threads of its own: those of the owner are never used up by names that something inside asks for.
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="agentkit-names")
        self._told: set[tuple[str, int]] = set()
        self._open = 0

    async def handle(self, connection: Connection) -> None:
        """Serve one connection from inside, to its end: one request, or one tunnel. Errors of either side end it."""
        self._open += 1
        try:
            # Far too many get not even a refusal, which takes its time.
            if self._open <= 2 * MAX_CONNECTIONS:
                await self._serve(connection)
        except (*BROKEN, h11.ProtocolError) as error:
            logger.debug("a connection of a sandbox's proxy broke: %s", error)
        finally:
            self._open -= 1
            with suppress(*BROKEN):
                await connection.close()

    async def close(self) -> None:
        """Let go of the threads; connections end with the way into the instance."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, inside: Connection) -> None:
        try:
            if self._open > MAX_CONNECTIONS:
                raise RefusedError(503, f"this sandbox has {MAX_CONNECTIONS} connections open, and may have no more")
            head, rest = await self._read_head(inside)
            reader = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
            request = _parse(reader, head)
            upstream = await self._reach(request)
        except RefusedError as refusal:
            return await self._refuse(inside, refusal)
        try:
            if request.is_tunnel:
                await self._tunnel(inside, upstream, rest)
            else:
                if rest:  # nothing would mean the end
                    reader.receive_data(rest)
                await self._exchange(Exchange(inside, reader, upstream, idle=self._timeouts.idle), inside, request)
        finally:
            await upstream.close()

    async def _read_head(self, inside: Connection) -> tuple[bytes, bytes]:
        buffer = bytearray()
        try:
            async with asyncio.timeout(self._timeouts.head.total_seconds()):
                while (end := buffer.find(b"\r\n\r\n")) < 0:
                    if len(buffer) > MAX_HEAD:
                        raise RefusedError(431, f"the head of the request has more than {MAX_HEAD:,} bytes")
                    data = await inside.read()
                    if not data:
                        raise RefusedError(400, "the request ended within its head")
                    buffer += data
        except TimeoutError:
            raise RefusedError(408, "the request took too long to come") from None
        if end > MAX_HEAD:
            raise RefusedError(431, f"the head of the request has more than {MAX_HEAD:,} bytes")
        return bytes(buffer[: end + 4]), bytes(buffer[end + 4 :])

    async def _reach(self, request: ProxyRequest) -> Connection:
        host, port = request.host, request.port
        if host not in self._names and not host.endswith(self._suffixes):
            raise RefusedError(403, "it is not on the sandbox's Allowlist", host=host, port=port)
        if port not in PORTS:
            raise RefusedError(403, "only the ports 80 and 443 may be reached", host=host, port=port)
        addresses = await self._look_up(host, port)
        objections = {address: self._objection(address) for address in addresses}
        public = [address for address, objection in objections.items() if objection is None]
        if not public:
            kinds = ", ".join(sorted({str(objection) for objection in objections.values()}))
            raise RefusedError(403, f"its address is not of the public internet ({kinds})", host=host, port=port)
        return await self._first_that_answers(public, host, port)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(self._timeouts.connect.total_seconds()):
                addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise RefusedError(502, f"the name {host!r} is not found")
        return addresses

    async def _resolve_by_system(self, host: str, port: int) -> Sequence[str]:
        find = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, find)
        # The preferred one comes first.
        return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))

    async def _first_that_answers(self, addresses: Sequence[str], host: str, port: int) -> Connection:
        for address in addresses[:8]:
            with suppress(OSError):
                async with asyncio.timeout(self._timeouts.connect.total_seconds()):
                    return await self._connect(address, port)
        raise RefusedError(502, f"no address of {host!r} answers on port {port}")

    async def _tunnel(self, inside: Connection, upstream: Connection, rest: bytes) -> None:
        await inside.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        if rest:
            await upstream.write(rest)
        await Relay(inside, upstream, idle=self._timeouts.idle).run()

    async def _exchange(self, exchange: Exchange, inside: Connection, request: ProxyRequest) -> None:
        try:
            await exchange.run(request)
        except (OSError, h11.ProtocolError) as error:
            if exchange.has_answered:
                raise
            refusal = RefusedError(502, f"{request.host!r} and the program don't understand each other: {error}")
            return await self._refuse(inside, refusal)
        await inside.end()

    async def _refuse(self, inside: Connection, refusal: RefusedError) -> None:
        if refusal.host:
            self._tell(Refused(host=refusal.host, port=refusal.port, reason=refusal.reason))
        await inside.write(_response(refusal))
        await inside.end()
        # Closing while the program still sends would make its system drop what it hasn't read yet.
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while await inside.read():
                    pass

    def _tell(self, refused: Refused) -> None:
        key = (refused.host, refused.port)
        if key in self._told or len(self._told) >= _MAX_REMEMBERED:
            return
        self._told.add(key)
        self._on_refused(refused)


def proxy_variables() -> dict[str, str]:
    """Return the variables by which programs inside find the proxy."""
    address = f"http://127.0.0.1:{PROXY_PORT}"
    variables = {"http_proxy": address, "https_proxy": address, "all_proxy": address}
    variables["no_proxy"] = "localhost,127.0.0.1,::1"
    return {**variables, **{name.upper(): value for name, value in variables.items()}}


async def connect_by_system(address: str, port: int) -> Connection:
    """Connect to an address; there is no name that could be looked up."""
    return StreamConnection(*await asyncio.open_connection(address, port))


def _parse(reader: h11.Connection, head: bytes) -> ProxyRequest:
    check_head(head)
    reader.receive_data(head)
    try:
        event = reader.next_event()
    except h11.RemoteProtocolError as error:
        raise RefusedError(error.error_status_hint, f"the request is no HTTP: {error}") from None
    if not isinstance(event, h11.Request):
        raise RefusedError(400, "the request is no HTTP")
    return read_request(event)


def _response(refusal: RefusedError) -> bytes:
    status = HTTPStatus(refusal.status)
    reason, text = status.phrase, refusal.reason
    if refusal.host:
        # Many programs show no more than this line.
        reason = f"{status.phrase} by agentkit ({refusal.host}:{refusal.port})"
        text = f"the sandbox may not reach {refusal.host}:{refusal.port}: {text}"
    if refusal.status == 403 and "Allowlist" in text:
        text += f"; its owner can add it: SandboxSpec(network=Allowlist([..., {refusal.host!r}]))"
    body = f"agentkit: {text}.\n".encode("utf-8", "replace")
    headers = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return f"HTTP/1.1 {refusal.status} {reason}\r\n{headers}".encode("latin-1", "replace") + body


def _log_refused(refused: Refused) -> None:
    logger.warning("a sandbox may not reach %s:%d: %s", refused.host, refused.port, refused.reason)
