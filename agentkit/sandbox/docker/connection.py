"""HTTP to a Docker engine where the library would tie up a thread, or lose the first bytes of an upgraded stream.

Everything is read through one buffer, the answer's head as well as what follows it (report 10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from agentkit.sandbox.docker.client import Address, meaning_of_answer, unavailable

#: Of a stream that nobody reads no more is kept in memory; twice this, by asyncio's rule.
BUFFER = 64 << 10
_CONNECT_TIMEOUT = 30


class DockerStream:
    """One connection to the engine, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read_body(self) -> bytes:
        """Return all that comes until the engine closes the connection."""
        return await self.reader.read(-1)

    async def close(self) -> None:
        """Drop the connection."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def request(address: Address, path: str, body: Mapping[str, Any] | None = None) -> DockerStream:
    """Post to the engine and return the stream of its answer, behind the head.

    Args:
        address: Where it listens.
        path: With the version of the API and a query.
        body: What is posted; a request with a body asks for a two-way stream.

    Raises:
        EngineUnavailableError: It can't be reached.
        SandboxError: It refuses; what the refusal means.
    """
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            stream = await _connect(address)
    except OSError as error:
        raise unavailable(address, error) from error
    try:
        status = await _send(stream, address, path, body)
        if status >= 400:
            raise meaning_of_answer(status, _explanation(await stream.read_body()))
    except (OSError, EOFError, ValueError) as error:
        await stream.close()
        raise unavailable(address, error) from error
    except BaseException:
        await stream.close()
        raise
    return stream


async def _connect(address: Address) -> DockerStream:
    if address.path is not None:
        return DockerStream(*await asyncio.open_unix_connection(address.path, limit=BUFFER))
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls, limit=BUFFER)
    # Found broken within minutes though nothing is sent.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return DockerStream(reader, writer)


async def _send(stream: DockerStream, address: Address, path: str, body: Mapping[str, Any] | None) -> int:
    """Send a request, read the head of the answer and return its status."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [
        f"POST {path} HTTP/1.1",
        f"Host: {address.host or 'localhost'}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *(["Connection: close"] if body is None else ["Connection: Upgrade", "Upgrade: tcp"]),
    ]
    stream.writer.write("\r\n".join([*head, "", ""]).encode() + content)
    await stream.writer.drain()
    answer = await stream.reader.readuntil(b"\r\n\r\n")
    return int(answer.partition(b" ")[2][:3])


def _explanation(body: bytes) -> str:
    """Return the message in an answer, whatever the form of its transfer."""
    start, end = body.find(b"{"), body.rfind(b"}")
    try:
        return str(json.loads(body[start : end + 1])["message"])
    except (ValueError, KeyError):
        return body.decode(errors="replace")
