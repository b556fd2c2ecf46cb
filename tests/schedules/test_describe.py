"""Descriptions: what they say of schedules, and that what they say is what runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby, product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentkit.errors import CronError, ScheduleError
from agentkit.schedules.cron import CronRule
from agentkit.schedules.describe import describe, describe_cron
from agentkit.schedules.describe.recurrence import describe_recurrence
from agentkit.schedules.parser import parse_schedule
from agentkit.schedules.schedule import Schedule

BERLIN = "Europe/Berlin"
MADE_AT = datetime(2026, 11, 30, 10, 0, 17, tzinfo=UTC)
MONDAY = datetime(2026, 12, 7, 8, tzinfo=UTC)
# Far from any change of the clock within ten runs of a daily rule; then right before one, and before a leap day.
QUIET = (datetime(2026, 12, 2, 9, 20, tzinfo=UTC), datetime(2026, 6, 7, 13, 3, tzinfo=UTC))
STARTS = (
    *QUIET,
    datetime(2027, 3, 27, 22, tzinfo=UTC),
    datetime(2027, 10, 30, 22, tzinfo=UTC),
    datetime(2028, 2, 27, tzinfo=UTC),
)


def runs(expression: str, start: datetime, number: int) -> list[datetime]:
    """Return the next runs of an expression in Berlin."""
    rule = CronRule.parse(expression, BERLIN)
    found = []
    for _ in range(number):
        start = rule.next_after(start)
        found.append(start)
    return found


def behaviour(expression: str) -> list[list[datetime]]:
    """Return the next 20 runs from several starts."""
    return [runs(expression, start, 20) for start in STARTS]


def is_valid(expression: str) -> bool:
    """Return whether an expression is one that runs."""
    try:
        CronRule.parse(expression, BERLIN)
    except CronError:
        return False
    return True


def made(**fields: Any) -> Schedule:
    """Return a schedule of Berlin, made on a Monday at 11:00:17 there."""
    return Schedule(id="1", callback="remind", created_at=MADE_AT, timezone=BERLIN, **fields)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0 9 * * *", "every day at 09:00"),
        ("@daily", "every day at 00:00"),
        ("0 9 ? * ?", "every day at 09:00"),
        ("30 8 * * 1-5", "every weekday at 08:30"),
        ("0 9 * * MON,THU", "every Monday and Thursday at 09:00"),
        ("0 9 * * 7,6", "every Saturday and Sunday at 09:00"),
        ("0 9 * * 1-6", "every day except Sunday at 09:00"),
        ("0 9 * 1 1-6", "every day in January except Sunday at 09:00"),
        ("0 9,17 * 1,7 *", "every day in January and July at 09:00 and 17:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * * * 1-6", "every 15 minutes except on Sundays"),
        ("*/15 9-16 * * 1-5", "every 15 minutes from 09:00 to 16:45 on weekdays"),
        ("*/20 22-1 * * SAT", "every 20 minutes of the hours 0, 1, 22 and 23 on Saturdays"),
        ("0 * * * *", "every hour"),
        ("50 * * * *", "every hour at minute 50"),
        ("*/25 * * * *", "every hour at minutes 0, 25 and 50"),
        ("5 */6 * * *", "every 6 hours at minute 5"),
        ("0 9-17 * * 1-5", "every hour from 09:00 to 17:00 on weekdays"),
        ("3,9 1,2,5,8 * * *", "every day at minutes 3 and 9 of the hours 1, 2, 5 and 8"),
        ("0 9 1 * *", "on the 1st of every month at 09:00"),
        ("0 9 1-7,15 * *", "on the 1st to 7th and 15th of every month at 09:00"),
        ("0 9 31 * *", "on the 31st of every month that has one at 09:00"),
        ("0 9 15,31 * *", "on the 15th and 31st of every month at 09:00 (not every month has a 31st)"),
        ("0 9 */2 * *", "on odd days of every month at 09:00"),
        ("0 9 L * *", "on the last day of every month at 09:00"),
        ("0 9 1,LW * *", "on the 1st and last workday of every month at 09:00"),
        ("0 9 * * 1#1", "on the first Monday of every month at 09:00"),
        ("0 9 * * 1#1,1#3,5L", "on the first and third Monday and the last Friday of every month at 09:00"),
        (
            "0 9 * * 1#5,2#1",
            "on the fifth Monday and the first Tuesday of every month at 09:00 (not every month has a fifth Monday)",
        ),
        ("0 9 * * 1#5", "on the fifth Monday of every month that has one at 09:00"),
        ("0 9 * 1 1#1", "every year on the first Monday of January at 09:00"),
        ("0 9 25 12 *", "every year on 25 December at 09:00"),
        ("0 * 25 12 *", "every hour on 25 December every year"),
        ("0 9 31 1,2 *", "every year on 31 January at 09:00"),
        ("0 9 29 2 *", "every 29 February at 09:00"),
        ("0 9 * * * | 30 14 * * *", "every day at 09:00 and 14:30"),
        ("30 8 * * 1-5 | 0 10 * * 6", "every weekday at 08:30 and every Saturday at 10:00"),
    ],
)
def test_common_expressions_are_said_as_people_say_them(expression: str, text: str) -> None:
    """Each common form has its idiom."""
    description = describe_cron(expression)

    assert description == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0 9 13 * 5", "on the 13th or on a Friday at 09:00"),
        ("0 9 13 1 1-5", "on the 13th or on a weekday at 09:00, in January"),
        ("0 9 1,L * 1,5#2", "on the 1st or last day or on a Monday or on the second Friday at 09:00"),
        ("0 9 * * 1,2#1", "on a Monday or on the first Tuesday at 09:00"),
        ("0 9 */2 * 1", "on odd days of every month at 09:00 if that is a Monday"),
        ("0 9 13 * */5", "on the 13th of every month at 09:00 if that is a Friday or Sunday"),
        ("0 9 1-31 * 5", "every day at 09:00"),
    ],
)
def test_day_of_month_and_weekday(expression: str, text: str) -> None:
    """Two restricted day fields are alternatives, unless one of them starts with a star: Debian's rule."""
    description = describe_cron(expression)

    assert description == text


@pytest.mark.parametrize(
    ("rhythm", "fixed"),
    [("0 * * * *", "0 0-23 * * *"), ("*/15 9 * * *", "0-59/15 9 * * *"), ("0 */5 * * *", "0 0-23/5 * * *")],
)
def test_rhythms_and_fixed_times_are_told_apart(rhythm: str, fixed: str) -> None:
    """The same minutes run otherwise when clocks change, if a field starts with a star."""
    descriptions = {describe_cron(rhythm), describe_cron(fixed)}

    assert len(descriptions) == 2


def test_zone_is_said_at_the_end() -> None:
    """The zone stands beside the time, or after a comma where no time is named last."""
    at_nine, often = describe_cron("0 9 * * *", BERLIN), describe_cron("*/15 * * * *", BERLIN)

    assert (at_nine, often) == ("every day at 09:00 Europe/Berlin", "every 15 minutes, Europe/Berlin")


@pytest.mark.parametrize(
    ("expression", "zone", "error"),
    [("0 0 30 2 *", None, CronError), ("0 9 * *", None, CronError), ("0 9 * * *", "Mars/Base", ScheduleError)],
)
def test_what_never_runs_is_refused(expression: str, zone: str | None, error: type[Exception]) -> None:
    """An expression that is malformed or never runs has no description."""
    with pytest.raises(error):
        describe_cron(expression, zone)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", "every other Friday at 09:00 Europe/Berlin"),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR,MO",
            "every other week on Monday and Friday at 09:00 Europe/Berlin",
        ),
        (
            "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO;COUNT=10",
            "every 3 weeks on Monday at 09:00 Europe/Berlin, 10 times in all",
        ),
        ("FREQ=WEEKLY;BYDAY=MO;UNTIL=20261231", "every Monday at 09:00 Europe/Berlin, until 2026-12-31"),
        ("FREQ=DAILY;INTERVAL=3", "every 3 days at 09:00 Europe/Berlin"),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "on the last workday of every month at 09:00 Europe/Berlin",
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=2",
            "on the second workday of every month at 09:00 Europe/Berlin",
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
            "on the 13th of every month at 09:00 if that is a Friday, Europe/Berlin",
        ),
        (
            "FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=31",
            "every 2 months on the 31st at 09:00 (months without one are left out), Europe/Berlin",
        ),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", "on the first Monday of every month at 09:00 Europe/Berlin"),
        ("FREQ=YEARLY;INTERVAL=2", "every 2 years on 4 December at 09:00 Europe/Berlin"),
        ("FREQ=DAILY;BYHOUR=8,18;BYSECOND=30", "every day at 08:00:30 and 18:00:30 Europe/Berlin"),
        ("FREQ=HOURLY;INTERVAL=5", "by the rule FREQ=HOURLY;INTERVAL=5, Europe/Berlin"),
        ("FREQ=MONTHLY;BYMONTHDAY=-2", "by the rule FREQ=MONTHLY;BYMONTHDAY=-2, Europe/Berlin"),
        (
            "RRULE:FREQ=MONTHLY;BYDAY=2MO\nEXDATE:20261214T090000",
            "by the rule RRULE:FREQ=MONTHLY;BYDAY=2MO; EXDATE:20261214T090000, Europe/Berlin",
        ),
        (
            "DTSTART:20261205T101500\nRRULE:FREQ=DAILY;INTERVAL=2",
            "every 2 days at 10:15 Europe/Berlin, from 2026-12-05 10:15",
        ),
    ],
)
def test_recurrences(rule: str, text: str) -> None:
    """Common rules are said in words, with what they take from their start; the others stand as they are."""
    start = datetime(2026, 12, 4, 8, tzinfo=UTC)

    description = describe_recurrence(rule, BERLIN, starts_at=start)

    assert description == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"type": "cron", "cron": "0 9 * * 1", "next_run": MONDAY},
            "every Monday at 09:00 Europe/Berlin, next 2026-12-07 09:00",
        ),
        ({"type": "scheduled", "next_run": MONDAY}, "once, 2026-12-07 09:00 Europe/Berlin"),
        ({"type": "scheduled", "due_at": MONDAY}, "once, 2026-12-07 09:00 Europe/Berlin"),
        (
            {"type": "delayed", "delay": timedelta(seconds=60), "paused": True},
            "once, 2026-11-30 11:01:17 Europe/Berlin, paused",
        ),
        (
            {"type": "interval", "interval": timedelta(minutes=90), "next_run": MONDAY, "remaining": 5},
            "every 90 minutes, 5 more times, next 2026-12-07 09:00 Europe/Berlin",
        ),
        (
            {"type": "interval", "interval": timedelta(days=1), "until": MONDAY, "remaining": 1, "paused": True},
            "every 24 hours, until 2026-12-07 09:00 Europe/Berlin, once more, paused",
        ),
        ({"type": "interval", "interval": timedelta(seconds=1.5)}, "every 1,500 milliseconds, no more runs"),
        (
            {"type": "cron", "cron": "*/15 * * * *", "starts_at": MONDAY, "next_run": MONDAY},
            "every 15 minutes, Europe/Berlin, from 2026-12-07 09:00, next 2026-12-07 09:00",
        ),
        (
            {
                "type": "rrule",
                "rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR",
                "starts_at": datetime(2026, 12, 4, 8, tzinfo=UTC),
                "next_run": datetime(2026, 12, 18, 8, tzinfo=UTC),
            },
            "every other Friday at 09:00 Europe/Berlin, from 2026-12-04 09:00, next 2026-12-18 09:00",
        ),
    ],
)
def test_schedules(fields: dict[str, Any], text: str) -> None:
    """Bounds, pauses and the next run are said by the clock of the schedule's zone."""
    schedule = made(**fields)

    description = schedule.describe()

    assert description == describe(schedule) == text


def test_repeated_time_is_shown_with_its_offset() -> None:
    """When clocks go back, half past two alone could be either of two moments."""
    schedule = made(type="scheduled", next_run=datetime(2026, 10, 25, 1, 30, tzinfo=UTC))

    description = describe(schedule)

    assert description == "once, 2026-10-25 02:30+01:00 Europe/Berlin"


def test_end_of_time_is_shown() -> None:
    """A delay without end waits for the last moment, which some zones have no wall for."""
    schedule = made(type="delayed", delay=timedelta.max, paused=True)

    description = describe(schedule)

    assert description == "once, 9999-12-31 23:59:59+00:00 Europe/Berlin, paused"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"next_run": datetime(2026, 12, 2, 10, 0, 17, tzinfo=UTC)}, "every 2 days at 11:00:17 Europe/Berlin"),
        ({"paused": True}, "every 2 days at 11:00:17 Europe/Berlin"),
        (
            {"paused": True, "key": "changed later"},
            "every 2 days at the time of day it was made, Europe/Berlin",
        ),
        ({"next_run": MONDAY}, "every 2 days at the time of day it was made, Europe/Berlin"),
    ],
)
def test_start_is_never_guessed(fields: dict[str, Any], words: str) -> None:
    """A rule's open time is named if it is certain: not after a manual run, or if a key may have moved it."""
    schedule = made(type="rrule", rrule="FREQ=DAILY;INTERVAL=2", **fields)

    description = describe(schedule)

    assert description.startswith(f"{words}, ")


NUMBERS = st.integers(0, 59)
TIMES_OF_DAY = st.lists(st.tuples(st.integers(0, 23), NUMBERS), min_size=1, max_size=3).map(
    lambda times: [f"{minute} {hour}" for hour, minute in times]
)
RHYTHMS = st.sampled_from(
    ["* *", *(f"*/{step} *" for step in (2, 3, 4, 5, 6, 10, 12, 15, 20, 30)), *(f"0 */{step}" for step in (2, 3, 4, 6))]
) | NUMBERS.map("{} *".format)
WEEKDAY_SETS = st.sets(st.integers(0, 6), min_size=1).map(
    lambda days: f"* * {','.join(str(day) for day in sorted(days))}"
)
MONTHLY_DAYS = (
    st.integers(1, 31).map("{} * *".format)
    | st.sampled_from(["L * *", "LW * *"])
    | st.sets(st.integers(1, 28), min_size=2, max_size=2).map(lambda days: f"{','.join(map(str, sorted(days)))} * *")
)
NTH_WEEKDAYS = st.tuples(st.integers(0, 6), st.sampled_from(["#1", "#2", "#3", "#4", "L"])).map(
    lambda pair: f"* * {pair[0]}{pair[1]}"
)
DATES = st.tuples(st.integers(1, 28), st.integers(1, 12)).map(lambda date: f"{date[0]} {date[1]} *")
IN_MONTHS = st.tuples(st.sets(st.integers(1, 12), min_size=1, max_size=2), st.sampled_from(["*", "1", "1-5"])).map(
    lambda pair: f"* {','.join(map(str, sorted(pair[0])))} {pair[1]}"
)
# The parser asks about "every hour except on Sundays" or "on the first Monday of every month", and knows two months.
RHYTHM_DAYS = st.just("* * *") | WEEKDAY_SETS.filter(lambda days: days.count(",") != 5) | MONTHLY_DAYS | IN_MONTHS
DAYS = st.just("* * *") | WEEKDAY_SETS | MONTHLY_DAYS | NTH_WEEKDAYS | IN_MONTHS
IDIOMATIC = st.one_of(
    st.tuples(TIMES_OF_DAY, DAYS | DATES).map(lambda pair: " | ".join(f"{time} {pair[1]}" for time in pair[0])),
    st.tuples(RHYTHMS, RHYTHM_DAYS).map(" ".join),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(expression=IDIOMATIC, start=st.sampled_from(QUIET))
async def test_descriptions_read_back_as_the_same_runs(expression: str, start: datetime) -> None:
    """Said as a request, an idiomatic description is understood as the schedule it describes."""
    request = f"remind me {describe_cron(expression)} to water the plants"

    plan = await parse_schedule(request, now=start.astimezone(ZoneInfo(BERLIN)), timezone=BERLIN)

    assert (plan.question, plan.until, plan.count, plan.starts_at) == (None, None, None, None)
    assert plan.when.type == "cron"
    assert runs(plan.when.cron, start, 10) == runs(expression, start, 10)


def fields(lowest: int, highest: int, *marks: str) -> st.SearchStrategy[str]:
    """Return every kind of a field: stars, steps, ranges, lists, and marks of its own."""
    number = st.integers(lowest, highest)
    step = st.integers(1, highest)
    part = st.one_of(
        number.map(str),
        st.tuples(number, number).map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(number, step).map(lambda pair: f"{pair[0]}-{highest}/{pair[1]}"),
        step.map("*/{}".format),
        *([st.sampled_from(marks)] if marks else []),
    )
    return st.just("*") | st.lists(part, min_size=1, max_size=3).map(",".join)


FIELDS = (
    st.sampled_from(["0", "*/15", "0-59/15", "0,15,30,45", "*/45", "0-59"]) | fields(0, 59),
    st.sampled_from(["9", "9-17", "0-23", "*/6", "0-18/6"]) | fields(0, 23),
    fields(1, 31, "L", "LW") | st.sampled_from(["1-31", "*/2", "1-31/2", "?"]),
    fields(1, 12),
    fields(0, 7, "1#1", "2#5", "5L", "L0") | st.sampled_from(["0-6", "1-5", "*/7", "?"]),
)
RULES = st.tuples(*FIELDS).map(" ".join)
EXPRESSIONS = st.lists(RULES, min_size=1, max_size=2).map(" | ".join).filter(is_valid)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[str, str]:
    """Return two valid expressions that differ in one or two fields."""
    first = draw(RULES.filter(is_valid)).split(" ")
    second = list(first)
    for place in draw(st.sets(st.integers(0, 4), min_size=1, max_size=2)):
        second[place] = draw(FIELDS[place])
    return " ".join(first), " ".join(second)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(expression=EXPRESSIONS)
def test_every_valid_expression_has_a_description(expression: str) -> None:
    """Whatever runs can be said, in one line and without a stray blank."""
    description = describe_cron(expression, BERLIN)

    assert description == " ".join(description.split())
    assert BERLIN in description


@settings(derandomize=True, deadline=None, max_examples=150)
@given(pair=neighbours().filter(lambda pair: is_valid(pair[1])))
@example(pair=("0 * * * *", "0 0-23 * * *"))
@example(pair=("0 9 13 * 5", "0 9 13 * */5"))
def test_expressions_that_run_otherwise_are_described_otherwise(pair: tuple[str, str]) -> None:
    """Two expressions share a description only if they share their runs, also where clocks change."""
    first, second = (describe_cron(expression) for expression in pair)

    assert first != second or behaviour(pair[0]) == behaviour(pair[1])


def test_no_two_kinds_of_days_or_times_share_a_description() -> None:
    """The same holds for all pairs out of tables of times and of days, which are told apart in few words."""
    times = product(
        ("0", "*", "0-59", "*/15", "0,15,30,45", "*/45", "0,45", "7", "*/60"),
        ("9", "*", "0-23", "*/6", "0,6,12,18", "9-17", "*/5", "0-23/5", "22-1"),
    )
    days = product(
        ("*", "1-31", "1", "31", "*/2", "1-31/2", "L", "LW", "1,L", "29-31"),
        ("*", "2", "1,7", "2,3"),
        ("*", "0-6", "1", "1-5", "*/7", "0", "1#1", "1#5", "1L", "1,2#1", "1#1,1#2"),
    )
    expressions = [f"{minute} {hour} 1 * *" for minute, hour in times]
    expressions += [f"0 9 {day} {month} {weekday}" for day, month, weekday in days]

    described = sorted((describe_cron(expression), expression) for expression in expressions if is_valid(expression))

    for text, group in groupby(described, key=lambda pair: pair[0]):
        first, *others = [expression for _, expression in group]
        expected = behaviour(first) if others else None
        assert [other for other in others if behaviour(other) != expected] == [], text
