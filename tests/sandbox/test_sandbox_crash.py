"""The owner dies at each step of each change of a sandbox: nothing leaks, nothing is lost, and it goes on (SPEC 12).

A scenario is played once to count its steps, then once for every step, with the owner's death right there. What a
person would do then is to try again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from agentkit.errors import SandboxRunningError
from agentkit.sandbox import Sandbox, SandboxSpec, Snapshot
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import InMemoryEngine, ManualRuntime
from tests.sandbox.mortal import Death, MortalEngine
from tests.sandbox.sandbox_host import Coder, Given

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SPEC = SandboxSpec()
OTHER_SPEC = SandboxSpec(memory="2g")


@dataclass
class World:
    """One play of a scenario."""

    runtime: ManualRuntime
    engine: InMemoryEngine
    given: Given
    saved: Snapshot | None = None

    @property
    def ada(self) -> Coder:
        """The agent of the scenario."""
        return self.runtime.get(Coder, "ada")

    @property
    def bob(self) -> Coder:
        """Another agent."""
        return self.runtime.get(Coder, "bob")


@asynccontextmanager
async def world(number: int | None) -> AsyncIterator[tuple[World, Death]]:
    """Give a world in which the owner dies at a step."""
    death, engine, given = Death(number), InMemoryEngine(), Given()
    store = SqliteStore(":memory:", commit_hook=death.commit_hook)
    async with ManualRuntime(Coder, store=store, engine=MortalEngine(engine, death), deps=given) as runtime:
        yield World(runtime=runtime, engine=engine, given=given), death


Step = Callable[[World], Awaitable[Any]]


async def running(world: World) -> None:
    """Start, and write a file."""

    async def scenario(sandbox: Sandbox) -> None:
        await sandbox.start()
        await sandbox.files.write("a", "1")

    await world.ada.use(scenario)


async def stopped(world: World) -> None:
    """Start, write a file, stop."""
    await running(world)
    await world.ada.use(lambda sandbox: sandbox.stop())


async def removed(world: World) -> None:
    """Leave it alone until its container has been removed."""
    await running(world)
    await world.runtime.advance(2 * DAY)
    assert not await world.engine.instances()


async def nothing(world: World) -> None:
    """Have nothing."""


async def of_another(world: World) -> None:
    """Have a snapshot of another agent."""

    async def scenario(sandbox: Sandbox) -> Snapshot:
        await sandbox.start()
        await sandbox.files.write("a", "1")
        saved = await sandbox.snapshot("bob's")
        await sandbox.destroy()
        return saved

    world.saved = await world.bob.use(scenario)


async def saved(world: World) -> None:
    """Have a snapshot, and a stopped container in which something else has been written since."""
    await running(world)
    world.saved = await world.ada.use(lambda sandbox: sandbox.snapshot("mine"))
    await world.ada.use(lambda sandbox: sandbox.files.write("a", "2"))
    await world.ada.use(lambda sandbox: sandbox.stop())


async def outdated(world: World) -> None:
    """Run with a spec that has changed since."""
    await running(world)
    world.given.spec = OTHER_SPEC
    await world.runtime.evict(Coder, "ada")


async def start(world: World) -> None:
    """Start; again, if that was cut off."""
    await world.ada.use(lambda sandbox: sandbox.start())


async def start_from_saved(world: World) -> None:
    """Start from the snapshot."""
    await world.ada.use(lambda sandbox: sandbox.start(world.saved))


async def ensure_started(world: World) -> None:
    """Go on with what there is."""
    await world.ada.use(lambda sandbox: sandbox.ensure_started())


async def replace_it(world: World) -> None:
    """Go on with another spec."""
    await world.ada.use(lambda sandbox: sandbox.ensure_started(replace=True))


async def stop(world: World) -> None:
    """Stop."""
    await world.ada.use(lambda sandbox: sandbox.stop())


async def destroy(world: World) -> None:
    """Destroy."""
    await world.ada.use(lambda sandbox: sandbox.destroy())


async def snapshot(world: World) -> None:
    """Save."""
    await world.ada.use(lambda sandbox: sandbox.snapshot("mine"))


async def delete_snapshot(world: World) -> None:
    """Delete what was saved."""
    assert world.saved is not None
    id = world.saved.id
    await world.ada.use(lambda sandbox: sandbox.snapshots.delete(id))


async def be_removed(world: World) -> None:
    """Leave it alone until it is removed."""
    await world.runtime.advance(2 * DAY)


async def be_unused(world: World) -> None:
    """Leave it alone until it stops."""
    await world.runtime.advance(HOUR)


async def destroy_agent(world: World) -> None:
    """Destroy the agent."""
    await world.runtime.destroy(Coder, "ada")
    await world.runtime.advance(1)


@dataclass(frozen=True)
class Scenario:
    """What is there, what is done, and what must hold then.

    Attributes:
        content: What the file holds once it was gone on, whenever the owner died; None means that there is no file.
        or_else: What it may hold instead, if the owner died and the change was tried again.
        untouched: What it may hold if the owner died and the change was not tried again.
        reasons: Why it stopped, for ``on_stop``, when nobody died.
    """

    before: Step
    act: Step
    content: str | None = "1"
    or_else: str | None = None
    untouched: str | None = "1"
    reasons: tuple[str, ...] = ()


SCENARIOS = {
    "start": Scenario(nothing, start, content=None, untouched=None),
    "start of a stopped one": Scenario(stopped, start, content=None, or_else="1", reasons=("stopped",)),
    "start from a snapshot": Scenario(saved, start_from_saved, or_else="2", untouched="2", reasons=("stopped",)),
    "start from another's snapshot": Scenario(of_another, start_from_saved, untouched=None),
    "first ensure_started": Scenario(nothing, ensure_started, content=None, untouched=None),
    "restart": Scenario(stopped, ensure_started, reasons=("stopped",)),
    "restore": Scenario(removed, ensure_started, reasons=("inactive",)),
    "replace": Scenario(outdated, replace_it, reasons=("stopped",)),
    "stop": Scenario(running, stop, reasons=("stopped",)),
    "destroy": Scenario(running, destroy, content=None, reasons=("destroyed",)),
    "destroy of a stopped one": Scenario(stopped, destroy, content=None, reasons=("stopped",)),
    "snapshot": Scenario(running, snapshot),
    "delete a snapshot": Scenario(saved, delete_snapshot, content="2", untouched="2", reasons=("stopped",)),
    "inactivity": Scenario(running, be_unused, reasons=("inactive",)),
    "removal": Scenario(stopped, be_removed, reasons=("stopped",)),
}


async def content_of(world: World) -> str | None:
    """Go on with what there is, and return what the file holds."""

    async def scenario(sandbox: Sandbox) -> str | None:
        await sandbox.ensure_started(replace=True)
        there = await sandbox.files.stat("a")
        return None if there is None else await sandbox.files.read_text("a")

    return await world.ada.use(scenario)


async def check_known(world: World) -> None:
    """Each container and each snapshot that the engine has must be known, and somebody must come to look after it."""
    instances, images = await world.engine.instances(), await world.engine.saved()
    for name in ("ada", "bob"):
        rows = await world.runtime.get(Coder, name).do(
            lambda coder: coder.sandbox.lifecycle.storage.list(prefix="snapshot:")
        )
        record = await world.runtime.get(Coder, name).do(lambda coder: coder.sandbox.lifecycle.storage.get("record"))
        jobs = await world.runtime.get(Coder, name).do(lambda coder: coder.sandbox.lifecycle.jobs.list())
        own = [image for image in images if f"snapshot:{image.id}" in rows]
        own_instances = [each for each in instances if each.labels["agentkit.agent"] == f"Coder/{name}"]
        assert len(own_instances) <= 1
        assert all(record["instance"] == each.id for each in own_instances)
        assert not (own or own_instances) or any(job.function == "tend" for job in jobs)
        images = [image for image in images if image not in own]
    assert images == []


async def leave_alone(scenario: Scenario, number: int) -> None:
    """Play a scenario in which the owner dies at a step, and nobody tries again."""
    async with world(number) as (here, death):
        await scenario.before(here)
        await here.runtime.advance(1)
        await death.during(here.runtime, scenario.act(here))

        await here.runtime.advance(3 * DAY)

        assert await here.engine.instances() == []
        rows = await here.ada.do(lambda coder: coder.sandbox.lifecycle.storage.list(prefix="snapshot:"))
        others = await here.bob.do(lambda coder: coder.sandbox.lifecycle.storage.list(prefix="snapshot:"))
        states = {id.removeprefix("snapshot:"): row["state"] for id, row in (rows | others).items()}
        assert states == {image.id: "ready" for image in await here.engine.saved()}
        found = await content_of(here)
    assert found in (scenario.content, scenario.or_else, scenario.untouched)


@pytest.mark.parametrize("name", ["snapshot", "start of a stopped one", "replace", "delete a snapshot"])
async def test_destroy_takes_unfinished_snapshots_along(name: str) -> None:
    """Whatever a crash has left half made or half deleted: at once, not only when it is looked after."""
    scenario = SCENARIOS[name]
    steps = await play(scenario, None)
    for number in range(1, steps + 1):
        async with world(number) as (here, death):
            await scenario.before(here)
            await death.during(here.runtime, scenario.act(here))

            await here.ada.use(lambda sandbox: sandbox.destroy())

            listed = await here.ada.use(lambda sandbox: sandbox.snapshots.list())
            assert {image.id for image in await here.engine.saved()} == {snapshot.id for snapshot in listed}
            assert not any(snapshot.is_autosave for snapshot in listed)


async def play(scenario: Scenario, number: int | None) -> int:
    """Play a scenario in which the owner dies at a step; returns how many steps there were."""
    async with world(number) as (here, death):
        await scenario.before(here)
        await here.runtime.advance(1)

        has_died = await death.during(here.runtime, scenario.act(here))

        await check_known(here)
        if has_died:
            try:
                await scenario.act(here)
            except SandboxRunningError:
                assert "start" in scenario.act.__name__
        await here.runtime.advance(1)
        found = await content_of(here)
        await check_known(here)
        reasons = [
            stop.reason
            for _, stop in {stop.id: (name, stop) for name, stop in here.given.stops if name == "ada"}.values()
        ]
        await here.runtime.advance(70 * DAY)
        assert await here.engine.instances() == []
        assert await here.engine.saved() == []
        jobs = await here.ada.do(lambda coder: coder.sandbox.lifecycle.jobs.list())
    assert found == scenario.content or (has_died and found == scenario.or_else)
    assert jobs == []
    if has_died:
        assert set(scenario.reasons) <= set(reasons)
    else:
        assert tuple(reasons) == scenario.reasons
    return death.points


@pytest.mark.parametrize("name", SCENARIOS)
async def test_owner_may_die_at_any_step(name: str) -> None:
    """Whatever step of a change is the owner's last: everything is known, nothing is lost, and trying again works."""
    scenario = SCENARIOS[name]

    steps = await play(scenario, None)
    for number in range(1, steps + 1):
        try:
            await play(scenario, number)
        except BaseException as error:
            error.add_note(f"the owner died at step {number} of {steps}")
            raise

    assert steps > 4


@pytest.mark.parametrize("name", SCENARIOS)
async def test_owner_may_die_and_nobody_comes(name: str) -> None:
    """Three days later no container is left, nothing half made or half deleted, and the files are where they belong."""
    scenario = SCENARIOS[name]
    steps = await play(scenario, None)

    for number in range(1, steps + 1):
        try:
            await leave_alone(scenario, number)
        except BaseException as error:
            error.add_note(f"the owner died at step {number} of {steps}")
            raise
