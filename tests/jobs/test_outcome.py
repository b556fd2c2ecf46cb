"""What becomes of a job after its run: done, postponed, yielded, or overtaken by a newer change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentkit import AgentOptions, JobContext, RescheduleAt, RetryPolicy, YieldNow
from agentkit.clock import to_ms
from tests.jobs.worker import Script, Start, Worker, at, history

# --- what a run returns (SPEC 4.5)


async def test_job_that_returns_none_is_done(manual_runtime: Start) -> None:
    """None deletes the job, also for the time after a crash."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)

    await runtime.advance(1)
    await runtime.crash()
    await runtime.advance(3_600)

    assert script.log == ["work"]
    assert await ada.jobs() == []


async def test_rescheduled_run_comes_again_at_its_moment(manual_runtime: Start) -> None:
    """``RescheduleAt`` keeps the job, its id and created_at, until then, also over a crash."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        return RescheduleAt(at(100)) if len(script.log) == 1 else None

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    pushed = await ada.push("work", after=10, id="one", payload={"n": 1})
    await runtime.advance(10)
    [waiting] = await ada.jobs()

    await runtime.crash()
    await runtime.advance(89)
    early = list(script.log)
    await runtime.advance(1)

    assert (waiting.id, waiting.due_at, waiting.payload) == ("one", at(100), {"n": 1})
    assert waiting.created_at == pushed.created_at
    assert early == ["work"]
    assert script.log == ["work", "work"]


async def test_rescheduled_run_may_bring_a_new_payload(manual_runtime: Start) -> None:
    """The payload of a ``RescheduleAt`` replaces the job's from then on."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        n = context.job.payload["n"]
        return RescheduleAt(at(10 * (n + 1)), {"n": n + 1}) if n < 3 else None

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=10, payload={"n": 1})

    await runtime.advance(60)

    assert [context.job.payload["n"] for context in script.contexts] == [1, 2, 3]


async def test_rescheduling_into_the_past_runs_at_the_next_alarm(manual_runtime: Start) -> None:
    """A moment that has passed means at once, not never."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        return RescheduleAt(at(-100)) if len(script.log) == 1 else None

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(1)

    assert script.log == ["work", "work"]


async def test_yielding_job_runs_again_after_the_other_due_jobs(manual_runtime: Start) -> None:
    """``YieldNow`` lets every other due job go first, then the agent wakes for it at once."""

    async def slices(agent: Worker, context: JobContext) -> YieldNow | None:
        return YieldNow() if script.log.count("slices") < 3 else None

    script = Script(slices=slices)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for function in ("slices", "b", "c"):
        await ada.push(function, at=at(1))

    await runtime.advance(1)

    assert script.log == ["slices", "b", "c", "slices", "slices"]


async def test_yielded_job_survives_a_crash(manual_runtime: Start) -> None:
    """The rest of a job that has yielded is still due after a restart."""

    async def slices(agent: Worker, context: JobContext) -> YieldNow | None:
        if script.log.count("slices") == 2:
            await agent.lifecycle.clock.sleep(3_600)
        return YieldNow() if script.log.count("slices") == 1 else None

    script = Script(slices=slices)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("slices", after=1)
    await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(0)

    assert script.log == ["slices"] * 3


@pytest.mark.parametrize(
    "returned",
    [True, False, 0, "done", {}, YieldNow, RescheduleAt(datetime(2026, 1, 2)), RescheduleAt("tomorrow")],  # type: ignore[arg-type]  # wrong on purpose
    ids=repr,
)
async def test_any_other_return_is_a_failure_without_retries(manual_runtime: Start, returned: Any) -> None:
    """A run that returns something else has had its effects, so it fails at once and isn't repeated."""

    async def work(agent: Worker, context: JobContext) -> Any:
        return returned

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)

    await runtime.advance(3_600)

    [run] = await history(runtime)
    assert script.log == ["work"]
    assert await ada.jobs() == []
    assert (run.outcome, run.attempts) == ("failed", 1)
    assert "returns None, YieldNow() or RescheduleAt" in (run.error or "")
    assert runtime.events.count("job:failed") == 1


async def test_rescheduling_with_a_bad_payload_is_a_failure(manual_runtime: Start) -> None:
    """A payload that JSON can't carry fails the run once, and the other jobs still run."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt:
        return RescheduleAt(at(100), {1, 2})

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)
    await ada.push("other", after=2)

    await runtime.advance(3_600)

    assert script.log == ["work", "other"]
    assert [run.outcome for run in await history(runtime)] == ["completed", "failed"]


# --- newer changes win (SPEC 4.6)


async def _cancel(agent: Worker, context: JobContext) -> RescheduleAt:
    await agent.lifecycle.jobs.cancel("one")
    return RescheduleAt(at(50))


async def _reschedule(agent: Worker, context: JobContext) -> RescheduleAt | None:
    if context.due_at == at(1):
        await agent.lifecycle.jobs.reschedule("one", at(20))
        return RescheduleAt(at(50))
    return None


async def _push(agent: Worker, context: JobContext) -> RescheduleAt | None:
    if context.due_at == at(1):
        await agent.lifecycle.jobs.push("work", at=at(30), id="one", payload="newer")
        return RescheduleAt(at(50))
    return None


async def _push_and_finish(agent: Worker, context: JobContext) -> None:
    if context.due_at == at(1):
        await agent.lifecycle.jobs.push("work", at=at(40), id="one")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (_cancel, [at(1)]),
        (_reschedule, [at(1), at(20)]),
        (_push, [at(1), at(30)]),
        (_push_and_finish, [at(1), at(40)]),
    ],
)
async def test_change_made_during_a_run_wins_over_its_outcome(
    manual_runtime: Start, work: Callable[[Worker, JobContext], Awaitable[Any]], expected: list[datetime]
) -> None:
    """Cancelling, moving or pushing the id of the running job discards what the run returns."""
    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(1), id="one")

    await runtime.advance(3_600)

    assert [context.due_at for context in script.contexts] == expected


async def test_push_from_a_call_during_a_run_wins(manual_runtime: Start) -> None:
    """Also other code of the agent may replace a job while it runs."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(10)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", at=at(1), id="one")
    await runtime.advance(5)

    await ada.push("newer", at=at(100), id="one")
    await runtime.advance(10)
    [job] = await ada.jobs()
    await runtime.advance(100)

    assert job.function == "newer"
    assert script.log == ["work", "newer"]


async def test_failure_of_a_run_does_not_delete_a_newer_push(manual_runtime: Start) -> None:
    """A run that replaces its job and then raises isn't retried, and the newer job stays."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.push("newer", at=at(100), id="one")
        raise ValueError("after the push")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(1), id="one")

    await runtime.advance(200)

    assert script.log == ["work", "newer"]


@pytest.mark.parametrize("change", ["cancel", "postpone"])
async def test_job_changed_earlier_in_the_pass_is_not_run(manual_runtime: Start, change: str) -> None:
    """The row is read again before each dispatch: cancelled or postponed by an earlier job means not run now."""

    async def first(agent: Worker, context: JobContext) -> None:
        if change == "cancel":
            await agent.lifecycle.jobs.cancel("second")
        else:
            await agent.lifecycle.jobs.reschedule("second", at(60))

    script = Script(first=first)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("first", at=at(1))
    await ada.push("second", at=at(1), id="second")
    await ada.push("third", at=at(1))

    await runtime.advance(30)
    now = list(script.log)
    await runtime.advance(60)

    assert now == ["first", "third"]
    assert script.log == (now if change == "cancel" else [*now, "second"])


async def test_due_job_pushed_by_a_job_runs_after_those_of_its_pass(manual_runtime: Start) -> None:
    """A job due at once that is pushed during an alarm waits until the jobs that were due have run."""

    async def first(agent: Worker, context: JobContext) -> None:
        await agent.push("pushed", at=at(-1_000))

    script = Script(first=first)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("first", at=at(1))
    await ada.push("second", at=at(1))

    await runtime.advance(1)

    assert script.log == ["first", "second", "pushed"]


# --- at least once (SPEC 4.11)


async def test_run_id_stays_through_attempts_and_crashes(manual_runtime: Start) -> None:
    """One due occurrence has one run id, however often it is begun."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) < 3:
            raise ValueError("again")
        if len(script.log) == 3:
            await agent.lifecycle.clock.sleep(3_600)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)
    await runtime.advance(30)

    await runtime.crash()
    await runtime.advance(30)

    assert len(script.contexts) == 4
    assert len({context.run_id for context in script.contexts}) == 1
    assert [context.attempt for context in script.contexts] == [1, 2, 3, 1]
    assert [context.recovered for context in script.contexts] == [False, False, False, True]


async def test_run_id_is_new_after_each_reschedule(manual_runtime: Start) -> None:
    """The next occurrence of a job has another run id."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | YieldNow | None:
        outcomes: list[RescheduleAt | YieldNow | None] = [RescheduleAt(at(5)), YieldNow(), None]
        return outcomes[len(script.log) - 1]

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(30)

    assert len({context.run_id for context in script.contexts}) == 3


async def test_effect_noted_with_the_run_id_happens_once(manual_runtime: Start) -> None:
    """Noting the run id in a transaction with the effect makes a run after a crash harmless."""

    async def pay(agent: Worker, context: JobContext) -> None:
        async with agent.transaction():
            if await agent.storage.get("paid:" + context.run_id):
                return
            await agent.storage.put("balance", await agent.storage.get("balance", 0) + 1)
            await agent.storage.put("paid:" + context.run_id, True)
        await agent.lifecycle.clock.sleep(3_600)

    script = Script(pay=pay)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("pay", after=1)
    await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(1)

    assert script.log == ["pay", "pay"]
    assert await ada.use(lambda agent: agent.storage.get("balance")) == 1


async def test_crash_repeats_at_most_the_job_under_way(manual_runtime: Start) -> None:
    """Each outcome is committed before the next job starts, so jobs already done don't run again."""

    async def third(agent: Worker, context: JobContext) -> None:
        if script.log.count("third") == 1:
            await agent.lifecycle.clock.sleep(3_600)

    script = Script(third=third)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for function in ("first", "second", "third", "fourth"):
        await ada.push(function, at=at(1))
    await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(0)

    assert script.log == ["first", "second", "third", "third", "fourth"]


# --- the history (SPEC 4.10, 8.6)


async def test_history_keeps_the_latest_runs(manual_runtime: Start) -> None:
    """As many runs as the class asks for are kept, the newest."""

    class Forgetful(Worker):
        options = AgentOptions(keep_history=3)

    runtime = await manual_runtime(Forgetful, deps=Script())
    ada = runtime.get(Forgetful, "ada")
    for number in range(7):
        await ada.push(f"work{number}", after=number)

    await runtime.advance(10)

    assert [run.function for run in await history(runtime, agent_class="Forgetful")] == ["work6", "work5", "work4"]


async def test_recovery_loop_that_only_looks_leaves_no_line(manual_runtime: Start) -> None:
    """Found its work under way it comes again unrecorded; its end, and what other jobs do, is recorded."""

    async def look(agent: Worker, context: JobContext) -> RescheduleAt | None:
        return RescheduleAt(context.due_at + timedelta(seconds=30)) if len(script.log) < 5 else None

    script = Script(look=look)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("look", after=30, recovery_loop=True)

    await runtime.advance(3_600)

    assert script.log == ["look"] * 5
    assert [run.due_ms for run in await history(runtime)] == [to_ms(at(150))]


async def test_history_of_nothing_keeps_no_runs(manual_runtime: Start) -> None:
    """``keep_history=0`` leaves no trace of runs that went well."""

    class Amnesiac(Worker):
        options = AgentOptions(keep_history=0)

    runtime = await manual_runtime(Amnesiac, deps=Script())
    await runtime.get(Amnesiac, "ada").push("work", after=1)

    await runtime.advance(10)

    assert await history(runtime, agent_class="Amnesiac") == []


async def test_history_tells_when_a_run_was_due_began_and_ended(manual_runtime: Start) -> None:
    """A run's entry has its moments, its attempts and how it came out."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(4)

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, id="one")

    await runtime.advance(10)

    [run] = await history(runtime)
    moments = (run.due_ms, run.started_ms, run.finished_ms)
    assert moments == tuple(int(at(seconds).timestamp() * 1000) for seconds in (1, 1, 5))
    assert (run.job_id, run.owner, run.function, run.attempts) == ("one", "host", "work", 1)
    assert (run.outcome, run.error) == ("completed", None)


async def test_failed_run_is_in_the_history_with_its_traceback(manual_runtime: Start) -> None:
    """A job that failed for good leaves its traceback and an event (SPEC 5.2)."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("the boiler is cold")

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, id="one", retry=RetryPolicy(max_attempts=2))

    await runtime.advance(timedelta(minutes=1))

    [run] = await history(runtime)
    [event] = runtime.events.of("job:failed")
    assert (run.outcome, run.attempts) == ("failed", 2)
    assert "Traceback" in (run.error or "")
    assert "ValueError: the boiler is cold" in (run.error or "")
    assert event.payload["run_id"] == run.run_id
    assert (event.payload["job_id"], event.payload["attempts"], event.payload["error"]) == ("one", 2, "ValueError")
