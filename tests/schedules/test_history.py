"""Runs that ended, as users see them: what came of them, how often it was tried, and how they come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, RetryPolicy
from agentkit.errors import JobError, UnknownRunError
from agentkit.schedules.schedule import Schedule
from agentkit.testing import FakeClock, ManualRuntime

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Bot(Agent[None]):
    """Runs for a while, or fails; ``deps`` holds what it is to do."""

    options = AgentOptions(keep_history=5)

    async def work(self, payload: Any, schedule: Schedule) -> None:
        """Take ten seconds."""
        await self.lifecycle.clock.sleep(10)

    async def fail(self, payload: Any) -> None:
        """Fail as often as was asked for."""
        if self.deps["failures"] > 0:
            self.deps["failures"] -= 1
            message = "the report is not ready"
            raise LookupError(message)

    async def requeue(self, run_id: str) -> None:
        """Bring a run of a schedule back from inside."""
        await self.scheduler.lifecycle.jobs.requeue(run_id)

    async def push_job(self) -> None:
        """Push a job that is no schedule."""
        await self.lifecycle.jobs.push("other", after=0)

    async def on_job(self, context: Any) -> None:
        """Run it."""


@pytest.fixture
def deps() -> dict[str, int]:
    """Return how often ``fail`` is to fail."""
    return {"failures": 0}


@pytest.fixture
async def runtime(deps: dict[str, int]) -> AsyncIterator[ManualRuntime]:
    """Return a runtime whose clock stands at the start of 2026."""
    async with ManualRuntime(Bot, deps=deps) as runtime:
        yield runtime


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


async def test_run_that_completed(runtime: ManualRuntime, bot: Bot) -> None:
    """The history has which schedule ran, when it was due, began and ended, and after how many attempts."""
    schedule = await bot.schedule(60, "work")

    await runtime.advance(2 * MINUTE)
    [run] = await bot.history()

    assert (run.schedule, run.callback) == (schedule.id, "work")
    assert (run.due, run.started) == (START + MINUTE, START + MINUTE)
    assert run.finished == START + MINUTE + timedelta(seconds=10)
    assert (run.attempts, run.outcome, run.error) == (1, "completed", None)


async def test_run_that_failed(runtime: ManualRuntime, bot: Bot, deps: dict[str, int]) -> None:
    """The last error is kept with its traceback."""
    deps["failures"] = 9
    await bot.schedule(60, "fail")

    await runtime.advance(2 * MINUTE)
    [run] = await bot.history()

    assert (run.attempts, run.outcome) == (3, "failed")
    assert run.error is not None
    assert "Traceback" in run.error
    assert "the report is not ready" in run.error


async def test_run_that_was_retried(runtime: ManualRuntime, bot: Bot, deps: dict[str, int]) -> None:
    """A run that came good counts its attempts."""
    deps["failures"] = 1
    await bot.schedule(60, "fail")

    await runtime.advance(2 * MINUTE)
    [run] = await bot.history()

    assert (run.attempts, run.outcome, run.error) == (2, "completed", None)


async def test_newest_runs_come_first(runtime: ManualRuntime, bot: Bot) -> None:
    """``limit`` takes the latest runs, and never more than are kept."""
    await bot.schedule_every(60, "work")

    await runtime.advance(8 * MINUTE + timedelta(seconds=20))
    two = await bot.history(2)
    everything = await bot.history()

    assert [run.due for run in two] == [START + 8 * MINUTE, START + 7 * MINUTE]
    assert [run.due for run in everything] == [START + n * MINUTE for n in (8, 7, 6, 5, 4)]


async def test_other_jobs_are_not_schedules(runtime: ManualRuntime, bot: Bot) -> None:
    """Jobs of the host don't show among the runs of schedules."""
    await bot.push_job()
    await bot.schedule(1, "work")

    await runtime.advance(MINUTE)

    assert [run.callback for run in await bot.history()] == ["work"]


async def test_history_survives_a_crash(runtime: ManualRuntime, bot: Bot) -> None:
    """Runs are committed with their outcome."""
    await bot.schedule(60, "work")
    await runtime.advance(2 * MINUTE)
    before = await bot.history()

    await runtime.crash()

    assert await bot.history() == before
    assert len(before) == 1


async def test_failed_one_shot_comes_back(runtime: ManualRuntime, bot: Bot, deps: dict[str, int]) -> None:
    """Requeue runs a one-shot that failed once more, at once, and takes it out of the history."""
    deps["failures"] = 3
    schedule = await bot.schedule(60, "fail", {"n": 1})
    await runtime.advance(2 * MINUTE)
    [failed] = await bot.history()

    await bot.requeue(failed.run_id)
    [back] = await bot.list_schedules()
    await runtime.advance(1)

    assert (back.id, back.payload, back.next_run) == (schedule.id, {"n": 1}, START + 2 * MINUTE)
    assert [(run.outcome, run.schedule) for run in await bot.history()] == [("completed", schedule.id)]
    assert await bot.list_schedules() == []


async def test_only_failed_runs_come_back(runtime: ManualRuntime, bot: Bot) -> None:
    """A run that completed needs no second one, and an unknown one can't have any."""
    await bot.schedule(60, "work")
    await runtime.advance(2 * MINUTE)
    [run] = await bot.history()

    with pytest.raises(UnknownRunError, match=run.run_id):
        await bot.requeue(run.run_id)
    with pytest.raises(UnknownRunError, match="no-such-run"):
        await bot.requeue("no-such-run")


async def test_failed_run_of_a_living_schedule_does_not_come_back(
    runtime: ManualRuntime, bot: Bot, deps: dict[str, int]
) -> None:
    """A recurring schedule is still there after a failure: the error says so, and nothing changes."""
    deps["failures"] = 3
    await bot.schedule("0 * * * *", "fail")
    await runtime.advance(HOUR + MINUTE)
    [failed] = await bot.history()
    before = await bot.list_schedules()

    with pytest.raises(JobError, match="in the queue"):
        await bot.requeue(failed.run_id)

    assert await bot.list_schedules() == before


async def test_left_out_occurrence_is_recorded_as_skipped() -> None:
    """With catch_up="skip" an occurrence missed by downtime is in the history, as one that did not run."""
    clock = FakeClock(START)
    async with ManualRuntime(Bot, clock=clock, deps={"failures": 0}) as runtime:
        bot = runtime.get(Bot, "ada")
        await bot.schedule("0 * * * *", "work", catch_up="skip")

        clock.move_to(START + 3 * HOUR + MINUTE)
        await runtime.crash()
        await runtime.advance(MINUTE)

        [run] = await bot.history()
        assert (run.outcome, run.attempts) == ("skipped", 0)
        assert runtime.events.of("schedule:skip")[0].payload["skipped"] == 3


async def test_attempts_of_a_policy(runtime: ManualRuntime, bot: Bot, deps: dict[str, int]) -> None:
    """A schedule's own policy decides how often it is tried."""
    deps["failures"] = 9
    await bot.schedule(60, "fail", retry=RetryPolicy(max_attempts=1))

    await runtime.advance(2 * MINUTE)
    [run] = await bot.history()

    assert run.attempts == 1
