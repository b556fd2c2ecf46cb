"""The runtime: start-up once, eviction, drain, classes it wasn't given, and what it is made of."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import agentkit
from agentkit import Agent, AgentOptions, JobContext, RetryPolicy, Runtime
from agentkit.errors import AgentGoneError, ConfigurationError, RuntimeClosedError
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker, at, history


class Slow(Worker):
    """Takes a second of the clock to start up, and notes it."""

    async def on_start(self) -> None:
        self.deps.log.append("on_start")
        await self.lifecycle.clock.sleep(1)
        self.deps.log.append("started")

    async def call(self) -> str:
        self.deps.log.append("call")
        return "answer"


async def itself(agent: Worker) -> Worker:
    """Return the live instance, to tell it from another."""
    return agent


# --- start-up (SPEC 2.2, 2.4)


async def test_start_up_runs_once_under_concurrent_calls(manual_runtime: Start) -> None:
    """Many calls to a cold agent share one start-up, which comes before all of them."""
    script = Script()
    runtime = await manual_runtime(Slow, deps=script)
    ada = runtime.get(Slow, "ada")

    calls = [asyncio.create_task(ada.call()) for _ in range(20)]
    await runtime.advance(1)

    assert await asyncio.gather(*calls) == ["answer"] * 20
    assert script.log == ["on_start", "started", *["call"] * 20]


async def test_start_up_runs_once_under_calls_and_an_alarm(manual_runtime: Start) -> None:
    """An alarm that falls due while a call starts the agent up, or the other way round, adds no second one."""
    script = Script()
    runtime = await manual_runtime(Slow, deps=script)
    ada = runtime.get(Slow, "ada")
    first = asyncio.create_task(ada.push("work", at=at(100.5)))
    await runtime.advance(1)
    await first
    await runtime.evict(Slow, "ada")
    script.log.clear()

    await runtime.advance(99)
    calls = [asyncio.create_task(ada.call()) for _ in range(5)]
    await runtime.advance(0.6)
    during = list(script.log)
    more = [asyncio.create_task(ada.call()) for _ in range(5)]
    await runtime.advance(2)

    await asyncio.gather(*calls, *more)
    assert during == ["on_start"]
    assert script.log.count("on_start") == script.log.count("started") == 1
    assert sorted(script.log[2:]) == ["call"] * 10 + ["work"]


async def test_cancelled_caller_does_not_cancel_the_start_up(manual_runtime: Start) -> None:
    """The others that wait for the same start-up get their answer."""
    script = Script()
    runtime = await manual_runtime(Slow, deps=script)
    ada = runtime.get(Slow, "ada")
    calls = [asyncio.create_task(ada.call()) for _ in range(3)]
    await runtime.advance(0)

    calls[0].cancel()
    await runtime.advance(1)

    assert await asyncio.gather(*calls[1:]) == ["answer"] * 2
    assert calls[0].cancelled()
    assert script.log.count("on_start") == 1


class Picky(Worker):
    """Fails in start-up as often as the script says."""

    async def on_start(self) -> None:
        await self.storage.put("started", await self.storage.get("started", 0) + 1)
        self.deps.log.append("on_start")
        if self.deps.log.count("on_start") <= self.deps.runs:
            raise ConnectionError("the bot's token is wrong")

    async def call(self) -> str:
        return "answer"


class Failures(Script):
    """Says how many start-ups fail."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.runs = count  # type: ignore[assignment]  # a number stands in for runs


async def test_failed_start_up_raises_to_every_caller_and_the_next_call_tries_again(manual_runtime: Start) -> None:
    """Nothing is left half-started: the error comes out as it is, and then a new start-up runs."""
    script = Failures(1)
    runtime = await manual_runtime(Picky, deps=script)
    ada = runtime.get(Picky, "ada")

    results = await asyncio.gather(*[ada.call() for _ in range(5)], return_exceptions=True)
    answer = await ada.call()

    assert [type(result) for result in results] == [ConnectionError] * 5
    assert answer == "answer"
    assert script.log == ["on_start", "on_start"]


async def test_failing_constructor_raises_to_the_caller(manual_runtime: Start) -> None:
    """An error in ``__init__`` is a failed start-up too."""
    attempts: list[int] = []

    class Fragile(Worker):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            attempts.append(1)
            if len(attempts) == 1:
                raise ValueError("not built")

    runtime = await manual_runtime(Fragile, deps=Script())

    with pytest.raises(ValueError, match="not built"):
        await runtime.get(Fragile, "ada").jobs()

    assert await runtime.get(Fragile, "ada").jobs() == []


async def test_activate_runs_start_up_without_a_call(manual_runtime: Start) -> None:
    """An agent that nobody calls gets its cron; a second time nothing happens."""
    script = Script()

    class Cron(Worker):
        async def on_start(self) -> None:
            script.log.append("on_start")
            await self.schedule("0 * * * *", self.tick)

        async def tick(self) -> None:
            script.log.append("tick")

    runtime = await manual_runtime(Cron, deps=script)

    await runtime.activate(Cron, "ada")
    await runtime.activate(Cron, "ada")
    await runtime.advance(3_600)

    assert script.log == ["on_start", "on_start", "tick"], "the second start-up is that of the alarm"


async def test_agent_may_call_itself_and_others_in_start_up(manual_runtime: Start) -> None:
    """Start-up of one agent may need another agent."""

    class Parent(Worker):
        async def on_start(self) -> None:
            if self.name == "child":
                await self.get(Parent, "parent").push("registered", at=at(100))

    runtime = await manual_runtime(Parent, deps=Script())

    await runtime.activate(Parent, "child")

    assert [job.function for job in await runtime.get(Parent, "parent").jobs()] == ["registered"]


# --- eviction (SPEC 2.5)


async def test_unused_instance_is_dropped_after_the_idle_timeout(manual_runtime: Start) -> None:
    """Each use starts the wait anew; only what is stored survives."""
    runtime = await manual_runtime(Worker, deps=Script(), idle_timeout=10)
    ada = runtime.get(Worker, "ada")
    first = await ada.use(itself)
    await runtime.advance(9)
    used = await ada.use(itself)
    await runtime.advance(9)
    again = await ada.use(itself)
    await runtime.advance(11)

    late = await ada.use(itself)

    assert first is used is again
    assert late is not first


async def test_seventy_seconds_are_the_default(manual_runtime: Start) -> None:
    """An instance lives 70 s after its last use."""
    runtime = await manual_runtime(Worker, deps=Script())
    instances = [await runtime.get(Worker, name).use(itself) for name in ("ada", "bob")]

    await runtime.advance(69)
    before = await runtime.get(Worker, "ada").use(itself)
    await runtime.advance(2)
    after = await runtime.get(Worker, "bob").use(itself)

    assert before is instances[0]
    assert after is not instances[1]


async def test_class_may_set_its_own_idle_timeout(manual_runtime: Start) -> None:
    """``options.idle_timeout`` goes before the runtime's."""

    class Brief(Worker):
        options = AgentOptions(idle_timeout=2)

    runtime = await manual_runtime(Brief, Worker, deps=Script(), idle_timeout=1_000)
    brief, normal = runtime.get(Brief, "ada"), runtime.get(Worker, "ada")
    before = [await brief.use(itself), await normal.use(itself)]

    await runtime.advance(3)

    assert await brief.use(itself) is not before[0]
    assert await normal.use(itself) is before[1]


async def test_keep_alive_prevents_eviction_while_the_block_runs(manual_runtime: Start) -> None:
    """Once it is left the instance has its idle time again."""

    class Awake(Worker):
        async def stay(self, seconds: float) -> None:
            self.task = asyncio.create_task(self.hold(seconds))

        async def hold(self, seconds: float) -> None:
            async with self.keep_alive():
                await self.lifecycle.clock.sleep(seconds)

    runtime = await manual_runtime(Awake, deps=Script(), idle_timeout=10)
    ada = runtime.get(Awake, "ada")
    first = await ada.use(itself)
    await ada.stay(100)

    await runtime.advance(99)
    kept = await ada.use(itself)
    await runtime.advance(5)
    still = await ada.use(itself)
    await runtime.advance(11)

    assert first is kept is still
    assert await ada.use(itself) is not first


@pytest.mark.parametrize("what", ["call", "job"])
async def test_instance_in_use_is_not_dropped(manual_runtime: Start, what: str) -> None:
    """A call or a job under way keeps it, however long it takes."""
    instances: list[Worker] = []

    async def work(agent: Worker, context: Any = None) -> None:
        instances.append(agent)
        await agent.lifecycle.clock.sleep(500)
        await agent.storage.put("done", True)

    runtime = await manual_runtime(Worker, deps=Script(work=work), idle_timeout=10)
    ada = runtime.get(Worker, "ada")
    if what == "call":
        call = asyncio.create_task(ada.use(work))
        await runtime.advance(100)
    else:
        await ada.push("work", after=1)
        await runtime.advance(100)
        call = None

    same = await ada.use(itself)
    await runtime.advance(500)

    assert same is instances[0]
    assert await ada.use(lambda agent: agent.storage.get("done")) is True
    if call is not None:
        await call


async def test_evict_drops_an_instance_now(manual_runtime: Start) -> None:
    """The next call finds a new one; evicting what isn't live is False."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    first = await ada.use(itself)

    answers = [await runtime.evict(Worker, "ada"), await runtime.evict(Worker, "ada")]

    assert answers == [True, False]
    assert await ada.use(itself) is not first


@pytest.mark.timeout(10)
async def test_evict_does_not_wait_for_keep_alive(manual_runtime: Start) -> None:
    """``evict`` forces: a block held by a task of the agent's own doesn't hold it up."""
    tasks: list[asyncio.Task[None]] = []

    class Awake(Worker):
        async def on_start(self) -> None:
            tasks.append(asyncio.create_task(self.hold()))

        async def hold(self) -> None:
            async with self.keep_alive():
                await asyncio.Event().wait()

    runtime = await manual_runtime(Awake, deps=Script())
    ada = runtime.get(Awake, "ada")
    first = await ada.use(itself)

    assert await runtime.evict(Awake, "ada") is True
    assert await ada.use(itself) is not first
    for task in tasks:
        task.cancel()


async def test_call_during_eviction_waits_and_starts_a_new_instance(manual_runtime: Start) -> None:
    """What ``on_evict`` still writes is there for the next instance."""

    class Part(agentkit.Capability):
        id = "part"

        async def on_evict(self) -> None:
            await self.lifecycle.clock.sleep(5)
            await self.lifecycle.storage.put("saved", True)

    class Saving(Worker):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.part = self.lifecycle.use(Part())

        async def saved(self) -> Any:
            return await self.part.lifecycle.storage.get("saved")

    runtime = await manual_runtime(Saving, deps=Script(), idle_timeout=10)
    ada = runtime.get(Saving, "ada")
    await ada.jobs()
    await runtime.advance(11)

    call = asyncio.create_task(ada.saved())
    await runtime.advance(10)

    assert await call is True


async def test_evicted_agent_wakes_for_its_jobs(manual_runtime: Start) -> None:
    """Being dropped doesn't lose the alarm."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script, idle_timeout=10)
    for number in range(5):
        await runtime.get(Worker, f"agent{number}").push(f"work{number}", at=at(1_000 + number))

    await runtime.advance(999)
    before = list(script.log)
    await runtime.advance(10)

    assert before == []
    assert script.log == [f"work{number}" for number in range(5)]


# --- closing (SPEC 2.1, 16.2)


async def test_closing_lets_running_jobs_and_calls_finish(tmp_path: Path) -> None:
    """Within ``shutdown_grace`` what is under way ends well; new calls are refused meanwhile."""
    go = asyncio.Event()

    async def work(agent: Worker, context: Any = None) -> str:
        await go.wait()
        await agent.storage.put("by " + ("job" if context else "call"), True)
        return "answer"

    async def job(agent: Worker, context: JobContext) -> None:
        await work(agent, context)

    store, script = f"sqlite:///{tmp_path}/agents.db", Script(work=job)
    runtime = Runtime(Worker, store=store, deps=script)
    await runtime.start()
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=0)
    call = asyncio.create_task(ada.use(work))
    await _until(lambda: script.log == ["work"])

    closing = asyncio.create_task(runtime.close())
    await asyncio.sleep(0.005)
    with pytest.raises(RuntimeClosedError):
        await ada.jobs()
    go.set()
    await closing

    assert await call == "answer"
    async with ManualRuntime(Worker, store=store, deps=Script()) as later:
        values = await later.get(Worker, "ada").use(lambda agent: agent.storage.list())
        runs = await history(later)
    assert values == {"by call": True, "by job": True}
    assert [run.outcome for run in runs] == ["completed"]


async def test_closing_cuts_off_what_does_not_finish(tmp_path: Path) -> None:
    """After the grace a call raises ``RuntimeClosedError``; a job spends no attempt and runs at the next start."""

    async def endless(agent: Worker, context: Any = None) -> None:
        await asyncio.Event().wait()

    store, script = f"sqlite:///{tmp_path}/agents.db", Script(work=endless)
    runtime = Runtime(Worker, store=store, deps=script, shutdown_grace=0.01)
    await runtime.start()
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=0, retry=RetryPolicy(max_attempts=1))
    call = asyncio.create_task(ada.use(endless))
    await _until(lambda: script.log == ["work"])

    await runtime.close()
    with pytest.raises(RuntimeClosedError):
        await call

    del script.runs["work"]
    async with Runtime(Worker, store=store, deps=script):
        await _until(lambda: len(script.log) == 2)
    assert [context.attempt for context in script.contexts] == [1, 1]


async def test_job_cut_off_by_closing_is_no_crash(tmp_path: Path) -> None:
    """However often a runtime is closed in the middle of a job, the job isn't taken for a poisoned one."""

    async def endless(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(1_000_000)

    store, script = f"sqlite:///{tmp_path}/agents.db", Script(work=endless)
    poisoned = 0
    for _ in range(8):
        async with ManualRuntime(Worker, store=store, deps=script, shutdown_grace=0) as runtime:
            await runtime.get(Worker, "ada").push("work", at=at(0), id="one")
            await runtime.advance(0)
            poisoned += runtime.events.count("job:poisoned")

    assert poisoned == 0
    assert len(script.log) == 8


async def test_runtime_can_be_started_again(tmp_path: Path) -> None:
    """``start`` and ``close`` are ``async with`` in two steps, and may be called twice."""
    runtime = Runtime(Worker, store=f"sqlite:///{tmp_path}/agents.db", deps=Script())

    for number in range(3):
        await runtime.start()
        await runtime.start()
        await runtime.get(Worker, "ada").push(f"work{number}", after=1_000)
        await runtime.close()
        await runtime.close()

    await runtime.start()
    assert len(await runtime.get(Worker, "ada").jobs()) == 3
    await runtime.close()


async def test_call_before_the_start_is_refused(tmp_path: Path) -> None:
    """The error says how to serve."""
    runtime = Runtime(Worker, store=f"sqlite:///{tmp_path}/agents.db", deps=Script())

    with pytest.raises(RuntimeClosedError, match="async with"):
        await runtime.get(Worker, "ada").jobs()

    assert not (tmp_path / "agents.db").exists()


async def test_instance_of_a_closed_runtime_cannot_write(tmp_path: Path) -> None:
    """Code that outlives its runtime raises."""
    async with Runtime(Worker, store=f"sqlite:///{tmp_path}/agents.db", deps=Script()) as runtime:
        old = await runtime.get(Worker, "ada").use(itself)

    with pytest.raises(AgentGoneError):
        await old.storage.put("late", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_run_serves_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """``run()`` returns after SIGINT or SIGTERM, the runtime drained."""
    script = Script()
    async with Runtime(Worker, store=f"sqlite:///{tmp_path}/agents.db", deps=script) as runtime:
        serving = asyncio.create_task(runtime.run())
        await runtime.get(Worker, "ada").push("work", after=0.01)
        await _until(lambda: script.log == ["work"])

        os.kill(os.getpid(), number)
        await serving

        with pytest.raises(RuntimeClosedError):
            await runtime.get(Worker, "ada").jobs()


# --- classes and stores


async def test_jobs_of_a_class_that_was_not_given_stay_untouched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the class once; a runtime that has it runs them (SPEC 2.6)."""

    class Other(Worker):
        """Another class."""

    store, script = f"sqlite:///{tmp_path}/agents.db", Script()
    async with ManualRuntime(Worker, Other, store=store, deps=script) as runtime:
        for name in ("ada", "bob"):
            await runtime.get(Worker, name).push("work", at=at(100))

    async with ManualRuntime(Other, store=store, deps=script) as runtime:
        await runtime.advance(1_000)
        without = list(script.log)
    warnings = [record for record in caplog.records if "class Worker" in record.getMessage()]

    async with ManualRuntime(Worker, store=store, deps=script) as runtime:
        await runtime.advance(100)

    assert without == []
    assert [record.levelname for record in warnings] == ["WARNING"]
    assert script.log == ["work", "work"]


@pytest.mark.parametrize("cls", [object, "Worker", Worker.__init__, None, int])
def test_what_is_no_agent_class_is_refused(cls: Any) -> None:
    """The error names it and what to subclass."""
    with pytest.raises(ConfigurationError, match="subclass Agent or DurableObject"):
        Runtime(cls, store="sqlite:///:memory:")


@pytest.mark.parametrize("store", ["agents.db", "mysql://x/y", "sqlite://", "sqlite:///", ""])
def test_store_that_is_no_url_is_refused(store: str) -> None:
    """The error shows a URL that works."""
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        Runtime(Worker, store=store)


@pytest.mark.parametrize("option", ["idle", "stor", "agents"])
def test_unknown_option_is_a_type_error(option: str) -> None:
    """A misspelled option doesn't pass silently."""
    options: dict[str, Any] = {option: 1}

    with pytest.raises(TypeError, match=option):
        Runtime(Worker, **options)


@pytest.mark.parametrize(
    ("option", "value"), [("idle_timeout", "long"), ("shutdown_grace", float("nan")), ("durability", "none")]
)
def test_impossible_option_is_refused_by_name(option: str, value: Any) -> None:
    """The error names the option."""
    options: dict[str, Any] = {option: value}

    with pytest.raises((TypeError, ValueError, ConfigurationError), match=option):
        Runtime(Worker, store="sqlite:///:memory:", **options)


async def test_store_may_be_given_as_an_object(tmp_path: Path) -> None:
    """A ``Store`` stands in for its URL."""
    store = SqliteStore(tmp_path / "agents.db", durability="process")

    async with Runtime(Worker, store=store, deps=Script()) as runtime:
        await runtime.get(Worker, "ada").push("work", after=60)

    assert runtime.store is store


async def test_store_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store ``$AGENTKIT_STORE`` is used, else ``agentkit.db`` in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTKIT_STORE", f"sqlite:///{tmp_path}/named.db")
    named = Runtime(Worker)
    monkeypatch.delenv("AGENTKIT_STORE")
    default = Runtime(Worker)

    assert named.store.location == str(tmp_path / "named.db")
    assert default.store.location == str(tmp_path / "agentkit.db")


async def test_path_of_the_store_is_logged_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The absolute path, so that nobody serves the wrong file unknowingly."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "agentkit")

    async with Runtime(Worker, store="sqlite:///agents.db"):
        """Serve."""

    assert any(str(tmp_path / "agents.db") in record.getMessage() for record in caplog.records)


def test_package_exports_what_the_specification_lists() -> None:
    """``from agentkit import …`` gives these names and no others."""
    expected = {
        *("Agent", "AgentContext", "AgentOptions", "Capability", "DurableObject", "Job", "JobContext", "Lifecycle"),
        *("Recurrence", "RescheduleAt", "RetryPolicy", "Runtime", "Schedule", "Scheduler", "YieldNow"),
        *("callable_method", "current_agent", "from_thread", "AgentKitError"),
    }

    assert set(agentkit.__all__) == expected
    assert all(hasattr(agentkit, name) for name in expected)


async def test_many_agents_run_side_by_side(manual_runtime: Start) -> None:
    """A hundred agents with jobs of one moment all run at that moment."""
    moments: set[Any] = set()

    async def work(agent: Worker, context: JobContext) -> None:
        moments.add(agent.lifecycle.clock.now())
        await agent.lifecycle.clock.sleep(5)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    for number in range(100):
        await runtime.get(Worker, f"agent{number}").push("work", at=at(10))

    await runtime.advance(20)

    assert len(script.log) == 100
    assert moments == {at(10)}


async def _until(is_reached: Any) -> None:
    """Wait a little at a time; a test that never gets there ends by its time limit."""
    while not is_reached():
        await asyncio.sleep(0.002)


class Base(Agent):
    """For the test below."""


async def test_agent_of_two_runtimes_is_refused(tmp_path: Path) -> None:
    """A second runtime on one file can't serve the same agents at the same time (SPEC 2.11)."""
    store = f"sqlite:///{tmp_path}/agents.db"

    async with Runtime(Base, store=store):
        second = Runtime(Base, store=store)
        with pytest.raises(agentkit.AgentKitError):
            await second.start()
