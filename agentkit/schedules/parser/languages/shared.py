"""What the language files share: the hours of the day's parts, and joining a day with one."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser import days
from agentkit.schedules.parser.meanings import Clock, Day, DayPart, Part, Problem, Several

MORNING: Final = DayPart(9, "am")
NOON: Final = DayPart(12, "pm")
AFTERNOON: Final = DayPart(15, "pm")
EVENING: Final = DayPart(18, "pm")
NIGHT: Final = DayPart(20, "night")
END_OF_DAY: Final = DayPart(17, "pm")
NOON_CLOCK: Final = Clock(12, 0, exact=True)
MIDNIGHT: Final = Clock(24, 0, exact=True)


def hints(*, mornings: str, evenings: str) -> dict[str, object]:
    """Return the words of tasks that name their part of the day, such as "breakfast at 8"."""
    return {**dict.fromkeys(mornings.split(), MORNING), **dict.fromkeys(evenings.split(), EVENING)}


def both(first: Part | None, second: Part | None) -> Part | None:
    """Return two parts said in one phrase."""
    if first is None or second is None:
        return None
    if isinstance(first, Problem):
        return first
    return second if isinstance(second, Problem) else Several((first, second))


def one_day(day: Day | frozenset[int] | Problem) -> Day | Problem | None:
    """Return a day as it is, a weekday as the coming one."""
    return days.coming(day) if isinstance(day, frozenset) else day
