"""The alarm: what fires when, in which order, and how no way of losing one leaves an agent asleep."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, Capability, JobContext, RescheduleAt, Runtime
from agentkit.host import AgentContext
from agentkit.testing import FakeClock, ManualRuntime
from tests.jobs.worker import START, Script, Start, Worker, at

# --- order (SPEC 6.1)


async def test_due_jobs_run_in_due_order_then_push_order(manual_runtime: Start) -> None:
    """Earlier ones first; those of the same millisecond in the order in which they were pushed."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for function, moment in [("c", 3), ("a1", 1), ("b1", 2), ("a2", 1), ("b2", 2), ("a3", 1)]:
        await ada.push(function, at=at(moment))

    runtime.clock.move_to(at(10))  # type: ignore[attr-defined]  # all due in one alarm
    await runtime.advance(0)

    assert script.log == ["a1", "a2", "a3", "b1", "b2", "c"]


async def test_push_order_survives_a_crash(manual_runtime: Start) -> None:
    """Ties are broken the same way when the jobs come from the disk."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    names = [f"work{number}" for number in range(30)]
    for name in names:
        await ada.push(name, at=at(1), id=f"id{len(name) * 7 % 5}-{hash(name) % 97}-{name}")

    await runtime.crash()
    await runtime.advance(1)

    assert script.log == names


async def test_rescheduled_job_goes_behind_those_of_its_new_time(manual_runtime: Start) -> None:
    """Moving a job counts as pushing it."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("first", at=at(5), id="one")
    await ada.push("second", at=at(5))

    await ada.use(lambda agent: agent.lifecycle.jobs.reschedule("one", at(5)))
    await runtime.advance(5)

    assert script.log == ["second", "first"]


async def test_jobs_of_one_agent_run_one_at_a_time(manual_runtime: Start) -> None:
    """A job begins only when the one before has ended, however long that takes (SPEC 2.3)."""
    spans: list[tuple[str, float]] = []

    async def work(agent: Worker, context: JobContext) -> None:
        spans.append(("begin", (agent.lifecycle.clock.now() - START).total_seconds()))
        await agent.lifecycle.clock.sleep(10)
        spans.append(("end", (agent.lifecycle.clock.now() - START).total_seconds()))

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    for moment in (1, 1, 5):
        await ada.push("work", at=at(moment))

    await runtime.advance(60)

    assert spans == [("begin", 1), ("end", 11), ("begin", 11), ("end", 21), ("begin", 21), ("end", 31)]


async def test_calls_interleave_with_a_running_job(manual_runtime: Start) -> None:
    """A call doesn't wait for the job under way (SPEC 2.3)."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(100)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)
    await runtime.advance(1)

    pushed = await ada.push("other", at=at(50))

    assert [job.function for job in await ada.jobs()] == ["work", "other"]
    assert pushed.due_at == at(50)


# --- on_alarm (SPEC 6.1)


class Bell(Worker):
    """Notes each alarm in the script's log."""

    async def on_alarm(self) -> None:
        self.deps.log.append("on_alarm")


async def test_on_alarm_runs_after_the_due_jobs(manual_runtime: Start) -> None:
    """It runs once an alarm, after every job of it."""
    script = Script()
    runtime = await manual_runtime(Bell, deps=script)
    ada = runtime.get(Bell, "ada")
    for function, moment in [("a", 1), ("b", 1), ("c", 5)]:
        await ada.push(function, at=at(moment))

    await runtime.advance(60)

    assert script.log == ["a", "b", "on_alarm", "c", "on_alarm"]


async def test_job_pushed_by_on_alarm_fires(manual_runtime: Start) -> None:
    """What the hook pushes is armed like any other job."""
    script = Script()

    class Chain(Worker):
        async def on_alarm(self) -> None:
            if "chained" not in script.log:
                await self.push("chained", after=10)

    runtime = await manual_runtime(Chain, deps=script)
    await runtime.get(Chain, "ada").push("work", after=1)

    await runtime.advance(60)

    assert script.log == ["work", "chained"]


async def test_raising_on_alarm_is_told_to_on_error(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """An error in the hook is logged, given to ``on_error``, and breaks nothing."""
    script = Script()
    errors: list[Exception] = []

    class Broken(Worker):
        async def on_alarm(self) -> None:
            raise ValueError("the bell is broken")

        async def on_error(self, error: Exception) -> None:
            errors.append(error)

    runtime = await manual_runtime(Broken, deps=script)
    ada = runtime.get(Broken, "ada")
    await ada.push("a", at=at(1))
    await ada.push("b", at=at(5))

    await runtime.advance(60)

    assert script.log == ["a", "b"]
    assert [str(error) for error in errors] == ["the bell is broken"] * 2
    assert any("on_alarm" in record.message for record in caplog.records)


# --- start-up that raises (SPEC 6.1, 6.2)


class Shaky(Worker):
    """Raises in start-up as long as the script says so."""

    async def on_start(self) -> None:
        self.deps.starts.append(self.lifecycle.clock.now())
        await self.deps.at_start(self)


class Trouble(Script):
    """What start-up does, and when it was tried."""

    def __init__(self, **runs: Any) -> None:
        super().__init__(**runs)
        self.starts: list[datetime] = []
        self.is_broken = True
        self.pushes: list[tuple[str, datetime]] = []

    async def at_start(self, agent: Worker) -> None:
        """Push what the test says, then raise."""
        for function, moment in self.pushes:
            await agent.push(function, at=moment, id=function)
        if self.is_broken:
            raise ValueError("start-up is broken")


async def test_fallback_alarm_waits_longer_and_longer(manual_runtime: Start) -> None:
    """After a start-up that raises, the next try comes in 30 s, doubling up to 5 min; a good one runs the jobs."""
    script = Trouble()
    script.is_broken = False
    runtime = await manual_runtime(Shaky, deps=script)
    await runtime.get(Shaky, "ada").push("work", at=at(100))
    await runtime.evict(Shaky, "ada")
    script.starts.clear()
    script.is_broken = True

    await runtime.advance(1_500)
    tries = [(moment - START).total_seconds() for moment in script.starts]
    script.is_broken = False
    await runtime.advance(300)

    assert tries == [100, 130, 190, 310, 550, 850, 1_150, 1_450]
    assert script.log == ["work"]


async def test_fallback_alarm_never_comes_before_the_next_job(manual_runtime: Start) -> None:
    """With its next job far away a broken agent isn't tried before."""
    script = Trouble()
    script.pushes = [("work", at(5_000))]
    runtime = await manual_runtime(Shaky, deps=script)
    with pytest.raises(ValueError, match="start-up is broken"):
        await runtime.activate(Shaky, "ada")

    await runtime.advance(4_999)
    before = len(script.starts)
    script.is_broken = False
    await runtime.advance(1)

    assert before == 1
    assert script.log == ["work"]


async def test_jobs_pushed_by_a_failed_start_up_keep_a_wake(manual_runtime: Start) -> None:
    """A call whose start-up pushed a job and raised leaves an alarm, also over a crash."""
    script = Trouble()
    script.pushes = [("work", at(1))]
    runtime = await manual_runtime(Shaky, deps=script)
    with pytest.raises(ValueError, match="start-up is broken"):
        await runtime.get(Shaky, "ada").jobs()
    script.is_broken = False

    await runtime.crash()
    await runtime.advance(29)
    await runtime.advance(1)

    assert script.log == ["work"]


async def test_good_start_up_forgets_the_failed_ones(manual_runtime: Start) -> None:
    """After a start-up that went well the next failure waits 30 s again."""
    script = Trouble()
    script.pushes = [("work", at(0))]
    runtime = await manual_runtime(Shaky, deps=script)
    with pytest.raises(ValueError, match="start-up is broken"):
        await runtime.activate(Shaky, "ada")
    await runtime.advance(100)
    script.is_broken = False
    await runtime.advance(200)
    await runtime.evict(Shaky, "ada")
    script.starts.clear()
    script.is_broken = True
    script.pushes = [("more", at(400))]
    with pytest.raises(ValueError, match="start-up is broken"):
        await runtime.activate(Shaky, "ada")

    await runtime.advance(200)

    tries = [(moment - START).total_seconds() for moment in script.starts]
    assert script.log == ["work"]
    assert tries == [300, 400, 460]


async def test_start_up_comes_before_the_jobs_of_an_alarm(manual_runtime: Start) -> None:
    """A cold agent that wakes for a job starts up first, once."""
    script = Script()

    class Starting(Worker):
        async def on_start(self) -> None:
            script.log.append("on_start")

    runtime = await manual_runtime(Starting, deps=script)
    ada = runtime.get(Starting, "ada")
    await ada.push("a", at=at(100))
    await ada.push("b", at=at(100))
    await runtime.evict(Starting, "ada")
    script.log.clear()

    await runtime.advance(100)

    assert script.log == ["on_start", "a", "b"]


# --- exclusive jobs (SPEC 6.4)


async def test_exclusive_job_holds_all_others_back(manual_runtime: Start) -> None:
    """While one is pending nothing else runs, not even what was due before it."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("early", at=at(5))
    await ada.push("exclusive", at=at(20), exclusive=True)
    await ada.push("late", at=at(30))

    await runtime.advance(19)
    before = list(script.log)
    await runtime.advance(1)
    after = list(script.log)
    await runtime.advance(10)

    assert before == []
    assert after == ["exclusive", "early"]
    assert script.log == ["exclusive", "early", "late"]


async def test_several_exclusive_jobs_go_first_in_due_order(manual_runtime: Start) -> None:
    """The others wait until no exclusive job is pending, also over a crash."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("other", at=at(1))
    await ada.push("second", at=at(20), exclusive=True)
    await ada.push("first", at=at(10), exclusive=True)

    await runtime.crash()
    await runtime.advance(10)
    middle = list(script.log)
    await runtime.advance(10)

    assert middle == ["first"]
    assert script.log == ["first", "second", "other"]


async def test_cancelled_exclusive_job_lets_the_others_go(manual_runtime: Start) -> None:
    """Jobs that it held back and that are due run at once."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("other", at=at(1))
    await ada.push("exclusive", at=at(1_000), exclusive=True, id="one")
    await runtime.advance(10)

    await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
    await runtime.advance(0)

    assert script.log == ["other"]


async def test_exclusive_job_pushed_by_a_job_goes_before_the_rest_of_the_pass(manual_runtime: Start) -> None:
    """The jobs that are due wait for an exclusive one that arrives while the alarm runs."""

    async def first(agent: Worker, context: JobContext) -> None:
        await agent.push("exclusive", at=at(50), exclusive=True)

    script = Script(first=first)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("first", at=at(1))
    await ada.push("second", at=at(1))

    await runtime.advance(49)
    before = list(script.log)
    await runtime.advance(1)

    assert before == ["first"]
    assert script.log == ["first", "exclusive", "second"]


async def test_rescheduled_exclusive_job_stays_exclusive(manual_runtime: Start) -> None:
    """An exclusive job that comes again goes on holding the others back."""

    async def exclusive(agent: Worker, context: JobContext) -> RescheduleAt | None:
        return RescheduleAt(at(50)) if script.log.count("exclusive") == 1 else None

    script = Script(exclusive=exclusive)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("exclusive", at=at(10), exclusive=True)
    await ada.push("other", at=at(1))

    await runtime.advance(49)
    before = list(script.log)
    await runtime.advance(1)

    assert before == ["exclusive"]
    assert script.log == ["exclusive", "exclusive", "other"]


# --- backlogs (SPEC 4.9)


async def test_ten_due_jobs_of_one_owner_are_a_backlog(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A warning and an event name the count and the commonest function; every job still runs."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for function in ["common"] * 6 + ["rare"] * 4:
        await ada.push(function, at=at(1))

    await runtime.advance(1)

    [event] = runtime.events.of("job:backlog_warning")
    assert dict(event.payload) == {"owner": "host", "count": 10, "function": "common"}
    assert [record.levelname for record in caplog.records if "job:backlog_warning" in record.message] == ["WARNING"]
    assert len(script.log) == 10


async def test_nine_due_jobs_are_no_backlog(manual_runtime: Start) -> None:
    """Jobs that aren't due, or belong to another owner, don't count."""

    class Other(Capability):
        id = "other"

        async def on_job(self, context: JobContext) -> None:
            """Do nothing."""

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.other = self.lifecycle.use(Other())

        async def push_theirs(self) -> None:
            await self.other.lifecycle.jobs.push("theirs", at=at(1))

    runtime = await manual_runtime(Host, deps=Script())
    ada = runtime.get(Host, "ada")
    for _ in range(9):
        await ada.push("due", at=at(1))
        await ada.push_theirs()
        await ada.push("later", at=at(1_000))

    await runtime.advance(1)

    assert runtime.events.count("job:backlog_warning") == 0


# --- lost alarms and lost processes (SPEC 6.3, 6.5, 6.6)


async def test_job_cut_off_by_a_crash_runs_again_at_once(manual_runtime: Start) -> None:
    """When the same store is opened again, the job under way runs without waiting."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            await agent.lifecycle.clock.sleep(3_600)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)
    await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(0)

    assert script.log == ["work", "work"]


@pytest.mark.parametrize("wrong", ["null", "4102444800000", "1"])
async def test_lost_alarm_is_rebuilt_from_the_jobs(tmp_path: Path, wrong: str) -> None:
    """Whatever the stored alarm says, a start derives it from the jobs again."""
    script = Script()
    path = tmp_path / "agents.db"
    async with ManualRuntime(Worker, store=f"sqlite:///{path}", deps=script) as runtime:
        await runtime.get(Worker, "ada").push("work", at=at(60))
    with sqlite3.connect(path) as connection:
        changed = connection.execute(f"update agents set alarm_ms={wrong}").rowcount
    connection.close()

    async with ManualRuntime(Worker, store=f"sqlite:///{path}", deps=script) as runtime:
        await runtime.advance(59)
        early = list(script.log)
        await runtime.advance(1)

    assert changed == 1
    assert early == []
    assert script.log == ["work"]


async def test_overdue_jobs_fire_at_the_start(tmp_path: Path) -> None:
    """What fell due while no runtime served the store runs at once, however late."""
    store, script = f"sqlite:///{tmp_path}/agents.db", Script()
    async with ManualRuntime(Worker, store=store, deps=script) as runtime:
        for number in range(5):
            await runtime.get(Worker, f"agent{number}").push(f"work{number}", at=at(60 + number))

    clock = FakeClock(START + timedelta(days=400))
    async with ManualRuntime(Worker, store=store, deps=script, clock=clock) as runtime:
        await runtime.advance(0)

    assert sorted(script.log) == [f"work{number}" for number in range(5)]


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_overdue_agents_wake_no_more_than_the_limit_at_once(tmp_path: Path, limit: int) -> None:
    """``max_concurrent_agents`` bounds how many agents woken from a backlog run together; all get their turn."""
    running: set[str] = set()
    most: list[int] = []

    async def work(agent: Worker, context: JobContext) -> None:
        running.add(agent.name)
        most.append(len(running))
        await agent.lifecycle.clock.sleep(1)
        running.remove(agent.name)

    store, script = f"sqlite:///{tmp_path}/agents.db", Script(work=work)
    async with ManualRuntime(Worker, store=store, deps=script) as runtime:
        for number in range(12):
            await runtime.get(Worker, f"agent{number}").push("work", at=at(60))

    clock = FakeClock(START + timedelta(days=1))
    async with ManualRuntime(Worker, store=store, deps=script, clock=clock, max_concurrent_agents=limit) as runtime:
        await runtime.advance(60)

    assert len(script.log) == 12
    assert max(most) <= limit


async def test_changes_during_start_up_arm_the_alarm(manual_runtime: Start) -> None:
    """What ``on_start`` pushes, moves and cancels is armed when it is over."""
    script = Script()

    class Starting(Worker):
        async def on_start(self) -> None:
            await self.push("gone", at=at(1), id="gone")
            await self.push("moved", at=at(2), id="moved")
            await self.push("stays", at=at(3), id="stays")
            await self.lifecycle.jobs.cancel("gone")
            await self.lifecycle.jobs.reschedule("moved", at(10))

    runtime = await manual_runtime(Starting, deps=script)

    await runtime.activate(Starting, "ada")
    await runtime.advance(60)

    assert script.log == ["stays", "moved"]


# --- clocks that jump (SPEC 6.7)


async def test_clock_that_jumps_forward_delays_nothing(manual_runtime: Start) -> None:
    """After a suspend everything that fell due runs at once, in order."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for function, moment in [("b", 200), ("a", 100), ("later", 90_000)]:
        await ada.push(function, at=at(moment))

    runtime.clock.move_to(at(86_400))  # type: ignore[attr-defined]  # a fake clock
    await runtime.advance(0)

    assert script.log == ["a", "b"]


async def test_clock_set_back_makes_jobs_wait_for_their_moment(manual_runtime: Start) -> None:
    """A job runs when the wall clock shows its time, once, though the clock has been set back meanwhile."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("done", at=at(50))
    await ada.push("work", at=at(100))
    await runtime.advance(90)

    runtime.clock.move_to(at(40))  # type: ignore[attr-defined]  # a fake clock
    await runtime.advance(59)
    early = list(script.log)
    await runtime.advance(1)

    assert early == ["done"]
    assert script.log == ["done", "work"]


async def test_push_after_the_clock_was_set_back_fires(manual_runtime: Start) -> None:
    """Jobs pushed by a corrected clock keep their order and run."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await runtime.advance(3_600)
    await ada.push("far", after=7_200)

    runtime.clock.move_to(at(0))  # type: ignore[attr-defined]  # a fake clock
    await ada.push("first", after=10)
    await ada.push("second", after=10)
    await runtime.advance(10)

    assert script.log == ["first", "second"]


@pytest.mark.timeout(10)
async def test_clock_set_back_over_a_restart_does_not_hold_due_jobs_up(tmp_path: Path) -> None:
    """A job that is due runs, though it was pushed at a moment which the new clock hasn't reached."""
    store, script = f"sqlite:///{tmp_path}/agents.db", Script()
    late = FakeClock(START + timedelta(days=10))
    async with ManualRuntime(Worker, store=store, deps=script, clock=late, shutdown_grace=0) as runtime:
        await runtime.get(Worker, "ada").push("work", at=datetime(2026, 1, 1, 1, tzinfo=UTC))
        runtime.clock.move_to(START)  # type: ignore[attr-defined]  # so that it hasn't run before the end
        await runtime.store.close()

    clock = FakeClock(START + timedelta(days=1))
    async with ManualRuntime(Worker, store=store, deps=script, clock=clock) as runtime:
        await runtime.advance(60)

    assert script.log == ["work"]


async def test_job_years_away_fires_at_its_moment(manual_runtime: Start) -> None:
    """Delays longer than any timer's limit work."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=datetime(2099, 1, 1, tzinfo=UTC))

    await runtime.advance(datetime(2099, 1, 1, tzinfo=UTC) - START - timedelta(seconds=1))
    early = list(script.log)
    await runtime.advance(1)

    assert early == []
    assert script.log == ["work"]


# --- on the machine's clock


async def test_alarm_fires_on_the_real_clock(tmp_path: Path) -> None:
    """A runtime on the system's clock runs a job no earlier than it is due, and again after a restart."""
    early: list[timedelta] = []
    script = Script()

    class Timed(Agent):
        async def on_job(self, context: JobContext) -> None:
            early.append(context.job.due_at - self.lifecycle.clock.now())
            await self.deps.run(self, context)

        async def push(self, after: float) -> None:
            await self.lifecycle.jobs.push("work", after=after)

    store = f"sqlite:///{tmp_path}/agents.db"
    async with Runtime(Timed, store=store, deps=script) as runtime:
        await runtime.get(Timed, "ada").push(0.02)
        await _until(lambda: len(script.log) == 1)
        await runtime.get(Timed, "ada").push(0.05)
    async with Runtime(Timed, store=store, deps=script):
        await _until(lambda: len(script.log) == 2)

    assert len(early) == 2
    assert all(left <= timedelta(0) for left in early)


async def _until(is_reached: Any) -> None:
    """Wait a little at a time; a test that never gets there ends by its time limit."""
    while not is_reached():
        await asyncio.sleep(0.002)
