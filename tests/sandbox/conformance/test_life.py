"""What every engine does with an instance: made, found, stopped, started again, watched, removed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from agentkit.errors import (
    ImageError,
    NameInUseError,
    SandboxError,
    SandboxStoppedError,
    SnapshotNotFoundError,
)
from agentkit.sandbox.engine import EXIT_ASKED, EXIT_INACTIVE, EXIT_LIFETIME, INSTANCE, SandboxEngine
from tests.sandbox.box import SECOND, Boxes
from tests.sandbox.engines import needs


async def test_engine_works(engine: SandboxEngine) -> None:
    """An engine that is there passes its own check."""
    await engine.check()


async def test_running_instance_is_found_by_its_name(boxes: Boxes) -> None:
    """What was made is found with all its labels, and its age."""
    box = await boxes.start()

    found = await box.find()

    assert found is not None
    assert found.is_running
    assert found.id == box.plan.labels[INSTANCE]
    assert {key: found.labels.get(key) for key in box.plan.labels} == box.plan.labels
    assert (found.exit_code, found.stopped_at) == (None, None)
    assert abs(datetime.now(UTC) - found.created_at) < timedelta(minutes=5)


async def test_unknown_name_is_not_found(boxes: Boxes) -> None:
    """There is nothing of a name that nobody used, and stopping and removing it is no error."""
    box = boxes.box()

    await box.engine.stop(box.name, grace=SECOND)
    await box.engine.remove(box.name)

    assert await box.find() is None


async def test_name_is_taken_once(boxes: Boxes) -> None:
    """Of eight that race for one name a single one wins (trap T18)."""
    racing = [boxes.box() for _ in range(8)]

    results = await asyncio.gather(*(box.engine.create(box.plan) for box in racing), return_exceptions=True)

    losers = [result for result in results if isinstance(result, BaseException)]
    [winner] = [result for result in results if not isinstance(result, BaseException)]
    assert [type(loser) for loser in losers] == [NameInUseError] * 7
    found = await racing[0].find()
    assert found is not None
    assert found.id == winner.id


async def test_name_is_free_again_after_removal(boxes: Boxes) -> None:
    """A removal and a creation right after it, several times over, never meet (trap T18)."""
    for _ in range(3):
        box = await boxes.start()
        removing = asyncio.create_task(box.remove())
        await asyncio.sleep(0)
        await removing

    box = await boxes.start()

    assert (await boxes.instances())[0].id == box.plan.labels[INSTANCE]


async def test_stopped_instance_keeps_its_disk(boxes: Boxes) -> None:
    """Stopped and started again, it has its files, and its name is still taken."""
    box = await boxes.start()
    await box.write("/workspace/notes", b"kept")

    await box.stop()
    stopped = await box.find()
    with pytest.raises(NameInUseError):
        await box.engine.create(boxes.plan())
    await box.start()

    assert stopped is not None
    assert not stopped.is_running
    assert stopped.exit_code == EXIT_ASKED
    assert not stopped.out_of_memory
    assert stopped.stopped_at is not None
    assert stopped.stopped_at >= stopped.created_at
    assert await box.read("/workspace/notes") == b"kept"


async def test_nothing_gets_into_a_stopped_instance(boxes: Boxes) -> None:
    """Entering what doesn't run is an error of its own, and so is starting what is gone."""
    box = await boxes.start()
    await box.stop()

    with pytest.raises(SandboxStoppedError):
        await box.inside()
    await box.remove()
    with pytest.raises(SandboxStoppedError):
        await box.start()
    with pytest.raises(SandboxStoppedError):
        await box.inside()


async def test_stopping_twice_is_no_error(boxes: Boxes) -> None:
    """Neither a second stop nor a second removal says anything."""
    box = await boxes.start()

    await box.stop()
    await box.stop()
    await box.remove()
    await box.remove()

    assert await box.find() is None


async def test_removed_instance_leaves_nothing(boxes: Boxes) -> None:
    """One that runs is removed at once, and its successor of the same name begins anew."""
    box = await boxes.start()
    await box.write("/workspace/notes", b"gone")

    await box.remove()
    again = await boxes.start()

    assert await (await again.inside()).stat("/workspace/notes") is None


@pytest.mark.parametrize("how", ["stopped", "removed"])
async def test_waiting_ends_with_the_instance(boxes: Boxes, how: str) -> None:
    """Whoever waits for the end of an instance hears of it at once."""
    box = await boxes.start()
    waiting = asyncio.create_task(box.engine.wait(box.name))
    await asyncio.sleep(0.05)
    waited = not waiting.done()

    await (box.stop() if how == "stopped" else box.remove())

    async with asyncio.timeout(10):
        await waiting
    assert waited


async def test_waiting_for_what_does_not_run_ends_at_once(boxes: Boxes) -> None:
    """There is nothing to wait for in what has stopped, or never was."""
    box = await boxes.start()
    await box.stop()

    async with asyncio.timeout(10):
        await box.engine.wait(box.name)
        await box.engine.wait(boxes.box("other").name)


async def test_instances_of_all_names_are_listed(boxes: Boxes) -> None:
    """Those that run and those that have stopped are told (trap T19)."""
    running = await boxes.start("runs")
    stopped = await boxes.start("stopped")
    await stopped.stop()

    listed = {one.name: one.is_running for one in await boxes.instances()}

    assert listed == {running.name: True, stopped.name: False}


@needs("images")
async def test_missing_image_is_told(boxes: Boxes) -> None:
    """An image that isn't there is an error that names it, and leaves nothing (trap T17)."""
    box = boxes.box(image="agentkit-no-such-image:1")

    with pytest.raises(ImageError, match="agentkit-no-such-image"):
        await box.engine.create(box.plan)

    assert await box.find() is None


async def test_missing_snapshot_is_told(boxes: Boxes) -> None:
    """A snapshot that isn't there is an error of its own, and leaves nothing."""
    box = boxes.box(source=boxes.snapshot())

    with pytest.raises(SnapshotNotFoundError):
        await box.engine.create(box.plan)

    assert await box.find() is None


async def test_many_start_at_once(boxes: Boxes) -> None:
    """Ten instances are made, used and removed at the same time."""
    made = await asyncio.gather(*(boxes.start(str(number)) for number in range(10)))
    said = await asyncio.gather(*(box.sh(f"echo {number}") for number, box in enumerate(made)))

    await asyncio.gather(*(box.remove() for box in made))

    assert said == [str(number) for number in range(10)]
    assert await boxes.instances() == []


async def test_unused_instance_stops(boxes: Boxes) -> None:
    """Nobody uses it for a second, and it ends by itself, with the code that says so (SPEC 12.5)."""
    box = await boxes.start(inactivity=SECOND)

    async with asyncio.timeout(20):
        await box.engine.wait(box.name)
    found = await box.find()

    assert found is not None
    assert found.exit_code == EXIT_INACTIVE


async def test_use_keeps_an_instance_running(boxes: Boxes) -> None:
    """Touched twice a second it outlives its timeout; left alone it doesn't."""
    box = await boxes.start(inactivity=2 * SECOND)
    guest = await box.inside()

    for _ in range(8):
        await guest.touch()
        await asyncio.sleep(0.5)
    in_use = await box.find()
    async with asyncio.timeout(20):
        await box.engine.wait(box.name)

    assert in_use is not None
    assert in_use.is_running


async def test_inactivity_is_changed_while_it_runs(boxes: Boxes) -> None:
    """A shorter timeout holds from the moment it is set."""
    box = await boxes.start()
    guest = await box.inside()

    await guest.set_inactivity(SECOND)

    async with asyncio.timeout(20):
        await box.engine.wait(box.name)


async def test_old_instance_stops(boxes: Boxes) -> None:
    """However much it is used, it ends after its lifetime, with the code that says so; it can be started again."""
    box = await boxes.start(max_lifetime=2)
    await box.write("/workspace/notes", b"kept")

    async with asyncio.timeout(20):
        await box.engine.wait(box.name)
    found = await box.find()
    await box.start()

    assert found is not None
    assert found.exit_code == EXIT_LIFETIME
    assert await box.read("/workspace/notes") == b"kept"


async def test_end_of_the_way_in_is_noticed(boxes: Boxes) -> None:
    """A command under way fails when its instance is removed, and the guest says that it is closed (report 7)."""
    box = await boxes.start()
    guest = await box.inside()
    running = asyncio.create_task(box.run("sleep", "60"))
    await asyncio.sleep(0.2)

    await box.engine.remove(box.name)

    with pytest.raises(SandboxError):
        async with asyncio.timeout(20):
            await running
    assert not guest.is_open
