"""The times of day of a cron rule in English: a few times by name, a rhythm as such, all else by its fields."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from agentkit.schedules.describe.words import clock_time, every, listed, numbers_listed

DAY_MINUTES: Final = 24 * 60
ALL_HOURS: Final = list(range(24))
# More times than that are said as a rhythm or by hour and minute.
MOST_LISTED: Final = 6
FEWEST_IN_RHYTHM: Final = 4

# Said where the words alone would promise the other kind (see ``CronRule``): only there does it differ.
REAL_TIME: Final = " (in real time when clocks change)"
WALL_CLOCK: Final = " (by the wall clock when clocks change)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWords:
    """When within a day.

    Attributes:
        text: Such as ``at 09:00`` or ``every 15 minutes``.
        is_rhythm: It stands before the days, ``every hour on weekdays``, not after them.
    """

    text: str
    is_rhythm: bool


def time_words(times: Collection[int], *, follows_real_time: bool) -> TimeWords:
    """Return when within a day a rule runs.

    Args:
        times: Minutes of the day.
        follows_real_time: See ``CronFields``.
    """
    ordered = sorted(times)
    rhythm = _real_rhythm(ordered) if follows_real_time else _fixed_rhythm(ordered)
    if rhythm is not None:
        return TimeWords(text=rhythm, is_rhythm=True)
    text = _by_fields(ordered) if len(ordered) > MOST_LISTED and _is_product(ordered) else _named(ordered)
    return TimeWords(text=text + (REAL_TIME if follows_real_time else ""), is_rhythm=False)


def is_short(times: Collection[int]) -> bool:
    """Return whether fixed times can be said without naming a great many of them."""
    ordered = sorted(times)
    return len(ordered) <= MOST_LISTED or _is_product(ordered) or _fixed_rhythm(ordered) is not None


def _real_rhythm(times: list[int]) -> str | None:
    """Return the words for a rule that follows real time, if there are any for it."""
    minutes, hours = _minutes(times), _hours(times)
    if not _is_product(times):
        return None
    minute_rhythm = _minute_rhythm(minutes)
    if hours == ALL_HOURS:
        return minute_rhythm or "every hour" + _at_minutes(minutes)
    if len(minutes) == 1 and _goes_round(hours, 24):
        return every(_step(hours), "hour") + _at_minutes(minutes)
    if minute_rhythm is None:
        return None
    if _step(times):
        return f"{minute_rhythm} from {clock_time(times[0])} to {clock_time(times[-1])}"
    return f"{minute_rhythm} of {_hours_named(hours)}"


def _fixed_rhythm(times: list[int]) -> str | None:
    """Return the words for fixed times that are evenly apart, if they are and are many."""
    step = _step(times)
    is_hourly = step % 60 == 0
    if not step or len(times) < (FEWEST_IN_RHYTHM if is_hourly else MOST_LISTED + 1):
        return None
    ends = f"from {clock_time(times[0])} to {clock_time(times[-1])}"
    if is_hourly:
        return f"{every(step // 60, 'hour')} {ends}"
    return f"{every(step, 'minute')} {ends}{WALL_CLOCK}"


def _minute_rhythm(minutes: list[int]) -> str | None:
    """Return ``every 15 minutes`` for minutes that go on like that from hour to hour."""
    return every(_step(minutes), "minute") if _goes_round(minutes, 60) else None


def _at_minutes(minutes: list[int]) -> str:
    if minutes == [0]:
        return ""
    return f" at minute {minutes[0]}" if len(minutes) == 1 else f" at minutes {numbers_listed(minutes)}"


def _named(times: list[int]) -> str:
    return f"at {listed([clock_time(time) for time in times])}"


def _by_fields(times: list[int]) -> str:
    minutes = _minutes(times)
    return f"at minute{'s' if len(minutes) > 1 else ''} {numbers_listed(minutes)} of {_hours_named(_hours(times))}"


def _hours_named(hours: list[int]) -> str:
    return f"hour {hours[0]}" if len(hours) == 1 else f"the hours {numbers_listed(hours)}"


def _minutes(times: list[int]) -> list[int]:
    return sorted({time % 60 for time in times})


def _hours(times: list[int]) -> list[int]:
    return sorted({time // 60 for time in times})


def _is_product(times: list[int]) -> bool:
    """Return whether every hour has the same minutes."""
    return len(times) == len(_minutes(times)) * len(_hours(times))


def _goes_round(numbers: list[int], length: int) -> bool:
    """Return whether numbers are evenly apart, from the last to the first of the next round as well."""
    step = _step(numbers)
    return step > 0 and length % step == 0 and numbers == list(range(0, length, step))


def _step(numbers: list[int]) -> int:
    """Return how far apart evenly spaced numbers are; 0 if they aren't, or if there is only one."""
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else 0
