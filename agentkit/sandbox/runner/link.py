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
from agentkit.sandbox.runner.call import LinkCall
from agentkit.sandbox.runner.replies import Reply, parse

logger = logging.getLogger(__name__)

#: More bytes than this are not held for a runner that takes nothing.
_MOST_QUEUED = 64 << 20
#: The runner hands over so many connections at a time; those beyond are dropped.
_MOST_ACCEPTED = 256


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
        self._queued = 0
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
        self._queued += len(data)
        self._has_outgoing.set()
        if self._queued > _MOST_QUEUED:
            self.end("the runner inside the sandbox takes nothing")

    async def _write(self) -> None:
        try:
            while True:
                await self._has_outgoing.wait()
                data = b"".join(self._outgoing)
                self._outgoing.clear()
                self._queued = 0
                self._has_outgoing.clear()
                await self._channel.write(data)
        except SandboxConnectionError as error:
            self.end(str(error))

    async def _read(self, decoder: frames.Decoder) -> None:
        try:
            self._dispatch(decoder.feed(b""))
            while self.is_open and (data := await self._channel.read()):
                self._heard.set()
                self._dispatch(decoder.feed(data))
        except SandboxConnectionError as error:
            self.end(str(error))
        except ValueError as error:
            # Not the runner's fault: whatever has its user's rights inside can write to its pipes.
            self.end(f"what came from inside the sandbox can't be read: {error}")
        else:
            said = self._channel.errors().strip()[-500:]
            self.end(f"the runner inside the sandbox has ended{': ' if said else ''}{said}")

    def _dispatch(self, received: list[tuple[int, int, bytes]]) -> None:
        for call_id, kind, payload in received:
            if kind == frames.ACCEPT:
                self._accept(call_id, parse(payload))
            elif call_id in self._calls:
                self._calls[call_id].receive(kind, payload)

    def _accept(self, call_id: int, told: Reply) -> None:
        parent = told.get("parent")
        handle = self.on_accepted.get(parent) if isinstance(parent, int) else None
        if handle is None or call_id < frames.FIRST_ACCEPTED or call_id in self._calls:
            raise ValueError("a connection that nobody waits for")
        if sum(known >= frames.FIRST_ACCEPTED for known in self._calls) >= _MOST_ACCEPTED:
            self.send(call_id, frames.CANCEL)
        else:
            handle(self._add(call_id))

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
