"""The fixtures that pytest gets from agentkit."""

from __future__ import annotations

from datetime import timedelta

from agentkit.testing import FakeClock, InMemoryEngine
from tests.jobs.worker import START, Script, Start, Worker
from tests.testing.in_memory.machines import SECOND, plan_of


async def test_runtimes_of_the_fixture_share_its_clock(manual_runtime: Start, fake_clock: FakeClock) -> None:
    """``fake_clock`` is the clock of what ``manual_runtime`` starts."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=5)

    await runtime.advance(5)

    assert runtime.clock is fake_clock
    assert fake_clock.now() == START + timedelta(seconds=5)
    assert script.log == ["work"]


async def test_fixture_takes_a_clock_and_options(manual_runtime: Start, fake_clock: FakeClock) -> None:
    """A test may give a clock of its own and any option of ``ManualRuntime``."""
    clock = FakeClock()

    runtime = await manual_runtime(Worker, clock=clock, deps="deps")

    assert runtime.clock is clock
    assert runtime.clock is not fake_clock


async def test_fixture_starts_several_runtimes(manual_runtime: Start) -> None:
    """Each has a store of its own."""
    first, second = await manual_runtime(Worker), await manual_runtime(Worker)
    await first.get(Worker, "ada").push("work", after=60)

    assert len(await first.get(Worker, "ada").jobs()) == 1
    assert await second.get(Worker, "ada").jobs() == []


async def test_engine_of_the_fixture_is_on_its_clock(in_memory_engine: InMemoryEngine, fake_clock: FakeClock) -> None:
    """Its instances age as the test's clock is moved."""
    await in_memory_engine.create(plan_of(inactivity=60 * SECOND))

    fake_clock.move_to(fake_clock.now() + 60 * SECOND)

    [instance] = await in_memory_engine.instances()
    assert instance.exit_code == 75
