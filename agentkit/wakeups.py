"""The one timer of a runtime: live agents' alarms, evictions, and the next agent that isn't live."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from agentkit.clock import Clock, Timer
from agentkit.lifecycle import Lifecycle

#: Moment, order of entry, whose it is (None once it counts no more).
Entry = list[object]


def _ignore(*_: object) -> None:
    """Stand in until ``start``."""


class Agenda:
    """Lifecycles by moment. An entry that is taken back lets go of its lifecycle at once."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._count = count()
        self._dead = 0

    def put(self, moment_ms: int, lifecycle: Lifecycle) -> Entry:
        """Enter a lifecycle and return its entry."""
        entry: Entry = [moment_ms, next(self._count), lifecycle]
        heapq.heappush(self._heap, entry)
        return entry

    def take_back(self, entry: Entry | None) -> None:
        """Make an entry count no more; no error if it has come up or is None."""
        if entry is None or entry[2] is None:
            return
        entry[2] = None
        self._dead += 1
        if self._dead > len(self._heap) // 2 + 64:
            self._heap = [left for left in self._heap if left[2] is not None]
            heapq.heapify(self._heap)
            self._dead = 0

    def first_ms(self) -> int | None:
        """Return the earliest moment; None if there is nothing."""
        while self._heap and self._heap[0][2] is None:
            heapq.heappop(self._heap)
            self._dead -= 1
        return self._heap[0][0] if self._heap else None  # type: ignore[return-value]  # the moment

    def due(self, now_ms: int) -> Iterator[Lifecycle]:
        """Take out and yield the lifecycles whose moment has come, in order."""
        while (moment_ms := self.first_ms()) is not None and moment_ms <= now_ms:
            entry = heapq.heappop(self._heap)
            lifecycle, entry[2] = entry[2], None
            assert isinstance(lifecycle, Lifecycle)
            yield lifecycle


class Wakeups:
    """Calls ``on_due`` and ``on_idle`` with lifecycles, and ``on_cold`` when an agent in the store is due."""

    def __init__(self, clock: Clock, *, idle_ms: Callable[[Lifecycle], int]) -> None:
        self._clock = clock
        self._idle_ms = idle_ms
        self._on_due: Callable[[Lifecycle], None] = _ignore
        self._on_idle: Callable[[Lifecycle], None] = _ignore
        self._on_cold: Callable[[], None] = _ignore
        self._alarms = Agenda()
        self._idle = Agenda()
        self._timer: Timer | None = None
        self._timer_ms: int | None = None
        self._cold_ms: int | None = None
        self._is_open = True

    def start(
        self,
        *,
        on_due: Callable[[Lifecycle], None],
        on_idle: Callable[[Lifecycle], None],
        on_cold: Callable[[], None],
    ) -> None:
        """Say what to do when something's moment has come."""
        self._on_due, self._on_idle, self._on_cold = on_due, on_idle, on_cold

    def arm(self, lifecycle: Lifecycle) -> None:
        """Note that a live agent's alarm may have changed."""
        alarm_ms = lifecycle.session.row.alarm_ms
        armed = lifecycle.armed
        if armed is not None and armed[2] is not None and armed[0] == alarm_ms:
            return
        self._alarms.take_back(armed)
        lifecycle.armed = None
        if alarm_ms is not None:
            lifecycle.armed = self._alarms.put(alarm_ms, lifecycle)
            self._wake_at(alarm_ms)

    def watch_idle(self, lifecycle: Lifecycle) -> None:
        """Watch a live agent for being unused."""
        if not lifecycle.is_watched:
            deadline = lifecycle.last_used_ms + self._idle_ms(lifecycle)
            lifecycle.watched = self._idle.put(deadline, lifecycle)
            self._wake_at(deadline)

    def forget(self, lifecycle: Lifecycle) -> None:
        """Let go of an agent that is no longer live."""
        self._alarms.take_back(lifecycle.armed)
        self._idle.take_back(lifecycle.watched)

    def cold(self, next_due_ms: int | None) -> None:
        """Note when the next agent that isn't live is due, if it is earlier than what is known."""
        if next_due_ms is not None and (self._cold_ms is None or next_due_ms < self._cold_ms):
            self._cold_ms = next_due_ms
            self._wake_at(next_due_ms)

    def close(self) -> None:
        """Never wake again."""
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()

    def _wake_at(self, moment_ms: int) -> None:
        if not self._is_open or (self._timer_ms is not None and self._timer_ms <= moment_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = moment_ms
        self._timer = self._clock.call_at(moment_ms, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        now_ms = self._clock.now_ms()
        for lifecycle in self._alarms.due(now_ms):
            self._on_due(lifecycle)
        for lifecycle in self._idle.due(now_ms):
            self._check_idle(lifecycle, now_ms)
        if self._cold_ms is not None and self._cold_ms <= now_ms:
            self._cold_ms = None
            self._on_cold()
        for moment_ms in (self._alarms.first_ms(), self._idle.first_ms(), self._cold_ms):
            if moment_ms is not None:
                self._wake_at(moment_ms)

    def _check_idle(self, lifecycle: Lifecycle, now_ms: int) -> None:
        if lifecycle.last_used_ms + self._idle_ms(lifecycle) > now_ms:
            self.watch_idle(lifecycle)
        elif lifecycle.is_idle:
            self._on_idle(lifecycle)
        # A busy one is watched again when what keeps it busy ends.
