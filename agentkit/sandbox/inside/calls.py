"""The runner's end of the channel: frames in, frames out, and the streams of each call with their credits."""

from __future__ import annotations

import json
import os
from collections import deque

from agentkit.sandbox.inside import frames
from agentkit.sandbox.inside.loop import Event, Loop, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: More than this isn't queued for the owner by streams that have credit; answers are always queued.
QUEUE = 1 << 20


class RefusedError(Exception):
    """A call that can't be carried out; ``reply`` tells the owner which error to raise."""

    def __init__(self, error: str, **facts: Any) -> None:
        self.reply = {"error": error, **facts}
        super().__init__(repr(self.reply))


def refused_file(error: OSError, path: str) -> RefusedError:
    """Return what the owner is told of a file operation that failed."""
    return RefusedError("file", path=path, number=error.errno or 0, reason=error.strerror or str(error))


class Channel:
    """Standard input and output of the runner, non-blocking.

    Attributes:
        queued: Bytes that the owner hasn't taken.
    """

    def __init__(self, loop: Loop, incoming: int, outgoing: int) -> None:
        self._loop = loop
        self._incoming = incoming
        self._outgoing = outgoing
        self._queue: deque[bytes] = deque()
        self.queued = 0
        self._has_output = Event(loop)
        self._sent = Event(loop)
        self._has_room = Event(loop)
        self._has_room.set()
        os.set_blocking(incoming, False)
        os.set_blocking(outgoing, False)

    def send(self, call: int, kind: int, payload: bytes = b"") -> None:
        """Queue a frame."""
        self.send_bytes(frames.encode(call, kind, payload))

    def send_bytes(self, data: bytes) -> None:
        """Queue bytes."""
        self._queue.append(data)
        self.queued += len(data)
        self._has_output.set()
        if self.queued > QUEUE:
            self._has_room.clear()

    async def flushed(self, until: float) -> None:
        """Wait until the owner has taken all, or until a moment."""
        while self.queued and await self._sent.wait(until):
            self._sent.clear()

    async def room(self) -> None:
        """Wait until the owner has taken enough of what is queued."""
        # Another, woken at the same time, may have filled it again.
        while not self._has_room.is_set:
            await self._has_room.wait()

    async def read(self) -> bytes:
        """Return what came next, or nothing at the end."""
        while True:
            try:
                return os.read(self._incoming, 256 << 10)
            except BlockingIOError:
                await self._loop.readable(self._incoming)
            except OSError:
                return b""

    async def flush(self) -> None:
        """Send what is queued, for ever, or until the owner is gone."""
        while True:
            await self._has_output.wait()
            data = self._queue.popleft()
            if len(self._queue) > 0 and len(data) < frames.CHUNK:
                data = self._join(data)
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._outgoing, view) :]
                except BlockingIOError:
                    await self._loop.writable(self._outgoing)
                except OSError:
                    return
            self.queued -= len(data)
            self._sent.set()
            if self.queued <= QUEUE:
                self._has_room.set()
            if not self._queue:
                self._has_output.clear()

    def _join(self, data: bytes) -> bytes:
        """Return this and what comes after it, as one write of bearable size."""
        parts = [data]
        size = len(data)
        while self._queue and size < frames.CHUNK:
            parts.append(self._queue.popleft())
            size += len(parts[-1])
        return b"".join(parts)


class Outflow:
    """One stream of a call towards the owner."""

    __slots__ = ("_call", "_channel", "_credited", "_kind", "credit", "sent")

    def __init__(self, loop: Loop, channel: Channel, call: int, kind: int) -> None:
        self._channel = channel
        self._call = call
        self._kind = kind
        self._credited = Event(loop)
        self.credit = frames.WINDOW
        self.sent = 0

    def add(self, count: int) -> None:
        """Note that the owner takes so many more bytes."""
        self.credit += count
        self._credited.set()

    async def room(self) -> int:
        """Wait until something may be sent; return how much, at most one chunk."""
        await self._channel.room()
        while self.credit <= 0:
            self._credited.clear()
            await self._credited.wait()
        return min(self.credit, frames.CHUNK)

    def send(self, data: bytes) -> None:
        """Send what there is room for."""
        self.credit -= len(data)
        self.sent += len(data)
        self._channel.send(self._call, self._kind, data)

    async def send_all(self, data: bytes) -> None:
        """Send in pieces, as there is room."""
        start = 0
        while start < len(data):
            count = await self.room()
            self.send(data[start : start + count])
            start += count


class Inflow:
    """The stream of a call from the owner."""

    __slots__ = ("_call", "_changed", "_channel", "_ended", "_parts")

    def __init__(self, loop: Loop, channel: Channel, call: int) -> None:
        self._channel = channel
        self._call = call
        self._changed = Event(loop)
        self._parts: deque[bytes] = deque()
        self._ended = False

    def add(self, data: bytes) -> None:
        """Take what came."""
        self._parts.append(data)
        self._changed.set()

    def end(self) -> None:
        """Note that nothing else comes."""
        self._ended = True
        self._changed.set()

    async def read(self) -> bytes:
        """Return what came next, or nothing at the end; whoever reads on has dealt with what came before."""
        while not self._parts:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = self._parts.popleft()
        self._channel.send_bytes(frames.encode_credit(self._call, frames.INPUT, len(data)))
        return data


class Call:
    """One thing that is asked of the runner, or a connection that it hands over.

    Attributes:
        request: What is asked, with its arguments.
        task: What carries it out.
    """

    __slots__ = ("_channel", "errors", "id", "input", "output", "request", "task")

    def __init__(self, loop: Loop, channel: Channel, call_id: int, request: dict[str, Any]) -> None:
        self._channel = channel
        self.id = call_id
        self.request = request
        self.input = Inflow(loop, channel, call_id)
        self.output = Outflow(loop, channel, call_id, frames.OUTPUT)
        self.errors = Outflow(loop, channel, call_id, frames.ERRORS)
        self.task: Task | None = None

    def receive(self, kind: int, payload: bytes) -> None:
        """Take a frame for this call."""
        if kind == frames.INPUT:
            self.input.add(payload)
        elif kind == frames.INPUT_END:
            self.input.end()
        elif kind == frames.CREDIT:
            stream, count = frames.decode_credit(payload)
            (self.output if stream == frames.OUTPUT else self.errors).add(count)
        elif kind == frames.CANCEL and self.task is not None:
            self.task.cancel()

    def end_output(self) -> None:
        """Tell that no output comes any more, while the call goes on."""
        self._channel.send(self.id, frames.OUTPUT_END)

    def end(self, reply: dict[str, Any]) -> None:
        """Tell how it ended."""
        self._channel.send(self.id, frames.END, json.dumps(reply).encode())
