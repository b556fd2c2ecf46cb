"""``agentkit sandboxes`` on a Docker engine: what it lists, stops, destroys and clears away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentkit.cli import main
from agentkit.clock import SystemClock
from agentkit.sandbox import Sandbox, SandboxSpec
from agentkit.sandbox.docker_engine import DockerEngine
from agentkit.sandbox.engine import AGENT, STORE, SandboxEngine
from agentkit.testing import FakeClock, ManualRuntime
from tests.sandbox.engines import CANDIDATES
from tests.sandbox.sandbox_host import Coder, Given

pytestmark = pytest.mark.docker


class World:
    """A store with an agent whose sandbox runs, and a snapshot of it."""

    def __init__(self, url: str, engine: SandboxEngine, given: Given) -> None:
        self.url = url
        self.engine = engine
        self.given = given
        self.store = ""

    def serving(self) -> ManualRuntime:
        """Return a runtime that serves the store; commands go by the system's clock."""
        clock = FakeClock(SystemClock().now())
        return ManualRuntime(Coder, store=self.url, engine=self.engine, deps=self.given, clock=clock)

    async def command(self, *arguments: str) -> int:
        """Run a command in a thread, as it brings its own event loop."""
        return await asyncio.to_thread(main, ["sandboxes", *arguments, "--engine", "docker", "--store", self.url])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Return a world whose store is at rest."""
    engine, given = DockerEngine(), Given(spec=SandboxSpec(image=CANDIDATES["docker"].image))
    world = World(f"sqlite:///{tmp_path}/agents.db", engine, given)
    async with world.serving() as runtime:
        world.store = runtime.store.id
        await runtime.get(Coder, "ada").use(begin)
    yield world
    for instance in await engine.instances():
        if instance.labels.get(STORE) == world.store:
            await engine.remove(instance.name)
    for image in await engine.saved():
        if image.labels.get(STORE) == world.store:
            await engine.delete_saved(image.id)
    await engine.close()


async def begin(sandbox: Sandbox) -> None:
    """Start, and save."""
    await sandbox.start()
    await sandbox.snapshot("mine")


async def test_list_shows_containers_and_snapshots(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Of this store only, also while it is served."""
    async with world.serving():
        code = await world.command("--json")
    rows = json.loads(capsys.readouterr().out)
    await world.command("list", "Coder/ada")
    table = capsys.readouterr().out

    assert code == 0
    assert [(row["agent"], row["kind"], row["state"], row["engine"]) for row in rows] == [
        ("Coder/ada", "container", "running", "docker"),
        ("Coder/ada", "snapshot", "saved", "docker"),
    ]
    assert rows[1]["size"] >= 0
    assert "running" in table


@pytest.mark.parametrize(("action", "reason"), [("stop", "stopped"), ("destroy", "destroyed")])
async def test_agent_hears_why_its_sandbox_ended(world: World, action: str, reason: str) -> None:
    """Done through the store, as its own code would: ``on_stop`` is told when the store is served again."""
    code = await world.command(action, "Coder/ada")

    async with world.serving() as runtime:
        await runtime.advance(1)

    assert code == 0
    assert [stop.reason for _, stop in world.given.stops] == [reason]


async def test_served_store_is_not_interfered_with(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless that is asked for: then the container is stopped behind its owner's back, which notices."""
    async with world.serving() as runtime:
        await runtime.get(Coder, "ada").use(lambda sandbox: sandbox.ensure_started())
        refused = await world.command("stop", "Coder/ada")
        message = capsys.readouterr().err
        forced = await world.command("stop", "Coder/ada", "--force")

        async def told() -> Any:
            await runtime.advance(1)
            return world.given.stops

        async with asyncio.timeout(20):
            while not await told():
                await asyncio.sleep(0.05)

    assert (refused, forced) == (1, 0)
    assert "--force" in message
    assert [stop.reason for _, stop in world.given.stops] == ["engine"]


async def test_clean_up_removes_what_agents_left_behind(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Containers and snapshots of agents that are no more; with ``--dry-run`` nothing; those of others never."""
    [instance] = [each for each in await world.engine.instances() if each.labels.get(STORE) == world.store]
    gone = {**instance.labels, AGENT: "Coder/gone"}
    await world.engine.save(instance.name, f"{world.store}00", gone)

    await world.command("clean-up", "--dry-run")
    shown = capsys.readouterr().out
    between = [image.id for image in await world.engine.saved() if image.labels.get(STORE) == world.store]
    await world.command("clean-up")
    after = [image.labels[AGENT] for image in await world.engine.saved() if image.labels.get(STORE) == world.store]

    assert f"would remove snapshot {world.store}00 of Coder/gone" in shown
    assert len(between) == 2
    assert after == ["Coder/ada"]
    assert len([each for each in await world.engine.instances() if each.labels.get(STORE) == world.store]) == 1
