"""The process that owns a sandbox is killed: the sandbox is found again, its commands are gone, nothing leaks."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from agentkit.errors import SandboxError
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import eventually, needs
from tests.sandbox.owner import kill, owned, run_owner

# Prints the processes that are exactly `sleep 600`.
_SLEEPING = """
for file in /proc/[0-9]*/cmdline; do
    if [ "$(tr '\\0' _ 2>/dev/null <$file)" = sleep_600_ ]; then echo $file; fi
done
"""
pytestmark = needs("owner_may_die", "process_tree")


@pytest.fixture
def survivor(boxes: Boxes, tmp_path: Path) -> Box:
    """Return the instance of an owner that ran commands in it and was killed."""
    kill(run_owner(boxes, "hold", folder=tmp_path))
    return owned(boxes)


async def size(box: Box, file: str) -> int:
    """Return how large a file is."""
    found = await (await box.inside()).stat(f"/workspace/{file}")
    return 0 if found is None else found.size


async def test_commands_of_a_dead_owner_end(survivor: Box) -> None:
    """No command of the dead owner goes on, in whatever session it was and whatever it ignores (T1)."""
    found = await survivor.find()

    async def at_rest() -> bool:
        before = await size(survivor, "left"), await size(survivor, "foreground")
        await asyncio.sleep(0.3)
        return before == (await size(survivor, "left"), await size(survivor, "foreground"))

    assert found is not None
    assert found.is_running
    assert await size(survivor, "left") > 0
    assert await eventually(at_rest, within=20)
    assert await survivor.sh(_SLEEPING) == ""


async def test_background_process_of_a_dead_owner_goes_on(survivor: Box) -> None:
    """It is found by the next owner, with its log and its life (SPEC 12.3, 12.8; report 8)."""
    guest = await survivor.inside()
    [process] = await guest.processes()
    before = await size(survivor, "background")

    async def grows() -> bool:
        return await size(survivor, "background") > before

    assert (process.name, process.exit_code) == ("dev", None)
    assert await eventually(grows)
    assert await guest.kill_process("dev", grace=survivor.plan.inactivity)


async def test_sandbox_of_a_dead_owner_stops_by_itself(survivor: Box) -> None:
    """With nobody left to ask for it the inactivity timeout holds (SPEC 12.5, report 20)."""
    await (await survivor.inside()).set_inactivity(survivor.plan.inactivity / 600)
    await survivor.leave()

    async with asyncio.timeout(30):
        await survivor.engine.wait(survivor.name)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_owner_killed_at_any_moment_leaves_nothing_that_is_not_found(boxes: Boxes, tmp_path: Path) -> None:
    """Twelve owners die while making, saving, copying and removing; all they leave is listed, usable, removable."""
    for number in range(12):
        process = await asyncio.to_thread(run_owner, boxes, "churn", folder=tmp_path)
        await asyncio.sleep(0.3 + number * 0.27)
        await asyncio.to_thread(kill, process)

        box = owned(boxes)
        await eventually(partial(usable_or_gone, box))
        for image in await boxes.saved():
            restored = await boxes.restore(image.id, f"of {image.id}")
            assert await restored.sh("echo on") == "on"
            await restored.remove()
            assert await box.engine.delete_saved(image.id)
        await box.remove()
        assert await boxes.instances() == []


async def usable_or_gone(box: Box) -> bool:
    """Use what there is; what the dead owner had asked the engine for may still be under way."""
    try:
        found = await box.find()
        if found is not None and not found.is_running:
            await box.start()
        return found is None or await box.sh("echo on") == "on"
    except SandboxError:
        return False
