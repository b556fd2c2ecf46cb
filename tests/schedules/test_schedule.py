"""A schedule as users see it, and the record its job carries."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit import Agent, Recurrence, RetryPolicy
from agentkit.schedules.record import Record
from agentkit.schedules.schedule import Schedule
from agentkit.testing import ManualRuntime

START = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"
MINUTE = timedelta(minutes=1)


class Bot(Agent[None]):
    """Notes the schedule its callback is given."""

    async def remind(self, payload: Any, schedule: Schedule) -> None:
        """Keep the schedule."""
        self.deps.append(schedule)


@pytest.fixture
def log() -> list[Schedule]:
    """Return the schedules that callbacks were given."""
    return []


@pytest.fixture
async def runtime(log: list[Schedule]) -> AsyncIterator[ManualRuntime]:
    """Return a runtime whose clock stands at the start of 2026."""
    async with ManualRuntime(Bot, deps=log) as runtime:
        yield runtime


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


async def test_fields_of_a_new_schedule(bot: Bot) -> None:
    """Everything that was asked for can be read from the schedule, with defaults for the rest."""
    plain = await bot.schedule("0 9 * * *", "remind", {"text": "stand up"})
    full = await bot.schedule(
        "0 9 * * *",
        "remind",
        [1],
        retry=RetryPolicy(max_attempts=5, base_delay=2),
        timezone=BERLIN,
        key="morning",
        catch_up="all",
        starts_at=START + timedelta(days=1),
        until=START + timedelta(days=9),
        count=4,
        timeout=90,
    )

    assert plain == Schedule(
        id=plain.id,
        callback="remind",
        payload={"text": "stand up"},
        type="cron",
        cron="0 9 * * *",
        next_run=START + timedelta(hours=9),
        created_at=START,
    )
    assert full == Schedule(
        id=full.id,
        callback="remind",
        payload=[1],
        type="cron",
        cron="0 9 * * *",
        next_run=START + timedelta(days=1, hours=8),
        retry=RetryPolicy(max_attempts=5, base_delay=2),
        timezone=BERLIN,
        key="morning",
        catch_up="all",
        starts_at=START + timedelta(days=1),
        until=START + timedelta(days=9),
        remaining=4,
        timeout=timedelta(seconds=90),
        created_at=START,
    )


async def test_stored_schedule_reads_like_the_new_one(runtime: ManualRuntime, bot: Bot) -> None:
    """Get and list give what schedule gave, after a crash as well."""
    rule = Recurrence("FREQ=DAILY;COUNT=3", BERLIN)
    made = [
        await bot.schedule(60, "remind", {"n": 1}, timeout=5),
        await bot.schedule_every(90, "remind", count=2),
        await bot.schedule("0 9 * * *", "remind", timezone=BERLIN, until=START + timedelta(days=3)),
        await bot.schedule(START + timedelta(days=1), "remind", key="once"),
        await bot.schedule(rule, "remind", catch_up="skip"),
    ]

    await runtime.crash()

    assert [await bot.get_schedule(schedule.id) for schedule in made] == made
    assert sorted(await bot.list_schedules(), key=lambda schedule: schedule.id) == sorted(
        made, key=lambda schedule: schedule.id
    )


async def test_schedule_cannot_be_changed(bot: Bot) -> None:
    """It is a value: what it showed stays what it was."""
    schedule = await bot.schedule(60, "remind")

    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.paused = True  # type: ignore[misc]  # what is tested


async def test_fields_while_it_fires(runtime: ManualRuntime, bot: Bot, log: list[Schedule]) -> None:
    """While it fires, a schedule says which occurrence runs, under which name, and which is next."""
    made = await bot.schedule_every(60, "remind", count=3)

    await runtime.advance(2 * MINUTE)

    assert [schedule.due_at for schedule in log] == [START + MINUTE, START + 2 * MINUTE]
    assert [schedule.next_run for schedule in log] == [START + 2 * MINUTE, START + 3 * MINUTE]
    assert [schedule.remaining for schedule in log] == [3, 2]
    assert len({schedule.run_id for schedule in log}) == 2
    assert (made.due_at, made.run_id, made.skipped) == (None, None, 0)


async def test_one_shot_has_no_next_run_while_it_fires(runtime: ManualRuntime, bot: Bot, log: list[Schedule]) -> None:
    """Nothing comes after the only run."""
    await bot.schedule(60, "remind")

    await runtime.advance(MINUTE)

    assert log[0].next_run is None


async def test_paused_schedule_has_no_next_run(bot: Bot) -> None:
    """While paused there is no next run."""
    made = await bot.schedule("0 9 * * *", "remind")

    await bot.pause_schedule(made.id)

    paused = await bot.get_schedule(made.id)
    assert paused is not None
    assert (paused.paused, paused.next_run) == (True, None)


@pytest.mark.parametrize(
    ("type", "is_recurring"),
    [("delayed", False), ("scheduled", False), ("cron", True), ("interval", True), ("rrule", True)],
)
def test_recurring_types(type: Any, is_recurring: bool) -> None:
    """Cron, intervals and rules run again and again, the others once."""
    schedule = Schedule(id="1", callback="remind", type=type, created_at=START)
    record = Record(type=type, when=1, timezone="UTC")

    assert schedule.is_recurring is is_recurring
    assert record.is_recurring is is_recurring


@pytest.mark.parametrize(
    ("when", "timezone", "expected"),
    [
        ("0 9 * * MON", BERLIN, "every Monday at 09:00 Europe/Berlin, next 2026-01-05 09:00"),
        ("0 8 * * 1-5", "UTC", "every weekday at 08:00 UTC, next 2026-01-01 08:00"),
    ],
)
async def test_description(bot: Bot, when: str, timezone: str, expected: str) -> None:
    """It says in English when it runs, with the zone and the next run by that zone's clock."""
    schedule = await bot.schedule(when, "remind", timezone=timezone)

    assert schedule.describe() == expected


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (60, ["2026-01-01 01:01", BERLIN]),
        (START + timedelta(days=1), ["2026-01-02 01:00", BERLIN]),
        (Recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0", BERLIN), ["2026-01-02 09:00", BERLIN]),
        ("0 0 13 * 5", ["2026-01-02 00:00", " or ", BERLIN]),
    ],
    ids=["delayed", "scheduled", "rrule", "day or weekday"],
)
async def test_description_names_zone_and_next_run(bot: Bot, when: Any, words: list[str]) -> None:
    """Every type tells the next run and the zone it is read in; a day OR a weekday is said to be that."""
    schedule = await bot.schedule(when, "remind", timezone=BERLIN)

    description = schedule.describe()

    assert [word for word in words if word not in description] == [], description


def test_record_keeps_everything() -> None:
    """What is stored reads back as it was."""
    record = Record(
        type="cron",
        when="0 9 * * *",
        timezone=BERLIN,
        payload={"a": [1]},
        key="morning",
        catch_up="all",
        first_ms=1,
        backlog_ms=2,
        starts_ms=3,
        until_ms=4,
        remaining=5,
        count=6,
        skipped=7,
        is_paused=True,
        is_manual=True,
    )

    assert Record(**record.to_json()) == record


def test_record_stores_no_defaults() -> None:
    """A plain schedule takes three fields: a hundred thousand of them are cheap to store."""
    record = Record(type="cron", when="0 9 * * *", timezone="UTC")

    assert record.to_json() == {"type": "cron", "when": "0 9 * * *", "timezone": "UTC"}
