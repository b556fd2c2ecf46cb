"""The only place that knows the time: everyone else is handed a ``Clock``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The first and the last moment that a ``datetime`` can tell, in milliseconds.
EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_000
#: A timer never trusts the event loop for longer than this; after a suspend or a step of the wall
#: clock it notices within that time (SPEC 6.7).
RECHECK_SECONDS = 30.0

Duration = timedelta | float | int


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Make sure that it doesn't; no error if it has."""


class Clock(Protocol):
    """Where agentkit reads the time and how it waits."""

    def now_ms(self) -> int:
        """Return the wall clock, in whole milliseconds since the epoch, rounded down."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC moment."""

    def call_at(self, moment_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back once, never before ``moment_ms``."""

    async def sleep(self, duration: Duration) -> None:
        """Wait for a duration (seconds or timedelta)."""

    def on_set_back(self, callback: Callable[[], None]) -> Timer:
        """Call back whenever the wall clock was set back by more than a second, until cancelled."""


class SystemClock:
    """The machine's wall clock and the running event loop's timers."""

    def now_ms(self) -> int:
        """See ``Clock``."""
        return time.time_ns() // 1_000_000

    def now(self) -> datetime:
        """See ``Clock``."""
        return datetime.now(UTC)

    def call_at(self, moment_ms: int, callback: Callable[[], None]) -> Timer:
        """See ``Clock``: waits of any length, counted on the wall clock."""
        return _LoopTimer(moment_ms, callback)

    async def sleep(self, duration: Duration) -> None:
        """See ``Clock``."""
        await asyncio.sleep(seconds_of(duration))

    def on_set_back(self, callback: Callable[[], None]) -> Timer:
        """See ``Clock``: noticed within 30 s, by the clock that can't be set."""
        return _SetBackWatch(callback)


class _SetBackWatch:
    """Compares the wall clock with the monotonic one, now and then."""

    __slots__ = ("_ahead", "_callback", "_handle")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._ahead = time.time() - time.monotonic()
        self._handle = asyncio.get_running_loop().call_later(RECHECK_SECONDS, self._check, context=Context())

    def _check(self) -> None:
        before, self._ahead = self._ahead, time.time() - time.monotonic()
        self._handle = asyncio.get_running_loop().call_later(RECHECK_SECONDS, self._check, context=Context())
        if self._ahead < before - 1.0:
            self._callback()

    def cancel(self) -> None:
        self._handle.cancel()


class _LoopTimer:
    """Waits in short steps and reads the wall clock again after each."""

    __slots__ = ("_callback", "_handle", "_moment_ms")

    def __init__(self, moment_ms: int, callback: Callable[[], None]) -> None:
        self._moment_ms = moment_ms
        self._callback = callback
        self._handle = self._wait()

    def _wait(self) -> asyncio.TimerHandle:
        remaining = self._moment_ms / 1000 - time.time()
        # The loop's clock and the wall clock differ by fractions of a millisecond.
        step = min(max(remaining, 0.0), RECHECK_SECONDS) + 0.0001
        # In no context: a timer must neither act as whoever armed it nor keep that alive.
        return asyncio.get_running_loop().call_later(step, self._check, context=Context())

    def _check(self) -> None:
        if time.time_ns() // 1_000_000 >= self._moment_ms:
            self._callback()
        else:
            self._handle = self._wait()

    def cancel(self) -> None:
        self._handle.cancel()


def seconds_of(duration: Duration) -> float:
    """Return a duration as seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def duration_of(value: Duration, name: str) -> timedelta:
    """Turn seconds or a timedelta into a timedelta.

    Raises:
        ValueError: If it isn't a finite number of seconds, naming ``name``.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{name} must be seconds or a timedelta, got {value!r}"
        raise TypeError(message)
    try:
        return timedelta(seconds=value)
    except (ValueError, OverflowError):
        message = f"{name} must be a finite number of seconds, got {value!r}"
        raise ValueError(message) from None


def to_ms(moment: datetime, name: str = "datetime") -> int:
    """Return an aware moment in milliseconds since the epoch, rounded up.

    Raises:
        ValueError: If it is naive, naming the value and the mend.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        message = (
            f"{name} {moment.isoformat()} has no time zone; "
            'add one, as in datetime(2027, 1, 31, 9, 0, tzinfo=ZoneInfo("Europe/Berlin"))'
        )
        raise ValueError(message)
    return -((EPOCH - moment) // _MILLISECOND)


_MILLISECOND = timedelta(milliseconds=1)


def from_ms(moment_ms: int) -> datetime:
    """Return milliseconds since the epoch as an aware UTC moment."""
    return EPOCH + timedelta(milliseconds=moment_ms)
