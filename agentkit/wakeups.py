"""The one timer of a runtime: live agents' alarms, evictions, and the next agent that isn't live."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from agentkit.clock import Clock, Timer
from agentkit.lifecycle import Lifecycle

_Entry = tuple[int, int, Lifecycle]


def _ignore(*_: object) -> None:
    """Stand in until ``start``."""


class Wakeups:
    """Calls ``on_due`` and ``on_idle`` with lifecycles, and ``on_cold`` when an agent in the store is due.

    Entries of the heaps are never removed but checked when they come up: an agent's present alarm is
    ``lifecycle.armed_ms``, its present idle deadline is counted from ``last_used_ms``.
    """

    def __init__(self, clock: Clock, *, idle_ms: Callable[[Lifecycle], int]) -> None:
        self._clock = clock
        self._idle_ms = idle_ms
        self._on_due: Callable[[Lifecycle], None] = _ignore
        self._on_idle: Callable[[Lifecycle], None] = _ignore
        self._on_cold: Callable[[], None] = _ignore
        self._alarms: list[_Entry] = []
        self._idle: list[_Entry] = []
        self._count = count()
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
        if alarm_ms == lifecycle.armed_ms:
            return
        lifecycle.armed_ms = alarm_ms
        if alarm_ms is not None:
            heapq.heappush(self._alarms, (alarm_ms, next(self._count), lifecycle))
            self._wake_at(alarm_ms)

    def watch_idle(self, lifecycle: Lifecycle) -> None:
        """Watch a live agent for being unused."""
        if lifecycle.is_watched:
            return
        lifecycle.is_watched = True
        deadline = lifecycle.last_used_ms + self._idle_ms(lifecycle)
        heapq.heappush(self._idle, (deadline, next(self._count), lifecycle))
        self._wake_at(deadline)

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
        while self._alarms and self._alarms[0][0] <= now_ms:
            alarm_ms, _, lifecycle = heapq.heappop(self._alarms)
            if lifecycle.armed_ms == alarm_ms and lifecycle.session.gone is None:
                lifecycle.armed_ms = None
                self._on_due(lifecycle)
        while self._idle and self._idle[0][0] <= now_ms:
            _, _, lifecycle = heapq.heappop(self._idle)
            lifecycle.is_watched = False
            if lifecycle.session.gone is None:
                self._check_idle(lifecycle, now_ms)
        if self._cold_ms is not None and self._cold_ms <= now_ms:
            self._cold_ms = None
            self._on_cold()
        self._sleep_on()

    def _check_idle(self, lifecycle: Lifecycle, now_ms: int) -> None:
        if lifecycle.last_used_ms + self._idle_ms(lifecycle) > now_ms:
            self.watch_idle(lifecycle)
        elif lifecycle.is_idle:
            self._on_idle(lifecycle)
        # A busy one is watched again when what keeps it busy ends.

    def _sleep_on(self) -> None:
        for heap in (self._alarms, self._idle):
            if heap:
                self._wake_at(heap[0][0])
        if self._cold_ms is not None:
            self._wake_at(self._cold_ms)
