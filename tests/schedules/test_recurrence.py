"""Recurrences of RFC 5545: what they mean, what they cost far from their start, and where clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentkit.errors import ScheduleError
from agentkit.schedules.recurrence import Recurrence

NEW_YORK = "America/New_York"
MILLISECOND = timedelta(milliseconds=1)


def instant(text: str, zone: str = "UTC") -> datetime:
    """Return the instant of a text in ISO form, by the clock of the zone unless it has an offset."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def all_runs(rrule: str, zone: str, anchor: datetime) -> Iterator[datetime]:
    """Yield the runs from the anchor on, itself included if it fits."""
    rule = Recurrence(rrule, zone)
    moment = anchor - MILLISECOND
    while (following := rule.next_after(moment, timezone="UTC", anchor=anchor)) is not None:
        yield following
        moment = following


def runs(rrule: str, anchor: str, number: int, zone: str = "UTC") -> list[str]:
    """Return the first runs by the clock of the zone, fewer if the rule ends before."""
    found = all_runs(rrule, zone, instant(anchor, zone))
    return [
        f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}" for _, moment in zip(range(number), found, strict=False)
    ]


@pytest.mark.parametrize(
    ("rrule", "expected"),
    [
        ("FREQ=DAILY", ["2026-12-04 09:00", "2026-12-05 09:00", "2026-12-06 09:00"]),
        ("FREQ=DAILY;INTERVAL=3;BYHOUR=8", ["2026-12-07 08:00", "2026-12-10 08:00"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", ["2026-12-04 09:00", "2026-12-18 09:00", "2027-01-01 09:00"]),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1", ["2026-12-07 09:00", "2026-12-14 09:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["2026-12-31 09:00", "2027-01-29 09:00"]),
        ("FREQ=MONTHLY;BYDAY=1MO,-1FR", ["2026-12-07 09:00", "2026-12-25 09:00", "2027-01-04 09:00"]),
        ("FREQ=MONTHLY;BYDAY=SU,1MO", ["2026-12-06 09:00", "2026-12-07 09:00", "2026-12-13 09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", ["2026-12-31 09:00", "2027-01-31 09:00", "2027-03-31 09:00"]),
        ("FREQ=MONTHLY;INTERVAL=3", ["2026-12-04 09:00", "2027-03-04 09:00"]),
        ("FREQ=YEARLY", ["2026-12-04 09:00", "2027-12-04 09:00"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2028-02-29 09:00", "2032-02-29 09:00"]),
        ("FREQ=YEARLY;BYWEEKNO=1", ["2027-01-08 09:00", "2028-01-07 09:00"]),
        (
            "FREQ=HOURLY;INTERVAL=7",
            ["2026-12-04 09:00", "2026-12-04 16:00", "2026-12-04 23:00", "2026-12-05 06:00"],
        ),
        ("FREQ=HOURLY;BYHOUR=22,5;BYMINUTE=15", ["2026-12-04 22:15", "2026-12-05 05:15"]),
        ("FREQ=MINUTELY;INTERVAL=45;BYDAY=SA", ["2026-12-05 00:00", "2026-12-05 00:45"]),
        ("FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30;BYSETPOS=-1", ["2026-12-04 17:30", "2026-12-05 17:30"]),
        ("freq=daily", ["2026-12-04 09:00"]),
        ("RRULE:FREQ=DAILY; COUNT=1;", ["2026-12-04 09:00"]),
    ],
)
def test_first_runs(rrule: str, expected: list[str]) -> None:
    """A rule counts from its start, and takes from it what it leaves open."""
    assert runs(rrule, "2026-12-04T09:00", len(expected)) == expected


@pytest.mark.parametrize(
    ("rrule", "reason"),
    [
        ("", "must have one RRULE"),
        ("FREQ=DAILY\nFREQ=WEEKLY", "must have one RRULE"),
        ("BYDAY=MO", "use one of YEARLY"),
        ("FREQ=FORTNIGHTLY", "use one of YEARLY"),
        ("FREQ=DAILY;INTERVAL=0", "from 1 to 999,999"),
        ("FREQ=DAILY;INTERVAL=-1", "from 1 to 999,999"),
        ("FREQ=DAILY;INTERVAL=1,2", "one number"),
        ("FREQ=DAILY;COUNT=0", "from 1 to 10,000"),
        ("FREQ=DAILY;COUNT=10001", "from 1 to 10,000"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "COUNT and UNTIL"),
        ("FREQ=DAILY;UNTIL=2027-01-01", "20261231T090000"),
        ("FREQ=DAILY;UNTIL=20270231", "20261231T090000"),
        ("FREQ=DAILY;BYHOUR=24", "from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=-1", "from 0 to 23"),
        ("FREQ=DAILY;BYMINUTE=60", "from 0 to 59"),
        ("FREQ=YEARLY;BYMONTH=13", "from 1 to 12"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "-31 to -1 from the end"),
        ("FREQ=MONTHLY;BYMONTHDAY=", "from 1 to 31"),
        ("FREQ=MONTHLY;BYDAY=XX", "MO to SU"),
        ("FREQ=MONTHLY;BYDAY=0MO", "MO to SU"),
        ("FREQ=WEEKLY;BYDAY=1MO", "needs FREQ=MONTHLY or YEARLY"),
        ("FREQ=DAILY;WKST=XX", "use one of MO"),
        ("FREQ=YEARLY;BYEASTER=0", "unknown part 'BYEASTER'"),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ twice"),
        ("DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY", "give the zone as timezone="),
        ("EXRULE:FREQ=DAILY\nRRULE:FREQ=DAILY", "use RRULE, DTSTART, RDATE or EXDATE"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260101", "20261231T090000"),
    ],
)
def test_refused_rule(rrule: str, reason: str) -> None:
    """A malformed rule is refused when made, by an error that names it and says what may stand there."""
    with pytest.raises(ScheduleError) as caught:
        Recurrence(rrule)

    assert repr(rrule) in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "rrule",
    [
        *(f"FREQ={each};BYMONTH=2;BYMONTHDAY=30" for each in ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "SECONDLY")),
        "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
        "FREQ=MONTHLY;BYDAY=1MO;BYMONTHDAY=8",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=MINUTELY;BYSETPOS=3",
    ],
)
def test_rule_that_never_runs_is_refused(rrule: str) -> None:
    """A rule no day of any year fits is refused at once, not looked for until the year 9999."""
    with pytest.raises(ScheduleError, match="never runs"):
        Recurrence(rrule)


@pytest.mark.parametrize(
    "rrule",
    [
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=5",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=10",
        "FREQ=MINUTELY;INTERVAL=10080;BYDAY=MO",
    ],
)
def test_rule_that_never_runs_from_its_start(rrule: str) -> None:
    """Where only start and interval together rule out every day, there is no next run."""
    anchor = instant("2026-12-04T09:00")

    assert Recurrence(rrule).next_after(anchor, timezone="UTC", anchor=anchor) is None


def test_unknown_zone_is_refused() -> None:
    """A zone that doesn't exist is named, the rule's own when it is made and another when it is used."""
    anchor = instant("2026-12-04T09:00")

    with pytest.raises(ScheduleError, match="Mars/Olympus"):
        Recurrence("FREQ=DAILY", "Mars/Olympus")
    with pytest.raises(ScheduleError, match="Mars/Olympus"):
        Recurrence("FREQ=DAILY").next_after(anchor, timezone="Mars/Olympus", anchor=anchor)


def test_naive_moments_are_refused() -> None:
    """Both the moment and the anchor need a zone."""
    rule, moment = Recurrence("FREQ=DAILY"), instant("2026-12-04T09:00")

    with pytest.raises(ScheduleError, match="has no time zone"):
        rule.next_after(moment.replace(tzinfo=None), timezone="UTC", anchor=moment)
    with pytest.raises(ScheduleError, match="has no time zone"):
        rule.next_after(moment, timezone="UTC", anchor=moment.replace(tzinfo=None))


def test_own_zone_comes_before_that_of_the_agent() -> None:
    """The rule runs by its own zone's clock, and by the given one if it has none."""
    anchor = instant("2026-12-04T00:00")

    own = Recurrence("FREQ=DAILY;BYHOUR=9", "Asia/Tokyo").next_after(anchor, timezone=NEW_YORK, anchor=anchor)
    given = Recurrence("FREQ=DAILY;BYHOUR=9").next_after(anchor, timezone=NEW_YORK, anchor=anchor)

    assert own == instant("2026-12-05T09:00", "Asia/Tokyo")
    assert given == instant("2026-12-04T09:00", NEW_YORK)


def test_nothing_runs_before_the_anchor() -> None:
    """A start in the future is the first run, if it fits."""
    rule, anchor = Recurrence("FREQ=WEEKLY"), instant("2027-03-01T09:00")

    assert rule.next_after(instant("2026-12-04T09:00"), timezone="UTC", anchor=anchor) == anchor


@pytest.mark.parametrize("number", [1, 2, 10, 4_000])
def test_count(number: int) -> None:
    """COUNT ends the rule after so many runs, however late one asks."""
    rule, anchor = Recurrence(f"FREQ=DAILY;COUNT={number}"), instant("2026-12-04T09:00")
    last = anchor + timedelta(days=number - 1)

    assert rule.next_after(last - MILLISECOND, timezone="UTC", anchor=anchor) == last
    assert rule.next_after(last, timezone="UTC", anchor=anchor) is None
    assert rule.next_after(last + timedelta(days=9_000), timezone="UTC", anchor=anchor) is None


def test_count_leaves_out_what_was_before_the_anchor() -> None:
    """Half a second past nine, nine o'clock is no run of today: the ten are counted from tomorrow."""
    found = list(all_runs("FREQ=DAILY;COUNT=10", "UTC", instant("2026-12-04T09:00:00.500")))

    assert found == [instant("2026-12-05T09:00") + timedelta(days=number) for number in range(10)]


@pytest.mark.parametrize(
    ("until", "number"),
    [("20261206", 3), ("20261206T090000", 3), ("20261206T085959", 2), ("20261206T140000Z", 3)],
)
def test_until(until: str, number: int) -> None:
    """UNTIL is inclusive: by the wall clock, in UTC, or a whole day."""
    assert len(runs(f"FREQ=DAILY;UNTIL={until}", "2026-12-04T09:00", 9, NEW_YORK)) == number


def test_dates_beside_the_rule() -> None:
    """DTSTART replaces the anchor, RDATE adds, and EXDATE takes away without making COUNT longer."""
    rrule = """
        DTSTART:20261210T080000
        RRULE:FREQ=DAILY;COUNT=3
        RDATE:20261220T120000,20261221T170000Z
        EXDATE:20261211T080000,20261220T170000Z
    """

    assert runs(rrule, "2026-12-04T09:00", 9, NEW_YORK) == [
        "2026-12-10 08:00",
        "2026-12-12 08:00",
        "2026-12-21 12:00",
    ]


CLOCK_CHANGES = {
    "gap": ("FREQ=DAILY", "2026-03-07T02:30", ["2026-03-07 02:30", "2026-03-08 03:30", "2026-03-09 02:30"]),
    "gap, hourly": (
        "FREQ=HOURLY",
        "2026-03-08T00:30",
        ["2026-03-08 00:30", "2026-03-08 01:30", "2026-03-08 03:30"],
    ),
    "gap, two walls of one instant run once": (
        "FREQ=DAILY;BYHOUR=2,3",
        "2026-03-08T00:30",
        ["2026-03-08 03:30", "2026-03-09 02:30", "2026-03-09 03:30"],
    ),
    "gap, later wall comes first": (
        "RRULE:FREQ=MINUTELY;INTERVAL=40",
        "2026-03-08T01:10",
        ["2026-03-08 01:10", "2026-03-08 01:50", "2026-03-08 03:10", "2026-03-08 03:30", "2026-03-08 03:50"],
    ),
    "overlap": (
        "FREQ=DAILY",
        "2026-10-31T01:30",
        ["2026-10-31 01:30", "2026-11-01 01:30", "2026-11-02 01:30"],
    ),
    "overlap, hourly": (
        "FREQ=HOURLY",
        "2026-11-01T00:30",
        ["2026-11-01 00:30", "2026-11-01 01:30", "2026-11-01 02:30"],
    ),
}


@pytest.mark.parametrize(("rrule", "anchor", "expected"), CLOCK_CHANGES.values(), ids=CLOCK_CHANGES.keys())
def test_clock_changes(rrule: str, anchor: str, expected: list[str]) -> None:
    """A time in the gap moves on by the gap; a time that comes twice runs in the first pass."""
    assert runs(rrule, anchor, len(expected), NEW_YORK) == expected


def test_first_pass_and_time_after_the_gap() -> None:
    """The instants are the first pass of 01:30 and, in spring, 03:30 by summer time."""
    autumn = list(all_runs("FREQ=DAILY;COUNT=2", NEW_YORK, instant("2026-10-31T01:30", NEW_YORK)))
    spring = list(all_runs("FREQ=DAILY;COUNT=2", NEW_YORK, instant("2026-03-07T02:30", NEW_YORK)))

    assert autumn[1] == instant("2026-11-01T01:30-04:00")
    assert spring[1] == instant("2026-03-08T03:30-04:00")


def test_missing_day_runs_once() -> None:
    """Report 1: where a zone leaves out a day, its run moves on and is one with the next day's."""
    assert runs("FREQ=DAILY", "2011-12-29T08:00", 3, "Pacific/Apia") == [
        "2011-12-29 08:00",
        "2011-12-31 08:00",
        "2012-01-01 08:00",
    ]


@pytest.mark.parametrize(
    ("rrule", "period"),
    [
        ("FREQ=SECONDLY;INTERVAL=7", timedelta(seconds=7)),
        ("FREQ=MINUTELY;INTERVAL=45", timedelta(minutes=45)),
        ("FREQ=HOURLY;INTERVAL=5", timedelta(hours=5)),
        ("FREQ=DAILY;INTERVAL=3", timedelta(days=3)),
        ("FREQ=WEEKLY;INTERVAL=2", timedelta(weeks=2)),
    ],
)
def test_half_a_century_after_the_anchor(rrule: str, period: timedelta) -> None:
    """Report 25: periods long past are skipped at once, and their rhythm is kept."""
    anchor, moment = instant("2026-12-04T09:00"), instant("2076-12-04T09:00")

    following = Recurrence(rrule).next_after(moment, timezone="UTC", anchor=anchor)

    assert following == anchor + ((moment - anchor) // period + 1) * period


@pytest.mark.parametrize(
    ("rrule", "expected"),
    [
        ("FREQ=MONTHLY;INTERVAL=7", "2077-02-04T09:00"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "2076-12-25T09:00"),
        ("FREQ=YEARLY;INTERVAL=3", "2077-12-04T09:00"),
    ],
)
def test_calendar_periods_half_a_century_after_the_anchor(rrule: str, expected: str) -> None:
    """Report 25: months and years long past are skipped as well."""
    anchor, moment = instant("2026-12-04T09:00"), instant("2076-12-04T09:00")

    following = Recurrence(rrule).next_after(moment, timezone="UTC", anchor=anchor)

    assert following == instant(expected)


def test_end_of_the_calendar() -> None:
    """Report 25: at the end of the calendar a rule is over; it does not overflow."""
    rule, anchor = Recurrence("FREQ=DAILY"), instant("2026-12-04T09:00")

    assert rule.next_after(instant("9999-12-31T10:00"), timezone="UTC", anchor=anchor) is None
    assert rule.next_after(datetime.max.replace(tzinfo=UTC), timezone="UTC", anchor=anchor) is None


def numbers(name: str, lowest: int, highest: int) -> st.SearchStrategy[str]:
    """Return texts of one part of a rule, often left out."""
    lists = st.lists(st.integers(lowest, highest), min_size=1, max_size=3)
    return st.just("") | lists.map(lambda values: f";{name}={','.join(map(str, values))}")


WEEKDAYS = st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=5)
RULES = st.tuples(
    st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]).map("FREQ={};WKST=MO".format),
    st.sampled_from(["", ";INTERVAL=2", ";INTERVAL=3", ";INTERVAL=12"]),
    numbers("BYMONTH", 1, 12),
    st.just("") | st.sampled_from([";BYMONTHDAY=1,15", ";BYMONTHDAY=-1", ";BYMONTHDAY=29,31"]),
    st.just("") | WEEKDAYS.map(lambda days: f";BYDAY={','.join(days)}"),
    numbers("BYHOUR", 0, 23),
    numbers("BYMINUTE", 0, 59),
    st.sampled_from(["", "", ";COUNT=20", ";UNTIL=20290101T000000"]),
).map("".join)
ANCHORS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)).map(lambda moment: moment.replace(microsecond=0))


@settings(derandomize=True, deadline=None, database=None, max_examples=300)
@given(rrule=RULES, anchor=ANCHORS, days_later=st.integers(0, 900))
def test_agrees_with_dateutil(rrule: str, anchor: datetime, days_later: int) -> None:
    """Where no clock changes, the next run is the one that counting up from the start comes to."""
    moment = (anchor + timedelta(days=days_later)).replace(tzinfo=UTC)

    found = Recurrence(rrule).next_after(moment, timezone="UTC", anchor=anchor.replace(tzinfo=UTC))

    # A rule without an end and without a run is what dateutil does not come back from.
    assume(found is not None or "COUNT" in rrule or "UNTIL" in rrule)
    try:
        counted = rrulestr(rrule, dtstart=anchor).after(moment.replace(tzinfo=None))
    except ValueError:
        counted = None
    assert found == (counted and counted.replace(tzinfo=UTC))


@settings(derandomize=True, deadline=None, database=None, max_examples=100)
@given(
    rrule=RULES,
    zone=st.sampled_from([NEW_YORK, "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Europe/Dublin"]),
    anchor=ANCHORS,
)
def test_always_moves_forward(rrule: str, zone: str, anchor: datetime) -> None:
    """Whatever clocks do, each run is later than the last."""
    found = all_runs(rrule, zone, anchor.replace(tzinfo=UTC))

    moments = [moment for _, moment in zip(range(40), found, strict=False)]

    assert all(before < after for before, after in pairwise(moments))
