"""Cron expressions: what they mean, and what becomes of them where clocks change.

The table "Cron and time zones" of the scheduling notes numbers what users of other schedulers reported; a
docstring that starts with "Report" names its row.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.errors import CronError, ScheduleError
from agentkit.schedules.cron import CronRule

NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
# Factory stands for a machine whose zone nobody has set.
ZONES = tuple(zone for zone in (files("tzdata") / "zones").read_text().split() if zone != "Factory")


def instant(text: str, zone: str = "UTC") -> datetime:
    """Return the instant of a text in ISO form, by the clock of the zone unless it has an offset."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def runs(expression: str, zone: str, after: str, number: int) -> list[str]:
    """Return the next runs by the clock of the zone, such as ``03-08 03:00 -0400``."""
    rule = CronRule.parse(expression, zone)
    moment = instant(after, zone)
    found = []
    for _ in range(number):
        moment = rule.next_after(moment)
        found.append(f"{moment.astimezone(ZoneInfo(zone)):%m-%d %H:%M %z}")
    return found


def runs_between(rule: CronRule, start: datetime, end: datetime) -> list[datetime]:
    """Return the runs after ``start``, up to ``end``, each checked to be later than the one before."""
    found = []
    while (following := rule.next_after(start)) <= end:
        assert following > start
        found.append(following)
        start = following
    return found


@cache
def changes(zone: str) -> tuple[datetime, ...]:
    """Return the instants from 1970 to 2037 at which the zone's offset changes."""
    clock = ZoneInfo(zone)
    first, last = datetime(1970, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
    week = timedelta(weeks=1)
    probes = [first + number * week for number in range((last - first) // week)]
    offsets = [probe.astimezone(clock).utcoffset() for probe in probes]
    found = []
    for (low, high), (before, after) in zip(pairwise(probes), pairwise(offsets), strict=True):
        if before == after:
            continue
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2
            low, high = (middle, high) if middle.astimezone(clock).utcoffset() == before else (low, middle)
        found.append(high.replace(microsecond=0))
    return tuple(found)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", "2026-11-28T12:31"),
        ("*/20 * * * *", "2026-11-28T12:40"),
        ("5/20 * * * *", "2026-11-28T12:45"),
        ("10-20/5,50 * * * *", "2026-11-28T12:50"),
        ("0 9-9 * * *", "2026-11-29T09:00"),
        ("0 22-6 * * *", "2026-11-28T22:00"),
        ("0 0 * * MON", "2026-11-30T00:00"),
        ("0 0 * * 7", "2026-11-29T00:00"),
        ("0 0 * * sat-mon", "2026-11-29T00:00"),
        ("0 0 * jan,Mar *", "2027-01-01T00:00"),
        ("0 0 1 * ?", "2026-12-01T00:00"),
        ("0 0 ? * 2", "2026-12-01T00:00"),
        ("0 0 L * *", "2026-11-30T00:00"),
        ("0 0 L 2 *", "2027-02-28T00:00"),
        ("0 0 LW * *", "2026-11-30T00:00"),
        ("0 0 LW 1,2,5 *", "2027-01-29T00:00"),
        ("0 0 15,L * *", "2026-11-30T00:00"),
        ("0 0 * * 5L", "2026-12-25T00:00"),
        ("0 0 * * L5", "2026-12-25T00:00"),
        ("0 0 * * FRIL", "2026-12-25T00:00"),
        ("0 0 * * 1#1", "2026-12-07T00:00"),
        ("0 0 * * MON#2,THU", "2026-12-03T00:00"),
        ("0 0 * * 0#5", "2026-11-29T00:00"),
        ("@hourly", "2026-11-28T13:00"),
        ("@daily", "2026-11-29T00:00"),
        ("@midnight", "2026-11-29T00:00"),
        ("@weekly", "2026-11-29T00:00"),
        ("@monthly", "2026-12-01T00:00"),
        ("@Yearly", "2027-01-01T00:00"),
        ("@annually", "2027-01-01T00:00"),
        ("30 9 * * * | 0 18 * * *", "2026-11-28T18:00"),
        ("@daily|15 * * * *", "2026-11-28T13:15"),
        ("  0   0\t1 * *  ", "2026-12-01T00:00"),
    ],
)
def test_next_run(expression: str, expected: str) -> None:
    """Each piece of the syntax means what it means in cron."""
    rule = CronRule.parse(expression, "UTC")

    following = rule.next_after(instant("2026-11-28T12:30"))

    assert following == instant(expected)
    assert following.tzinfo is UTC


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "five are needed"),
        ("* * * *", "five are needed"),
        ("0 0 0 * * *", "has 6 fields"),
        ("0 0 1 1 * 2027 *", "has 7 fields"),
        ("0 0 1 * * |", "five are needed"),
        ("@reboot", "@hourly"),
        ("60 * * * *", "0 to 59"),
        ("0 24 * * *", "0 to 23"),
        ("0 0 0 * *", "1 to 31"),
        ("0 0 32 * *", "1 to 31"),
        ("0 0 * 13 *", "JAN to DEC"),
        ("0 0 * FOO *", "JAN to DEC"),
        ("0 0 * * 8", "SUN to SAT"),
        ("0 0 * * FOO", "SUN to SAT"),
        ("0 0 * * 1#6", "SUN to SAT"),
        ("0 0 15W * *", "LW"),
        ("R * * * *", "'r' as minute"),
        ("R(1-5) * * * *", "0 to 59"),
        ("H * * * *", "'h' as minute"),
        ("? * * * *", "0 to 59"),
        ("*/0 * * * *", "0 to 59"),
        ("*/90 * * * *", "0 to 59"),
        ("-5 * * * *", "0 to 59"),
        ("1, * * * *", "0 to 59"),
        ("٣ * * * *", "0 to 59"),
        ("0 0 30 2 *", "never runs"),
        ("0 0 31 4,6,9,11 *", "never runs"),
        ("@daily | 0 0 30 2 *", "never runs"),
    ],
)
def test_refused_expression(expression: str, reason: str) -> None:
    """A bad expression is refused at once, by an error that names it and says what may stand there."""
    with pytest.raises(CronError) as caught:
        CronRule.parse(expression, "UTC")

    assert caught.value.expression == expression
    assert repr(expression) in str(caught.value)
    assert reason in str(caught.value)


def test_long_expression_is_refused_without_repeating_it() -> None:
    """A page of text is no cron expression, and the error is not a page long either."""
    with pytest.raises(CronError, match="1,000 are allowed") as caught:
        CronRule.parse("* " * 5_000, "UTC")

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("zone", "suggestion"),
    [
        ("Mars/Olympus", "Europe/Berlin"),
        ("", "Europe/Berlin"),
        ("../UTC", "Europe/Berlin"),
        ("America", "Europe/Berlin"),
        ("right/UTC", "Europe/Berlin"),
        ("Factory", "Europe/Berlin"),
        ("new york", NEW_YORK),
        ("asia/tokyo", "Asia/Tokyo"),
    ],
)
def test_unknown_zone(zone: str, suggestion: str) -> None:
    """A zone that is no IANA name is refused by an error that names it and one that exists."""
    with pytest.raises(ScheduleError) as caught:
        CronRule.parse("* * * * *", zone)

    assert repr(zone) in str(caught.value)
    assert suggestion in str(caught.value)


def test_naive_moment_is_refused() -> None:
    """A moment without a zone could be anywhere."""
    rule = CronRule.parse("* * * * *", "UTC")

    with pytest.raises(ScheduleError, match="has no time zone"):
        rule.next_after(datetime(2026, 1, 1))


def test_end_of_the_calendar() -> None:
    """After the last run of the year 9999 there is an error, not an endless search."""
    rule = CronRule.parse("0 0 1 1 *", "Asia/Tokyo")

    for moment in (datetime(9999, 6, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        with pytest.raises(CronError, match="does not run again"):
            rule.next_after(moment)


def test_same_text_gives_the_same_rule() -> None:
    """Rules are read once, so that dispatch pays for stepping alone."""
    assert CronRule.parse("5 4 * * *", "UTC") is CronRule.parse("5 4 * * *", "UTC")
    assert CronRule.parse("5 4 * * *", "UTC") != CronRule.parse("5 4 * * *", NEW_YORK)


CLOCK_CHANGES = {
    "gap, fixed time": (
        "30 2 * * *",
        NEW_YORK,
        "2026-03-08T00:00",
        ["03-08 03:00 -0400", "03-09 02:30 -0400"],
    ),
    "gap, several fixed times run once": (
        "0,15,30,45 2 * * *",
        NEW_YORK,
        "2026-03-08T00:00",
        ["03-08 03:00 -0400", "03-09 02:00 -0400"],
    ),
    "gap, fixed time that is also due after it": (
        "0 2,3 * * *",
        NEW_YORK,
        "2026-03-08T00:00",
        ["03-08 03:00 -0400", "03-09 02:00 -0400"],
    ),
    "gap, rhythm": ("0 */2 * * *", NEW_YORK, "2026-03-08T00:00", ["03-08 04:00 -0400", "03-08 06:00 -0400"]),
    "gap, half-hour rhythm": (
        "*/30 * * * *",
        NEW_YORK,
        "2026-03-08T01:00",
        ["03-08 01:30 -0500", "03-08 03:00 -0400"],
    ),
    "overlap, fixed time": (
        "30 1 * * *",
        NEW_YORK,
        "2026-11-01T00:00",
        ["11-01 01:30 -0400", "11-02 01:30 -0500"],
    ),
    "overlap, hourly": (
        "0 * * * *",
        NEW_YORK,
        "2026-11-01T00:30",
        ["11-01 01:00 -0400", "11-01 01:00 -0500", "11-01 02:00 -0500"],
    ),
    "overlap, half-hour rhythm": (
        "*/30 * * * *",
        NEW_YORK,
        "2026-11-01T01:00",
        ["11-01 01:30 -0400", "11-01 01:00 -0500", "11-01 01:30 -0500", "11-01 02:00 -0500"],
    ),
    "overlap, minute rhythm within one hour of the year": (
        "*/30 1 1 11 *",
        NEW_YORK,
        "2026-11-01T01:30",
        ["11-01 01:00 -0500", "11-01 01:30 -0500", "11-01 01:00 -0400"],
    ),
    "overlap of 30 minutes, fixed times": (
        "15,45 1 * * *",
        LORD_HOWE,
        "2026-04-05T00:00",
        ["04-05 01:15 +1100", "04-05 01:45 +1100", "04-06 01:15 +1030"],
    ),
    "overlap of 30 minutes, rhythm": (
        "*/15 * * * *",
        LORD_HOWE,
        "2026-04-05T01:30",
        ["04-05 01:45 +1100", "04-05 01:30 +1030", "04-05 01:45 +1030", "04-05 02:00 +1030"],
    ),
    "gap of 30 minutes": (
        "15 2 * * *",
        LORD_HOWE,
        "2026-10-04T00:00",
        ["10-04 02:30 +1100", "10-05 02:15 +1100"],
    ),
    "overlap where winter is the exception": (
        "15,45 1 * * *",
        "Europe/Dublin",
        "2026-10-25T00:00",
        ["10-25 01:15 +0100", "10-25 01:45 +0100", "10-26 01:15 +0000"],
    ),
    "midnight missing": (
        "0 0 * * *",
        "America/Santiago",
        "2026-09-05T00:30",
        ["09-06 01:00 -0300", "09-07 00:00 -0300"],
    ),
    "midnight missing, rhythm within that hour": (
        "*/30 0 * * *",
        "America/Santiago",
        "2026-09-05T12:00",
        ["09-07 00:00 -0300", "09-07 00:30 -0300"],
    ),
    "day missing": (
        "0 8 * * *",
        "Pacific/Apia",
        "2011-12-28T12:00",
        ["12-29 08:00 -1000", "12-31 00:00 +1400", "12-31 08:00 +1400", "01-01 08:00 +1400"],
    ),
    "day missing, weekly run on it": (
        "0 8 * * FRI",
        "Pacific/Apia",
        "2011-12-24T12:00",
        ["12-31 00:00 +1400", "01-06 08:00 +1400"],
    ),
    "day missing, rhythm": (
        "0 */12 * * *",
        "Pacific/Apia",
        "2011-12-29T01:00",
        ["12-29 12:00 -1000", "12-31 00:00 +1400"],
    ),
    "no change of clocks at all": ("0 8 * * *", "Asia/Tokyo", "2026-03-08T00:00", ["03-08 08:00 +0900"]),
}


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), CLOCK_CHANGES.values(), ids=CLOCK_CHANGES.keys())
def test_defined_behaviour_at_clock_changes(expression: str, zone: str, after: str, expected: list[str]) -> None:
    """Report 9: what happens at each kind of clock change is defined, case by case."""
    assert runs(expression, zone, after, len(expected)) == expected


def test_midnight_in_a_gap_is_not_skipped() -> None:
    """Report 1: in every zone, over all its changes of clock, a midnight job runs once each day there is."""
    for zone in ZONES:
        clock, rule = ZoneInfo(zone), CronRule.parse("0 0 * * *", zone)
        for change in changes(zone):
            start, end = change - 2 * DAY, change + 2 * DAY
            days = [moment.astimezone(clock).date() for moment in runs_between(rule, start, end)]
            there_are = {(start + number * HOUR).astimezone(clock).date() for number in range(4 * 24 + 1)}
            assert days == sorted(there_are - {start.astimezone(clock).date()}), f"{zone} {change}"


def test_next_run_is_a_time_that_exists() -> None:
    """Report 2: a time in the gap becomes the first instant after it, never a local time there isn't."""
    following = CronRule.parse("30 2 * * *", NEW_YORK).next_after(instant("2026-03-08T00:00", NEW_YORK))

    assert following == instant("2026-03-08T07:00")


def test_next_run_is_later_after_a_clock_change() -> None:
    """Report 3: a rhythm goes on after clocks change, and each run is later than the last."""
    rule = CronRule.parse("*/7 * * * *", NEW_YORK)
    change = instant("2026-11-01T06:00")

    found = runs_between(rule, change - 3 * HOUR, change + 3 * HOUR)

    assert len(found) == 6 * 9
    assert max(after - before for before, after in pairwise(found)) == 7 * MINUTE


@pytest.mark.parametrize("zone", ["Europe/Vienna", "America/Santiago"])
def test_next_run_never_repeats(zone: str) -> None:
    """Report 4: no run comes twice, whether fixed or a rhythm, over all changes of the clock."""
    for expression in ("30 2 * * *", "0 0 * * *", "*/30 * * * *", "0 0-23 * * *"):
        rule = CronRule.parse(expression, zone)
        for change in changes(zone):
            found = runs_between(rule, change - DAY, change + DAY)
            assert len(found) == len(set(found)) >= 1


def test_day_after_clocks_go_back_is_on_time() -> None:
    """Report 5: the evening job is not an hour late the day after."""
    assert runs("0 20 * * *", NEW_YORK, "2026-10-31T21:00", 2) == ["11-01 20:00 -0500", "11-02 20:00 -0500"]


def test_fold_is_respected() -> None:
    """Report 6: from the first pass the second follows without a jump, and from the second none goes back."""
    rule = CronRule.parse("*/5 * * * *", NEW_YORK)

    assert rule.next_after(instant("2026-11-01T01:55-04:00")) == instant("2026-11-01T01:00-05:00")
    assert rule.next_after(instant("2026-11-01T01:55-05:00")) == instant("2026-11-01T02:00-05:00")


def test_fixed_time_does_not_run_in_the_second_pass() -> None:
    """Report 6: asked in the second pass, a fixed time of the first is over, and tomorrow's is next."""
    rule = CronRule.parse("45 1 * * *", NEW_YORK)

    assert rule.next_after(instant("2026-11-01T01:30-05:00")) == instant("2026-11-02T01:45-05:00")


def test_hourly_runs_in_both_passes_and_daily_once() -> None:
    """Report 8: an hourly job keeps its hour where clocks go back, a daily one keeps its day."""
    start, end = instant("2026-11-01T00:30", NEW_YORK), instant("2026-11-01T23:30", NEW_YORK)

    hourly = runs_between(CronRule.parse("0 * * * *", NEW_YORK), start, end)
    daily = runs_between(CronRule.parse("0 1 * * *", NEW_YORK), start, end)

    assert [after - before for before, after in pairwise(hourly)] == [HOUR] * 23
    assert daily == [instant("2026-11-01T01:00-04:00")]


def test_leap_day_is_found_across_2100() -> None:
    """Report 10: 29 February is found where it is eight years away."""
    rule = CronRule.parse("0 0 29 2 *", "UTC")

    assert rule.next_after(instant("2096-02-29T00:00")) == instant("2104-02-29T00:00")
    assert rule.next_after(instant("2024-02-29T00:00")) == instant("2028-02-29T00:00")


def test_leap_day_on_one_weekday_is_found() -> None:
    """Report 10: the fifth Monday of February comes after 40 years at most."""
    rule = CronRule.parse("0 0 * 2 1#5", "UTC")

    assert rule.next_after(instant("2072-03-01T00:00")) == instant("2112-02-29T00:00")


def test_expression_that_never_runs_is_refused() -> None:
    """Report 11: 31 February is an error when scheduling; with a weekday beside it, that weekday runs."""
    with pytest.raises(CronError, match=r"0 0 31 2 \*.*never runs"):
        CronRule.parse("0 0 31 2 *", "UTC")

    assert runs("0 0 31 2 1", "UTC", "2026-11-28", 1) == ["02-01 00:00 +0000"]


def test_weekday_numbers_are_those_of_posix() -> None:
    """Report 12: 0 and 7 are Sunday, and 1-5 is Monday to Friday."""
    start, end = instant("2026-11-28T12:00"), instant("2026-12-05T12:00")

    days = {
        text: [day.isoweekday() for day in runs_between(CronRule.parse(f"0 0 * * {text}", "UTC"), start, end)]
        for text in ("0", "7", "SUN", "1-5", "MON-FRI")
    }

    assert days["0"] == days["7"] == days["SUN"] == [7]
    assert days["1-5"] == days["MON-FRI"] == [1, 2, 3, 4, 5]


def test_day_of_month_or_weekday() -> None:
    """Report 13: with both given, either is enough."""
    assert runs("0 0 13 * 5", "UTC", "2026-11-07", 3) == [
        "11-13 00:00 +0000",
        "11-20 00:00 +0000",
        "11-27 00:00 +0000",
    ]
    assert runs("0 0 13 * 5", "UTC", "2026-12-12", 1) == ["12-13 00:00 +0000"]


def test_field_that_starts_with_a_star_is_no_restriction() -> None:
    """Report 13: as in Debian's cron, a step over all days narrows the weekday instead of adding days."""
    assert runs("0 0 */2 * 1", "UTC", "2026-11-28", 2) == ["12-07 00:00 +0000", "12-21 00:00 +0000"]


def test_moment_may_be_in_any_zone() -> None:
    """Report 14: a moment counts as an instant, whatever zone object it comes with."""
    rule = CronRule.parse("0 9 * * *", "Europe/Berlin")
    moment = instant("2026-06-01T00:00")

    answers = {rule.next_after(moment.astimezone(ZoneInfo(zone))) for zone in ("UTC", NEW_YORK, "Asia/Tokyo")}

    assert answers == {instant("2026-06-01T07:00")}
    assert rule.timezone == "Europe/Berlin"


def test_runs_are_aligned_to_whole_minutes() -> None:
    """Report 16: every minute means the wall clock's minutes, not minutes since some start."""
    rule = CronRule.parse("* * * * *", "Asia/Kathmandu")

    assert rule.next_after(instant("2026-01-01T00:00:37.512")) == instant("2026-01-01T00:01")
    assert rule.next_after(instant("2026-01-01T00:01")) == instant("2026-01-01T00:02")


def test_run_ten_years_away() -> None:
    """Report 25: a run far away is a date like any other."""
    rule = CronRule.parse("0 0 29 2 *", "Europe/Berlin")
    moment = instant("2026-01-01")

    for _ in range(3):
        moment = rule.next_after(moment)

    assert moment == instant("2036-02-29", "Europe/Berlin")


def field_text(lowest: int, highest: int) -> st.SearchStrategy[str]:
    """Return texts of one field, restricted in all the usual ways."""
    number = st.integers(lowest, highest)
    # cronsim takes "5-5/2" for "5/2".
    ends = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)
    return st.one_of(
        number.map(str),
        st.lists(number, min_size=2, max_size=3).map(lambda numbers: ",".join(map(str, numbers))),
        ends.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ends, st.integers(1, 9)).map(lambda value: f"{value[0][0]}-{value[0][1]}/{value[1]}"),
    )


def rhythm_text(steps: list[int]) -> st.SearchStrategy[str]:
    """Return texts of one field that start with a star."""
    return st.one_of(st.just("*"), st.sampled_from(steps).map("*/{}".format))


FIXED_TIMES = st.tuples(field_text(0, 59), st.one_of(field_text(0, 4), field_text(0, 23)))
RHYTHMS = st.one_of(
    st.tuples(rhythm_text([2, 7, 15, 30]), field_text(0, 4)),
    st.tuples(field_text(0, 59), rhythm_text([2, 3, 5])),
    st.tuples(rhythm_text([2, 7, 15, 30]), rhythm_text([2, 3, 5])),
)
DAYS = st.one_of(
    st.just(("*", "*", "*")),
    st.tuples(
        st.sampled_from(["*", "*/2", "1-15", "1,31", "L", "LW"]),
        st.sampled_from(["*", "MAR-NOV", "3,4,9-11"]),
        st.sampled_from(["*", "0", "7", "MON-FRI", "5L", "1#1", "*/2"]),
    ),
)
PLACES = st.tuples(st.sampled_from(ZONES), st.integers(0, 200), st.integers(0, 40))


def place_of(place: tuple[str, int, int]) -> tuple[str, datetime, datetime, datetime]:
    """Return a zone, one change of its clock (or a plain day), and a stretch around that."""
    zone, number, hours_before = place
    change = changes(zone)[number % len(changes(zone))] if changes(zone) else datetime(2026, 3, 1, tzinfo=UTC)
    return zone, change, change - hours_before * HOUR - DAY, change + 2 * DAY


def according_to_cronsim(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the runs that ``cronsim`` finds, which takes Debian's cron for its model."""
    found = []
    for moment in CronSim(expression, start.astimezone(ZoneInfo(zone))):
        if moment.astimezone(UTC) > end:
            break
        found.append(moment.astimezone(UTC))
    return found


def minute_by_minute(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the minutes, of all that pass, whose wall clock ``cronsim`` says the expression matches."""
    fields, clock = CronSim(expression, start), ZoneInfo(zone)
    days: dict[date, bool] = {}
    found = []
    moment = start.replace(second=0) + MINUTE
    while moment <= end:
        wall = moment.astimezone(clock)
        if wall.minute in fields.minutes and wall.hour in fields.hours and wall.month in fields.months:
            day = wall.date()
            if day not in days:
                days[day] = fields.match_day(day)
            if days[day]:
                found.append(moment)
        moment += MINUTE
    return found


@settings(derandomize=True, deadline=None, database=None, max_examples=1000)
@given(times=FIXED_TIMES, days=DAYS, place=PLACES)
def test_fixed_times_agree_with_cronsim(
    times: tuple[str, str], days: tuple[str, str, str], place: tuple[str, int, int]
) -> None:
    """Around every kind of clock change, in every zone, fixed times are those of Debian's cron."""
    zone, change, start, end = place_of(place)
    expression = " ".join((*times, *days))
    # Asked in a second pass, cronsim repeats the first: it is asked before it instead.
    if start.astimezone(ZoneInfo(zone)).fold:
        start -= DAY

    found = runs_between(CronRule.parse(expression, zone), start, end)

    assert found == according_to_cronsim(expression, zone, start, end), f"{zone} {change}"


@settings(derandomize=True, deadline=None, database=None, max_examples=250)
@given(times=RHYTHMS, days=DAYS, place=PLACES)
def test_rhythms_follow_real_time(
    times: tuple[str, str], days: tuple[str, str, str], place: tuple[str, int, int]
) -> None:
    """Around every kind of clock change, in every zone, a rhythm runs at each minute that matches.

    ``cronsim`` agrees where clocks change by whole hours and away from midnight; elsewhere it steps by the
    hour over half-hour changes, or answers with times in the gap, and is no measure.
    """
    zone, change, start, end = place_of(place)
    expression = " ".join((*times, *days))
    before, after = ((change + step).astimezone(ZoneInfo(zone)) for step in (-MINUTE, MINUTE))
    moved = (after.utcoffset() or HOUR) - (before.utcoffset() or HOUR)
    is_plain = not moved % HOUR and before.minute == 59 and after.hour > 0 and before.hour < 23

    found = runs_between(CronRule.parse(expression, zone), start, end)

    # Monrovia's clock was 30 s off until 1972, so its minutes were not those of UTC.
    if not (before.utcoffset() or HOUR) % MINUTE:
        assert found == minute_by_minute(expression, zone, start, end), f"{zone} {change}"
    if is_plain and before.date() == after.date():
        assert found == according_to_cronsim(expression, zone, start, end), f"{zone} {change}"
