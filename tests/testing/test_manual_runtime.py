"""The runtime in a test's hand: time that moves when told, crashes, and work that isn't simulated."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit import Agent, JobContext, RetryPolicy, Runtime
from agentkit.errors import AgentGoneError, RuntimeClosedError
from agentkit.testing import EventRecorder, FakeClock, ManualRuntime
from tests.jobs.worker import START, Script, Start, Worker, at, history

# --- time


async def test_clock_stands_until_it_is_moved(manual_runtime: Start) -> None:
    """A manual runtime begins on 1 January 2026, UTC, and stays there."""
    runtime = await manual_runtime(Worker, deps=Script())

    await runtime.get(Worker, "ada").push("work", after=1)
    before = runtime.clock.now()
    await runtime.advance(90)

    assert before == START
    assert runtime.clock.now() == START + timedelta(seconds=90)


async def test_everything_fires_at_its_own_moment(manual_runtime: Start) -> None:
    """One long ``advance`` shows each job the time for which it was made, retries and sleeps included."""
    seen: list[tuple[str, float]] = []

    async def work(agent: Worker, context: JobContext) -> None:
        seen.append((context.job.function, (agent.lifecycle.clock.now() - START).total_seconds()))
        await agent.lifecycle.clock.sleep(0.5)
        seen.append((context.job.function, (agent.lifecycle.clock.now() - START).total_seconds()))

    runtime = await manual_runtime(Worker, deps=Script(a=work, b=work, c=work))
    for name, function, after in [("ada", "a", 10), ("bob", "b", 10.25), ("eve", "c", 3_600)]:
        await runtime.get(Worker, name).push(function, after=after)

    await runtime.advance(timedelta(days=1))

    assert seen == [("a", 10), ("b", 10.25), ("a", 10.5), ("b", 10.75), ("c", 3_600), ("c", 3_600.5)]


async def test_timeout_is_seen_at_its_own_moment(manual_runtime: Start) -> None:
    """What a timer sets off in several steps has happened before the clock moves on."""
    seen: list[float] = []

    async def work(agent: Worker, context: JobContext) -> None:
        async def inner() -> None:
            try:
                await agent.lifecycle.clock.sleep(100)
            finally:
                seen.append((agent.lifecycle.clock.now() - START).total_seconds())

        await asyncio.gather(asyncio.create_task(inner()), asyncio.create_task(inner()))

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, timeout=5, retry=RetryPolicy(max_attempts=1))

    await runtime.advance(60)

    assert seen == [6, 6]


@pytest.mark.parametrize("duration", [-1, timedelta(seconds=-1)])
async def test_advance_only_goes_forward(manual_runtime: Start, duration: Any) -> None:
    """Setting a clock back is done with ``move_to``; the error says so."""
    runtime = await manual_runtime(Worker)

    with pytest.raises(ValueError, match="move_to"):
        await runtime.advance(duration)


@pytest.mark.parametrize("duration", ["1 day", None, float("nan"), True])
async def test_advance_refuses_what_is_no_duration(manual_runtime: Start, duration: Any) -> None:
    """Seconds or a timedelta."""
    runtime = await manual_runtime(Worker)

    with pytest.raises((TypeError, ValueError)):
        await runtime.advance(duration)


async def test_ten_years_cost_what_fires_in_them(manual_runtime: Start) -> None:
    """A monthly job runs 120 times in ten years, each time on the first at eight."""
    runs: list[datetime] = []

    class Monthly(Agent):
        async def begin(self) -> None:
            await self.schedule("0 8 1 * *", self.report)

        async def report(self) -> None:
            runs.append(self.lifecycle.clock.now())

    runtime = await manual_runtime(Monthly)
    await runtime.get(Monthly, "ada").begin()

    await runtime.advance(datetime(2036, 1, 1, tzinfo=UTC) - START)

    assert len(runs) == 120
    assert {(moment.day, moment.hour, moment.minute) for moment in runs} == {(1, 8, 0)}
    assert runtime.events.count("schedule:execute") == 120


async def test_clock_of_the_test_may_be_given() -> None:
    """A clock made by the test sets the beginning."""
    clock = FakeClock(datetime(2030, 5, 17, 12, tzinfo=UTC))
    script = Script()

    async with ManualRuntime(Worker, clock=clock, deps=script) as runtime:
        await runtime.get(Worker, "ada").push("work", at=datetime(2030, 5, 17, 13, tzinfo=UTC))
        await runtime.advance(timedelta(hours=1))

    assert runtime.clock is clock
    assert script.log == ["work"]


async def test_same_steps_give_the_same_events() -> None:
    """Two runs of one scenario emit the same events at the same moments, in the same order."""

    async def play() -> list[tuple[str, str, datetime]]:
        async def fail(agent: Worker, context: JobContext) -> None:
            raise ValueError("no")

        async def slow(agent: Worker, context: JobContext) -> None:
            await agent.lifecycle.clock.sleep(50)

        class Busy(Worker):
            async def begin(self) -> None:
                await self.schedule("*/5 * * * *", self.tick)
                await self.schedule_every(70, self.tick)

            async def tick(self) -> None:
                await self.push("fail", after=3, retry=RetryPolicy(max_attempts=1))
                await self.push("slow", after=3, hung_timeout=20)

        async with ManualRuntime(Busy, deps=Script(fail=fail, slow=slow)) as runtime:
            for number in range(8):
                await runtime.get(Busy, f"agent{number}").begin()
            await runtime.advance(timedelta(minutes=20))
            await runtime.crash()
            await runtime.advance(timedelta(minutes=20))
        return [(event.type, event.name, event.timestamp) for event in runtime.events]

    first, second = await play(), await play()

    assert len(first) > 200
    assert first == second


# --- work that doesn't go by the clock


async def test_clock_waits_for_real_work_in_a_job(manual_runtime: Start) -> None:
    """While a job is busy with real input or output the clock stands, however far it is to go."""
    seen: list[float] = []

    async def work(agent: Worker, context: JobContext) -> None:
        gate = threading.Event()
        asyncio.get_running_loop().call_later(0.02, gate.set)
        await asyncio.to_thread(gate.wait)
        seen.append((agent.lifecycle.clock.now() - START).total_seconds())

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(10))
    await runtime.get(Worker, "bob").push("other", at=at(11))

    await runtime.advance(3_600)

    assert seen == [10]
    assert script.log == ["work", "other"]


async def test_clock_waits_for_real_work_handed_to_an_alarm(manual_runtime: Start) -> None:
    """The same for tracked background work."""
    seen: list[float] = []

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await asyncio.to_thread(threading.Event().wait, 0.02)
            seen.append((agent.lifecycle.clock.now() - START).total_seconds())

        agent.lifecycle.track_alarm_work(asyncio.create_task(background()))

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", at=at(10))

    await runtime.advance(3_600)

    assert seen == [10]


async def test_waiting_too_long_says_what_for(manual_runtime: Start) -> None:
    """After ``real_timeout`` the test is told which agent holds the clock up."""
    go = asyncio.Event()

    async def work(agent: Worker, context: JobContext) -> None:
        await go.wait()

    runtime = await manual_runtime(Worker, deps=Script(work=work), real_timeout=0.3)
    await runtime.get(Worker, "ada").push("work", after=1)

    with pytest.raises(TimeoutError, match=r"0\.3 real seconds .*Worker/ada"):
        await runtime.advance(60)

    assert runtime.clock.now() == at(1)
    go.set()
    await runtime.advance(60)
    assert [run.outcome for run in await history(runtime)] == ["completed"]


async def test_waiting_too_long_for_background_work_says_so(manual_runtime: Start) -> None:
    """Tracked work is named as well."""
    go = asyncio.Event()

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await go.wait()

        agent.lifecycle.track_alarm_work(asyncio.create_task(background()))

    runtime = await manual_runtime(Worker, deps=Script(work=work), real_timeout=0.3)
    await runtime.get(Worker, "ada").push("work", after=1)

    with pytest.raises(TimeoutError, match=r"background work.*Worker/ada"):
        await runtime.advance(60)

    go.set()


async def test_task_of_the_test_that_keeps_the_loop_busy_does_not_stop_the_clock(manual_runtime: Start) -> None:
    """A test may poll in a task of its own."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script, real_timeout=5)
    await runtime.get(Worker, "ada").push("work", after=1)

    async def poll() -> None:
        while "work" not in script.log:
            await asyncio.sleep(0)

    task = asyncio.create_task(poll())
    await runtime.advance(10)
    await task

    assert script.log == ["work"]


# --- crashes


async def test_crash_loses_what_was_not_stored_and_keeps_what_was(manual_runtime: Start) -> None:
    """Attributes of instances are gone; values and jobs are there."""

    class Forgetful(Worker):
        counted = 0

        async def count(self) -> int:
            self.counted += 1
            await self.storage.put("counted", self.counted)
            return self.counted

    runtime = await manual_runtime(Forgetful, deps=Script())
    ada = runtime.get(Forgetful, "ada")
    for _ in range(3):
        await ada.count()

    await runtime.crash()
    stored = await ada.use(lambda agent: agent.storage.get("counted"))

    assert stored == 3
    assert await ada.count() == 1


async def test_crash_cuts_off_a_write_that_had_not_begun(manual_runtime: Start) -> None:
    """A put that was asked for but not awaited is lost, and tells its caller so."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    await ada.jobs()

    async def put(agent: Worker) -> None:
        await agent.storage.put("key", 1)

    call = asyncio.create_task(ada.use(put))
    await asyncio.sleep(0)
    await runtime.crash()
    [result] = await asyncio.gather(call, return_exceptions=True)

    value = await ada.use(lambda agent: agent.storage.get("key"))
    assert (result is None) == (value == 1), "a put that returned is on disk, one that raised isn't"


async def test_nothing_of_the_dying_run_writes(manual_runtime: Start) -> None:
    """Calls, jobs, background work and instances of before a crash raise when they write after it."""
    errors: list[str] = []
    go = asyncio.Event()

    async def try_to_write(agent: Worker, where: str) -> None:
        try:
            try:
                await go.wait()
            finally:
                await agent.storage.put(where, 1)
        except AgentGoneError:
            errors.append(where)

    async def work(agent: Worker, context: JobContext) -> None:
        agent.lifecycle.track_alarm_work(asyncio.create_task(try_to_write(agent, "background")))
        await try_to_write(agent, "job")

    runtime = await manual_runtime(Worker, deps=Script(work=work), real_timeout=0.3)
    ada = runtime.get(Worker, "ada")
    call = asyncio.create_task(ada.use(lambda agent: try_to_write(agent, "call")))
    await ada.push("work", after=1)
    with pytest.raises(TimeoutError):
        await runtime.advance(1)

    await runtime.crash()
    go.set()
    await asyncio.gather(call, return_exceptions=True)
    await runtime.advance(0)

    values = await ada.use(lambda agent: agent.storage.list())
    assert sorted(errors)[:3] == ["background", "call", "job"]
    assert set(values) <= {"background", "job"}, "written by the run after the crash"


async def test_crash_can_happen_again_and_again(manual_runtime: Start) -> None:
    """Each start takes over what the one before left."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")

    for number in range(10):
        await ada.push(f"work{number}", after=0.5)
        await runtime.crash()
        await runtime.advance(0.5)

    assert script.log == [f"work{number}" for number in range(10)]


async def test_stubs_work_on_after_a_crash(manual_runtime: Start) -> None:
    """A stub names the agent, not the instance."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    await runtime.crash()

    assert await ada.jobs() == []


# --- what it is otherwise


async def test_it_is_a_runtime(manual_runtime: Start) -> None:
    """Code that takes a ``Runtime`` takes this one."""
    runtime = await manual_runtime(Worker)

    assert isinstance(runtime, Runtime)
    assert isinstance(runtime.events, EventRecorder)


@pytest.mark.parametrize("option", ["idle_time", "modell", "storage"])
def test_unknown_option_is_a_type_error(option: str) -> None:
    """A misspelled option doesn't pass silently."""
    options: dict[str, Any] = {option: 1}

    with pytest.raises(TypeError, match=option):
        ManualRuntime(Worker, **options)


async def test_deps_reach_the_agents(manual_runtime: Start) -> None:
    """``deps`` is what ``self.deps`` gives."""
    deps = object()

    async def its_deps(agent: Worker) -> Any:
        return agent.deps

    runtime = await manual_runtime(Worker, deps=deps)

    assert await runtime.get(Worker, "ada").use(its_deps) is deps


async def test_store_in_memory_is_gone_when_closed() -> None:
    """Two manual runtimes share nothing unless a file is given."""
    for _ in range(2):
        async with ManualRuntime(Worker, deps=Script()) as runtime:
            ada = runtime.get(Worker, "ada")
            assert await ada.jobs() == []
            await ada.push("work", after=60)


@pytest.mark.timeout(10)
async def test_closing_waits_no_real_time_for_sleepers(manual_runtime: Start) -> None:
    """A job that sleeps on the fake clock is cut off at once: nothing can wake it any more."""
    cut_off: list[bool] = []

    async def work(agent: Worker, context: JobContext) -> None:
        try:
            await agent.lifecycle.clock.sleep(1_000)
        except asyncio.CancelledError:
            cut_off.append(True)
            raise

    async with ManualRuntime(Worker, deps=Script(work=work)) as runtime:
        await runtime.get(Worker, "ada").push("work", after=1)
        await runtime.advance(5)

    assert cut_off == [True]


async def test_closed_runtime_takes_no_calls(manual_runtime: Start) -> None:
    """After ``close`` a stub raises ``RuntimeClosedError``."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")

    await runtime.close()

    with pytest.raises(RuntimeClosedError):
        await ada.jobs()
