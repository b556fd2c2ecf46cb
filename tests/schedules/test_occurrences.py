"""Which occurrence of a recurring schedule runs, and when the next is due: the plain functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.clock import LATEST_MS, from_ms, to_ms
from agentkit.schedules.occurrences import (
    MOST_MISSED,
    Firing,
    due_after_set_back,
    following,
    newest_missed,
    plan_firing,
    set_back_start,
)
from agentkit.schedules.record import Record
from agentkit.schedules.schedule import CatchUp

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# A Thursday.
NEW_YEAR = to_ms(datetime(2026, 1, 1, tzinfo=UTC))


def at(text: str) -> int:
    """Return the milliseconds of a UTC moment in ISO form."""
    return to_ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


def every(interval_ms: int, *, first_ms: int = NEW_YEAR, catch_up: CatchUp = "once") -> Record:
    """Return an interval."""
    return Record(type="interval", when=interval_ms, timezone="UTC", first_ms=first_ms, catch_up=catch_up)


def cron(expression: str, *, catch_up: CatchUp = "once") -> Record:
    """Return a cron schedule in UTC."""
    return Record(type="cron", when=expression, timezone="UTC", catch_up=catch_up)


def plan(record: Record, due_ms: int, now_ms: int, *, serving_since_ms: int = 0, recovered: bool = False) -> Firing:
    """Plan a firing; the store has been served for ever unless told otherwise."""
    return plan_firing(record, due_ms, now_ms=now_ms, serving_since_ms=serving_since_ms, recovered=recovered)


# --- following


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [
        (NEW_YEAR - 1, NEW_YEAR),
        (NEW_YEAR, NEW_YEAR + MINUTE),
        (NEW_YEAR + 1, NEW_YEAR + MINUTE),
        (NEW_YEAR + MINUTE - 1, NEW_YEAR + MINUTE),
        (NEW_YEAR + 1_000 * MINUTE + 7, NEW_YEAR + 1_001 * MINUTE),
        (0, NEW_YEAR),
    ],
)
def test_interval_stays_on_its_grid(after_ms: int, expected: int) -> None:
    """The next run is a whole number of intervals after the first, and later than what was asked for."""
    found = following(every(MINUTE), after_ms)

    assert found == expected


def test_interval_ends_with_the_calendar() -> None:
    """There is no run beyond the year 9999."""
    found = following(every(HOUR), LATEST_MS - 1)

    assert found is None


def test_until_is_inclusive() -> None:
    """An occurrence at the very end still runs, one a millisecond later does not."""
    record = cron("0 9 * * *")
    record.until_ms = at("2026-01-02T09:00")

    found = following(record, at("2026-01-01T09:00"))
    record.until_ms -= 1
    too_late = following(record, at("2026-01-01T09:00"))

    assert found == at("2026-01-02T09:00")
    assert too_late is None


def test_starts_at_is_inclusive() -> None:
    """An occurrence at the very start runs."""
    record = cron("0 9 * * *")
    record.starts_ms = at("2026-03-01T09:00")

    first = following(record, NEW_YEAR)
    second = following(record, first or 0)

    assert first == at("2026-03-01T09:00")
    assert second == at("2026-03-02T09:00")


# --- what is missed


def test_occurrence_on_time_is_not_missed() -> None:
    """A run that is due now runs now."""
    firing = plan(cron("0 * * * *"), at("2026-01-01T10:00"), at("2026-01-01T10:00"))

    assert firing == Firing(run_ms=at("2026-01-01T10:00"), skipped=0, next_ms=at("2026-01-01T11:00"))


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
def test_late_occurrence_is_not_missed_while_served(catch_up: CatchUp) -> None:
    """A busy agent is late; the occurrence still runs, whatever becomes of missed ones."""
    record = cron("0 * * * *", catch_up=catch_up)

    firing = plan(record, at("2026-01-01T10:00"), at("2026-01-01T10:59"))

    assert firing == Firing(run_ms=at("2026-01-01T10:00"), skipped=0, next_ms=at("2026-01-01T11:00"))


@pytest.mark.parametrize(
    ("catch_up", "run", "skipped"),
    [("once", "2026-01-01T10:00", 0), ("all", "2026-01-01T10:00", 0), ("skip", None, 1)],
)
def test_occurrence_before_the_store_was_served_is_missed(catch_up: CatchUp, run: str | None, skipped: int) -> None:
    """What was due while no runtime served the store counts as missed, even if it is the only one."""
    record = cron("0 * * * *", catch_up=catch_up)
    served = at("2026-01-01T10:20")

    firing = plan(record, at("2026-01-01T10:00"), served + 1, serving_since_ms=served)

    assert firing.run_ms == (None if run is None else at(run))
    assert firing.skipped == skipped
    assert firing.next_ms == at("2026-01-01T11:00")


@pytest.mark.parametrize(
    ("catch_up", "run", "skipped", "next_run"),
    [
        ("once", "2026-01-01T13:00", 3, "2026-01-01T14:00"),
        ("skip", None, 4, "2026-01-01T14:00"),
        ("all", "2026-01-01T10:00", 0, "2026-01-01T11:00"),
    ],
)
def test_occurrences_are_missed_when_the_next_is_due_too(
    catch_up: CatchUp, run: str | None, skipped: int, next_run: str
) -> None:
    """Once runs the latest of those missed, skip none, all the oldest first."""
    record = cron("0 * * * *", catch_up=catch_up)

    firing = plan(record, at("2026-01-01T10:00"), at("2026-01-01T13:30"))

    assert firing.run_ms == (None if run is None else at(run))
    assert firing.skipped == skipped
    assert firing.next_ms == at(next_run)


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
def test_occurrence_cut_off_by_a_crash_is_not_missed(catch_up: CatchUp) -> None:
    """What had begun when the process died runs again, also where missed runs are skipped."""
    record = cron("0 * * * *", catch_up=catch_up)
    served = at("2026-01-01T10:20")

    firing = plan(record, at("2026-01-01T10:00"), served, serving_since_ms=served, recovered=True)

    assert firing.run_ms == at("2026-01-01T10:00")


def test_occurrence_cut_off_long_ago_runs_again_before_the_rest_is_skipped() -> None:
    """With skip, a run that had begun is repeated although later ones are missed; those are then left out."""
    record = cron("0 * * * *", catch_up="skip")
    now = at("2026-01-01T15:30")

    again = plan(record, at("2026-01-01T10:00"), now, serving_since_ms=now, recovered=True)
    rest = plan(record, again.next_ms or 0, now, serving_since_ms=now)

    assert again == Firing(run_ms=at("2026-01-01T10:00"), skipped=0, next_ms=at("2026-01-01T11:00"))
    assert rest == Firing(run_ms=None, skipped=5, next_ms=at("2026-01-01T16:00"))


def test_start_that_lies_ahead_makes_nothing_missed() -> None:
    """After the clock was set back the store seems to be served from the future on: nothing is missed by that."""
    record = cron("0 * * * *", catch_up="skip")

    firing = plan(record, at("2026-01-01T10:00"), at("2026-01-01T10:00"), serving_since_ms=at("2026-01-02T00:00"))

    assert firing.run_ms == at("2026-01-01T10:00")


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
def test_manual_run_is_never_missed(catch_up: CatchUp) -> None:
    """What somebody asked to run now runs, and the schedule goes on after the present."""
    record = cron("0 * * * *", catch_up=catch_up)
    record.is_manual = True

    firing = plan(record, at("2026-01-01T10:07"), at("2026-01-01T15:30"), serving_since_ms=at("2026-01-01T15:00"))

    assert firing == Firing(run_ms=at("2026-01-01T10:07"), skipped=0, next_ms=at("2026-01-01T16:00"))


def test_last_occurrence_has_no_next() -> None:
    """After the end nothing follows."""
    record = cron("0 * * * *")
    record.until_ms = at("2026-01-01T10:00")

    firing = plan(record, at("2026-01-01T10:00"), at("2026-01-01T10:00"))

    assert firing == Firing(run_ms=at("2026-01-01T10:00"), skipped=0, next_ms=None)


def run_backlog(record: Record, due_ms: int, now_ms: int) -> list[Firing]:
    """Fire as often as something is due, as the alarm does, and return what was planned."""
    firings = []
    due: int | None = due_ms
    while due is not None and due <= now_ms:
        firing = plan(record, due, now_ms)
        record.backlog_ms = firing.backlog_ms
        firings.append(firing)
        due = firing.next_ms
    return firings


def test_all_runs_each_missed_occurrence_once_and_in_order() -> None:
    """Five hours down are five runs, oldest first, and then the schedule is where it should be."""
    firings = run_backlog(cron("0 * * * *", catch_up="all"), at("2026-01-01T10:00"), at("2026-01-01T14:30"))

    assert [firing.run_ms for firing in firings] == [at(f"2026-01-01T{hour}:00") for hour in range(10, 15)]
    assert [firing.skipped for firing in firings] == [0] * 5
    assert firings[-1].next_ms == at("2026-01-01T15:00")


def test_all_runs_the_newest_thousand() -> None:
    """Of 1,500 missed minutes the oldest 500 are left out, with their count; the others run."""
    record = every(MINUTE, catch_up="all")
    now_ms = NEW_YEAR + 1_499 * MINUTE

    firings = run_backlog(record, NEW_YEAR, now_ms)

    assert [firing.run_ms for firing in firings] == [NEW_YEAR + n * MINUTE for n in range(500, 1_500)]
    assert [firing.skipped for firing in firings] == [500] + [0] * 999


def test_backlog_that_grows_meanwhile_is_counted_again() -> None:
    """Occurrences that fall due while others are made up for run after them."""
    record = every(MINUTE, catch_up="all")
    first = plan(record, NEW_YEAR, NEW_YEAR + 2 * MINUTE)
    record.backlog_ms = first.backlog_ms

    firings = run_backlog(record, first.next_ms or 0, NEW_YEAR + 5 * MINUTE)

    assert [firing.run_ms for firing in firings] == [NEW_YEAR + n * MINUTE for n in range(1, 6)]


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("once", MOST_MISSED), ("skip", MOST_MISSED), ("all", MOST_MISSED)],
)
def test_skipped_counts_up_to_a_thousand(catch_up: CatchUp, expected: int) -> None:
    """Ten years of minutes are counted as a thousand, at once."""
    record = cron("* * * * *", catch_up=catch_up)

    firing = plan(record, NEW_YEAR, NEW_YEAR + 3_650 * DAY)

    assert firing.skipped == expected


def test_due_time_off_the_rule_counts() -> None:
    """An occurrence made before the expression was edited is the oldest of the missed ones."""
    missed = newest_missed(cron("0 * * * *"), at("2026-01-01T09:30"), at("2026-01-01T11:10"), most=10)

    assert missed == [at("2026-01-01T09:30"), at("2026-01-01T10:00"), at("2026-01-01T11:00")]


# --- against a naive model


def naive_missed(record: Record, due_ms: int, now_ms: int) -> list[int]:
    """Return every occurrence from the due one to now, one by one."""
    return [due_ms, *_steps(record, due_ms, now_ms)]


def _steps(record: Record, after_ms: int, now_ms: int) -> Iterator[int]:
    moment = following(record, after_ms)
    while moment is not None and moment <= now_ms:
        yield moment
        moment = following(record, moment)


RECORDS = st.one_of(
    st.builds(every, st.integers(min_value=1, max_value=3 * HOUR)),
    st.sampled_from(
        ["* * * * *", "*/7 * * * *", "0 * * * *", "0 0 1 * *", "30 2 * * 1-5", "* 3 * * 2", "59 23 29 2 *"]
    ).map(cron),
)


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(
    record=RECORDS,
    occurrence=st.integers(min_value=0, max_value=50),
    late_ms=st.integers(min_value=0, max_value=2_500),
    unit_ms=st.sampled_from([1, SECOND, MINUTE, HOUR]),
    catch_up=st.sampled_from(["once", "skip", "all"]),
    down_for=st.none() | st.integers(min_value=0, max_value=3 * HOUR),
    most=st.integers(min_value=1, max_value=1_200),
    until_ms=st.none() | st.integers(min_value=NEW_YEAR, max_value=NEW_YEAR + 40 * DAY),
)
def test_plan_agrees_with_a_naive_model(
    record: Record,
    occurrence: int,
    late_ms: int,
    unit_ms: int,
    catch_up: CatchUp,
    down_for: int | None,
    most: int,
    until_ms: int | None,
) -> None:
    """Whatever the rule, the delay and the policy: what runs, what is left out and what follows add up."""
    if record.type == "interval":
        unit_ms = min(unit_ms, int(record.when))
    record.catch_up = catch_up
    due_ms = following(record, NEW_YEAR + occurrence * HOUR) or 0
    record.until_ms = until_ms if until_ms is None else max(until_ms, due_ms)
    now_ms = due_ms + late_ms * unit_ms
    serving_since_ms = 0 if down_for is None else now_ms - down_for

    firing = plan(record, due_ms, now_ms, serving_since_ms=serving_since_ms)

    missed = naive_missed(record, due_ms, now_ms)
    after_now = following(record, now_ms)
    assert newest_missed(record, due_ms, now_ms, most=most) == missed[-most:]
    if len(missed) == 1 and due_ms >= serving_since_ms:
        assert firing == Firing(run_ms=due_ms, skipped=0, next_ms=after_now)
    elif catch_up == "skip":
        assert firing == Firing(run_ms=None, skipped=min(len(missed), MOST_MISSED), next_ms=after_now)
    elif catch_up == "once":
        skipped = min(len(missed) - 1, MOST_MISSED)
        assert firing == Firing(run_ms=missed[-1], skipped=skipped, next_ms=after_now)
    else:
        kept = missed[-MOST_MISSED:]
        assert firing.run_ms == kept[0]
        assert firing.next_ms == (kept[1] if len(kept) > 1 else after_now)
        assert firing.skipped == min(len(missed) - len(kept), MOST_MISSED)
    assert firing.next_ms is None or firing.next_ms > due_ms
    assert firing.run_ms is None or firing.run_ms <= now_ms


# --- the clock set back


@pytest.mark.parametrize(
    ("record", "due", "now", "expected"),
    [
        pytest.param(cron("0 * * * *"), "2026-01-02T11:00", "2026-01-01T10:20", "2026-01-01T11:00", id="day"),
        pytest.param(cron("0 * * * *"), "2026-01-02T11:00", "2026-01-02T09:59", None, id="a second"),
        pytest.param(cron("0 * * * *"), "2026-01-02T11:00", "2026-01-02T10:30", None, id="as before"),
        pytest.param(cron("0 9 * * *"), "2026-01-10T09:00", "2026-01-05T09:10", "2026-01-06T09:00", id="daily"),
        pytest.param(
            every(HOUR, first_ms=at("2026-01-01T00:10")),
            "2026-01-02T11:10",
            "2026-01-01T10:20",
            "2026-01-01T11:10",
            id="interval",
        ),
    ],
)
def test_recurring_schedule_after_the_clock_was_set_back(
    record: Record, due: str, now: str, expected: str | None
) -> None:
    """It moves to its next occurrence by the new time; for a step of less than a period it stays."""
    moved = due_after_set_back(record, at(due), at(now))

    assert moved == (None if expected is None else at(expected))


@pytest.mark.parametrize(
    ("type", "when", "expected"),
    [("delayed", 10 * MINUTE, "2026-01-01T10:10"), ("scheduled", at("2026-01-02T10:10"), None)],
)
def test_one_shot_after_the_clock_was_set_back(type: str, when: int, expected: str | None) -> None:
    """A delay is never longer than it was given, an instant stays the instant that was named."""
    record = Record(type="delayed" if type == "delayed" else "scheduled", when=when, timezone="UTC")

    moved = due_after_set_back(record, at("2026-01-02T10:10"), at("2026-01-01T10:00"))

    assert moved == (None if expected is None else at(expected))


def test_manual_run_after_the_clock_was_set_back() -> None:
    """What was to run now still runs now."""
    record = cron("0 * * * *")
    record.is_manual = True

    moved = due_after_set_back(record, at("2026-01-02T10:10"), at("2026-01-01T10:00"))

    assert moved == at("2026-01-01T10:00")


def test_start_of_a_grid_moves_back_by_whole_intervals() -> None:
    """An interval begun in what is the future by now begins within one interval, at the same minute."""
    record = every(HOUR, first_ms=at("2026-01-10T00:10"))

    set_back_start(record, at("2026-01-05T09:20"))

    assert record.first_ms == at("2026-01-05T10:10")


def test_start_that_was_asked_for_stays() -> None:
    """A date given as starts_at is no matter of the clock."""
    record = every(HOUR, first_ms=at("2026-01-10T00:10"))
    record.starts_ms = record.first_ms

    set_back_start(record, at("2026-01-05T09:20"))

    assert record.first_ms == at("2026-01-10T00:10")


@pytest.mark.parametrize(
    ("rrule", "expected"),
    [
        ("FREQ=DAILY", "2026-01-06T08:07"),
        # 9 January is one of the Fridays of the original rhythm, 2 January is not.
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", "2026-01-09T08:07"),
        ("FREQ=MONTHLY;BYMONTHDAY=31", "2026-01-31T08:07"),
    ],
)
def test_start_of_a_rule_moves_back_and_keeps_its_rhythm(rrule: str, expected: str) -> None:
    """A rule that began in what is the future by now runs as if it had begun long ago."""
    record = Record(type="rrule", when=rrule, timezone="UTC", first_ms=at("2026-01-23T08:07"))
    now = at("2026-01-05T09:20")

    set_back_start(record, now)

    assert following(record, now) == at(expected)
    assert following(record, at("2026-01-23T08:06")) == following_from_start(rrule, "2026-01-23T08:07")


def following_from_start(rrule: str, start: str) -> int | None:
    """Return the first occurrence of a rule with this start."""
    return following(Record(type="rrule", when=rrule, timezone="UTC", first_ms=at(start)), at(start) - 1)


def test_start_of_a_counted_rule_stays() -> None:
    """Three runs are three runs: they can't begin elsewhere."""
    record = Record(type="rrule", when="FREQ=DAILY;COUNT=3", timezone="UTC", first_ms=at("2026-01-10T08:00"))

    set_back_start(record, at("2026-01-05T09:20"))

    assert from_ms(record.first_ms or 0) == datetime(2026, 1, 10, 8, tzinfo=UTC)
    assert following(record, at("2026-01-05T09:20")) == at("2026-01-10T08:00")
