"""The capability on the in-memory engine: its life, its commands, what is left and what is found again (SPEC 12)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentkit.errors import (
    SandboxRunningError,
    SandboxStoppedError,
)
from agentkit.sandbox import Sandbox
from agentkit.testing import ManualRuntime
from tests.sandbox.sandbox_host import Coder, Given

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def test_command_runs_and_files_stay(coder: Coder) -> None:
    """The thin path: start, write, run, read."""

    async def scenario(sandbox: Sandbox) -> Any:
        await sandbox.start()
        await sandbox.files.write("notes/a.txt", "héllo")
        result = await sandbox.exec("cat", "notes/a.txt")
        return result, await sandbox.files.read_text("/workspace/notes/a.txt")

    result, text = await coder.use(scenario)

    assert (result.exit_code, result.stdout, result.ok, text) == (0, "héllo", True, "héllo")


async def test_what_one_process_started_the_next_one_finds(runtime: ManualRuntime, coder: Coder) -> None:
    """A command after a crash of the owner runs in the container that is there (SPEC 12.8)."""
    await coder.use(lambda sandbox: sandbox.start())
    await coder.use(lambda sandbox: sandbox.files.write("a", "1"))

    await runtime.crash()
    text = await coder.use(lambda sandbox: sandbox.files.read_text("a"))

    assert text == "1"


async def test_sandbox_stops_by_inactivity(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """Ten minutes after the last call it has stopped, and ``on_stop`` was told, though the agent was evicted."""
    await coder.use(lambda sandbox: sandbox.start())
    await runtime.advance(9 * MINUTE)
    before = await coder.use(lambda sandbox: sandbox.info())
    await runtime.advance(2 * MINUTE)

    assert before.state == "running"
    [(name, stop)] = given.stops
    assert (name, stop.reason, stop.exit_code) == ("ada", "inactive", 75)
    with pytest.raises(SandboxStoppedError, match="inactive"):
        await coder.use(lambda sandbox: sandbox.exec("true"))


async def test_stopped_sandbox_goes_on_with_its_disk(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """``stop`` keeps the disk, and ``ensure_started`` goes on with it (SPEC 12.7)."""

    async def scenario(sandbox: Sandbox) -> Any:
        await sandbox.start()
        await sandbox.files.write("a", "1")
        before = (await sandbox.info()).instance
        await sandbox.stop()
        stopped = await sandbox.info()
        await sandbox.ensure_started()
        return before, stopped, await sandbox.info(), await sandbox.files.read_text("a")

    before, stopped, after, text = await coder.use(scenario)
    await runtime.advance(0)

    assert (stopped.state, after.state, after.instance, text) == ("stopped", "running", before, "1")
    assert [stop.reason for _, stop in given.stops] == ["stopped"]


async def test_example_of_the_specification(runtime: ManualRuntime, coder: Coder) -> None:
    """Start, work, snapshot, stop, and an hour later go on from the snapshot."""

    async def first(sandbox: Sandbox) -> Any:
        await sandbox.start()
        await sandbox.files.write("repo/a", "1")
        saved = await sandbox.snapshot("after-tests")
        await sandbox.files.write("repo/a", "2")
        await sandbox.stop()
        return saved

    saved = await coder.use(first)
    await runtime.advance(HOUR)
    await coder.use(lambda sandbox: sandbox.start(snapshot=saved.id))
    text = await coder.use(lambda sandbox: sandbox.files.read_text("repo/a"))
    kept = await coder.use(lambda sandbox: sandbox.snapshots.list())

    assert text == "1"
    assert [snapshot.name for snapshot in kept] == ["after-tests", "autosave"]


async def test_running_sandbox_is_not_started_again(coder: Coder) -> None:
    """``start`` says what to do; ``ensure_started`` goes on."""
    await coder.use(lambda sandbox: sandbox.start())

    with pytest.raises(SandboxRunningError, match="ensure_started"):
        await coder.use(lambda sandbox: sandbox.start())
    await coder.use(lambda sandbox: sandbox.ensure_started())
