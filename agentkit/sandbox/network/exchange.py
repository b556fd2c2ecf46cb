"""Carry one plain HTTP request to its server and the response back, both read and written anew, never passed as bytes.

What the server gets is therefore one request and nothing else, whatever a program inside hid in it (SPEC 12.9).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import h11

from agentkit.errors import SandboxError
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.network.request import ProxyRequest, for_next

#: Of a response's head; servers on the internet send long ones.
MAX_RESPONSE_HEAD: Final = 128 << 10
_CLOSE: Final = (b"connection", b"close")

Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Exchange:
    """One request and its response; ``has_answered`` tells whether any of the latter has reached the program."""

    def __init__(self, inside: Connection, reader: h11.Connection, upstream: Connection, *, idle: timedelta) -> None:
        """Join two connections.

        Args:
            inside: To the program.
            reader: Has read the request's head, and may hold some of its body.
            upstream: To the server.
            idle: Nothing for this long ends it.
        """
        self._inside = inside
        self._reader = reader
        self._upstream = upstream
        self._writer = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_RESPONSE_HEAD)
        self._idle = idle.total_seconds()
        self.has_answered = False

    async def run(self, request: ProxyRequest) -> None:
        """Carry it; the response may end before the request's body has.

        Raises:
            h11.ProtocolError: One side doesn't speak HTTP.
            OSError: A connection broke, or nothing came for too long.
            SandboxError: The instance, or the way into it, is gone.
        """
        headers = [(b"host", request.authority.encode()), *request.headers, *request.framing, _CLOSE]
        head = h11.Request(method=request.method, target=request.target, headers=headers)
        await self._send(head)
        asking = asyncio.create_task(self._ask())
        answering = asyncio.create_task(self._answer())
        try:
            await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await asking
            await answering
        finally:
            asking.cancel()
            answering.cancel()
            await asyncio.wait([asking, answering])

    async def _ask(self) -> None:
        while True:
            event = await self._next(self._reader, self._inside)
            match event:
                case h11.Data(data=data):
                    await self._send(h11.Data(data=bytes(data)))
                case h11.EndOfMessage():
                    return await self._send(h11.EndOfMessage())
                case _:
                    raise h11.RemoteProtocolError("the request ended within its body")

    async def _send(self, event: h11.Event) -> None:
        data = self._writer.send(event)
        try:
            await self._upstream.write(data or b"")
        except OSError as error:
            # A server may refuse a body it doesn't want and close; its answer is still to be read.
            if isinstance(error, SandboxError):
                raise

    async def _answer(self) -> None:
        while True:
            event = await self._next(self._writer, self._upstream)
            match event:
                case h11.InformationalResponse(status_code=100):
                    await self._reply(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
                case h11.InformationalResponse():
                    pass
                case h11.Response():
                    await self._reply(_passed_on(event))
                case h11.Data(data=data):
                    await self._reply(h11.Data(data=bytes(data)))
                case h11.EndOfMessage():
                    return await self._reply(h11.EndOfMessage())
                case _:
                    raise h11.RemoteProtocolError("the server closed the connection without an answer")

    async def _reply(self, event: h11.Event) -> None:
        self.has_answered = True
        await self._inside.write(self._reader.send(event) or b"")

    async def _next(self, parser: h11.Connection, source: Connection) -> Event:
        while (event := parser.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(self._idle):
                parser.receive_data(await source.read())
        return event


def _passed_on(response: h11.Response) -> h11.Response:
    is_chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
    lengths = [(name, value) for name, value in response.headers if name == b"content-length" and not is_chunked]
    headers = [*for_next(response.headers.raw_items()), *lengths, _CLOSE]
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)
