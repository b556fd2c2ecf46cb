"""Running one job: time limits, runs that won't stop, plain functions, jobs nobody takes."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, Capability, Job, JobContext, RetryPolicy, Runtime, current_agent, from_thread
from agentkit.errors import AgentGoneError, AgentKitError, JobTimeoutError
from agentkit.host import AgentContext, DurableObject
from agentkit.lifecycle import Lifecycle
from agentkit.testing import FakeClock, ManualRuntime
from tests.jobs.worker import START, Script, Start, Worker, at, history

# --- slow runs (SPEC 4.8)


async def test_slow_run_is_reported_and_goes_on(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """At ``hung_timeout`` a warning and an event say so, once; the run isn't cancelled."""
    ended: list[Any] = []

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(100)
        ended.append(agent.lifecycle.clock.now())

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, id="one", hung_timeout=7)

    await runtime.advance(200)

    [event] = runtime.events.of("job:slow_dispatch")
    assert event.timestamp == at(8)
    assert (event.agent, event.name) == ("Worker", "ada")
    assert dict(event.payload) == {"job_id": "one", "owner": "host", "function": "work", "seconds": 7}
    assert [record.levelname for record in caplog.records if "job:slow_dispatch" in record.message] == ["WARNING"]
    assert ended == [at(101)]
    assert [run.outcome for run in await history(runtime)] == ["completed"]


@pytest.mark.parametrize(("option", "reported_at"), [(30, 31), (5, 6)])
async def test_class_says_when_a_run_counts_as_slow(manual_runtime: Start, option: float, reported_at: float) -> None:
    """Without a ``hung_timeout`` of its own a job has its class's, by default 30 s."""

    class Patient(Worker):
        options = AgentOptions(hung_timeout=option)

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(100)

    runtime = await manual_runtime(Patient, deps=Script(work=work))
    await runtime.get(Patient, "ada").push("work", after=1)

    await runtime.advance(200)

    assert [event.timestamp for event in runtime.events.of("job:slow_dispatch")] == [at(reported_at)]
    assert AgentOptions().hung_timeout == 30


async def test_run_that_ends_in_time_is_not_reported(manual_runtime: Start) -> None:
    """A run that takes less than its ``hung_timeout`` makes no noise, nor does the wait between attempts."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(4)
        raise ValueError("no")

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    retry = RetryPolicy(base_delay=500, max_delay=500)
    await runtime.get(Worker, "ada").push("work", after=1, hung_timeout=5, retry=retry)

    await runtime.advance(3_600)

    assert runtime.events.count("job:slow_dispatch") == 0


# --- timeouts (SPEC 4.8)


async def test_timeout_cancels_the_run_and_counts_as_a_failed_attempt(manual_runtime: Start) -> None:
    """The run sees a real ``CancelledError`` at its timeout, and each attempt has the whole time."""
    seen: list[Any] = []

    async def work(agent: Worker, context: JobContext) -> None:
        try:
            await agent.lifecycle.clock.sleep(100)
        except asyncio.CancelledError:
            seen.append(agent.lifecycle.clock.now())
            raise

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, timeout=5, retry=RetryPolicy(max_attempts=2, base_delay=0))
    await ada.push("other", at=at(1))

    await runtime.advance(30)

    [other, run] = await history(runtime)
    assert seen == [at(6), at(11)]
    assert (run.outcome, run.attempts) == ("failed", 2)
    assert "JobTimeoutError" in (run.error or "")
    assert "timeout of 5 s" in (run.error or "")
    assert (other.function, other.outcome) == ("other", "completed")


async def test_job_timeout_error_is_a_timeout_error_with_its_facts() -> None:
    """What the retry policy is told can be caught as a ``TimeoutError``."""
    error = JobTimeoutError("one", 2.5)

    assert isinstance(error, TimeoutError)
    assert (error.job_id, error.seconds) == ("one", 2.5)


async def test_on_job_error_is_told_of_the_timeout(manual_runtime: Start) -> None:
    """A capability hears of a ``JobTimeoutError`` after the last attempt."""
    told: list[Exception] = []

    class Slow(Capability):
        id = "slow"

        async def on_job(self, context: JobContext) -> None:
            await self.lifecycle.clock.sleep(100)

        async def on_job_error(self, context: JobContext, error: Exception) -> None:
            told.append(error)

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.slow = self.lifecycle.use(Slow())

        async def push_slow(self) -> None:
            await self.slow.lifecycle.jobs.push("work", after=1, id="one", timeout=5)

    runtime = await manual_runtime(Host, deps=Script())
    await runtime.get(Host, "ada").push_slow()

    await runtime.advance(60)

    assert [(type(error), str(error)) for error in told] == [
        (JobTimeoutError, "job 'one' ran longer than its timeout of 5 s")
    ]


async def test_run_may_clean_up_when_it_is_cancelled(manual_runtime: Start) -> None:
    """A run has a few seconds after its timeout in which it may still write."""

    async def work(agent: Worker, context: JobContext) -> None:
        try:
            await agent.lifecycle.clock.sleep(100)
        finally:
            await agent.lifecycle.clock.sleep(1)
            await agent.storage.put("cleaned", True)

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, timeout=5, retry=RetryPolicy(max_attempts=1))

    await runtime.advance(30)

    assert await ada.use(lambda agent: agent.storage.get("cleaned")) is True


async def test_run_that_ends_well_within_its_timeout_is_completed(manual_runtime: Start) -> None:
    """A timeout that doesn't pass changes nothing."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(4)
        assert current_agent() is agent

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, timeout=5)

    await runtime.advance(30)

    assert [run.outcome for run in await history(runtime)] == ["completed"]


class Deaf:
    """A run that ignores its cancellation until it is let go."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.ended = asyncio.Event()
        self._go = asyncio.Event()

    async def run(self, agent: Worker, context: JobContext) -> None:
        """Wait without listening, then try to write."""
        if agent.deps.log.count("deaf") > 1:
            return
        while not self._go.is_set():
            try:
                await self._go.wait()
            except asyncio.CancelledError:
                continue
        for write in (
            lambda: agent.storage.put("written", True),
            lambda: agent.push("more", after=1),
            lambda: agent.lifecycle.jobs.cancel("kept"),
        ):
            try:
                await write()
            except AgentGoneError as error:
                self.errors.append(error)
        self.ended.set()

    async def let_go(self) -> None:
        """Let the run end, and wait until it has."""
        self._go.set()
        await self.ended.wait()


async def _move(runtime: ManualRuntime, seconds: float) -> None:
    """Move the clock without waiting for a run that doesn't go by it."""
    runtime.clock.move_to(runtime.clock.now() + timedelta(seconds=seconds))  # type: ignore[attr-defined]  # a fake clock
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_run_that_ignores_cancellation_is_abandoned_and_the_queue_goes_on(
    manual_runtime: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that doesn't stop is left behind with an error in the log; the next job runs."""
    deaf = Deaf()
    script = Script(deaf=deaf.run)
    runtime = await manual_runtime(Worker, deps=script, shutdown_grace=0)
    ada = runtime.get(Worker, "ada")
    await ada.push("deaf", after=1, timeout=5, retry=RetryPolicy(max_attempts=3))
    await ada.push("other", at=at(1))

    await _move(runtime, 1)
    await _move(runtime, 5)
    await _move(runtime, 5)

    assert script.log == ["deaf", "other"]
    assert [run.outcome for run in await history(runtime)] == ["completed", "failed"]
    assert any("abandoned" in record.message and record.levelname == "ERROR" for record in caplog.records)
    await deaf.let_go()


async def test_abandoned_run_cannot_write_any_more(manual_runtime: Start) -> None:
    """Whatever an abandoned run still tries raises, and changes nothing."""
    deaf = Deaf()
    runtime = await manual_runtime(Worker, deps=Script(deaf=deaf.run), shutdown_grace=0)
    ada = runtime.get(Worker, "ada")
    await ada.push("deaf", after=1, timeout=5, retry=RetryPolicy(max_attempts=1))
    kept = await ada.push("kept", after=3_600, id="kept")
    for seconds in (1, 5, 5):
        await _move(runtime, seconds)

    await deaf.let_go()

    assert len(deaf.errors) == 3
    assert all("abandoned" in str(error) for error in deaf.errors)
    assert await ada.use(lambda agent: agent.storage.get("written")) is None
    assert await ada.jobs() == [kept]


# --- single flight (SPEC 4.7)


async def test_single_flight_job_waits_for_its_abandoned_run(manual_runtime: Start) -> None:
    """While an abandoned run is alive the job is skipped; once that counts as hung it runs again."""
    deaf = Deaf()
    script = Script(deaf=deaf.run)
    runtime = await manual_runtime(Worker, deps=script, shutdown_grace=0)
    ada = runtime.get(Worker, "ada")
    options: dict[str, Any] = {"id": "deaf", "timeout": 5, "single_flight": True, "hung_timeout": 60}
    await ada.push("deaf", after=1, retry=RetryPolicy(max_attempts=1), **options)
    for seconds in (1, 5, 5):
        await _move(runtime, seconds)

    await ada.push("deaf", after=1, **options)
    await _move(runtime, 1)
    skipped = list(script.log)
    await _move(runtime, 60)

    assert skipped == ["deaf"]
    assert script.log == ["deaf", "deaf"]
    assert [run.outcome for run in await history(runtime)] == ["completed", "skipped", "failed"]
    await deaf.let_go()


async def test_single_flight_job_runs_once_its_abandoned_run_has_ended(manual_runtime: Start) -> None:
    """A run that ended late holds nothing up."""
    deaf = Deaf()
    script = Script(deaf=deaf.run)
    runtime = await manual_runtime(Worker, deps=script, shutdown_grace=0)
    ada = runtime.get(Worker, "ada")
    options: dict[str, Any] = {"id": "deaf", "timeout": 5, "single_flight": True, "hung_timeout": 600}
    await ada.push("deaf", after=1, retry=RetryPolicy(max_attempts=1), **options)
    for seconds in (1, 5, 5):
        await _move(runtime, seconds)

    await deaf.let_go()
    await ada.push("deaf", after=1, **options)
    await _move(runtime, 1)

    assert script.log == ["deaf", "deaf"]


async def test_job_without_single_flight_runs_beside_its_abandoned_run(manual_runtime: Start) -> None:
    """Only single-flight jobs look at earlier runs."""
    deaf = Deaf()
    script = Script(deaf=deaf.run)
    runtime = await manual_runtime(Worker, deps=script, shutdown_grace=0)
    ada = runtime.get(Worker, "ada")
    await ada.push("deaf", after=1, id="deaf", timeout=5, retry=RetryPolicy(max_attempts=1))
    for seconds in (1, 5, 5):
        await _move(runtime, seconds)

    await ada.push("deaf", after=1, id="deaf")
    await _move(runtime, 1)

    assert script.log == ["deaf", "deaf"]
    await deaf.let_go()


async def test_mark_of_a_dead_process_does_not_hold_a_single_flight_job_up(manual_runtime: Start) -> None:
    """After a crash in the middle of a single-flight job it runs again at once."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            await agent.lifecycle.clock.sleep(3_600)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1, single_flight=True, hung_timeout=600)
    await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(0)

    assert script.log == ["work", "work"]


# --- plain functions (SPEC 4.12)


class Plain(DurableObject):
    """A host whose ``on_job`` is a plain function, so that it runs in a thread."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.lifecycle = Lifecycle(self)

    def on_job(self, context: JobContext) -> Any:
        return self.deps(self, context)

    async def push(self, function: str, **options: Any) -> Job:
        return await self.lifecycle.jobs.push(function, **options)

    async def read(self, key: str) -> Any:
        return await self.lifecycle.storage.get(key)


async def test_plain_function_runs_in_a_daemon_thread(manual_runtime: Start) -> None:
    """A plain ``on_job`` never runs on the event loop's thread, and doesn't keep the process alive."""
    threads: list[threading.Thread] = []

    def work(agent: Plain, context: JobContext) -> None:
        threads.append(threading.current_thread())

    runtime = await manual_runtime(Plain, deps=work)
    await runtime.get(Plain, "ada").push("work", after=1)

    await runtime.advance(1)

    [thread] = threads
    assert thread is not threading.main_thread()
    assert thread.daemon


async def test_plain_function_reaches_storage_through_from_thread(manual_runtime: Start) -> None:
    """``from_thread`` runs a coroutine on the agent's loop and hands its result or its error back."""
    seen: list[Any] = []

    async def fail() -> None:
        raise KeyError("inside")

    def work(agent: Plain, context: JobContext) -> None:
        from_thread(agent.lifecycle.storage.put("answer", 42))
        seen.append(from_thread(agent.lifecycle.storage.get("answer")))
        with pytest.raises(KeyError, match="inside"):
            from_thread(fail())

    runtime = await manual_runtime(Plain, deps=work)
    ada = runtime.get(Plain, "ada")
    await ada.push("work", after=1)

    await runtime.advance(1)

    assert seen == [42]
    assert await ada.read("answer") == 42
    assert [run.outcome for run in await history(runtime, agent_class="Plain")] == ["completed"]


async def test_current_agent_is_known_in_the_thread_and_behind_from_thread(manual_runtime: Start) -> None:
    """The context goes along into the thread and back onto the loop."""
    seen: list[Any] = []

    async def who() -> Any:
        return current_agent()

    def work(agent: Plain, context: JobContext) -> None:
        seen.extend([agent, current_agent(), from_thread(who())])

    runtime = await manual_runtime(Plain, deps=work)
    await runtime.get(Plain, "ada").push("work", after=1)

    await runtime.advance(1)

    assert len(seen) == 3
    assert seen[0] is seen[1] is seen[2]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), SystemExit("no")], ids=repr)
async def test_failing_plain_function_is_retried(manual_runtime: Start, error: BaseException) -> None:
    """Whatever a thread raises counts as a failed attempt like any other."""
    calls: list[int] = []

    def work(agent: Plain, context: JobContext) -> None:
        calls.append(context.attempt)
        raise error

    runtime = await manual_runtime(Plain, deps=work)
    await runtime.get(Plain, "ada").push("work", after=1)

    await runtime.advance(60)

    assert calls == [1, 2, 3]
    assert [run.outcome for run in await history(runtime, agent_class="Plain")] == ["failed"]


async def test_thread_past_its_timeout_is_abandoned_and_not_retried(manual_runtime: Start) -> None:
    """A thread can't be cancelled: at the timeout the job has failed, isn't retried, and can't write any more."""
    go, ended = threading.Event(), threading.Event()
    calls: list[int] = []
    errors: list[Exception] = []

    def work(agent: Plain, context: JobContext) -> None:
        calls.append(context.attempt)
        go.wait(30)
        try:
            from_thread(agent.lifecycle.storage.put("late", True))
        except AgentGoneError as error:
            errors.append(error)
        ended.set()

    runtime = await manual_runtime(Plain, deps=work, shutdown_grace=0)
    ada = runtime.get(Plain, "ada")
    await ada.push("work", after=1, timeout=5)
    for seconds in (1, 5, 5, 5):
        runtime.clock.move_to(runtime.clock.now() + timedelta(seconds=seconds))  # type: ignore[attr-defined]  # a fake clock
        for _ in range(20):
            await asyncio.sleep(0.001)
    recorded = await history(runtime, agent_class="Plain")

    go.set()
    await asyncio.to_thread(ended.wait, 30)

    assert calls == [1]
    assert [(run.outcome, run.attempts) for run in recorded] == [("failed", 1)]
    assert len(errors) == 1
    assert await ada.read("late") is None


async def test_from_thread_outside_of_a_thread_of_ours_raises() -> None:
    """Where no agent runs there is no loop to go to; the coroutine isn't left unawaited."""

    async def nothing() -> None:
        """Do nothing."""

    with pytest.raises(LookupError, match="from_thread"):
        from_thread(nothing())


@pytest.mark.timeout(10)
async def test_from_thread_on_the_event_loop_raises_instead_of_blocking(manual_runtime: Start) -> None:
    """In a coroutine one awaits; waiting there for the loop would stop it for ever."""

    class Confused(Agent):
        async def read(self) -> Any:
            return from_thread(self.storage.get("key"))

    runtime = await manual_runtime(Confused)

    with pytest.raises((LookupError, RuntimeError)):
        await runtime.get(Confused, "ada").read()


async def test_plain_function_may_return_an_outcome(manual_runtime: Start) -> None:
    """A plain function's return counts as a coroutine's does."""

    def work(agent: Plain, context: JobContext) -> Any:
        return "nonsense"

    runtime = await manual_runtime(Plain, deps=work)
    await runtime.get(Plain, "ada").push("work", after=1)

    await runtime.advance(60)

    assert [(run.outcome, run.attempts) for run in await history(runtime, agent_class="Plain")] == [("failed", 1)]


# --- jobs that nobody takes (SPEC 4.10)


class Letters(Capability):
    """A capability that a deploy may leave out."""

    id = "letters"

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    async def on_job(self, context: JobContext) -> None:
        """Note the payload."""
        self._log.append(context.job.payload)


class Office(Agent):
    """The agent before a deploy, and after it has been put right."""

    options = AgentOptions(name="Office")

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.letters = self.lifecycle.use(Letters(self.deps))

    async def post(self, text: str) -> None:
        await self.letters.lifecycle.jobs.push("post", after=60, id="letter", payload=text, timeout=9)


class EmptyOffice(Agent):
    """The agent of a deploy that forgot the capability."""

    options = AgentOptions(name="Office", keep_history=1)

    async def push_own(self, after: float) -> None:
        await self.lifecycle.jobs.push("own", after=after)


async def test_job_whose_owner_is_gone_is_kept_whole_and_comes_back(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It leaves the queue as ``orphaned``, untouched by pruning; ``requeue`` brings it back after the next deploy."""
    store, log = f"sqlite:///{tmp_path}/office.db", list[Any]()
    async with ManualRuntime(Office, store=store, deps=log) as runtime:
        await runtime.get(Office, "ada").post("dear Bob")

    async with ManualRuntime(EmptyOffice, store=store) as runtime:
        await runtime.advance(60)
        [orphan] = await history(runtime, agent_class="Office")
        for after in (1, 2, 3):
            await runtime.get(EmptyOffice, "ada").push_own(after)
        await runtime.advance(60)
        kept = await history(runtime, agent_class="Office")

    async with ManualRuntime(Office, store=store, deps=log) as runtime:
        await runtime.requeue(Office, "ada", orphan.run_id)
        await runtime.advance(0)

    assert (orphan.outcome, orphan.attempts, orphan.function, orphan.owner) == ("orphaned", 0, "post", "letters")
    assert "letters" in (orphan.error or "")
    assert orphan.run_id in {run.run_id for run in kept}
    assert any("requeue" in record.message and record.levelname == "ERROR" for record in caplog.records)
    assert log == ["dear Bob"]


async def test_job_of_a_host_without_on_job_is_orphaned(manual_runtime: Start) -> None:
    """A host that takes no jobs can push them, but they end in the history, with an event."""

    class Mute(Agent):
        async def push(self) -> None:
            await self.lifecycle.jobs.push("work", after=1, id="one")

    runtime = await manual_runtime(Mute)
    await runtime.get(Mute, "ada").push()

    await runtime.advance(60)

    [run] = await history(runtime, agent_class="Mute")
    [event] = runtime.events.of("job:orphaned")
    assert run.outcome == "orphaned"
    assert (event.payload["job_id"], event.payload["run_id"]) == ("one", run.run_id)


# --- background work (SPEC 4.13)


async def test_work_handed_over_during_an_alarm_is_tracked(manual_runtime: Start) -> None:
    """In a job the answer is True, and the instance isn't evicted while the work runs."""
    seen: list[Any] = []

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await agent.lifecycle.clock.sleep(500)
            await agent.storage.put("done", True)

        seen.append(agent.lifecycle.track_alarm_work(asyncio.create_task(background())))
        seen.append(agent)

    runtime = await manual_runtime(Worker, deps=Script(work=work), idle_timeout=10)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)

    await runtime.advance(300)
    same = await ada.use(_itself)
    await runtime.advance(300)

    assert seen[0] is True
    assert same is seen[1]
    assert await ada.use(lambda agent: agent.storage.get("done")) is True


async def _itself(agent: Worker) -> Worker:
    return agent


async def test_work_outside_of_an_alarm_is_not_tracked(manual_runtime: Start) -> None:
    """In a call the answer is False, and the instance may be evicted."""

    async def scenario(agent: Worker) -> tuple[bool, asyncio.Task[None]]:
        task = asyncio.create_task(agent.lifecycle.clock.sleep(500))
        return agent.lifecycle.track_alarm_work(task), task

    runtime = await manual_runtime(Worker, deps=Script(), idle_timeout=10)
    ada = runtime.get(Worker, "ada")
    before = await ada.use(_itself)

    tracked, task = await ada.use(scenario)
    await runtime.advance(300)
    after = await ada.use(_itself)

    assert tracked is False
    assert after is not before
    task.cancel()


async def test_failing_background_work_is_logged(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """An error of tracked work isn't silent, and harms nothing else."""

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await agent.lifecycle.clock.sleep(5)
            raise ValueError("in the background")

        agent.lifecycle.track_alarm_work(asyncio.create_task(background()))

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)
    await ada.push("other", after=10)

    await runtime.advance(60)

    assert script.log == ["work", "other"]
    assert any(record.exc_info and "in the background" in str(record.exc_info[1]) for record in caplog.records)


async def test_background_work_is_drained_at_the_close(tmp_path: Any) -> None:
    """Closing waits for tracked work within the grace, and what it writes is stored."""
    go = asyncio.Event()

    async def work(agent: Worker, context: JobContext) -> None:
        async def background() -> None:
            await go.wait()
            await agent.storage.put("done", True)

        agent.lifecycle.track_alarm_work(asyncio.create_task(background()))

    store, script = f"sqlite:///{tmp_path}/agents.db", Script(work=work)
    runtime = Runtime(Worker, store=store, deps=script)
    await runtime.start()
    await runtime.get(Worker, "ada").push("work", after=0)
    while script.log != ["work"]:
        await asyncio.sleep(0.002)

    closing = asyncio.create_task(runtime.close())
    await asyncio.sleep(0.005)
    was_closed = closing.done()
    go.set()
    await closing

    async with ManualRuntime(Worker, store=store, deps=script) as later:
        done = await later.get(Worker, "ada").use(lambda agent: agent.storage.get("done"))
    assert was_closed is False
    assert done is True


async def test_thread_is_left_behind_at_the_close_and_its_job_runs_again(tmp_path: Any) -> None:
    """A thread that outlives the grace can't write; its job spent no attempt and runs at the next start."""
    go, ended = threading.Event(), threading.Event()
    attempts: list[int] = []
    errors: list[Exception] = []

    def work(agent: Plain, context: JobContext) -> None:
        attempts.append(context.attempt)
        if len(attempts) > 1:
            return
        go.wait(30)
        try:
            from_thread(agent.lifecycle.storage.put("late", True))
        except AgentKitError as error:
            errors.append(error)
        ended.set()

    store = f"sqlite:///{tmp_path}/agents.db"
    runtime = Runtime(Plain, store=store, deps=work, shutdown_grace=0.01)
    await runtime.start()
    await runtime.get(Plain, "ada").push("work", after=0, retry=RetryPolicy(max_attempts=1))
    while not attempts:
        await asyncio.sleep(0.002)
    await runtime.close()
    go.set()
    await asyncio.to_thread(ended.wait, 30)

    async with ManualRuntime(Plain, store=store, deps=work, clock=FakeClock(datetime(2100, 1, 1, tzinfo=UTC))) as later:
        await later.advance(0)
        late = await later.get(Plain, "ada").read("late")

    assert attempts == [1, 1]
    assert len(errors) == 1
    assert late is None


async def test_job_never_begins_before_its_time(manual_runtime: Start) -> None:
    """A millisecond early is too early."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(10))

    await runtime.advance(timedelta(seconds=10) - timedelta(milliseconds=1))
    early = list(script.log)
    await runtime.advance(timedelta(milliseconds=1))

    assert (early, script.log) == ([], ["work"])
    assert runtime.clock.now() - START == timedelta(seconds=10)
