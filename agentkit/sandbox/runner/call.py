"""One call to a runner: what is sent for it, held back by credits, and what comes of it, bounded by them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner.replies import Reply, error_of, parse

#: A call has no more frames than this besides those of its streams.
_SIGNS = 4


class Wire(Protocol):
    """What a call needs of its link."""

    def check(self) -> None:
        """Make sure that the channel is there.

        Raises:
            SandboxConnectionError: It isn't.
        """

    def send_bytes(self, data: bytes) -> None:
        """Queue bytes."""


class LinkCall:
    """One call, or a connection that the runner has handed over.

    Attributes:
        id: What its frames carry.
        reply: How it ended, once it has.
    """

    __slots__ = ("_changed", "_credit", "_frames", "_owed", "_signs", "_taken", "_wire", "id", "reply")

    def __init__(self, wire: Wire, call_id: int) -> None:
        self._wire = wire
        self.id = call_id
        self._frames: deque[tuple[int, bytes]] = deque()
        self._credit = frames.WINDOW
        self._taken = {frames.OUTPUT: 0, frames.ERRORS: 0}
        # Bytes of each stream that came since they were credited, which a runner keeps to a window.
        self._owed = {frames.OUTPUT: 0, frames.ERRORS: 0}
        self._signs = 0
        self._changed: list[asyncio.Future[None]] = []
        self.reply: Reply | None = None

    # what comes

    def receive(self, kind: int, payload: bytes) -> None:
        """Take a frame; the link calls this.

        Raises:
            ValueError: No runner sends this.
        """
        if kind in self._owed:
            self._owed[kind] += len(payload)
            if not payload or self._owed[kind] > frames.WINDOW:
                raise ValueError("more than was asked for")
            self._frames.append((kind, payload))
        elif kind == frames.CREDIT:
            stream, count = frames.decode_credit(payload)
            if stream != frames.INPUT or self._credit + count > frames.WINDOW:
                raise ValueError("a credit for what wasn't sent")
            self._credit += count
        elif kind in (frames.END, frames.OUTPUT_END, frames.READY) and self._signs < _SIGNS:
            self._signs += 1
            if kind == frames.END:
                self.reply = parse(payload)
            self._frames.append((kind, b""))
        else:
            raise ValueError(f"a frame of kind {kind}")
        self.wake()

    def wake(self) -> None:
        """Let all go on who wait; they look for themselves at what has changed."""
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _change(self) -> None:
        self._wire.check()
        future = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        await future

    async def next(self) -> tuple[int, bytes]:
        """Return the next frame: ``READY``, ``OUTPUT``, ``ERRORS``, ``OUTPUT_END``, or ``END``, the last.

        Raises:
            SandboxConnectionError: The channel has ended.
            SandboxError: The call failed; the error says how.
        """
        while not self._frames:
            await self._change()
        kind, payload = self._frames.popleft()
        if kind in self._taken:
            self._take(kind, len(payload))
        elif kind == frames.END and self.reply is not None and "error" in self.reply:
            raise error_of(self.reply)
        return kind, payload

    def _take(self, kind: int, count: int) -> None:
        self._taken[kind] += count
        if self._taken[kind] >= frames.WINDOW // 4:
            self._owed[kind] -= self._taken[kind]
            self._wire.send_bytes(frames.encode_credit(self.id, kind, self._taken[kind]))
            self._taken[kind] = 0

    async def output(self) -> AsyncIterator[bytes]:
        """Yield all output.

        Raises:
            SandboxConnectionError: The channel has ended, or some of it is missing.
            SandboxError: The call failed; the error says how.
        """
        received = 0
        while True:
            kind, payload = await self.next()
            if kind == frames.END:
                break
            received += len(payload)
            yield payload
        self.check_received(received)

    def check_received(self, *counts: int) -> None:
        """Make sure that nothing was lost on the way.

        Raises:
            SandboxConnectionError: The runner has sent another number of bytes of a stream.
        """
        sent = (self.reply or {}).get("sent")
        if sent != list(counts):
            raise SandboxConnectionError(f"of {sent} bytes that were sent only {list(counts)} came")

    async def result(self) -> Reply:
        """Wait for the end and return the reply.

        Raises:
            SandboxConnectionError: The channel has ended.
            SandboxError: The call failed; the error says how.
        """
        while (await self.next())[0] != frames.END:
            continue
        assert self.reply is not None
        return self.reply

    async def ended(self) -> None:
        """Wait for the end; what comes before it is dropped.

        Raises:
            SandboxConnectionError: The channel has ended.
        """
        while self.reply is None:
            self._frames.clear()
            await self._change()

    # what is sent

    async def send(self, data: bytes) -> None:
        """Send input; waits while the other side takes nothing, and drops what a call that has ended can't take.

        Raises:
            SandboxConnectionError: The channel has ended.
        """
        start = 0
        while start < len(data) and self.reply is None:
            if self._credit <= 0:
                await self._change()
                continue
            piece = data[start : start + min(self._credit, frames.CHUNK)]
            self._credit -= len(piece)
            start += len(piece)
            self._wire.send_bytes(frames.encode(self.id, frames.INPUT, piece))

    def end_input(self) -> None:
        """Send that no input comes any more."""
        self._wire.send_bytes(frames.encode(self.id, frames.INPUT_END))
