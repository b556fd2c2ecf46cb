"""Streamed answers as servers send them: with respx, or over a socket from a server of our own on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

URL = "https://models.example/v1"
CHAT = f"{URL}/chat/completions"
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "other", "choices": [choice], **more}


def text(*words: str) -> list[dict[str, Any]]:
    """Return chunks of text."""
    return [chunk({"role": "assistant", "content": word}) for word in words]


def call(index: int, id: str | None, name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    """Return a chunk with a part of a call."""
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function, **more}]})


def end(finish: str = "stop") -> dict[str, Any]:
    """Return the chunk that says why an answer ended."""
    return chunk({}, finish)


def usage(sent: int, answered: int) -> dict[str, Any]:
    """Return the chunk that says what an answer took."""
    counted = {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered}
    return {**chunk({}), "choices": [], "usage": counted}


def sse(chunks: Iterable[Any], *, is_done: bool = True) -> bytes:
    """Return a stream of chunks as bytes."""
    lines = [
        each if isinstance(each, str) else json.dumps(each) for each in [*chunks, *(["[DONE]"] if is_done else [])]
    ]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def streamed(chunks: Iterable[Any], *, is_done: bool = True) -> httpx.Response:
    """Return a response that streams chunks."""
    return httpx.Response(200, headers=STREAM, content=sse(chunks, is_done=is_done))


def refused(status: int, message: str = "no", headers: dict[str, str] | None = None, **error: Any) -> httpx.Response:
    """Return a response with an error."""
    return httpx.Response(status, json={"error": {"message": message, **error}}, headers=headers)


@dataclass(slots=True)
class Server:
    """What a server on loopback answers, request by request, and what it was sent.

    Attributes:
        answers: Whole responses as bytes; the last goes on for ever. The connection is closed behind each, whatever the
            response promised.
    """

    answers: list[bytes]
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(head.split("content-length:")[1].split("\r\n")[0])
            self.bodies.append(json.loads(await reader.readexactly(size)))
            writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
            await writer.drain()
        writer.close()


def response(content: bytes, *, cut: int = 0) -> bytes:
    """Return a response as bytes; ``cut`` of its end are promised and not sent."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content[: len(content) - cut]


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[Server]:
    """Serve answers on a free port of loopback."""
    server = Server(list(answers))
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
