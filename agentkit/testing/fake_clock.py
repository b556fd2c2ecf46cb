"""A clock that moves only when told."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import count

from agentkit import context
from agentkit.clock import Clock, Duration, Timer, duration_of, from_ms, to_ms


class FakeTimer:
    """A call that waits for the clock to be moved."""

    __slots__ = ("callback", "is_elapsed", "moment_ms")

    def __init__(self, moment_ms: int, callback: Callable[[], None], *, is_elapsed: bool = False) -> None:
        self.moment_ms = moment_ms
        self.is_elapsed = is_elapsed
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """See ``Timer``."""
        self.callback = None


class FakeClock:
    """See ``Clock``. A sleeper waits until the clock is moved to its moment; timers fire in order on the way.

    Under a ``ManualRuntime`` move it with ``await runtime.advance(...)``; alone, with ``move_to``.
    """

    def __init__(self, now: datetime | None = None) -> None:
        """Start at ``now`` (aware), by default 2026-01-01 00:00 UTC, a Thursday."""
        self._now_ms = to_ms(now or datetime(2026, 1, 1, tzinfo=UTC), "now")
        self._timers: list[tuple[int, int, FakeTimer]] = []
        self._count = count()
        self._set_back: list[FakeTimer] = []
        #: Tasks that wait in ``sleep``.
        self.sleepers: set[asyncio.Task[object]] = set()

    def now_ms(self) -> int:
        """See ``Clock``."""
        return self._now_ms

    def now(self) -> datetime:
        """See ``Clock``."""
        return from_ms(self._now_ms)

    def call_at(self, moment_ms: int, callback: Callable[[], None]) -> Timer:
        """See ``Clock``: called when the clock is next moved to or past the moment."""
        return self._add(FakeTimer(moment_ms, callback))

    def _add(self, timer: FakeTimer) -> FakeTimer:
        heapq.heappush(self._timers, (timer.moment_ms, next(self._count), timer))
        return timer

    async def sleep(self, duration: Duration) -> None:
        """See ``Clock``."""
        wait = duration_of(duration, "duration")
        if wait <= timedelta(0):
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        wake_ms = self._now_ms + -(-wait // timedelta(milliseconds=1))
        timer = self._add(FakeTimer(wake_ms, woken.set, is_elapsed=True))
        try:
            with self.resting():
                await woken.wait()
        finally:
            timer.cancel()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Mark the running task as one that waits for what only time, or another task, brings about.

        Without it ``ManualRuntime.advance`` takes a job that waits for real input and output, and the clock stands.
        """
        task = asyncio.current_task()
        works = [frame.work for frame in context.frames() if frame.work is not None]
        for work in works:
            work.sleeping += 1
        if task is not None:
            self.sleepers.add(task)
        try:
            yield
        finally:
            for work in works:
                work.sleeping -= 1
                if work.abandoned:
                    break
            if task is not None:
                self.sleepers.discard(task)

    def on_set_back(self, callback: Callable[[], None]) -> Timer:
        """See ``Clock``: noticed at once."""
        watch = FakeTimer(0, callback)
        self._set_back.append(watch)
        return watch

    def next_ms(self) -> int | None:
        """Return the moment of the next timer; None if there is none."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def move_to(self, moment: datetime | int) -> None:
        """Set the clock (a moment, or milliseconds) and fire the timers that are due, in order.

        Moving it back is allowed: that is what a corrected clock does.
        """
        before_ms = self._now_ms
        self._now_ms = to_ms(moment, "moment") if isinstance(moment, datetime) else moment
        if self._now_ms < before_ms:
            self._shift_sleepers(self._now_ms - before_ms)
        if self._now_ms < before_ms - 1_000:
            for watch in self._set_back:
                if watch.callback is not None:
                    watch.callback()
        due = []
        while (next_ms := self.next_ms()) is not None and next_ms <= self._now_ms:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            if timer.callback is not None:
                timer.callback()

    def _shift_sleepers(self, step_ms: int) -> None:
        """Sleepers wait for time to pass, whatever the clock is set to."""
        for _, _, timer in self._timers:
            timer.moment_ms += step_ms if timer.is_elapsed else 0
        self._timers = [(timer.moment_ms, number, timer) for _, number, timer in self._timers]
        heapq.heapify(self._timers)


def resting(clock: Clock) -> AbstractContextManager[None]:
    """Return ``FakeClock.resting()``; for other clocks, whose time passes anyway, a block that does nothing."""
    return clock.resting() if isinstance(clock, FakeClock) else nullcontext()
