"""Memory-limit resets and crashes: who is delayed, sealed or set aside, and who is left alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from agentkit import AgentOptions, Capability, JobContext
from agentkit.host import AgentContext
from agentkit.testing import FakeClock, ManualRuntime
from tests.jobs.worker import START, Script, Start, Worker, at, history


async def exhaust(agent: Worker, context: JobContext) -> None:
    """Run out of memory."""
    raise MemoryError


def seconds(moments: list[Any]) -> list[float]:
    """Return moments as seconds since the clock's beginning."""
    return [(moment - START).total_seconds() for moment in moments]


class Notes(Script):
    """Also keeps which hooks ran, and what they were told."""

    def __init__(self, **runs: Any) -> None:
        super().__init__(**runs)
        self.hooks: list[tuple[str, Any]] = []


class Hungry(Worker):
    """Notes its hook in the script."""

    async def on_alarm_memory_limit(self, context: Any) -> None:
        self.deps.hooks.append(("host", context))


# --- delays and seals (SPEC 7.1, 7.2)


async def test_memory_error_is_a_reset_and_no_attempt(manual_runtime: Start) -> None:
    """The run isn't retried within its alarm and its job hasn't failed; an event tells of the reset."""
    script = Script(exhaust=exhaust)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("exhaust", after=1, id="one")

    await runtime.advance(10)

    [event] = runtime.events.of("alarm:memory_limit_reset")
    assert script.log == ["exhaust"]
    assert runtime.events.count("job:failed") == 0
    assert (event.payload["sealed"], event.payload["job_id"]) == (False, "one")
    assert [job.due_at for job in await ada.jobs()] == [at(31)]


@pytest.mark.parametrize(
    "how",
    ["cause", "context", "group", "task"],
)
async def test_memory_error_along_the_causes_is_a_reset(manual_runtime: Start, how: str) -> None:
    """Also a ``MemoryError`` that was turned into another error counts."""

    async def raise_it() -> None:
        raise MemoryError

    async def work(agent: Worker, context: JobContext) -> None:
        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(raise_it())
        if how == "task":
            await asyncio.create_task(raise_it())
        try:
            await raise_it()
        except MemoryError as error:
            if how == "cause":
                raise ValueError("could not load") from error
            raise ValueError("could not load")  # noqa: B904  # its context is what counts here

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(10)

    assert runtime.events.count("alarm:memory_limit_reset") == 1


async def test_delay_grows_with_the_strikes_and_then_the_job_is_sealed(manual_runtime: Start) -> None:
    """30 s after the first reset, 60 s after the second; the third takes the job out, into the history."""
    script = Script(exhaust=exhaust)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("exhaust", at=at(1), id="one", payload="kept")

    await runtime.advance(3_600)

    resets = runtime.events.of("alarm:memory_limit_reset")
    [sealed] = await history(runtime)
    assert seconds([event.timestamp for event in resets]) == [1, 31, 91]
    assert [event.payload["sealed"] for event in resets] == [False, False, True]
    assert await ada.jobs() == []
    assert (sealed.outcome, sealed.job_id) == ("sealed", "one")
    assert "MemoryError" in (sealed.error or "")


async def test_delay_is_at_most_five_minutes(manual_runtime: Start) -> None:
    """With a high limit the delays stop growing at 300 s."""

    class Patient(Worker):
        options = AgentOptions(max_alarm_memory_limit_strikes=100)

    runtime = await manual_runtime(Patient, deps=Script(exhaust=exhaust))
    await runtime.get(Patient, "ada").push("exhaust", at=at(0))

    await runtime.advance(2_500)

    moments = seconds([event.timestamp for event in runtime.events.of("alarm:memory_limit_reset")])
    waits = [b - a for a, b in pairwise(moments)]
    assert waits[:12] == [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]


async def test_strikes_survive_a_crash(manual_runtime: Start) -> None:
    """The count is durable."""
    runtime = await manual_runtime(Worker, deps=Script(exhaust=exhaust))
    await runtime.get(Worker, "ada").push("exhaust", at=at(1))

    for wait in (1, 30, 60):
        await runtime.advance(wait)
        await runtime.crash()

    assert [event.payload["sealed"] for event in runtime.events.of("alarm:memory_limit_reset")] == [False, False, True]


async def test_limit_of_nothing_seals_at_once(manual_runtime: Start) -> None:
    """``max_alarm_memory_limit_strikes=0`` seals on the first reset."""

    class Strict(Worker):
        options = AgentOptions(max_alarm_memory_limit_strikes=0)

    runtime = await manual_runtime(Strict, deps=Script(exhaust=exhaust))
    ada = runtime.get(Strict, "ada")
    await ada.push("exhaust", after=1)

    await runtime.advance(1)

    assert [event.payload["sealed"] for event in runtime.events.of("alarm:memory_limit_reset")] == [True]
    assert await ada.jobs() == []


async def test_clean_alarm_clears_the_count(manual_runtime: Start) -> None:
    """Only consecutive resets count: with a good alarm between them nothing is sealed."""
    script = Script(exhaust=exhaust)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    for moment in (1, 101, 201, 301):
        await ada.push("exhaust", at=at(moment), id="one")
        await runtime.advance(at(moment) - runtime.clock.now())
        await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
        await ada.push("clean", after=10)
        await runtime.advance(50)

    resets = runtime.events.of("alarm:memory_limit_reset")
    assert len(resets) == 4
    assert not any(event.payload["sealed"] for event in resets)
    assert [(event.payload["next_time"] - event.timestamp).total_seconds() for event in resets] == [30] * 4


async def test_recovery_loops_are_delayed_and_others_are_not(manual_runtime: Start) -> None:
    """A reset moves the running job and every pending recovery loop; other jobs keep their times."""
    script = Script(exhaust=exhaust)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("exhaust", at=at(1), id="running")
    await ada.push("loop", at=at(2), id="loop", recovery_loop=True)
    await ada.push("far loop", at=at(500), id="far", recovery_loop=True)
    await ada.push("other", at=at(3), id="other")

    await runtime.advance(1)

    assert {job.id: job.due_at for job in await ada.jobs()} == {
        "running": at(31),
        "loop": at(31),
        "far": at(500),
        "other": at(3),
    }


async def test_seal_takes_out_the_running_job_and_the_recovery_loops_only(manual_runtime: Start) -> None:
    """At the limit they go into the history; the others stay untouched, and the count starts anew."""

    class Strict(Hungry):
        options = AgentOptions(max_alarm_memory_limit_strikes=1)

    script = Notes(exhaust=exhaust)
    runtime = await manual_runtime(Strict, deps=script)
    ada = runtime.get(Strict, "ada")
    await ada.push("exhaust", at=at(1), id="running", recovery_loop=True)
    for name in ("loop1", "loop2"):
        await ada.push(name, at=at(500), id=name, recovery_loop=True)
    other = await ada.push("other", at=at(600), id="other")

    await runtime.advance(1)

    [(_, told)] = script.hooks
    assert await ada.jobs() == [other]
    assert {run.job_id: run.outcome for run in await history(runtime, agent_class="Strict")} == {
        "running": "sealed",
        "loop1": "sealed",
        "loop2": "sealed",
    }
    assert (told.sealed, told.next_time, told.executing.id, told.purged_recovery_loop_jobs) == (
        True,
        None,
        "running",
        3,
    )


async def test_sealed_job_can_be_requeued(manual_runtime: Start) -> None:
    """Sealed work isn't lost: it comes back whole, and doesn't count towards ``keep_history`` (SPEC 7.5)."""

    class Strict(Worker):
        options = AgentOptions(max_alarm_memory_limit_strikes=0, keep_history=1)

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            raise MemoryError

    script = Script(work=work)
    runtime = await manual_runtime(Strict, deps=script)
    ada = runtime.get(Strict, "ada")
    await ada.push("work", at=at(1), payload={"n": 1})
    await runtime.advance(1)
    [sealed] = await history(runtime, agent_class="Strict")
    for moment in (2, 3, 4):
        await ada.push("other", at=at(moment))
    await runtime.advance(10)

    await runtime.requeue(Strict, "ada", sealed.run_id)
    await runtime.advance(0)

    assert script.log == ["work", "other", "other", "other", "work"]
    assert script.contexts[-1].job.payload == {"n": 1}


async def test_job_pushed_again_during_the_run_is_not_delayed(manual_runtime: Start) -> None:
    """A newer push of the running job's id wins over the reset as over an outcome (SPEC 4.6)."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            await agent.push("work", at=at(5), id="one")
            raise MemoryError

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(1), id="one")

    await runtime.advance(10)

    assert [context.due_at for context in script.contexts] == [at(1), at(5)]


async def test_recurring_schedule_is_paused_by_a_seal_and_not_lost(manual_runtime: Start) -> None:
    """A sealed cron stays listed, paused, and can be resumed (SPEC 7.5)."""

    class Strict(Worker):
        options = AgentOptions(max_alarm_memory_limit_strikes=0)

        async def eat(self) -> None:
            self.deps.log.append("eat")
            if len(self.deps.log) == 1:
                raise MemoryError

        async def begin(self) -> str:
            return (await self.schedule("0 * * * *", self.eat)).id

    script = Script()
    runtime = await manual_runtime(Strict, deps=script)
    ada = runtime.get(Strict, "ada")
    id = await ada.begin()

    await runtime.advance(timedelta(hours=5))
    paused = await ada.get_schedule(id)
    await ada.resume_schedule(id)
    await runtime.advance(timedelta(hours=2))

    assert paused is not None
    assert paused.paused
    assert script.log == ["eat", "eat", "eat"]


# --- hooks (SPEC 7.3)


class Part(Capability):
    """Notes its hook; raises in it if it is to."""

    def __init__(self, id: str, hooks: list[tuple[str, Any]], *, raises: bool = False) -> None:
        self.id = id
        self._hooks = hooks
        self._raises = raises

    async def on_memory_limit(self, context: Any) -> None:
        self._hooks.append((self.id, context))
        if self._raises:
            raise ValueError("in the hook")


async def test_hooks_run_in_order_after_the_rows_moved_and_then_the_event(
    manual_runtime: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Each capability, the host, the event; one that raises doesn't stop the others."""
    script = Notes(exhaust=exhaust)
    seen: list[Any] = []

    class Host(Hungry):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle.use(Part("first", script.hooks, raises=True))
            self.lifecycle.use(Part("second", script.hooks))

        async def on_alarm_memory_limit(self, context: Any) -> None:
            seen.extend([job.due_at for job in await self.jobs()])
            await super().on_alarm_memory_limit(context)
            raise ValueError("in the host's hook")

    runtime = await manual_runtime(Host, deps=script)
    runtime.events.subscribe("agents:lifecycle", lambda event: script.hooks.append((event.type, None)))
    await runtime.get(Host, "ada").push("exhaust", at=at(1), id="one")

    await runtime.advance(1)

    assert [name for name, _ in script.hooks] == ["first", "second", "host", "alarm:memory_limit_reset"]
    assert seen == [at(31)]
    told = script.hooks[0][1]
    assert (told.sealed, told.next_time, told.executing.id, told.purged_recovery_loop_jobs) == (False, at(31), "one", 0)
    assert sum("in the" in str(record.exc_info and record.exc_info[1]) for record in caplog.records) == 2


async def test_hook_may_push_a_job(manual_runtime: Start) -> None:
    """The instance can still write in the hooks, and what it pushes runs."""
    script = Script(exhaust=exhaust)

    class Host(Worker):
        async def on_alarm_memory_limit(self, context: Any) -> None:
            await self.push("tidy", after=5)

    runtime = await manual_runtime(Host, deps=script)
    await runtime.get(Host, "ada").push("exhaust", at=at(1))

    await runtime.advance(10)

    assert script.log == ["exhaust", "tidy"]


async def test_instance_ends_after_a_reset(manual_runtime: Start) -> None:
    """What filled the memory is dropped: the next run finds a new instance (SPEC 7.5)."""
    instances: list[Worker] = []

    async def work(agent: Worker, context: JobContext) -> None:
        instances.append(agent)
        if len(instances) == 1:
            raise MemoryError

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", at=at(1))

    await runtime.advance(60)

    assert len(instances) == 2
    assert instances[0] is not instances[1]


async def test_reset_of_one_agent_leaves_the_others_alone(manual_runtime: Start) -> None:
    """Another agent's job that ran meanwhile goes on, and its instance stays."""

    async def slow(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(100)
        await agent.storage.put("done", True)

    runtime = await manual_runtime(Worker, deps=Script(exhaust=exhaust, slow=slow))
    await runtime.get(Worker, "bob").push("slow", at=at(1))
    await runtime.get(Worker, "ada").push("exhaust", at=at(2))

    await runtime.advance(105)

    assert await runtime.get(Worker, "bob").use(lambda agent: agent.storage.get("done")) is True
    assert {event.name for event in runtime.events.of("alarm:memory_limit_reset")} == {"ada"}


async def test_memory_error_of_background_work_is_a_reset(manual_runtime: Start) -> None:
    """Work handed to the alarm counts like the job that started it (SPEC 4.13)."""

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await agent.lifecycle.clock.sleep(5)
            raise MemoryError

        agent.lifecycle.track_alarm_work(asyncio.create_task(background()))

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", at=at(1))

    await runtime.advance(60)

    [event] = runtime.events.of("alarm:memory_limit_reset")
    assert event.timestamp == at(6)


async def test_memory_error_in_a_call_goes_to_the_caller(manual_runtime: Start) -> None:
    """Only jobs count: a call that runs out of memory raises, without a strike."""

    async def call(agent: Worker) -> None:
        raise MemoryError

    runtime = await manual_runtime(Worker, deps=Script())

    with pytest.raises(MemoryError):
        await runtime.get(Worker, "ada").use(call)

    assert runtime.events.count("alarm:memory_limit_reset") == 0


# --- crashes (SPEC 7.4, 7.5)


async def hang(agent: Worker, context: JobContext) -> None:
    """Be under way when the process dies."""
    await agent.lifecycle.clock.sleep(1_000_000)


async def _crash_in_a_job(runtime: ManualRuntime, times: int) -> None:
    for _ in range(times):
        await runtime.advance(0)
        await runtime.crash()
    await runtime.advance(0)


async def test_job_that_crashes_the_process_is_poisoned_after_five(manual_runtime: Start) -> None:
    """After ``max_crash_strikes`` deaths in a row it is set aside with an event, and the next job gets its turn."""
    script = Script(hang=hang)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("hang", at=at(1), id="one", payload="kept")
    await ada.push("other", at=at(1))
    await runtime.advance(1)

    await _crash_in_a_job(runtime, 4)
    before = (list(script.log), runtime.events.count("job:poisoned"))
    await _crash_in_a_job(runtime, 1)

    [event] = runtime.events.of("job:poisoned")
    [other, poisoned] = await history(runtime)
    assert before == (["hang"] * 5, 0)
    assert script.log == ["hang"] * 5 + ["other"]
    assert (poisoned.outcome, poisoned.job_id, poisoned.run_id) == ("poisoned", "one", event.payload["run_id"])
    assert other.outcome == "completed"
    assert await ada.jobs() == []


@pytest.mark.parametrize("limit", [1, 2])
async def test_class_says_how_many_crashes_poison(manual_runtime: Start, limit: int) -> None:
    """``max_crash_strikes`` sets the number."""

    class Strict(Worker):
        options = AgentOptions(max_crash_strikes=limit)

    script = Script(hang=hang)
    runtime = await manual_runtime(Strict, deps=script)
    await runtime.get(Strict, "ada").push("hang", at=at(1))
    await runtime.advance(1)

    await _crash_in_a_job(runtime, limit)

    assert script.log == ["hang"] * limit
    assert runtime.events.count("job:poisoned") == 1


async def test_poisoned_job_can_be_requeued(manual_runtime: Start) -> None:
    """It is kept whole and comes back after a deploy has put things right, with all its strikes forgotten."""
    script = Script(hang=hang)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("hang", at=at(1))
    await runtime.advance(1)
    await _crash_in_a_job(runtime, 5)
    [poisoned] = await history(runtime)
    del script.runs["hang"]

    await runtime.requeue(Worker, "ada", poisoned.run_id)
    await runtime.advance(0)

    assert script.log == ["hang"] * 6
    assert [run.outcome for run in await history(runtime)] == ["completed"]


async def test_progress_between_crashes_keeps_a_job(manual_runtime: Start) -> None:
    """A job that commits something in each run is getting on, and is never set aside."""

    async def step(agent: Worker, context: JobContext) -> None:
        await agent.storage.put("step", len(script.log))
        await hang(agent, context)

    script = Script(step=step)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("step", at=at(1))
    await runtime.advance(1)

    await _crash_in_a_job(runtime, 8)

    assert script.log == ["step"] * 9
    assert runtime.events.count("job:poisoned") == 0


async def test_crash_while_no_job_runs_is_no_strike(manual_runtime: Start) -> None:
    """Dying between jobs, or in a call, blames nobody."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(1_000))

    await _crash_in_a_job(runtime, 8)
    await runtime.advance(1_000)

    assert script.log == ["work"]
    assert runtime.events.count("job:poisoned") == 0


async def test_strikes_on_shared_evidence_poison_nobody(manual_runtime: Start) -> None:
    """Two jobs under way at each crash are both suspects; once they run alone, only the guilty one is set aside."""

    async def once(agent: Worker, context: JobContext) -> None:
        if script.log.count("once") == 1:
            await hang(agent, context)

    script = Script(hang=hang, once=once)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "guilty").push("hang", at=at(1))
    await runtime.get(Worker, "innocent").push("once", at=at(2))
    await runtime.advance(2)

    await _crash_in_a_job(runtime, 10)

    assert [event.name for event in runtime.events.of("job:poisoned")] == ["guilty"]
    assert [run.outcome for run in await history(runtime, "innocent")] == ["completed"]


async def test_suspect_runs_with_no_job_of_another_agent_beside_it(manual_runtime: Start) -> None:
    """After a first strike an agent's jobs run alone; afterwards jobs run side by side again."""
    together: list[int] = []
    running: set[str] = set()

    async def work(agent: Worker, context: JobContext) -> None:
        running.add(agent.name)
        together.append(len(running))
        await agent.lifecycle.clock.sleep(10)
        running.discard(agent.name)

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    for name in ("ada", "bob", "eve"):
        await runtime.get(Worker, name).push("work", at=at(1))
    await runtime.advance(1)
    before = max(together)
    together.clear()
    running.clear()

    await runtime.crash()
    await runtime.advance(60)

    assert before == 3
    assert together == [1, 1, 1]
    assert [len(await history(runtime, name)) for name in ("ada", "bob", "eve")] == [1, 1, 1]


async def test_death_of_the_process_in_overdue_jobs_does_not_hold_others_up(tmp_path: Any) -> None:
    """Agents that were never under way run at the restart beside a suspect's turn."""
    store, script = f"sqlite:///{tmp_path}/agents.db", Script(hang=hang)
    async with ManualRuntime(Worker, store=store, deps=script, shutdown_grace=0) as runtime:
        await runtime.get(Worker, "guilty").push("hang", at=at(1))
        for number in range(5):
            await runtime.get(Worker, f"other{number}").push(f"other{number}", at=at(100))
        await runtime.advance(1)
        await _crash_in_a_job(runtime, 1)

    clock = FakeClock(at(1_000))
    async with ManualRuntime(Worker, store=store, deps=script, clock=clock, shutdown_grace=0) as runtime:
        await _crash_in_a_job(runtime, 5)
        await runtime.advance(0)

    assert sorted(set(script.log)) == ["hang", *(f"other{number}" for number in range(5))]
