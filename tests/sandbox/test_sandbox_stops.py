"""How sandboxes stop, who is told, and what counts as use (SPEC 12.5, 12.6)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, JobContext
from agentkit.errors import ConfigurationError, SandboxStoppedError
from agentkit.host import AgentContext
from agentkit.sandbox import Sandbox, SandboxSpec, Started, Stopped
from agentkit.testing import InMemoryEngine, InMemoryProcess, ManualRuntime
from tests.sandbox.sandbox_host import Coder, Given

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


async def state(coder: Coder) -> str:
    """Return whether it runs; asking is no use of it."""
    return (await coder.use(lambda sandbox: sandbox.info())).state


async def engine_name(engine: InMemoryEngine) -> str:
    """Return the name of the only instance."""
    [instance] = await engine.instances()
    return instance.name


@pytest.fixture
async def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent whose sandbox runs."""
    ada = runtime.get(Coder, "ada")
    await ada.use(lambda sandbox: sandbox.start())
    return ada


# --- reasons


@pytest.mark.parametrize(
    ("how", "reason", "exit_code"),
    [
        ("stop", "stopped", 143),
        ("destroy", "destroyed", None),
        ("kill", "killed", 137),
        ("run_out_of_memory", "out_of_memory", 137),
        ("restart", "engine", 143),
        ("remove", "engine", None),
    ],
)
async def test_reason_of_a_stop(
    runtime: ManualRuntime,
    coder: Coder,
    memory_engine: InMemoryEngine,
    given: Given,
    how: str,
    reason: str,
    exit_code: Any,
) -> None:
    """Noticed at once by the agent that holds it, told once, and kept for errors."""
    name = await engine_name(memory_engine)
    await runtime.advance(MINUTE)
    if how in ("stop", "destroy"):
        await coder.use(lambda sandbox: getattr(sandbox, how)())
    elif how == "restart":
        memory_engine.restart()
    elif how == "remove":
        await memory_engine.remove(name)
    else:
        getattr(memory_engine, how)(name)

    await runtime.advance(0)

    [(_, stop)] = given.stops
    assert (stop.reason, stop.exit_code, stop.at) == (reason, exit_code, START + MINUTE)
    with pytest.raises(SandboxStoppedError) as stopped:
        await coder.use(lambda sandbox: sandbox.exec("true"))
    assert stopped.value.reason == reason
    assert runtime.events.of("sandbox:stop")[0].payload["reason"] == reason


async def test_sandbox_stops_at_the_end_of_its_life(runtime: ManualRuntime, given: Given) -> None:
    """However much it is used, at ``max_lifetime`` it stops."""
    given.spec = SandboxSpec(max_lifetime=HOUR)
    coder = runtime.get(Coder, "ada")

    async def work(sandbox: Sandbox) -> None:
        await sandbox.start()
        await sandbox.exec("sleep", "2h", timeout=None)

    running = asyncio.ensure_future(coder.use(work))
    await runtime.advance(2 * HOUR)
    with pytest.raises(SandboxStoppedError) as stopped:
        await running

    assert stopped.value.reason == "lifetime"
    assert [(stop.reason, stop.at) for _, stop in given.stops] == [("lifetime", START + HOUR)]


async def test_watchdog_that_fails_has_a_backstop(runtime: ManualRuntime, given: Given) -> None:
    """A container that outlives its ``max_lifetime``, whatever is wrong inside, is stopped from outside."""

    class Undying(Sleepless):
        async def create(self, plan: Any) -> Any:
            made = await super().create(plan)
            self._machines[plan.name]._timers["lifetime"].cancel()
            return made

    given.spec = SandboxSpec(max_lifetime=HOUR)
    async with ManualRuntime(Coder, engine=Undying(), deps=given) as runtime:
        coder = runtime.get(Coder, "ada")
        await coder.use(lambda sandbox: sandbox.start())
        running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("sleep", "3h", timeout=None)))
        await runtime.advance(HOUR)
        before = list(given.stops)
        await runtime.advance(5 * MINUTE)
        with pytest.raises(SandboxStoppedError, match="lifetime"):
            await running

    assert before == []
    assert [stop.reason for _, stop in given.stops] == ["lifetime"]


class Sleepless(InMemoryEngine):
    """An engine whose instances don't stop by themselves: code inside has seen to that."""

    async def create(self, plan: Any) -> Any:
        """Let nothing watch over the inactivity."""
        made = await super().create(plan)
        self._machines[plan.name]._watch_inactivity = lambda: None  # type: ignore[method-assign]  # see the class
        self._machines[plan.name]._timers["inactivity"].cancel()
        return made


@pytest.mark.parametrize("is_evicted", [True, False])
async def test_owner_stops_what_does_not_stop_by_itself(given: Given, is_evicted: bool) -> None:
    """Code inside may keep the program from stopping that watches over inactivity; the owner sees it."""
    async with ManualRuntime(Coder, engine=Sleepless(), deps=given, idle_timeout=7_200) as runtime:
        await runtime.get(Coder, "ada").use(lambda sandbox: sandbox.start())
        if is_evicted:
            await runtime.evict(Coder, "ada")
        await runtime.advance(30 * MINUTE)

    [(_, stop)] = given.stops
    assert stop.reason == "inactive"
    assert stop.at <= START + 25 * MINUTE


@pytest.mark.parametrize("every", [5, 9, 11, 14])
async def test_owner_stops_nothing_that_is_used(given: Given, every: int) -> None:
    """Now and then used, by an instance that is evicted in between, each time sooner than the timeout."""
    given.spec = SandboxSpec(inactivity_timeout=15 * MINUTE)
    async with ManualRuntime(Coder, engine=Sleepless(), deps=given) as runtime:
        coder = runtime.get(Coder, "ada")
        await coder.use(lambda sandbox: sandbox.start())
        for _ in range(30):
            await runtime.advance(every * MINUTE)
            await coder.use(lambda sandbox: sandbox.exec("true"))

    assert given.stops == []


async def test_start_counts_as_use(given: Given) -> None:
    """What was long unused is not stopped because of that when it has just been started again."""
    async with ManualRuntime(Coder, engine=InMemoryEngine(), deps=given, idle_timeout=200_000) as runtime:
        coder = runtime.get(Coder, "ada")
        await coder.use(lambda sandbox: sandbox.start())
        await coder.use(lambda sandbox: sandbox.exec("true"))
        await coder.use(lambda sandbox: sandbox.stop())
        await runtime.advance(DAY - 5 * MINUTE)
        await coder.use(lambda sandbox: sandbox.ensure_started())
        await runtime.advance(9 * MINUTE)
        during = await state(coder)
        await runtime.advance(2 * MINUTE)

    assert during == "running"
    assert [(stop.reason, stop.at) for _, stop in given.stops] == [
        ("stopped", START),
        ("inactive", START + DAY + 5 * MINUTE),
    ]


async def test_entrypoint_that_ends_stops_the_sandbox(runtime: ManualRuntime, given: Given) -> None:
    """Its exit code is told; ``ensure_started`` starts it again."""
    engine = InMemoryEngine(commands={"serve": serve})
    given.spec = SandboxSpec(entrypoint=["serve"])
    async with ManualRuntime(Coder, engine=engine, deps=given) as runtime:
        coder = runtime.get(Coder, "ada")
        await coder.use(lambda sandbox: sandbox.start())
        await runtime.advance(10 * SECOND)
        [(_, stop)] = given.stops
        await coder.use(lambda sandbox: sandbox.ensure_started())
        await runtime.advance(SECOND)
        after = await state(coder)

    assert (stop.reason, stop.exit_code) == ("exited", 3)
    assert after == "running"


async def serve(process: InMemoryProcess) -> int:
    """Run for ten seconds, then fail."""
    await process.sleep(10)
    return 3


# --- who is told


async def test_stop_is_told_once_for_each_stop(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """Three stops of one container are three, each with an id of its own."""
    for _ in range(3):
        await runtime.advance(MINUTE)
        await coder.use(lambda sandbox: sandbox.stop())
        await runtime.advance(MINUTE)
        await runtime.crash()
        await coder.use(lambda sandbox: sandbox.ensure_started())

    assert [stop.reason for _, stop in given.stops] == ["stopped"] * 3
    assert len({stop.id for _, stop in given.stops}) == 3


async def test_stop_that_nobody_saw_is_told_at_the_next_attach(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine, given: Given
) -> None:
    """The process was down when the container was killed; the next call says why it doesn't run."""
    await runtime.close()
    memory_engine.kill(await engine_name(memory_engine))

    await runtime.start()
    with pytest.raises(SandboxStoppedError):
        await coder.use(lambda sandbox: sandbox.exec("true"))
    await runtime.advance(0)

    assert [stop.reason for _, stop in given.stops] == ["killed"]


async def test_stop_that_nobody_saw_is_told_though_nobody_calls(
    runtime: ManualRuntime, coder: Coder, given: Given
) -> None:
    """The agent was evicted, and is woken once its sandbox must have stopped."""
    await runtime.evict(Coder, "ada")

    await runtime.advance(11 * MINUTE)

    assert [(stop.reason, stop.at) for _, stop in given.stops] == [("inactive", START + 10 * MINUTE)]


async def test_nothing_wakes_the_agent_of_a_sandbox_that_is_gone(runtime: ManualRuntime, coder: Coder) -> None:
    """No job is left once the container is removed and its last snapshot has expired; before, it wakes now and then."""
    await runtime.advance(70 * DAY)

    runs = await coder.do(lambda agent: agent.sandbox.lifecycle.history(100))
    jobs = await coder.do(lambda agent: agent.sandbox.lifecycle.jobs.list())

    assert jobs == []
    assert len(runs) <= 3


async def test_stop_is_told_again_when_the_callback_was_cut_off(
    runtime: ManualRuntime, coder: Coder, given: Given
) -> None:
    """At least once: after a crash in ``on_stop`` it is called again, with the same id."""
    hangs = asyncio.Event()

    async def hang(coder: Coder) -> None:
        if len(given.stops) == 1:
            hangs.set()
            await coder.lifecycle.clock.sleep(HOUR)

    given.on_stop = hang
    await coder.use(lambda sandbox: sandbox.stop())
    await runtime.advance(SECOND)
    assert hangs.is_set()

    await runtime.crash()
    await runtime.advance(0)

    [(_, first), (_, second)] = given.stops
    assert first == second


async def test_callback_may_start_the_sandbox_again(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """It is a job of the agent, so it may do whatever the agent may."""

    async def go_on(coder: Coder) -> None:
        await coder.sandbox.ensure_started()

    given.on_stop = go_on
    await coder.use(lambda sandbox: sandbox.stop())
    await runtime.advance(SECOND)

    assert await state(coder) == "running"


@pytest.mark.parametrize("form", ["name", "function", "plain function", "nothing taken"])
async def test_callback_has_many_forms(form: str) -> None:
    """A method's name, a coroutine function, a plain function in a thread, one that takes nothing."""
    told: list[Any] = []

    async def function(stopped: Stopped) -> None:
        told.append(stopped.reason)

    def plain(stopped: Stopped) -> None:
        told.append(stopped.reason)

    async def nothing() -> None:
        told.append("stopped")

    on_stop: Any = {"name": "sandbox_stopped", "function": function, "plain function": plain, "nothing taken": nothing}

    class Host(Agent[None]):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.sandbox = self.lifecycle.use(Sandbox(on_stop=on_stop[form]))

        async def sandbox_stopped(self, stopped: Stopped) -> None:
            told.append(stopped.reason)

        async def play(self) -> None:
            await self.sandbox.start()
            await self.sandbox.stop()

    async with ManualRuntime(Host, engine=InMemoryEngine()) as runtime:
        await runtime.get(Host, "ada").play()
        await runtime.advance(SECOND)

    assert told == ["stopped"]


async def test_callback_that_is_none_is_refused() -> None:
    """When it is given, or, for a name, when the agent starts."""

    class Host(Agent[None]):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.sandbox = self.lifecycle.use(Sandbox(on_stop="no_such_method"))

    with pytest.raises(ConfigurationError, match="on_stop"):
        Sandbox(on_stop=3)  # type: ignore[arg-type]  # that is what is tested
    async with ManualRuntime(Host, engine=InMemoryEngine()) as runtime:
        with pytest.raises(ConfigurationError, match="Host has no method 'no_such_method'"):
            await runtime.activate(Host, "ada")


async def test_start_beside_the_end_of_looking_after_is_looked_after(
    runtime: ManualRuntime, memory_engine: InMemoryEngine
) -> None:
    """The job that found nothing left to see to must not take the new container's along when it goes."""
    eve, find, may_go_on = runtime.get(Coder, "eve"), memory_engine.find, asyncio.Event()

    async def slow(name: str) -> Any:
        await may_go_on.wait()
        return await find(name)

    memory_engine.find = slow  # type: ignore[method-assign]  # this engine is the test's own
    payload = {"is_running": False}
    await eve.do(lambda agent: agent.sandbox.lifecycle.jobs.push("tend", after=1, id="sandbox:tend", payload=payload))
    advancing = asyncio.ensure_future(runtime.advance(1))
    await asyncio.sleep(0.01)
    starting = asyncio.ensure_future(eve.use(lambda sandbox: sandbox.start()))
    await asyncio.sleep(0.01)
    may_go_on.set()
    await starting
    await advancing
    await runtime.evict(Coder, "eve")
    await runtime.advance(70 * DAY)

    assert await memory_engine.instances() == []


async def test_looking_after_goes_on_after_an_error(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine, given: Given
) -> None:
    """An engine that raises what no engine should is tried again later; the container is not forgotten."""
    find = memory_engine.find

    async def fail(name: str) -> Any:
        raise OSError

    await runtime.evict(Coder, "ada")
    memory_engine.find = fail  # type: ignore[method-assign]  # this engine is the test's own
    await runtime.advance(12 * MINUTE)
    memory_engine.find = find  # type: ignore[method-assign]  # see above
    await runtime.advance(HOUR)

    assert [stop.reason for _, stop in given.stops] == ["inactive"]


async def test_callback_that_fails_is_in_the_history(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """Tried as often as a job is; then it can be brought back by hand."""

    async def fail(coder: Coder) -> None:
        raise LookupError

    given.on_stop = fail
    await coder.use(lambda sandbox: sandbox.stop())
    await runtime.advance(MINUTE)

    [run] = [run for run in await coder.do(lambda agent: agent.sandbox.lifecycle.history(10)) if run.error]
    assert (run.function, run.outcome, run.attempts) == ("stopped", "failed", 3)


# --- monitor


async def test_monitor_yields_starts_and_stops(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """In order, from the moment it is asked; it ends when the instance is dropped."""
    seen: list[Any] = []

    async def watch(sandbox: Sandbox) -> None:
        async for change in sandbox.monitor():
            seen.append(change)

    async def spawn(agent: Coder) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(watch(agent.sandbox))

    watching = await coder.do(spawn)
    await asyncio.sleep(0)
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.ensure_started())
    memory_engine.kill(await engine_name(memory_engine))
    await runtime.advance(MINUTE)
    await runtime.evict(Coder, "ada")
    await watching

    assert [type(change) for change in seen] == [Stopped, Started, Stopped]
    assert [change.reason for change in seen if isinstance(change, Stopped)] == ["stopped", "killed"]


async def test_monitor_begins_with_a_stop_that_was_missed(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """After a restart of the process."""
    await runtime.close()
    memory_engine.kill(await engine_name(memory_engine))
    await runtime.start()

    async def first(sandbox: Sandbox) -> Any:
        async with aclosing(sandbox.monitor()) as changes:
            return await anext(changes)

    change = await coder.use(first)

    assert isinstance(change, Stopped)
    assert change.reason == "killed"


async def test_waiting_in_monitor_is_no_use(runtime: ManualRuntime, coder: Coder) -> None:
    """The sandbox stops though somebody waits for just that."""

    async def first(sandbox: Sandbox) -> Any:
        async with aclosing(sandbox.monitor()) as changes:
            return await anext(changes)

    waiting = asyncio.ensure_future(coder.use(first))
    await runtime.advance(11 * MINUTE)

    assert (await waiting).reason == "inactive"


# --- what counts as use


async def test_command_under_way_keeps_it_running(runtime: ManualRuntime, coder: Coder) -> None:
    """For as long as it takes, and the inactivity counts from its end."""
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("sleep", "1h", timeout=None)))
    await runtime.advance(HOUR)

    result = await running
    await runtime.advance(10 * MINUTE - SECOND)
    before = await state(coder)
    await runtime.advance(2 * SECOND)

    assert result.ok
    assert (before, await state(coder)) == ("running", "stopped")


async def test_processes_alone_are_no_use(runtime: ManualRuntime, coder: Coder) -> None:
    """A background process doesn't keep the sandbox, and ends with it."""
    await coder.use(lambda sandbox: sandbox.processes.start("dev", "sleep", "1d"))

    await runtime.advance(10 * MINUTE + SECOND)

    assert await state(coder) == "stopped"


async def test_following_a_log_is_use(runtime: ManualRuntime, coder: Coder) -> None:
    """An open stream of a log keeps it running."""

    async def follow(sandbox: Sandbox) -> list[str]:
        process = await sandbox.processes.start("dev", "sleep", "30m")
        return [text async for text in process.logs(follow=True)]

    following = asyncio.ensure_future(coder.use(follow))
    await runtime.advance(20 * MINUTE)
    during = await state(coder)
    await runtime.advance(10 * MINUTE)

    assert (during, await following) == ("running", [])


class Worker(Coder):
    """Has jobs of its own."""

    async def on_job(self, context: JobContext) -> None:
        """Take a while, without asking anything of the sandbox."""
        await self.lifecycle.clock.sleep(context.job.payload)


async def test_job_under_way_is_use(memory_engine: InMemoryEngine, given: Given, tmp_path: Path) -> None:
    """Report 27: also when the agent was evicted and the job is the first to wake it."""
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Worker, engine=memory_engine, deps=given, store=store) as runtime:
        worker = runtime.get(Worker, "ada")
        await worker.use(lambda sandbox: sandbox.start())
        await worker.do(lambda agent: agent.lifecycle.jobs.push("work", after=300, payload=2_400))
        await runtime.advance(4 * MINUTE)
        await runtime.evict(Worker, "ada")
        await runtime.advance(40 * MINUTE)
        during = await state(worker)
        await runtime.advance(30 * MINUTE)
        after = await state(worker)

    assert (during, after) == ("running", "stopped")
    [(_, stop)] = given.stops
    assert START + 55 * MINUTE <= stop.at <= START + 55 * MINUTE + SECOND


async def test_kept_alive_agent_is_use(runtime: ManualRuntime, coder: Coder) -> None:
    """``keep_alive`` of the agent keeps its sandbox, too."""

    async def hold(agent: Coder) -> None:
        async with agent.keep_alive():
            await agent.lifecycle.clock.sleep(HOUR)

    holding = asyncio.ensure_future(coder.do(hold))
    await runtime.advance(50 * MINUTE)
    during = await state(coder)
    await runtime.advance(21 * MINUTE)
    await holding

    assert (during, await state(coder)) == ("running", "stopped")


async def test_looking_after_it_is_no_use(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """The job that looks whether it has stopped doesn't keep it running."""
    await runtime.advance(3 * MINUTE)
    await coder.use(lambda sandbox: sandbox.exec("true"))

    await runtime.advance(HOUR)

    [(_, stop)] = given.stops
    assert stop.at == START + 13 * MINUTE


async def test_clock_stands_still_for_nobody(runtime: ManualRuntime, coder: Coder) -> None:
    """An idle agent with a sandbox arms no timer a second: a day of waiting costs a handful of them."""
    await runtime.advance(2 * MINUTE)
    fired: list[int] = []
    clock: Any = runtime.clock
    move_to = clock.move_to

    def counted(moment: Any) -> None:
        fired.append(1)
        move_to(moment)

    clock.move_to = counted
    await runtime.advance(DAY)

    assert len(fired) < 30


# --- the inactivity timeout


async def test_inactivity_timeout_can_be_set(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """It holds for what runs, after a restart of the process, and for the next container (SPEC 12.5)."""
    await coder.use(lambda sandbox: sandbox.set_inactivity_timeout(3_600))
    await runtime.advance(50 * MINUTE)
    first = await state(coder)
    await runtime.crash()
    await coder.use(lambda sandbox: sandbox.destroy())
    await coder.use(lambda sandbox: sandbox.start())
    await runtime.advance(50 * MINUTE)
    second = await state(coder)
    await runtime.advance(11 * MINUTE)

    assert (first, second, await state(coder)) == ("running", "running", "stopped")


async def test_inactivity_timeout_set_before_the_start_holds(runtime: ManualRuntime) -> None:
    """It is stored, whether there is a container or not."""
    eve = runtime.get(Coder, "eve")
    await eve.use(lambda sandbox: sandbox.set_inactivity_timeout(60))
    await eve.use(lambda sandbox: sandbox.start())

    await runtime.advance(61 * SECOND)

    assert await state(eve) == "stopped"


@pytest.mark.parametrize("seconds", [0, -1, 6 * 3_600 + 1, float("nan")])
async def test_impossible_inactivity_timeouts_are_refused(coder: Coder, seconds: float) -> None:
    """At least a second, at most six hours."""
    with pytest.raises((ConfigurationError, ValueError)):
        await coder.use(lambda sandbox: sandbox.set_inactivity_timeout(seconds))


# --- an engine that can't be reached


async def test_engine_that_is_away_is_asked_again(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine, given: Given
) -> None:
    """What happened meanwhile is found out once it is back, though nobody calls."""
    await runtime.evict(Coder, "ada")
    memory_engine.is_available = False
    await runtime.advance(12 * MINUTE)
    before = list(given.stops)
    memory_engine.is_available = True

    await runtime.advance(HOUR)

    assert before == []
    assert [(stop.reason, stop.at) for _, stop in given.stops] == [("inactive", START + 10 * MINUTE)]
