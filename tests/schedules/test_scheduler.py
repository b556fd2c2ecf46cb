"""The Scheduler through the whole stack, on a clock in the test's hand: one section each for what it promises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from agentkit import (
    Agent,
    AgentContext,
    AgentOptions,
    DurableObject,
    Lifecycle,
    Recurrence,
    RetryPolicy,
    Schedule,
    Scheduler,
)
from agentkit.errors import QuotaError, ScheduleError
from agentkit.schedules.record import Record
from agentkit.schedules.schedule import CatchUp
from agentkit.store.store import AgentId
from agentkit.testing import FakeClock, ManualRuntime

# A Thursday.
START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")


class Reminder(BaseModel):
    """What a reminder says."""

    text: str
    urgent: bool = False


@dataclass
class Log:
    """What the callbacks of a test did, and what they are told to do.

    Attributes:
        runs: When each run began, and the schedule as it fired (None where the callback takes none).
        errors: What ``on_error`` was told.
        failures: How many attempts are still to fail.
        takes: How long a run takes.
        on_start: Called by each start-up.
        gate: What each run waits for.
        is_over: The test has ended: whatever ignores its cancellation may stop.
    """

    runs: list[tuple[datetime, Any]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    failures: int = 0
    takes: timedelta = timedelta(0)
    on_start: Any = None
    gate: asyncio.Event | None = None
    is_over: bool = False

    @property
    def times(self) -> list[datetime]:
        """Return when runs began."""
        return [at for at, _ in self.runs]

    @property
    def due(self) -> list[datetime | None]:
        """Return which occurrences ran."""
        return [schedule.due_at for _, schedule in self.runs]

    @property
    def skipped(self) -> list[int]:
        """Return how many were left out before each run."""
        return [schedule.skipped for _, schedule in self.runs]


class Bot(Agent[None]):
    """Notes its runs in ``deps``, a ``Log``."""

    async def on_start(self) -> None:
        """Do what the test says."""
        if self.deps.on_start is not None:
            await self.deps.on_start(self)

    async def remind(self, payload: Any, schedule: Schedule) -> None:
        """Note the run, take as long as the test says, and fail if it says so."""
        self.deps.runs.append((self.lifecycle.clock.now(), schedule))
        if self.deps.gate is not None:
            await self.deps.gate.wait()
        if self.deps.takes:
            await self.lifecycle.clock.sleep(self.deps.takes)
        if self.deps.failures > 0:
            self.deps.failures -= 1
            message = "no luck"
            raise LookupError(message)

    async def other(self, payload: Any, schedule: Schedule) -> None:
        """Be another callback."""
        await self.remind(payload, schedule)

    async def typed(self, payload: Reminder, schedule: Schedule) -> None:
        """Take a model."""
        await self.remind(payload, schedule)

    async def cancel_itself(self, payload: Any, schedule: Schedule) -> None:
        """Cancel the schedule that is firing."""
        await self.remind(payload, schedule)
        await self.cancel_schedule(schedule.id)

    async def pause_itself(self, payload: Any, schedule: Schedule) -> None:
        """Pause the schedule that is firing."""
        await self.remind(payload, schedule)
        await self.pause_schedule(schedule.id)

    async def replace_itself(self, payload: Any, schedule: Schedule) -> None:
        """Set the key that is firing to another time."""
        await self.remind(payload, schedule)
        if payload == "first":
            await self.schedule(600, "remind", "second", key=schedule.key)

    async def deaf(self, payload: Any, schedule: Schedule) -> None:
        """Ignore cancellation for half an hour."""
        self.deps.runs.append((self.lifecycle.clock.now(), schedule))
        end = self.lifecycle.clock.now() + 30 * MINUTE
        while (left := end - self.lifecycle.clock.now()) > timedelta(0):
            try:
                await self.lifecycle.clock.sleep(left)
            except asyncio.CancelledError:
                if self.deps.is_over:
                    raise

    async def eat(self) -> None:
        """Run out of memory."""
        self.deps.runs.append((self.lifecycle.clock.now(), None))
        raise MemoryError

    async def on_error(self, error: Exception) -> None:
        """Note what failed for good."""
        self.deps.errors.append(error)

    async def both_or_none(self, *, fails: bool) -> None:
        """Record something and schedule its reminder together."""
        async with self.transaction():
            await self.storage.put("order", 1)
            await self.schedule(60, self.remind)
            if fails:
                raise KeyError

    async def destroy_in(self, seconds: float) -> Schedule:
        """Schedule the end."""
        return await self.schedule(seconds, self.destroy)

    async def put(self, value: Any) -> None:
        """Store something."""
        await self.storage.put("value", value)

    async def value(self) -> Any:
        """Return what was stored."""
        return await self.storage.get("value")

    async def inside(self, work: Callable[[Bot], Awaitable[None]]) -> None:
        """Run what a test hands in as code of this agent."""
        await work(self)


@pytest.fixture
def log() -> Log:
    """Return what the callbacks of this test go by."""
    return Log()


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands at the start of 2026."""
    return FakeClock(START)


@pytest.fixture
async def runtime(log: Log, clock: FakeClock) -> AsyncIterator[ManualRuntime]:
    """Return a runtime on the clock."""
    async with ManualRuntime(Bot, deps=log, clock=clock) as runtime:
        yield runtime
        log.is_over = True


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


async def sleep_through(runtime: ManualRuntime, clock: FakeClock, duration: timedelta) -> None:
    """Be down for a while: the process dies, and another starts after ``duration``."""
    await runtime._die()
    clock.move_to(clock.now() + duration)
    await runtime.start()
    await runtime.advance(0)


def at(text: str) -> datetime:
    """Return a UTC moment of ISO form."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# --- kinds of schedules run at their time


@pytest.mark.parametrize(
    ("when", "first"),
    [
        (90, START + 90 * SECOND),
        (timedelta(days=400), START + timedelta(days=400)),
        (START + DAY, START + DAY),
        (START - DAY, START),
        ("0 9 * * *", START + 9 * HOUR),
        (Recurrence("FREQ=WEEKLY;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0"), START + DAY + 9 * HOUR),
    ],
    ids=["delayed", "delayed long", "scheduled", "in the past", "cron", "rrule"],
)
async def test_first_run(runtime: ManualRuntime, bot: Bot, log: Log, when: Any, first: datetime) -> None:
    """Every kind runs at its moment: not before, and not later."""
    await bot.schedule(when, "remind")

    await runtime.advance(max(first - START - timedelta(milliseconds=1), timedelta(0)))
    before = list(log.times)
    await runtime.advance(timedelta(milliseconds=1))

    assert before == [moment for moment in [first] if moment <= START]
    assert log.times == [first]


async def test_one_shot_is_deleted_after_its_run(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot runs once and is gone."""
    made = await bot.schedule(60, "remind")

    await runtime.advance(DAY)

    assert log.times == [START + MINUTE]
    assert await bot.get_schedule(made.id) is None


async def test_ten_years_out(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Waits longer than any platform timer's are no trouble, through a crash as well."""
    moment = datetime(2036, 1, 1, 12, tzinfo=UTC)
    await bot.schedule(moment, "remind")

    await runtime.advance(timedelta(days=1800))
    await runtime.crash()
    await runtime.advance(moment - START - timedelta(days=1800) - SECOND)
    assert log.times == []
    await runtime.advance(SECOND)

    assert log.times == [moment]


async def test_schedule_survives_a_crash(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """What ``schedule`` returned is on disk: a crash right after it loses nothing."""
    await bot.schedule("0 8 * * *", "remind", {"text": "stand up"})

    await runtime.crash()
    await runtime.advance(2 * DAY)

    assert log.times == [START + 8 * HOUR, START + DAY + 8 * HOUR]
    assert runtime.events.count("schedule:execute") == 2


async def test_schedules_of_an_evicted_agent_run(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A schedule wakes its agent."""
    await bot.schedule(60, "remind")

    await runtime.evict(Bot, "ada")
    await runtime.advance(MINUTE)

    assert log.times == [START + MINUTE]


async def test_transaction(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A schedule made in a transaction is made with the rest of it or not at all."""
    with pytest.raises(KeyError):
        await bot.both_or_none(fails=True)
    assert await bot.list_schedules() == []

    await bot.both_or_none(fails=False)
    await runtime.advance(MINUTE)

    assert log.times == [START + MINUTE]


# --- what there is, and changing it


async def test_list_is_sorted_and_can_be_narrowed(bot: Bot) -> None:
    """By next run, the paused ones last; every filter narrows it, and bounds are start in, end out."""
    late = await bot.schedule(300, "other")
    soon = await bot.schedule_every(60, "remind")
    daily = await bot.schedule("0 9 * * *", "remind")
    paused = await bot.schedule("0 1 * * *", "other")
    await bot.pause_schedule(paused.id)

    async def ids(**filters: Any) -> list[str]:
        return [schedule.id for schedule in await bot.list_schedules(**filters)]

    assert await ids() == [soon.id, late.id, daily.id, paused.id]
    assert await ids(id=daily.id) == [daily.id]
    assert await ids(id="unknown") == []
    assert await ids(type="interval") == [soon.id]
    assert await ids(callback="other") == [late.id, paused.id]
    assert await ids(callback="gone in a deploy") == []
    assert await ids(start=START + 60 * SECOND, end=START + 300 * SECOND) == [soon.id]
    assert await ids(start=START + 61 * SECOND) == [late.id, daily.id]
    assert await ids(end=START + 301 * SECOND) == [soon.id, late.id]
    assert await ids(type="cron", callback="other") == [paused.id]


async def test_list_refuses_naive_bounds(bot: Bot) -> None:
    """A bound without a zone could mean anything."""
    with pytest.raises(ScheduleError, match="start 2026-01-01T00:00:00 has no time zone"):
        await bot.list_schedules(start=datetime(2026, 1, 1))


async def test_unknown_ids(bot: Bot) -> None:
    """Not found is None, False or nothing, never an error."""
    assert await bot.get_schedule("unknown") is None
    assert await bot.next_runs("unknown") == []
    for change in (bot.cancel_schedule, bot.pause_schedule, bot.resume_schedule, bot.run_schedule_now):
        assert await change("unknown") is False


async def test_jobs_of_others_are_no_schedules(bot: Bot) -> None:
    """The host's own jobs can't be reached through the scheduler."""

    async def push(agent: Bot) -> None:
        await agent.lifecycle.jobs.push("work", after=60, id="job")

    await bot.inside(push)

    assert await bot.list_schedules() == []
    assert await bot.cancel_schedule("job") is False


async def test_cancel(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A cancelled schedule is gone at once and never runs; the event says so."""
    made = await bot.schedule(60, "remind")

    assert await bot.cancel_schedule(made.id) is True
    assert await bot.cancel_schedule(made.id) is False
    await runtime.advance(HOUR)

    assert log.runs == []
    assert [event.payload["schedule_id"] for event in runtime.events.of("schedule:cancel")] == [made.id]


async def test_cancel_while_it_runs(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A recurring schedule that cancels itself finishes its run and has no other."""
    await bot.schedule("* * * * *", "cancel_itself")

    await runtime.advance(HOUR)

    assert log.times == [START + MINUTE]
    assert await bot.list_schedules() == []


async def test_pause_and_resume(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Nothing runs while paused, nothing is made up for, and resuming doesn't fire at once."""
    made = await bot.schedule("*/10 * * * *", "remind", catch_up="all")

    assert await bot.pause_schedule(made.id) is True
    assert await bot.pause_schedule(made.id) is True
    await runtime.advance(65 * MINUTE)
    assert log.runs == []
    assert await bot.next_runs(made.id) == []

    assert await bot.resume_schedule(made.id) is True
    assert await bot.resume_schedule(made.id) is True
    resumed = await bot.get_schedule(made.id)
    assert resumed is not None
    assert (resumed.paused, resumed.next_run) == (False, START + 70 * MINUTE)
    await runtime.advance(10 * MINUTE)

    assert log.times == [START + 70 * MINUTE]
    assert log.skipped == [0]


async def test_pause_survives_a_crash(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A pause is stored."""
    made = await bot.schedule("* * * * *", "remind")
    await bot.pause_schedule(made.id)

    await runtime.crash()
    await runtime.advance(HOUR)

    assert log.runs == []


async def test_pause_while_it_runs(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A schedule that pauses itself stays, paused."""
    made = await bot.schedule("* * * * *", "pause_itself")

    await runtime.advance(HOUR)
    left = await bot.get_schedule(made.id)

    assert log.times == [START + MINUTE]
    assert left is not None
    assert left.paused


async def test_resumed_interval_keeps_its_grid(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """After a pause an interval runs at the points it would have run at."""
    made = await bot.schedule_every(60, "remind")
    await bot.pause_schedule(made.id)
    await runtime.advance(90 * SECOND)

    await bot.resume_schedule(made.id)
    await runtime.advance(MINUTE)

    assert log.times == [START + 2 * MINUTE]


async def test_resumed_one_shot_runs_at_its_time(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A pause doesn't move a one-shot that is still to come."""
    made = await bot.schedule(600, "remind")
    await bot.pause_schedule(made.id)
    await runtime.advance(MINUTE)

    await bot.resume_schedule(made.id)
    await runtime.advance(HOUR)

    assert log.times == [START + 10 * MINUTE]


async def test_resumed_one_shot_that_was_replaced(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Its delay counts from the replacement, not from when its key was first used."""
    await bot.schedule(60, "remind", key="k")
    await runtime.advance(30 * SECOND)
    made = await bot.schedule(600, "remind", key="k")
    await bot.pause_schedule(made.id)

    await bot.resume_schedule(made.id)

    resumed = await bot.get_schedule(made.id)
    assert resumed is not None
    assert resumed.next_run == START + 630 * SECOND


async def test_resumed_one_shot_that_is_late_runs(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot always runs, however late: here when it is resumed."""
    made = await bot.schedule(60, "remind")
    await bot.pause_schedule(made.id)
    await runtime.advance(HOUR)

    await bot.resume_schedule(made.id)
    await runtime.advance(SECOND)

    assert log.times == [START + HOUR]


async def test_run_now(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A recurring schedule runs at once and then goes on as before."""
    made = await bot.schedule("0 * * * *", "remind")
    await runtime.advance(10 * MINUTE)

    assert await bot.run_schedule_now(made.id) is True
    await runtime.advance(2 * HOUR)

    assert log.times == [START + 10 * MINUTE, START + HOUR, START + 2 * HOUR]


async def test_run_now_of_an_interval_keeps_its_grid(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A run in between moves no other."""
    made = await bot.schedule_every(60, "remind")
    await runtime.advance(90 * SECOND)

    await bot.run_schedule_now(made.id)
    await runtime.advance(MINUTE)

    assert log.times == [START + 60 * SECOND, START + 90 * SECOND, START + 120 * SECOND]


async def test_run_now_of_a_paused_schedule(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """It runs once and stays paused."""
    made = await bot.schedule("* * * * *", "remind")
    await bot.pause_schedule(made.id)

    await bot.run_schedule_now(made.id)
    await runtime.advance(HOUR)
    left = await bot.get_schedule(made.id)

    assert log.times == [START]
    assert left is not None
    assert left.paused


async def test_run_now_of_a_one_shot(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot is done with it."""
    made = await bot.schedule(600, "remind")

    await bot.run_schedule_now(made.id)
    await runtime.advance(HOUR)

    assert log.times == [START]
    assert await bot.list_schedules() == []


async def test_run_now_survives_a_crash(runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock) -> None:
    """The wish is stored: it is no missed occurrence that a policy could leave out."""
    made = await bot.schedule("0 * * * *", "remind", catch_up="skip")
    await bot.run_schedule_now(made.id)

    await sleep_through(runtime, clock, 10 * MINUTE)

    assert log.times == [START + 10 * MINUTE]


async def test_next_runs(bot: Bot) -> None:
    """The coming moments, fewer where the schedule ends before."""
    cron = await bot.schedule("0 9 * * *", "remind", until=START + 2 * DAY)
    interval = await bot.schedule_every(60, "remind", count=2)
    once = await bot.schedule(60, "remind")

    assert await bot.next_runs(cron.id, 1) == [START + 9 * HOUR]
    assert await bot.next_runs(cron.id, 10) == [START + 9 * HOUR, START + DAY + 9 * HOUR]
    assert await bot.next_runs(interval.id, 10) == [START + MINUTE, START + 2 * MINUTE]
    assert await bot.next_runs(once.id, 3) == [START + MINUTE]
    assert await bot.next_runs(cron.id, 0) == []


# --- idempotency


@pytest.mark.parametrize(
    ("when", "number"),
    [
        (60, 2),
        (START + DAY, 2),
        ("0 9 * * *", 1),
        (Recurrence("FREQ=DAILY"), 1),
    ],
    ids=["delayed", "scheduled", "cron", "rrule"],
)
async def test_default_of_idempotent(bot: Bot, when: Any, number: int) -> None:
    """Recurring schedules are made once, one-shots as often as they are asked for."""
    first = await bot.schedule(when, "remind", {"n": 1})
    second = await bot.schedule(when, "remind", {"n": 1})

    assert len(await bot.list_schedules()) == number
    assert (first == second) is (number == 1)


async def test_interval_is_idempotent(runtime: ManualRuntime, bot: Bot) -> None:
    """An interval asked for again is the one there is, with its own next run."""
    first = await bot.schedule_every(60, "remind")
    await runtime.advance(30 * SECOND)

    second = await bot.schedule_every(60, "remind")

    assert second == first
    assert second.next_run == START + MINUTE


async def test_idempotent_can_be_chosen(bot: Bot) -> None:
    """Each default can be turned round."""
    delayed = await bot.schedule(60, "remind", idempotent=True)
    delayed_again = await bot.schedule(60, "remind", idempotent=True)
    await bot.schedule("0 9 * * *", "remind", idempotent=False)
    await bot.schedule("0 9 * * *", "remind", idempotent=False)

    assert delayed_again == delayed
    assert len(await bot.list_schedules(type="cron")) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"when": "1 9 * * *"},
        {"callback": "other"},
        {"payload": {"n": 2}},
        {"payload": {"n": 1.0}},
        {"payload": {"n": True}},
        {"payload": None},
        {"timezone": "Europe/Berlin"},
        {"until": START + 9 * DAY},
        {"starts_at": START + 9 * DAY},
        {"count": 3},
    ],
    ids=str,
)
async def test_difference_makes_another_schedule(bot: Bot, changed: dict[str, Any]) -> None:
    """Type, callback, when as given, zone, bounds and payload all count."""
    arguments: dict[str, Any] = {"when": "0 9 * * *", "callback": "remind", "payload": {"n": 1}}
    await bot.schedule(**arguments)

    await bot.schedule(**(arguments | changed))

    assert len(await bot.list_schedules()) == 2


async def test_order_of_keys_is_no_difference(bot: Bot) -> None:
    """Payloads are compared as values, not as text."""
    await bot.schedule("0 9 * * *", "remind", {"a": 1, "b": 2})
    await bot.schedule("0 9 * * *", "remind", {"b": 2, "a": 1})

    assert len(await bot.list_schedules()) == 1


async def test_delay_matches_by_the_delay(runtime: ManualRuntime, bot: Bot) -> None:
    """An idempotent delay is the delay as given, not the moment it leads to."""
    first = await bot.schedule(60, "remind", idempotent=True)
    await runtime.advance(SECOND)

    second = await bot.schedule(60.0, "remind", idempotent=True)
    third = await bot.schedule(61, "remind", idempotent=True)

    assert second == first
    assert third.id != first.id


async def test_default_added_in_a_deploy_makes_no_duplicate(log: Log, tmp_path: Path) -> None:
    """Payloads are compared after both went through the callback's annotation of today."""

    class Before(Agent[None]):
        options = AgentOptions(name="Deployed")

        async def typed(self, payload: Any) -> None:
            """Take anything."""

    class After(Agent[None]):
        options = AgentOptions(name="Deployed")

        async def typed(self, payload: Reminder) -> None:
            """Take a model with a default that was not stored."""

    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Before, store=store) as runtime:
        before = await runtime.get(Before, "ada").schedule("0 9 * * *", "typed", {"text": "stand up"})

    async with ManualRuntime(After, store=store) as runtime:
        after = await runtime.get(After, "ada").schedule("0 9 * * *", "typed", Reminder(text="stand up"))

        assert after.id == before.id
        assert len(await runtime.get(After, "ada").list_schedules()) == 1


async def test_schedule_in_on_start_is_made_once(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A hundred starts make one interval, and it keeps its rhythm over all of them."""

    async def plan(agent: Bot) -> None:
        await agent.schedule_every(60, "remind")

    log.on_start = plan
    for _ in range(100):
        await runtime.activate(Bot, "ada")
        await runtime.evict(Bot, "ada")
        await runtime.advance(1.5)

    assert log.times == [START + MINUTE, START + 2 * MINUTE]
    assert len(await bot.list_schedules()) == 1


async def test_match_rearms(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Finding an equal schedule leaves the agent with an alarm, whatever became of it before."""
    await bot.schedule_every(60, "remind")

    async def lose_the_alarm(agent: Bot) -> None:
        agent.lifecycle.session.row.alarm_ms = None
        agent.lifecycle.session.on_change(agent.lifecycle.session)

    await bot.inside(lose_the_alarm)
    await bot.schedule_every(60, "remind")
    await runtime.advance(MINUTE)

    assert log.times == [START + MINUTE]


# --- keys


async def test_same_key_is_one_schedule(bot: Bot) -> None:
    """A key names the schedule, whatever its type or callback."""
    first = await bot.schedule("0 9 * * *", "remind", key="k")

    second = await bot.schedule(60, "other", key="k")

    assert second.id == first.id
    assert [(schedule.type, schedule.callback) for schedule in await bot.list_schedules()] == [("delayed", "other")]


async def test_key_comes_before_equality(bot: Bot) -> None:
    """Two keys are two schedules, though they are equal otherwise, and neither is found without its key."""
    await bot.schedule("0 9 * * *", "remind", key="a")
    await bot.schedule("0 9 * * *", "remind", key="b")
    await bot.schedule("0 9 * * *", "remind")

    assert [schedule.key for schedule in await bot.list_schedules()] == ["a", "b", None]


@pytest.mark.parametrize(
    "changed",
    [
        {"when": "1 9 * * *"},
        {"callback": "other"},
        {"payload": {"n": 2}},
        {"retry": RetryPolicy(max_attempts=7)},
        {"timezone": "Europe/Berlin"},
        {"catch_up": "all"},
        {"until": START + 9 * DAY},
        {"starts_at": START + 9 * DAY},
        {"count": 3},
        {"timeout": 5},
    ],
    ids=str,
)
async def test_changed_key_replaces(runtime: ManualRuntime, bot: Bot, changed: dict[str, Any]) -> None:
    """Whatever changed is in force afterwards, and no orphan is left; the key was first used when it was."""
    arguments: dict[str, Any] = {"when": "0 9 * * *", "callback": "remind", "payload": {"n": 1}, "key": "k"}
    await bot.schedule(**arguments)
    await runtime.advance(MINUTE)

    replaced = await bot.schedule(**(arguments | changed))

    fresh = await runtime.get(Bot, "bob").schedule(**(arguments | changed))
    [left] = await bot.list_schedules()
    assert left == replaced
    assert replaced.created_at == START
    for name in ("cron", "callback", "payload", "retry", "timezone", "catch_up", "until", "starts_at", "remaining"):
        assert getattr(replaced, name) == getattr(fresh, name)
    assert (replaced.timeout, replaced.next_run) == (fresh.timeout, fresh.next_run)


async def test_unchanged_key_keeps_everything(runtime: ManualRuntime, bot: Bot) -> None:
    """Asking for the same again changes nothing and tells nobody."""
    first = await bot.schedule_every(60, "typed", {"text": "stand up"}, key="k")
    await runtime.advance(30 * SECOND)

    second = await bot.schedule_every(60, "typed", Reminder(text="stand up"), key="k")

    assert second == first
    assert second.next_run == START + MINUTE
    assert runtime.events.count("schedule:create") == 1


@pytest.mark.parametrize("payload", [1, 2], ids=["unchanged", "changed"])
async def test_key_keeps_a_pause(runtime: ManualRuntime, bot: Bot, log: Log, payload: int) -> None:
    """A deploy doesn't start what somebody has paused; resumed, it runs as it is by then."""
    made = await bot.schedule("0 9 * * *", "remind", 1, key="k")
    await bot.pause_schedule(made.id)

    again = await bot.schedule("0 9 * * *", "remind", payload, key="k")
    await runtime.advance(DAY)
    assert log.runs == []
    await bot.resume_schedule(made.id)
    await runtime.advance(DAY)

    assert (again.paused, again.next_run) == (True, None)
    assert log.times == [START + DAY + 9 * HOUR]
    assert log.runs[0][1].payload == payload


async def test_new_payload_keeps_the_rhythm(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """An interval whose payload changes with every deploy still comes round."""
    for version in range(5):
        await bot.schedule_every(HOUR, "remind", {"version": version}, key="k")
        await runtime.advance(25 * MINUTE)

    assert log.times == [START + HOUR, START + 2 * HOUR]
    assert [schedule.payload["version"] for _, schedule in log.runs] == [2, 4]


async def test_new_payload_keeps_the_rest_of_a_count(runtime: ManualRuntime, bot: Bot) -> None:
    """Runs that were had are not had again."""
    await bot.schedule_every(60, "remind", 1, key="k", count=3)
    await runtime.advance(MINUTE)

    changed = await bot.schedule_every(60, "remind", 2, key="k", count=3)

    assert changed.remaining == 2


async def test_replacing_never_fires_at_once(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """An edited expression runs at its next time, not at one that has just passed."""
    await bot.schedule("0 9 * * *", "remind", key="k", catch_up="all")
    await runtime.advance(12 * HOUR)
    log.runs.clear()

    await bot.schedule("0 10 * * *", "remind", key="k", catch_up="all")
    await runtime.advance(HOUR)

    assert log.runs == []


@pytest.mark.parametrize(("payload", "times"), [(1, [2.5, 3]), (2, [3])], ids=["unchanged", "changed"])
async def test_key_set_again_by_the_start_after_downtime(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock, payload: int, times: list[float]
) -> None:
    """What was missed is made up for if the schedule is still the same; an edited one waits for its next time."""
    await bot.schedule("0 * * * *", "remind", 1, key="k")

    async def plan(agent: Bot) -> None:
        await agent.schedule("0 * * * *", "remind", payload, key="k")

    log.on_start = plan
    await runtime._die()
    clock.move_to(START + 2.5 * HOUR)
    await runtime.start()
    await runtime.activate(Bot, "ada")
    await runtime.advance(HOUR)

    assert log.times == [START + hours * HOUR for hours in times]


async def test_one_shot_with_a_key_can_be_put_off(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot with another payload starts its delay anew."""
    await bot.schedule(60, "remind", 1, key="k")
    await runtime.advance(30 * SECOND)

    await bot.schedule(60, "remind", 2, key="k")
    await runtime.advance(HOUR)

    assert log.times == [START + 90 * SECOND]


async def test_key_set_while_it_runs(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot that sets its own key again has a successor: the newer change wins over the run's outcome."""
    await bot.schedule(60, "replace_itself", "first", key="k")

    await runtime.advance(HOUR)

    assert log.times == [START + MINUTE, START + 11 * MINUTE]
    assert await bot.list_schedules() == []


# --- one-shots that pile up


async def test_one_shot_in_on_start_warns_once_a_callback(
    runtime: ManualRuntime, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """A one-shot made at every start would pile up: the warning names the callback and what to do."""

    async def plan(agent: Bot) -> None:
        await agent.schedule(600, "remind", 1)
        await agent.schedule(600, "remind", 2)
        await agent.schedule(600, "other")

    log.on_start = plan
    with caplog.at_level(logging.WARNING, "agentkit.schedules"):
        await runtime.activate(Bot, "ada")

    messages = [record.getMessage() for record in caplog.records if "on_start" in record.getMessage()]
    assert len(messages) == 2
    assert "'remind'" in messages[0]
    assert "'other'" in messages[1]
    assert all("idempotent=True or key=" in message for message in messages)


async def test_schedules_that_do_not_pile_up_give_no_warning(
    runtime: ManualRuntime, bot: Bot, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """Recurring, idempotent and named schedules are made once, and outside of on_start nothing piles up."""

    async def plan(agent: Bot) -> None:
        await agent.schedule("0 9 * * *", "remind")
        await agent.schedule_every(60, "remind")
        await agent.schedule(600, "remind", idempotent=True)
        await agent.schedule(600, "remind", key="k")

    log.on_start = plan
    with caplog.at_level(logging.WARNING, "agentkit.schedules"):
        await bot.schedule(600, "remind")

    assert caplog.records == []


# --- recurrence


async def test_interval_does_not_drift(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Runs stay on the grid of the first, however long each takes."""
    log.takes = 7 * SECOND
    await bot.schedule_every(60, "remind")

    await runtime.advance(5 * MINUTE + 30 * SECOND)

    assert log.times == [START + n * MINUTE for n in range(1, 6)]


async def test_points_missed_by_a_long_run_are_skipped_with_a_count(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """After a run over several points the latest of them runs, and says how many were left out."""
    log.takes = 3 * MINUTE + 30 * SECOND
    await bot.schedule_every(60, "remind")

    await runtime.advance(4 * MINUTE)
    log.takes = timedelta(0)
    await runtime.advance(90 * SECOND)

    assert log.due == [START + MINUTE, START + 4 * MINUTE, START + 5 * MINUTE]
    assert log.times[1] == START + 4 * MINUTE + 30 * SECOND
    assert log.skipped == [0, 2, 0]


async def test_run_over_one_point_loses_nothing(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A point that passed during a run is late, not missed, while the one after it is still to come."""
    log.takes = 90 * SECOND
    await bot.schedule_every(60, "remind", catch_up="skip", count=2)

    await runtime.advance(HOUR)

    assert log.due == [START + MINUTE, START + 2 * MINUTE]
    assert log.times == [START + MINUTE, START + 150 * SECOND]


@pytest.mark.parametrize(
    ("catch_up", "due", "skipped"),
    [
        ("once", [START + 5 * HOUR, START + 6 * HOUR], [4, 0]),
        ("skip", [START + 6 * HOUR], [5]),
        ("all", [START + n * HOUR for n in range(1, 7)], [0] * 6),
    ],
)
@pytest.mark.parametrize("kind", ["cron", "interval", "rrule"])
async def test_catch_up_after_downtime(
    runtime: ManualRuntime,
    bot: Bot,
    log: Log,
    clock: FakeClock,
    kind: str,
    catch_up: CatchUp,
    due: list[datetime],
    skipped: list[int],
) -> None:
    """Five missed hours are one run of the latest, none, or five; the count comes with the next run."""
    match kind:
        case "cron":
            await bot.schedule("0 * * * *", "remind", catch_up=catch_up)
        case "interval":
            await bot.schedule_every(HOUR, "remind", catch_up=catch_up)
        case _:
            await bot.schedule(Recurrence("FREQ=HOURLY;BYMINUTE=0;BYSECOND=0"), "remind", catch_up=catch_up)

    await sleep_through(runtime, clock, 5 * HOUR + 20 * MINUTE)
    await runtime.advance(HOUR)

    assert log.due == due
    assert log.skipped == skipped


async def test_catch_up_is_once_by_default(runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock) -> None:
    """Down at noon: the daily job runs when the process is back, not tomorrow."""
    made = await bot.schedule("0 12 * * *", "remind")

    await sleep_through(runtime, clock, 13 * HOUR)
    await runtime.advance(DAY)

    assert made.catch_up == "once"
    assert log.times == [START + 13 * HOUR, START + DAY + 12 * HOUR]
    assert log.due == [START + 12 * HOUR, START + DAY + 12 * HOUR]


async def test_all_makes_up_for_the_newest_thousand(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """After a day of minutes the oldest 440 are left out, and say so; the others run in order."""
    await bot.schedule_every(60, "remind", catch_up="all")

    await sleep_through(runtime, clock, DAY)

    assert log.due == [START + n * MINUTE for n in range(441, 1_441)]
    assert log.skipped == [440] + [0] * 999


async def test_failure_while_catching_up_drops_none_of_the_others(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """With all, each missed occurrence has its run, also after one that failed for good."""
    await bot.schedule("0 * * * *", "remind", catch_up="all", retry=RetryPolicy(max_attempts=1))
    log.failures = 1

    await sleep_through(runtime, clock, 4 * HOUR + MINUTE)

    assert log.due == [START + n * HOUR for n in range(1, 5)]
    assert [run.outcome for run in await bot.history()] == ["completed", "completed", "completed", "failed"]


async def test_skipped_count_waits_for_the_next_run(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """Two downtimes without a run between add up, and an event tells of each."""
    await bot.schedule("0 * * * *", "remind", catch_up="skip")

    await sleep_through(runtime, clock, 2 * HOUR + MINUTE)
    await sleep_through(runtime, clock, HOUR)
    await runtime.advance(HOUR)

    assert log.due == [START + 4 * HOUR]
    assert log.skipped == [3]
    assert [event.payload["skipped"] for event in runtime.events.of("schedule:skip")] == [2, 1]


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
async def test_run_cut_off_by_a_crash_runs_again(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock, catch_up: CatchUp
) -> None:
    """What was under way when the process died is no missed occurrence, and keeps its name."""
    log.takes = 10 * MINUTE
    await bot.schedule("0 * * * *", "remind", catch_up=catch_up)
    await runtime.advance(HOUR + MINUTE)

    log.takes = timedelta(0)
    await sleep_through(runtime, clock, MINUTE)

    assert log.due == [START + HOUR, START + HOUR]
    assert log.runs[0][1].run_id == log.runs[1][1].run_id


@pytest.mark.parametrize("when", [60, START + MINUTE], ids=["delayed", "scheduled"])
async def test_one_shot_runs_however_late(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock, when: Any
) -> None:
    """A reminder missed by a year comes at once; it knows what it was due for."""
    await bot.schedule(when, "remind")

    await sleep_through(runtime, clock, timedelta(days=365))

    assert log.times == [START + timedelta(days=365)]
    assert log.due == [START + MINUTE]


async def test_creating_never_fires_at_once(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A schedule made exactly at one of its moments first runs at the next."""
    await bot.schedule("0 0 * * *", "remind")
    await bot.schedule_every(60, "other", starts_at=START - 5 * MINUTE, catch_up="all")

    await runtime.advance(SECOND)

    assert log.runs == []


async def test_until_is_inclusive(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """The last run may be at the very moment; afterwards the schedule is gone."""
    await bot.schedule("0 * * * *", "remind", until=START + 2 * HOUR)
    await bot.schedule_every(HOUR, "remind", until=START + 2 * HOUR)

    await runtime.advance(DAY)

    assert log.times == [START + HOUR, START + HOUR, START + 2 * HOUR, START + 2 * HOUR]
    assert await bot.list_schedules() == []


async def test_starts_at(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Cron runs from then on, an interval has its first run then."""
    await bot.schedule("0 9 * * *", "remind", starts_at=START + 2 * DAY)
    await bot.schedule_every(DAY, "other", starts_at=START + DAY + 90 * MINUTE)

    await runtime.advance(3 * DAY)

    cron = [at for at, schedule in log.runs if schedule.type == "cron"]
    interval = [at for at, schedule in log.runs if schedule.type == "interval"]
    assert cron == [START + 2 * DAY + 9 * HOUR]
    assert interval == [START + DAY + 90 * MINUTE, START + 2 * DAY + 90 * MINUTE]


async def test_count(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """After so many runs it ends; a crash between doesn't give any back, a retry takes none away."""
    await bot.schedule("0 * * * *", "remind", count=3)
    log.failures = 1

    await runtime.advance(90 * MINUTE)
    await runtime.crash()
    await runtime.advance(DAY)

    assert [schedule.remaining for _, schedule in log.runs] == [3, 3, 2, 1]
    assert await bot.list_schedules() == []


async def test_count_of_a_rule(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A rule that counts ends by itself."""
    rule = Recurrence("FREQ=DAILY;COUNT=3;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
    await bot.schedule(rule, "remind")

    await runtime.advance(9 * DAY)

    assert log.times == [START + n * DAY + 9 * HOUR for n in range(3)]
    assert await bot.list_schedules() == []


# --- retries and failures


async def test_failing_callback_is_retried_then_reported(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Three attempts within one alarm, then ``on_error``; the one-shot is removed."""
    log.failures = 9
    await bot.schedule(60, "remind")

    await runtime.advance(HOUR)

    assert len(log.runs) == 3
    assert log.times[-1] - log.times[0] < 2 * SECOND
    assert len({schedule.run_id for _, schedule in log.runs}) == 1
    assert [str(error) for error in log.errors] == ["no luck"]
    assert await bot.list_schedules() == []
    names = ["schedule:execute", "schedule:retry", "schedule:error"]
    assert [runtime.events.count(name) for name in names] == [1, 2, 1]


async def test_failing_recurring_schedule_goes_on(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A run that failed for good is one run; the next comes at its time."""
    log.failures = 3
    await bot.schedule("0 * * * *", "remind")

    await runtime.advance(3 * HOUR)

    assert log.due == [START + HOUR] * 3 + [START + 2 * HOUR, START + 3 * HOUR]
    assert len(log.errors) == 1


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
async def test_retry_stays_with_its_occurrence(runtime: ManualRuntime, bot: Bot, log: Log, catch_up: CatchUp) -> None:
    """A retry that comes when the next occurrence is due too is not taken for a missed one."""
    log.failures, log.takes = 1, 3 * SECOND
    await bot.schedule_every(1, "remind", catch_up=catch_up, count=1)

    await runtime.advance(MINUTE)

    assert log.due == [START + SECOND, START + SECOND]
    assert [run.outcome for run in await bot.history()] == ["completed"]


@pytest.mark.parametrize(
    ("own", "schedulers", "classes", "expected"),
    [
        (5, 4, 2, 5),
        (None, 4, 2, 4),
        (None, None, 2, 2),
        (None, None, None, 3),
    ],
    ids=["the schedule's", "the Scheduler's", "the class's", "default"],
)
async def test_retry_policies_from_narrow_to_wide(
    log: Log, own: int | None, schedulers: int | None, classes: int | None, expected: int
) -> None:
    """The schedule's policy comes first, then the Scheduler's, the class's, and the default."""

    class Host(DurableObject):
        options = AgentOptions(retry=RetryPolicy(max_attempts=classes))

        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self)
            policy = None if schedulers is None else RetryPolicy(max_attempts=schedulers)
            scheduler = Scheduler({"fail": self.fail}, retry=policy, on_error=self.note)
            self.schedules = self.lifecycle.use(scheduler)

        async def fail(self) -> None:
            log.failures += 1
            raise ValueError

        async def note(self, error: Exception) -> None:
            log.errors.append(error)

        async def plan(self) -> None:
            policy = None if own is None else RetryPolicy(max_attempts=own)
            await self.schedules.set(60, "fail", retry=policy)

    async with ManualRuntime(Host) as runtime:
        await runtime.get(Host, "ada").plan()
        await runtime.advance(HOUR)

    assert log.failures == expected
    assert [type(error) for error in log.errors] == [ValueError]


async def test_on_error_that_raises_breaks_nothing(
    runtime: ManualRuntime, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the recurring schedule goes on."""

    class Host(DurableObject):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self)
            self.schedules = self.lifecycle.use(Scheduler({"fail": self.fail}, on_error=self.worse))

        async def fail(self) -> None:
            log.failures += 1
            raise ValueError

        async def worse(self, error: Exception) -> None:
            raise RuntimeError

        async def plan(self) -> None:
            await self.schedules.every(HOUR, "fail", retry=RetryPolicy(max_attempts=1))

    async with ManualRuntime(Host) as other:
        await other.get(Host, "ada").plan()
        await other.advance(2 * HOUR)

    assert log.failures == 2
    assert "on_error raised" in caplog.text


async def test_timeout_counts_as_a_failure(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A run over its timeout is cancelled, tried again, and reported."""
    log.takes = HOUR
    await bot.schedule(60, "remind", timeout=10)

    await runtime.advance(10 * MINUTE)
    [run] = await bot.history()

    assert len(log.runs) == 3
    assert (run.outcome, run.attempts) == ("failed", 3)
    assert [type(error).__name__ for error in log.errors] == ["JobTimeoutError"]


async def test_interval_is_single_flight(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """While a run that ignores its cancellation is alive, occurrences are left out with a count, and recorded."""
    options: dict[str, Any] = {"timeout": 1, "retry": RetryPolicy(max_attempts=1)}
    await bot.schedule_every(10 * SECOND, "deaf", **options)

    await runtime.advance(39 * SECOND)

    assert log.times == [START + 10 * SECOND]
    outcomes = [run.outcome for run in await bot.history()]
    assert outcomes == ["skipped", "skipped", "failed"]
    assert runtime.events.count("schedule:skip") == 2


async def test_hung_interval_runs_again(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """After ``hung_timeout`` the earlier run counts as hung, and the next one says how many were left out."""
    options: dict[str, Any] = {"timeout": 1, "retry": RetryPolicy(max_attempts=1)}
    await bot.schedule_every(10 * SECOND, "deaf", **options)

    await runtime.advance(40 * SECOND)

    assert log.times == [START + 10 * SECOND, START + 40 * SECOND]
    assert log.skipped == [0, 2]


async def test_cron_is_not_single_flight(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Only intervals are left out while an earlier run is alive."""
    await bot.schedule("* * * * *", "deaf", timeout=1, retry=RetryPolicy(max_attempts=1), count=2)

    await runtime.advance(10 * MINUTE)

    assert log.times == [START + MINUTE, START + 2 * MINUTE]


@pytest.mark.parametrize(
    ("given", "expected"), [({"hung_timeout": 5}, 5.0), ({}, 30.0)], ids=["the Scheduler's", "default"]
)
async def test_slow_run_is_reported(log: Log, given: dict[str, Any], expected: float) -> None:
    """A run that goes on beyond ``hung_timeout`` is told of once, and goes on."""

    class Host(DurableObject):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self)
            self.schedules = self.lifecycle.use(Scheduler({"work": self.work}, **given))

        async def work(self) -> None:
            await self.lifecycle.clock.sleep(60)
            log.failures += 1

        async def plan(self) -> None:
            await self.schedules.set(60, "work")

    async with ManualRuntime(Host) as runtime:
        await runtime.get(Host, "ada").plan()
        await runtime.advance(HOUR)

        [event] = runtime.events.of("job:slow_dispatch")
        assert event.payload["seconds"] == expected
        assert log.failures == 1


@pytest.mark.parametrize(
    "record",
    [
        Record(type="cron", when="0 9 * * *", timezone="Mars/Base"),
        Record(type="cron", when="0 9 * * * 2031", timezone="UTC"),
        Record(type="rrule", when="FREQ=SOMETIMES", timezone="UTC"),
    ],
    ids=["zone", "cron", "rrule"],
)
async def test_rule_that_can_no_longer_be_read_is_kept(
    runtime: ManualRuntime, bot: Bot, log: Log, record: Record
) -> None:
    """A zone or a syntax that has gone since is no end of the schedule: it is set aside whole, with the reason."""

    async def push(agent: Bot) -> None:
        jobs = agent.scheduler.lifecycle.jobs
        await jobs.push("remind", after=60, payload=record.to_json())

    await bot.inside(push)
    await runtime.advance(HOUR)
    [run] = await bot.history()

    assert (run.outcome, run.attempts) == ("orphaned", 1)
    assert run.error is not None
    assert (record.timezone if record.timezone != "UTC" else str(record.when)) in run.error
    assert log.runs == []


# --- zones and changes of the clock by law


@pytest.mark.parametrize(
    ("expression", "zone", "day", "expected"),
    [
        # Clocks go forward from 02:00 to 03:00.
        ("30 2 * * *", "America/New_York", "2026-03-08", ["03:00-04:00"]),
        ("0 9 * * *", "America/New_York", "2026-03-08", ["09:00-04:00"]),
        (
            "*/30 1-3 * * *",
            "America/New_York",
            "2026-03-08",
            ["01:00-05:00", "01:30-05:00", "03:00-04:00", "03:30-04:00"],
        ),
        # Clocks go back from 02:00 to 01:00.
        ("30 1 * * *", "America/New_York", "2026-11-01", ["01:30-04:00"]),
        (
            "*/30 1 * * *",
            "America/New_York",
            "2026-11-01",
            ["01:00-04:00", "01:30-04:00", "01:00-05:00", "01:30-05:00"],
        ),
        # Midnight itself is missing.
        ("0 0 * * *", "America/Santiago", "2026-09-06", ["01:00-03:00"]),
        # Half an hour only.
        ("15,45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["01:15+11:00", "01:45+11:00"]),
    ],
    ids=["gap", "after a gap", "rhythm in a gap", "repeated", "rhythm repeated", "no midnight", "half an hour"],
)
async def test_cron_where_clocks_change(log: Log, expression: str, zone: str, day: str, expected: list[str]) -> None:
    """Fixed times run once, at the end of a gap and in the first pass; rhythms follow real time."""
    local = ZoneInfo(zone)
    midnight = datetime.fromisoformat(day).replace(tzinfo=local)
    clock = FakeClock(midnight - 2 * HOUR)
    async with ManualRuntime(Bot, deps=log, clock=clock) as runtime:
        bot = runtime.get(Bot, "ada")
        await bot.schedule(expression, "remind", timezone=zone)

        await runtime.advance(36 * HOUR)

    runs = [moment.astimezone(local).isoformat(timespec="minutes") for moment in log.times]
    assert [run[11:] for run in runs if run.startswith(day)] == expected
    assert log.skipped == [0] * len(log.runs)


async def test_interval_is_elapsed_time(log: Log) -> None:
    """A day of an interval is 24 hours, a day of a rule is a day by the wall clock."""
    clock = FakeClock(datetime(2026, 3, 28, 9, tzinfo=BERLIN))
    async with ManualRuntime(Bot, deps=log, clock=clock) as runtime:
        bot = runtime.get(Bot, "ada")
        await bot.schedule_every(DAY, "remind", timezone="Europe/Berlin")
        await bot.schedule(Recurrence("FREQ=DAILY", "Europe/Berlin"), "other")

        await runtime.advance(DAY)

    runs = {schedule.type: at.astimezone(BERLIN).hour for at, schedule in log.runs}
    assert runs == {"rrule": 9, "interval": 10}


async def test_zone_of_the_options(log: Log) -> None:
    """The class's zone applies where no other is given."""

    class Local(Bot):
        options = AgentOptions(timezone="Asia/Tokyo")

    async with ManualRuntime(Local, deps=log) as runtime:
        schedule = await runtime.get(Local, "ada").schedule("0 9 * * *", "remind")

    assert schedule.timezone == "Asia/Tokyo"
    assert schedule.next_run == datetime(2026, 1, 2, 9, tzinfo=ZoneInfo("Asia/Tokyo"))


async def test_zones_from_narrow_to_wide(runtime: ManualRuntime, bot: Bot) -> None:
    """UTC, unless the agent has a zone, unless the call names one; the agent's survives a crash."""
    plain = await bot.schedule("0 1 * * *", "remind")
    await bot.set_timezone("Europe/Berlin")
    await runtime.crash()
    agents = await bot.schedule("0 2 * * *", "remind")
    named = await bot.schedule("0 3 * * *", "remind", timezone="Asia/Tokyo")

    assert [plain.timezone, agents.timezone, named.timezone] == ["UTC", "Europe/Berlin", "Asia/Tokyo"]
    assert agents.next_run == datetime(2026, 1, 1, 2, tzinfo=BERLIN)


async def test_set_timezone_leaves_what_there_is(bot: Bot) -> None:
    """Schedules keep the zone they were made in; the same cron in the new zone is another schedule."""
    before = await bot.schedule("0 9 * * *", "remind")

    await bot.set_timezone("Europe/Berlin")
    after = await bot.schedule("0 9 * * *", "remind")

    assert await bot.get_schedule(before.id) == before
    assert after.id != before.id


async def test_set_timezone_refuses_unknown_names(bot: Bot) -> None:
    """The error suggests the likeliest spelling; the zone stays what it was."""
    with pytest.raises(ScheduleError, match=r"'europe/berlin' is unknown; .*'Europe/Berlin'"):
        await bot.set_timezone("europe/berlin")

    assert (await bot.schedule("0 9 * * *", "remind")).timezone == "UTC"


# --- a clock that jumps


@pytest.mark.parametrize("kind", ["cron", "interval", "rrule", "delayed"])
@pytest.mark.parametrize("is_live", [True, False], ids=["live", "evicted"])
async def test_clock_set_back_delays_nothing(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock, kind: str, *, is_live: bool
) -> None:
    """A clock corrected by a week doesn't make anything wait for that week."""
    match kind:
        case "cron":
            await bot.schedule("0 * * * *", "remind")
        case "interval":
            await bot.schedule_every(HOUR, "remind")
        case "rrule":
            await bot.schedule(Recurrence("FREQ=HOURLY;BYMINUTE=0;BYSECOND=0"), "remind")
        case _:
            await bot.schedule(HOUR, "remind")
    if not is_live:
        await runtime.evict(Bot, "ada")

    clock.move_to(START - 7 * DAY)
    await runtime.advance(HOUR)

    assert log.times == [START - 7 * DAY + HOUR]


async def test_clock_set_back_goes_on_with_the_new_time(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """Once moved, a schedule keeps to its rhythm by the new time, also where missed runs are skipped."""
    await bot.schedule_every(HOUR, "remind", catch_up="skip")

    clock.move_to(START - 7 * DAY + 10 * MINUTE)
    await runtime.advance(3 * HOUR)

    assert log.times == [START - 7 * DAY + n * HOUR for n in (1, 2, 3)]


async def test_clock_set_back_a_little_repeats_nothing(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """A correction by seconds doesn't run again what has just run."""
    await bot.schedule("0 * * * *", "remind")
    await runtime.advance(HOUR)

    clock.move_to(START + HOUR - 5 * SECOND)
    await runtime.advance(HOUR + 5 * SECOND)

    assert log.times == [START + HOUR, START + 2 * HOUR]


async def test_clock_set_back_leaves_instants_and_pauses(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """A date somebody named stays that date, and what is paused stays paused."""
    named = await bot.schedule(START + DAY, "remind")
    paused = await bot.schedule("0 * * * *", "remind")
    await bot.pause_schedule(paused.id)

    clock.move_to(START - 7 * DAY)
    await runtime.advance(DAY)

    assert log.runs == []
    left = await bot.list_schedules()
    assert [(schedule.id, schedule.next_run) for schedule in left] == [(named.id, START + DAY), (paused.id, None)]


@pytest.mark.parametrize(
    ("when", "times"),
    [(HOUR, [START + HOUR]), ("0 * * * *", [START + HOUR, START - 7 * DAY + HOUR])],
    ids=["one-shot", "cron"],
)
async def test_clock_set_back_while_it_runs(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock, when: Any, times: list[datetime]
) -> None:
    """A run under way ends as it would have: a one-shot is done, a recurring one goes on by the new time."""
    log.gate = asyncio.Event()
    await bot.schedule(when, "remind")
    clock.move_to(START + HOUR)
    while not log.runs:
        await asyncio.sleep(0)

    clock.move_to(START - 7 * DAY)
    await asyncio.sleep(0)
    log.gate.set()
    await runtime.advance(90 * MINUTE)

    assert log.times == times


async def test_clock_set_forward(runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock) -> None:
    """A jump ahead makes things due at once, the latest of a rhythm only, and nothing early afterwards."""
    await bot.schedule("0 * * * *", "remind")
    await bot.schedule(HOUR, "other")

    clock.move_to(START + 5 * HOUR + MINUTE)
    await runtime.advance(HOUR)

    assert [(at, schedule.callback) for at, schedule in log.runs] == [
        (START + 5 * HOUR + MINUTE, "remind"),
        (START + 5 * HOUR + MINUTE, "other"),
        (START + 6 * HOUR, "remind"),
    ]


# --- the end


async def test_destroy_as_a_callback(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """An agent can schedule its own end; afterwards nothing of it is stored and its name is free."""
    await bot.put(7)
    await bot.schedule("* * * * *", "remind")
    made = await bot.destroy_in(150)

    await runtime.advance(HOUR)

    assert made.callback == "destroy"
    assert log.times == [START + MINUTE, START + 2 * MINUTE]
    assert await runtime.store.jobs(AgentId("Bot", "ada")) == []
    assert await bot.value() is None
    assert runtime.events.count("destroy") == 1


# --- limits, and jobs set aside by force


async def test_number_of_schedules_is_limited(log: Log) -> None:
    """One more than allowed is an error that names the option; replacing and finding still work."""

    class Small(Bot):
        options = AgentOptions(max_schedules=2)

    async with ManualRuntime(Small, deps=log) as runtime:
        bot = runtime.get(Small, "ada")
        await bot.schedule("0 9 * * *", "remind")
        await bot.schedule(60, "remind", 1, key="k")

        with pytest.raises(QuotaError, match="max_schedules=2") as caught:
            await bot.schedule(60, "remind")
        await bot.schedule("0 9 * * *", "remind")
        await bot.schedule(60, "remind", 2, key="k")

        assert (caught.value.quota, caught.value.limit) == ("max_schedules", 2)
        assert len(await bot.list_schedules()) == 2
        assert AgentOptions().max_schedules == 1_000


async def test_payload_size_is_limited(log: Log) -> None:
    """A payload over the limit is an error that names the option, and nothing is stored."""

    class Small(Bot):
        options = AgentOptions(max_payload_bytes=200)

    async with ManualRuntime(Small, deps=log) as runtime:
        bot = runtime.get(Small, "ada")

        with pytest.raises(QuotaError, match="max_payload_bytes=200"):
            await bot.schedule(60, "remind", "x" * 200)

        assert await bot.list_schedules() == []
        assert AgentOptions().max_payload_bytes == 1 << 20


async def test_sealed_recurring_schedule_is_paused(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A schedule that keeps running out of memory is taken out of the way, not lost."""
    made = await bot.schedule("0 * * * *", "eat")
    innocent = await bot.schedule("30 * * * *", "remind")

    await runtime.advance(HOUR + 20 * MINUTE)
    left = await bot.get_schedule(made.id)
    runs = await bot.history()

    assert [at for at, schedule in log.runs if schedule is None] == [
        START + HOUR,
        START + HOUR + 30 * SECOND,
        START + HOUR + 90 * SECOND,
    ]
    assert left is not None
    assert (left.paused, left.next_run) == (True, None)
    assert [(run.schedule, run.outcome) for run in runs if run.outcome == "sealed"] == [(made.id, "sealed")]
    kept = await bot.get_schedule(innocent.id)
    assert kept is not None
    assert not kept.paused


async def test_sealed_one_shot_leaves_the_queue(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """A one-shot that keeps running out of memory is in the history only, from where it can come back."""
    made = await bot.schedule(60, "eat")

    await runtime.advance(HOUR)

    assert await bot.get_schedule(made.id) is None
    assert [run.outcome for run in await bot.history()] == ["sealed"]


async def test_poisoned_recurring_schedule_is_paused(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """A schedule during which the process dies again and again is paused; resumed, it runs."""
    log.takes = MINUTE
    made = await bot.schedule("0 * * * *", "remind")

    await runtime.advance(HOUR)
    for _ in range(6):
        await runtime.crash()
        await runtime.advance(SECOND)
    left = await bot.get_schedule(made.id)

    assert left is not None
    assert left.paused
    assert [run.outcome for run in await bot.history()] == ["poisoned"]
    assert runtime.events.count("job:poisoned") == 1
    assert len(log.runs) == 5

    log.takes = timedelta(0)
    await bot.resume_schedule(made.id)
    await runtime.advance(HOUR)
    assert log.times[-1] == START + 2 * HOUR


# --- events


async def test_events_carry_no_payload(runtime: ManualRuntime, bot: Bot) -> None:
    """Every event names the schedule and its callback, none what the user wrote."""
    made = await bot.schedule(60, "remind", {"text": "a secret"})

    await runtime.advance(MINUTE)

    events = [event for event in runtime.events if event.type.startswith("schedule:")]
    assert [event.type for event in events] == ["schedule:create", "schedule:execute"]
    for event in events:
        assert (event.agent, event.name) == ("Bot", "ada")
        assert event.payload["schedule_id"] == made.id
        assert event.payload["callback"] == "remind"
        assert "a secret" not in repr(event)
