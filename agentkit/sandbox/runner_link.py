"""The owner's end of the channel to a runner: calls go out, frames come in, each to the call it belongs to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.channel import Channel
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner_errors import error_of

logger = logging.getLogger(__name__)

Reply = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a runner may be silent, in seconds.

    Attributes:
        ping: While something is under way, the runner is asked this often whether it is there.
        silence: After this long without a word the connection counts as dead.
        overdue: So much later than its time limit a command has ended, or the connection counts as dead.
        cancel: How long whoever cancelled something waits for its end.
    """

    ping: float = 5
    silence: float = 30
    overdue: float = 15
    cancel: float = 10


class LinkCall:
    """One call: what is sent for it, and what comes of it.

    Attributes:
        id: What its frames carry.
        reply: How it ended, once it has.
    """

    __slots__ = ("_changed", "_credit", "_frames", "_link", "_taken", "id", "reply")

    def __init__(self, link: RunnerLink, call_id: int) -> None:
        self._link = link
        self.id = call_id
        self._frames: deque[tuple[int, bytes]] = deque()
        self._credit = frames.WINDOW
        self._taken = {frames.OUTPUT: 0, frames.ERRORS: 0}
        self._changed: list[asyncio.Future[None]] = []
        self.reply: Reply | None = None

    def receive(self, kind: int, payload: bytes) -> None:
        """Take a frame; the link calls this."""
        if kind == frames.CREDIT:
            self._credit += frames.decode_credit(payload)[1]
        else:
            if kind == frames.END:
                self.reply = json.loads(payload)
            self._frames.append((kind, payload))
        self.wake()

    def wake(self) -> None:
        """Let all go on who wait; they look for themselves at what has changed."""
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _change(self) -> None:
        self._link.check()
        future = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        await future

    async def next(self) -> tuple[int, bytes]:
        """Return the next frame: ``OUTPUT``, ``ERRORS``, ``OUTPUT_END``, or ``END``, the last.

        Raises:
            SandboxConnectionError: The channel has ended.
            SandboxError: The call failed; the error says how.
        """
        while not self._frames:
            await self._change()
        kind, payload = self._frames.popleft()
        if kind in self._taken:
            self._taken[kind] += len(payload)
            if self._taken[kind] >= frames.WINDOW // 4:
                self._link.send_bytes(frames.encode_credit(self.id, kind, self._taken[kind]))
                self._taken[kind] = 0
        elif kind == frames.END and self.reply is not None and "error" in self.reply:
            raise error_of(self.reply)
        return kind, payload

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
        assert self.reply is not None
        sent = self.reply.get("sent", counts)
        if list(sent) != list(counts):
            raise SandboxConnectionError(f"of the {sent} bytes that were sent only {list(counts)} came")

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
            self._link.send(self.id, frames.INPUT, piece)

    def end_input(self) -> None:
        """Send that no input comes any more."""
        self._link.send(self.id, frames.INPUT_END)


class RunnerLink:
    """Multiplexes calls over one channel.

    Attributes:
        on_accepted: Gets the calls that the runner begins, by the id of the owner's call that they belong to.
    """

    def __init__(
        self, channel: Channel, patience: Patience, is_paused: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._channel = channel
        self.patience = patience
        self._is_paused = is_paused
        self._calls: dict[int, LinkCall] = {}
        self._last_id = 0
        self._outgoing: deque[bytes] = deque()
        self._has_outgoing = asyncio.Event()
        self._has_calls = asyncio.Event()
        self._heard = asyncio.Event()
        self._ended = asyncio.Event()
        self._why: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.on_accepted: dict[int, Callable[[LinkCall], None]] = {}

    @property
    def is_open(self) -> bool:
        """Frames still come and go."""
        return self._why is None

    def check(self) -> None:
        """Make sure that the channel is there.

        Raises:
            SandboxConnectionError: It isn't.
        """
        if self._why is not None:
            raise SandboxConnectionError(self._why)

    def start(self, decoder: frames.Decoder) -> None:
        """Begin to read and write; ``decoder`` may hold the beginning of a frame."""
        self._tasks = [asyncio.create_task(work) for work in (self._read(decoder), self._write(), self._watch())]

    # calls

    @contextlib.asynccontextmanager
    async def call(self, op: str, **arguments: Any) -> AsyncIterator[LinkCall]:
        """Begin a call; one that is left before its end is cancelled, and its end is waited for.

        Raises:
            SandboxConnectionError: The channel has ended.
        """
        call = self.begin(op, **arguments)
        try:
            yield call
        finally:
            await self.leave(call)

    def begin(self, op: str, **arguments: Any) -> LinkCall:
        """Begin a call that lasts; whoever does must ``leave`` it.

        Raises:
            SandboxConnectionError: The channel has ended.
        """
        self.check()
        self._last_id += 1
        call = self._add(self._last_id)
        self.send(call.id, frames.OPEN, json.dumps({"op": op, **arguments}).encode())
        return call

    async def ask(self, op: str, **arguments: Any) -> Reply:
        """Carry out a call that is nothing but a question and an answer.

        Raises:
            SandboxConnectionError: The channel has ended.
            SandboxError: It failed; the error says how.
        """
        async with self.call(op, **arguments) as call:
            return await call.result()

    def _add(self, call_id: int) -> LinkCall:
        call = self._calls[call_id] = LinkCall(self, call_id)
        self._has_calls.set()
        return call

    async def leave(self, call: LinkCall) -> None:
        """Cancel a call that hasn't ended, and forget it."""
        try:
            if call.reply is None and self.is_open:
                self.send(call.id, frames.CANCEL)
                with contextlib.suppress(TimeoutError, SandboxConnectionError):
                    async with asyncio.timeout(self.patience.cancel):
                        await call.ended()
        finally:
            self._calls.pop(call.id, None)
            if not self._calls:
                self._has_calls.clear()

    # the wire

    def send(self, call: int, kind: int, payload: bytes = b"") -> None:
        """Queue a frame. Only input is long, and waits for credits; so the queue stays short."""
        self.send_bytes(frames.encode(call, kind, payload))

    def send_bytes(self, data: bytes) -> None:
        """Queue bytes."""
        self._outgoing.append(data)
        self._has_outgoing.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._has_outgoing.wait()
                data = b"".join(self._outgoing)
                self._outgoing.clear()
                self._has_outgoing.clear()
                await self._channel.write(data)
        except SandboxConnectionError as error:
            self.end(str(error))

    async def _read(self, decoder: frames.Decoder) -> None:
        try:
            self._dispatch(decoder.feed(b""))
            while data := await self._channel.read():
                self._heard.set()
                self._dispatch(decoder.feed(data))
        except (SandboxConnectionError, ValueError) as error:
            self.end(str(error))
        else:
            said = self._channel.errors().strip()[-500:]
            self.end(f"the runner inside the sandbox has ended{': ' if said else ''}{said}")

    def _dispatch(self, received: list[tuple[int, int, bytes]]) -> None:
        for call_id, kind, payload in received:
            if kind == frames.ACCEPT:
                self.on_accepted[json.loads(payload)["parent"]](self._add(call_id))
            elif call_id in self._calls:
                self._calls[call_id].receive(kind, payload)

    async def _watch(self) -> None:
        """Ask now and then whether the runner is there, while anybody waits for it."""
        silent = 0.0
        while True:
            await self._has_calls.wait()
            self._heard.clear()
            self.send(0, frames.PING)
            if await _happens(self._ended, self.patience.ping):
                return
            silent = 0.0 if self._heard.is_set() else silent + self.patience.ping
            if silent >= self.patience.silence and not (self._is_paused is not None and await self._is_paused()):
                self.end(f"nothing was heard from inside the sandbox for {silent:g} s")

    def end(self, why: str) -> None:
        """Let everything fail that is under way or asked for later."""
        if self._why is None:
            self._why = why
            self._ended.set()
            for call in list(self._calls.values()):
                call.wake()

    async def close(self) -> None:
        """Close the channel; whatever is under way fails."""
        self.end("the way into the sandbox was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; False if it hasn't come after so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
