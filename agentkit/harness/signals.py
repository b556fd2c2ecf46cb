"""How the parts of a harness tell one another, within a process, that something has changed or is to end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from agentkit.clock import Clock

#: How long something that was cancelled may take to clean up before it is given up.
CANCEL_GRACE: Final = timedelta(seconds=5)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Signal:
    """Wakes everybody who waits at the time."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def next(self) -> asyncio.Event:
        """Return an event that the next ``notify`` sets. Take it first, then look, then wait."""
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    def notify(self) -> None:
        """Wake whoever waits."""
        if self._event is not None:
            self._event.set()
            self._event = None


class Stop:
    """Asks a run to end; the first reason counts.

    Attributes:
        reason: ``cancelled`` or ``seconds``; empty while nobody has asked.
        asked: Set once somebody has.
    """

    __slots__ = ("asked", "reason")

    def __init__(self) -> None:
        self.reason = ""
        self.asked = asyncio.Event()

    @property
    def is_asked(self) -> bool:
        """It is to end."""
        return self.asked.is_set()

    def ask(self, reason: str) -> None:
        """Ask it to end."""
        if not self.is_asked:
            self.reason = reason
            self.asked.set()


class Live:
    """The answer that is coming in, so that it can be followed before it is stored.

    Attributes:
        text: What has come of it so far.
        attempt: Grows when what has come is void and the answer begins anew.
        signal: Told of every change, and of every commit.
        over: Told when a run has come to its end or to a point of rest.
    """

    __slots__ = ("attempt", "over", "signal", "text")

    def __init__(self) -> None:
        self.text = ""
        self.attempt = 0
        self.signal = Signal()
        self.over = Signal()

    def rest(self) -> None:
        """Tell everybody that a run has come to its end or to a point of rest."""
        self.signal.notify()
        self.over.notify()

    def feed(self, text: str) -> None:
        """Add text."""
        self.text += text
        self.signal.notify()

    def reset(self) -> None:
        """Begin anew."""
        self.text = ""
        self.attempt += 1
        self.signal.notify()


async def until_first(task: asyncio.Task[Any], *events: asyncio.Event) -> bool:
    """Wait until a task is done or one of the events is set; True if the task is done."""
    waiters = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([task, *waiters], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    return task.done()


async def cancelled(task: asyncio.Task[Any], clock: Clock) -> bool:
    """Cancel a task and give it ``CANCEL_GRACE`` to clean up; False if it won't stop, and nobody waits any longer."""
    task.cancel()
    task.add_done_callback(_see_its_end)
    late = asyncio.Event()
    timer = clock.call_at(clock.now_ms() + CANCEL_GRACE // _MILLISECOND, late.set)
    try:
        return await until_first(task, late)
    finally:
        timer.cancel()


def _see_its_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # Python complains of errors that nobody has looked at
