"""Capabilities: parts of an agent with jobs and storage of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, Capability, DurableObject, Job, JobContext, Lifecycle, RescheduleAt
from agentkit.errors import AgentGoneError, CapabilityError, ConfigurationError
from agentkit.host import AgentContext
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker, at, history


class Meter(Capability):
    """Counts its jobs durably."""

    def __init__(self, id: str = "meter") -> None:
        self.id = id
        self.log: list[str] = []

    async def on_start(self) -> None:
        self.log.append("on_start")

    async def on_job(self, context: JobContext) -> None:
        self.log.append(context.job.function)
        await self.lifecycle.storage.put("count", await self.lifecycle.storage.get("count", 0) + 1)

    async def on_evict(self) -> None:
        self.log.append("on_evict")


class Plain(DurableObject):
    """A host that isn't an ``Agent`` (SPEC 2.10)."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.lifecycle = Lifecycle(self)
        self.meter = self.lifecycle.use(Meter())
        self.context_log: list[str] = []

    async def on_start(self) -> None:
        self.meter.log.append("host on_start")

    async def measure(self, after: float) -> Job:
        return await self.meter.lifecycle.jobs.push("measure", after=after)

    async def count(self) -> Any:
        return await self.meter.lifecycle.storage.get("count")

    async def log(self) -> list[str]:
        return self.meter.log

    async def use(self, action: Any) -> Any:
        return await action(self)


async def test_plain_host_with_a_capability_works_as_an_agent_does(manual_runtime: Start) -> None:
    """Jobs of the capability run, also after a crash; its storage is durable."""
    runtime = await manual_runtime(Plain)
    ada = runtime.get(Plain, "ada")
    first, second = await ada.measure(10), await ada.measure(20)

    await runtime.advance(10)
    await runtime.crash()
    await runtime.advance(10)

    assert (first.owner, second.owner) == ("meter", "meter")
    assert await ada.count() == 2
    assert [run.owner for run in await history(runtime, agent_class="Plain")] == ["meter", "meter"]


async def test_use_returns_the_capability(manual_runtime: Start) -> None:
    """So that a host can keep it in one line."""
    meter = Meter()
    returned: list[Any] = []

    class Host(Agent):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            returned.append(self.lifecycle.use(meter))

    runtime = await manual_runtime(Host)

    await runtime.activate(Host, "ada")

    assert returned == [meter]


async def test_capabilities_start_before_the_host_in_order(manual_runtime: Start) -> None:
    """Each in the order of its installation, then the host's own start-up."""
    log: list[str] = []

    class Part(Capability):
        def __init__(self, id: str) -> None:
            self.id = id

        async def on_start(self) -> None:
            log.append(self.id)

    class Host(Agent):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            for id in ("first", "second", "third"):
                self.lifecycle.use(Part(id))

        async def on_start(self) -> None:
            log.append("host")

    runtime = await manual_runtime(Host)

    await runtime.activate(Host, "ada")

    assert log == ["first", "second", "third", "host"]


async def test_capability_used_after_start_up_is_refused(manual_runtime: Start) -> None:
    """The error says where to install it."""
    runtime = await manual_runtime(Plain)

    async def late(host: Plain) -> None:
        host.lifecycle.use(Meter("late"))

    with pytest.raises(CapabilityError, match=r"'late' in __init__"):
        await runtime.get(Plain, "ada").use(late)


async def test_capability_used_in_on_start_is_refused(manual_runtime: Start) -> None:
    """Start-up has begun by then."""

    class Late(Agent):
        async def on_start(self) -> None:
            self.lifecycle.use(Meter("late"))

    runtime = await manual_runtime(Late)

    with pytest.raises(CapabilityError):
        await runtime.activate(Late, "ada")


@pytest.mark.parametrize("ids", [["twice", "twice"], ["host"], [""], ["state"], ["scheduler", "scheduler"]])
async def test_id_that_cannot_be_is_refused(manual_runtime: Start, ids: list[str]) -> None:
    """Two of one id, none, or one that agentkit needs itself."""

    class Host(DurableObject):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self)
            for id in ids:
                self.lifecycle.use(Meter(id))

    runtime = await manual_runtime(Host)

    with pytest.raises(CapabilityError, match=rf"id.*{ids[0]!r}|{ids[0]!r}.*id"):
        await runtime.activate(Host, "ada")


async def test_storage_of_a_capability_is_its_own(manual_runtime: Start) -> None:
    """Host and capability may use one key each, and ``delete_all()`` of one spares the other."""
    runtime = await manual_runtime(Plain)

    async def scenario(host: Plain) -> list[Any]:
        mine, theirs = host.lifecycle.storage, host.meter.lifecycle.storage
        await mine.put("key", "host")
        await theirs.put("key", "meter")
        seen = [await mine.list(), await theirs.list()]
        await mine.delete_all()
        seen += [await mine.list(), await theirs.list()]
        await mine.put("key", "host")
        await theirs.delete_all()
        return [*seen, await mine.list(), await theirs.list()]

    host, meter = {"key": "host"}, {"key": "meter"}
    assert await runtime.get(Plain, "ada").use(scenario) == [host, meter, {}, meter, host, {}]


async def test_scope_of_a_capability_knows_its_agent(manual_runtime: Start) -> None:
    """Name and clock are the agent's; what it emits is under the agent's name; work is tracked for it."""
    runtime = await manual_runtime(Plain)

    async def scenario(host: Plain) -> tuple[Any, ...]:
        scope = host.meter.lifecycle
        task = asyncio.create_task(asyncio.sleep(0))
        tracked = scope.track_alarm_work(task)
        await task
        scope.emit("agents:meter", "meter:read", {"n": 1})
        async with scope.transaction():
            await scope.storage.put("key", 1)
        return scope.name, scope.clock, tracked

    name, clock, tracked = await runtime.get(Plain, "ada").use(scenario)

    [event] = runtime.events.of("meter:read")
    assert (name, tracked) == ("ada", False)
    assert clock is runtime.clock
    assert (event.agent, event.name, dict(event.payload)) == ("Plain", "ada", {"n": 1})


async def test_spawned_work_belongs_to_nothing_under_way(manual_runtime: Start) -> None:
    """It sees no open block, writes although the call that started it is over, and holds eviction off while it runs."""
    runtime = await manual_runtime(Plain)
    seen: list[Any] = []

    async def work(host: Plain) -> str:
        seen.append(host.meter.lifecycle.is_in_transaction)
        await host.lifecycle.clock.sleep(300)
        await host.lifecycle.storage.put("done", 1)
        return "done"

    async def scenario(host: Plain) -> tuple[Any, ...]:
        scope = host.meter.lifecycle
        async with scope.transaction():
            task = scope.spawn_work(work(host), "reading")
        return host, scope.is_working(), task

    host, was_working, task = await runtime.get(Plain, "ada").use(scenario)
    await runtime.advance(250)
    same, *_ = await runtime.get(Plain, "ada").use(lambda host: asyncio.sleep(0, (host,)))
    await runtime.advance(50)

    assert (was_working, same is host, await task, seen) == (True, True, "done", [False])
    assert await runtime.get(Plain, "ada").use(lambda host: host.lifecycle.storage.get("done")) == 1


@pytest.mark.parametrize("end", ["evict", "close", "crash"])
async def test_task_beside_an_instance_ends_with_it(tmp_path: Path, end: str) -> None:
    """It keeps nothing awake; it may still write while it cleans up, but not after a crash."""
    cleaned: list[str] = []

    async def beside(host: Plain) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await host.lifecycle.storage.put("left", 1)
                cleaned.append("written")
            except AgentGoneError:
                cleaned.append("gone")

    async def scenario(host: Plain) -> bool:
        _ = host.meter.lifecycle.spawn_beside(beside(host), "watch")
        await asyncio.sleep(0)
        return host.meter.lifecycle.is_working()

    async with ManualRuntime(Plain, store=f"sqlite:///{tmp_path}/agents.db") as runtime:
        was_working = await runtime.get(Plain, "ada").use(scenario)
        if end == "evict":
            await runtime.advance(71)
        else:
            await getattr(runtime, end)()
        after = list(cleaned)
        await runtime.start()
        left = await runtime.get(Plain, "ada").use(lambda host: host.lifecycle.storage.get("left"))

    assert (was_working, after, left) == ((False, ["gone"], None) if end == "crash" else (False, ["written"], 1))


async def test_instance_that_is_gone_gets_no_task_beside_it(manual_runtime: Start) -> None:
    """Code that goes on after its instance was lost can't leave anything behind that nobody would end."""
    runtime = await manual_runtime(Plain)
    host = await runtime.get(Plain, "ada").use(lambda host: asyncio.sleep(0, host))

    await runtime.crash()

    with pytest.raises(AgentGoneError):
        host.meter.lifecycle.spawn_beside(asyncio.sleep(0), "late")


async def test_task_beside_an_instance_may_keep_it_awake(manual_runtime: Start) -> None:
    """For as long as it runs, and it is no work of the agent's."""
    runtime = await manual_runtime(Plain)

    async def scenario(host: Plain) -> Any:
        _ = host.meter.lifecycle.spawn_beside(host.lifecycle.clock.sleep(300), "wait", keeps_awake=True)
        await asyncio.sleep(0)
        return host, host.meter.lifecycle.is_working()

    host, is_working = await runtime.get(Plain, "ada").use(scenario)
    await runtime.advance(250)
    same = await runtime.get(Plain, "ada").use(lambda host: asyncio.sleep(0, host))
    await runtime.advance(200)
    other = await runtime.get(Plain, "ada").use(lambda host: asyncio.sleep(0, host))

    assert (is_working, same is host, other is host) == (False, True, False)


async def test_capability_hears_when_work_begins(manual_runtime: Start) -> None:
    """Jobs, tracked work and ``keep_alive`` count, calls don't, and one job may be left out."""
    heard: list[tuple[bool, bool]] = []

    class Listening(Meter):
        async def on_job(self, context: JobContext) -> None:
            self.told()

        async def on_start(self) -> None:
            self.lifecycle.on_work(self.told)

        def told(self) -> None:
            heard.append((self.lifecycle.is_working(), self.lifecycle.is_working(besides="tend")))

    class Host(Plain):
        def __init__(self, context: AgentContext) -> None:
            DurableObject.__init__(self, context)
            self.lifecycle = Lifecycle(self)
            self.meter = self.lifecycle.use(Listening())

    async def hold(host: Host) -> None:
        async with host.lifecycle.keep_alive():
            pass

    runtime = await manual_runtime(Host)
    ada = runtime.get(Host, "ada")

    await ada.use(lambda host: host.meter.lifecycle.jobs.push("tend", after=10, id="tend"))
    await ada.use(lambda host: host.meter.lifecycle.jobs.push("other", after=20))
    before = list(heard)
    await runtime.advance(30)
    await ada.use(hold)

    assert before == []
    assert heard == [(True, False), (True, False), (True, True), (True, True), (True, True)]


async def test_what_is_done_apart_outlives_a_transaction(manual_runtime: Start) -> None:
    """A block that fails takes back its own changes, not those; outside of a block nothing is different."""
    runtime = await manual_runtime(Plain)

    async def scenario(host: Plain) -> tuple[Any, ...]:
        scope = host.meter.lifecycle
        try:
            async with scope.transaction():
                await scope.storage.put("inside", 1)
                await scope.apart(scope.storage.put("apart", 1))
                raise LookupError
        except LookupError:
            await scope.apart(scope.storage.put("outside", 1))
        return await scope.storage.get("inside"), await scope.storage.get("apart"), await scope.storage.get("outside")

    assert await runtime.get(Plain, "ada").use(scenario) == (None, 1, 1)


async def test_what_stands_in_is_found_by_kind() -> None:
    """Capabilities find the model and the engine that a test gave to the runtime."""
    model = object()

    async def scenario(host: Plain) -> tuple[Any, Any, str, int]:
        scope = host.meter.lifecycle
        return scope.stand_in("model"), scope.stand_in("engine"), scope.agent, len(scope.store_id)

    async with ManualRuntime(Plain, model=model) as runtime:
        found = await runtime.get(Plain, "ada").use(scenario)

    assert found == (model, None, "Plain/ada", 32)


async def test_on_evict_runs_before_the_instance_goes(manual_runtime: Start) -> None:
    """Forced or idle; a hook that raises is logged and the others run."""
    log: list[str] = []

    class Broken(Capability):
        id = "broken"

        async def on_evict(self) -> None:
            log.append("broken")
            raise ValueError("no")

    class Good(Capability):
        id = "good"

        async def on_evict(self) -> None:
            log.append("good")
            await self.lifecycle.storage.put("saved", True)

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle.use(Broken())
            self.good = self.lifecycle.use(Good())

        async def saved(self) -> Any:
            return await self.good.lifecycle.storage.get("saved")

    runtime = await manual_runtime(Host, deps=Script(), idle_timeout=10)
    ada = runtime.get(Host, "ada")
    await ada.jobs()

    await runtime.advance(11)
    await ada.jobs()
    await runtime.evict(Host, "ada")

    assert log == ["broken", "good"] * 2
    assert await ada.saved() is True


async def test_agent_and_capability_take_their_own_jobs(manual_runtime: Start) -> None:
    """Each owner's ``on_job`` sees only what it pushed, in one order by due time."""
    log: list[tuple[str, str]] = []

    class Part(Capability):
        id = "part"

        async def on_job(self, context: JobContext) -> RescheduleAt | None:
            log.append(("part", context.job.function))
            return RescheduleAt(at(10)) if context.due_at < at(10) else None

    class Host(Agent):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.part = self.lifecycle.use(Part())

        async def on_job(self, context: JobContext) -> None:
            log.append(("host", context.job.function))

        async def begin(self) -> None:
            await self.part.lifecycle.jobs.push("b", at=at(2))
            await self.lifecycle.jobs.push("c", at=at(3))
            await self.lifecycle.jobs.push("a", at=at(1))

    runtime = await manual_runtime(Host)
    await runtime.get(Host, "ada").begin()

    await runtime.advance(60)

    assert log == [("host", "a"), ("part", "b"), ("host", "c"), ("part", "b")]


async def test_plain_host_without_a_lifecycle_is_refused(manual_runtime: Start) -> None:
    """The error says what is missing, not that an attribute is."""

    class Empty(DurableObject):
        """Forgot its lifecycle."""

    runtime = await manual_runtime(Empty)

    with pytest.raises(ConfigurationError, match=r"Empty.*lifecycle"):
        await runtime.activate(Empty, "ada")


async def test_ids_of_a_capability_are_unique_and_grow(manual_runtime: Start) -> None:
    """Also where the clock stands still."""
    runtime = await manual_runtime(Plain)

    async def make(host: Plain) -> list[str]:
        return [host.meter.lifecycle.new_id() for _ in range(3)]

    made = await runtime.get(Plain, "ada").use(make)

    assert made == sorted(set(made))


async def test_capability_finds_out_that_its_instance_is_gone(manual_runtime: Start) -> None:
    """So that what waits in memory can end."""
    runtime = await manual_runtime(Plain)

    async def scope(host: Plain) -> Any:
        return host.meter.lifecycle

    old = await runtime.get(Plain, "ada").use(scope)
    before = old.is_gone
    await runtime.crash()

    assert (before, old.is_gone) == (False, True)


async def test_spawned_work_that_never_began_leaves_nothing_behind(manual_runtime: Start) -> None:
    """A crash right behind it: its coroutine is closed, or Python would warn of it."""
    runtime = await manual_runtime(Plain)

    async def work() -> None:
        """Never begun."""

    async def spawn(host: Plain) -> Any:
        return host.meter.lifecycle.spawn_work(work(), "reading")

    task = await runtime.get(Plain, "ada").use(spawn)
    await runtime.crash()

    assert task.cancelled()
