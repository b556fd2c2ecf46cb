"""From a model's labels to a timing: English words are read by the rules' own grammar."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from agentkit.errors import ParseError
from agentkit.schedules.parser import amounts
from agentkit.schedules.parser.grammar import reduce_items
from agentkit.schedules.parser.language import look_up
from agentkit.schedules.parser.languages.english import english
from agentkit.schedules.parser.languages.shared import AFTERNOON, EVENING, MORNING, NIGHT
from agentkit.schedules.parser.meanings import (
    After,
    At,
    Clock,
    DayPart,
    Duration,
    Every,
    Excluding,
    Lasting,
    Part,
    Problem,
    Times,
    Unit,
    UnitName,
    Window,
)
from agentkit.schedules.parser.recurrences import every_duration
from agentkit.schedules.parser.selection import select
from agentkit.schedules.parser.sentences import judge
from agentkit.schedules.parser.timing import Timing, fill
from agentkit.schedules.parser.tokens import FORBIDDEN, split_text

if TYPE_CHECKING:
    from agentkit.schedules.parser.reply import PartLabel, ScheduleReply, UnitLabel, WeekdayLabel

_WEEK: Final[tuple[WeekdayLabel, ...]] = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)
_PARTS: Final[dict[PartLabel, DayPart]] = {
    "morning": MORNING,
    "afternoon": AFTERNOON,
    "evening": EVENING,
    "night": NIGHT,
    "end of day": DayPart(17, "pm"),
}
_QUARTERS: Final = frozenset({1, 4, 7, 10})
_LONGEST_LABEL: Final = 60


def once_timing(reply: ScheduleReply) -> Timing:
    """Return what the labels of a single moment say.

    Raises:
        ParseError: If they can't be read, or contradict each other; as do the functions below.
    """
    timing = Timing()
    if reply.day is not None:
        timing = timing_of(reply.day, "day")
        if timing.every is not None or not timing.has_moment:
            raise ParseError(f"day {shown(reply.day)} is no day; write it like 'friday', '3 march' or 2027-03-01")
    timing = _with_clocks(timing, reply)
    if not timing.has_moment:
        raise ParseError("type once needs a day or a time of day; without both, ask")
    return timing


def delay_timing(reply: ScheduleReply) -> Timing:
    """Return what the labels of a delay say."""
    length = _length(reply)
    if length is None:
        raise ParseError("type delay needs amount and unit")
    return _with_clocks(Timing(after=After(length)), reply)


def repeat_timing(reply: ScheduleReply) -> Timing:
    """Return what the labels of a recurrence say, its bounds included."""
    timing = _with_clocks(Timing(every=_every(reply)), reply)
    if reply.hours_from is not None and reply.hours_to is not None:
        timing = _filled(timing, Window(_clock(reply.hours_from), _clock(reply.hours_to)), "hours_from")
    elif reply.hours_from is not None or reply.hours_to is not None:
        raise ParseError("hours_from and hours_to go together")
    if reply.except_weekdays:
        timing = _filled(timing, Excluding(weekdays=_numbers(reply.except_weekdays)), "except_weekdays")
    for name in ("starting", "until"):
        words = getattr(reply, name)
        if words is not None:
            bound = getattr(timing_of(f"every day {name} {words.removeprefix(name)}", name), name)
            if bound is None:
                raise ParseError(f"{name} {shown(words)} is no day; write it like 'friday', '3 march' or 2027-03-01")
            timing = _filled(timing, bound, name)
    if reply.for_amount is not None and reply.for_unit is not None:
        timing = _filled(timing, Lasting(_duration(reply.for_amount, reply.for_unit)), "for_amount")
    if reply.count is not None:
        timing = _filled(timing, Times(reply.count), "count")
    return timing


def timing_of(words: str, label: str) -> Timing:
    """Return what English words say about time.

    Args:
        words: Nothing but timing: "next friday", "2027-03-01", "at 3pm".
        label: Which label they are from, for the message.

    Raises:
        ParseError: If the rules can't read every word of it.
    """
    if "/" in words:
        raise ParseError(f"{label} {shown(words)} may be either of two days; write it like 3 march or 2027-03-03")
    language = english()
    items = reduce_items(look_up(split_text(words[:_LONGEST_LABEL], month_first=True), language), language.levels)
    sentence = judge(items, language)
    selection = select(sentence, language)
    timing = selection.timing
    unread = [place for place in range(len(items)) if place not in selection.places]
    if unread or len(words) > _LONGEST_LABEL or timing.problem is not None:
        raise ParseError(f"{label} {shown(words)} can't be read; use plain English words, or YYYY-MM-DD for a date")
    return timing


def _with_clocks(timing: Timing, reply: ScheduleReply) -> Timing:
    if reply.times:
        timing = _filled(timing, At(tuple(_clock(time) for time in reply.times)), "times")
    if reply.part_of_day is not None:
        timing = _filled(timing, _PARTS[reply.part_of_day], "part_of_day")
    return timing


def _clock(words: str) -> Clock:
    words = words.strip()
    timing = timing_of(words if words.startswith("at ") else f"at {words}", "times")
    if len(timing.clocks) != 1 or timing.day is not None:
        raise ParseError(f"times {shown(words)} is no time of day; write it like 9, 9:30, 3pm, 17:00 or noon")
    return timing.clocks[0]


def _filled(timing: Timing, part: Part, label: str) -> Timing:
    filled = fill(timing, part)
    if filled is None:
        raise ParseError(f"{label} doesn't go with the other labels; say everything once")
    return filled


def _length(reply: ScheduleReply) -> Duration | None:
    if reply.unit is None or reply.amount is None:
        return None
    length = _duration(reply.amount, reply.unit)
    if not reply.extra_amount or reply.extra_unit is None:
        return length
    both = amounts.together(length, _duration(reply.extra_amount, reply.extra_unit))
    if not isinstance(both, Duration):
        raise ParseError("extra_unit must be smaller than unit")
    return both


def _duration(amount: float, unit: UnitLabel) -> Duration:
    found: Duration | Problem | None
    if unit == "workday":
        found = amounts.workdays(amount)
    elif unit == "quarter":
        found = amounts.duration(amount, Unit("month", 3))
    else:
        found = amounts.duration(amount, Unit(unit))
    if not isinstance(found, Duration):
        raise ParseError(f"{amount:g} {unit} is no length of time; it must be more than 0 and not too long")
    return found


def _every(reply: ScheduleReply) -> Every:
    if reply.unit == "quarter" and reply.amount in (None, 1):
        base = Every(unit="month", months=_QUARTERS)
    else:
        length = _length(reply) or _duration(reply.amount or 1, reply.unit or _usual_unit(reply))
        found = every_duration(length)
        if not isinstance(found, Every):
            raise ParseError(found.question if found is not None else "amount and unit are no period")
        base = found
    weekdays = _numbers(reply.weekdays)
    if reply.nth is not None:
        return _with_nth(base, reply, weekdays)
    # "Every day on Monday and Friday" is every week on those days.
    unit: UnitName | None = "week" if base.unit == "day" and base.step == 1 and weekdays else base.unit
    return replace(
        base,
        unit=unit,
        weekdays=base.weekdays | weekdays,
        month_days=_within(reply.month_days, "month_days", 31),
        months=base.months | _within(reply.months, "months", 12),
        minute=reply.minute_of_hour,
    )


def _usual_unit(reply: ScheduleReply) -> Literal["hour", "day", "week", "month", "year"]:
    """Return the unit that goes without saying: "on the 1st" is monthly, "Mondays" weekly."""
    if reply.minute_of_hour is not None:
        return "hour"
    if reply.months and reply.month_days:
        return "year"
    if reply.month_days or reply.nth is not None:
        return "month"
    return "week" if reply.weekdays else "day"


def _with_nth(base: Every, reply: ScheduleReply, weekdays: frozenset[int]) -> Every:
    nth = reply.nth
    assert nth is not None
    if not weekdays or not (nth == -1 or 1 <= nth <= 5):
        raise ParseError("nth must be 1 to 5, or -1 for the last, and needs weekdays")
    unit: UnitName = "year" if base.unit == "year" else "month"
    step = base.step if base.unit in ("month", "year") else 1
    months = base.months | _within(reply.months, "months", 12)
    if reply.weekdays == ["workday"]:
        return Every(unit=unit, step=step, months=months, workday=nth)
    return Every(unit=unit, step=step, months=months, nth=frozenset((nth, weekday) for weekday in weekdays))


def _numbers(labels: list[WeekdayLabel]) -> frozenset[int]:
    """Return weekdays by number, Monday is 0."""
    found: set[int] = set()
    for label in labels:
        if label == "workday":
            found |= set(range(5))
        elif label == "weekend":
            found |= {5, 6}
        else:
            found.add(_WEEK.index(label))
    return frozenset(found)


def _within(numbers: list[int], label: str, highest: int) -> frozenset[int]:
    lowest_allowed = (-1,) if label == "month_days" else ()
    if not all(1 <= number <= highest or number in lowest_allowed for number in numbers):
        raise ParseError(f"{label} must be 1 to {highest}")
    return frozenset(numbers)


def shown(words: str) -> str:
    """Return a label as a message may show it."""
    short = words[:_LONGEST_LABEL]
    return repr(FORBIDDEN.sub("", short))
