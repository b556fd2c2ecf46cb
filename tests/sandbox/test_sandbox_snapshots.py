"""Snapshots: made, restored, forked, deleted, expired, and what is saved by itself (SPEC 12.7)."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit.errors import (
    ConfigurationError,
    SandboxError,
    SandboxStoppedError,
    SnapshotNotFoundError,
    SpecMismatchError,
)
from agentkit.sandbox import Sandbox, SandboxSpec, Snapshot
from agentkit.testing import InMemoryEngine, ManualRuntime
from tests.sandbox.sandbox_host import Coder, Given

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent whose sandbox runs and has a file."""
    ada = runtime.get(Coder, "ada")
    await ada.use(begin)
    return ada


async def begin(sandbox: Sandbox) -> None:
    """Start, and write a file."""
    await sandbox.start()
    await sandbox.files.write("a", "1")


async def listed(coder: Coder) -> list[Snapshot]:
    """Return an agent's snapshots."""
    return await coder.use(lambda sandbox: sandbox.snapshots.list())


async def read(coder: Coder) -> str:
    """Return what the file holds."""
    return await coder.use(lambda sandbox: sandbox.files.read_text("a"))


async def test_snapshot_says_what_it_is(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Its name, when it was made, when it goes, its size; the engine's labels say whose it is."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot("after-tests"))
    unnamed = await coder.use(lambda sandbox: sandbox.snapshot())

    assert (saved.name, saved.created_at, saved.expires_at) == ("after-tests", START, START + 30 * DAY)
    assert saved.size > 0
    assert (unnamed.name, saved.is_autosave) == (None, False)
    assert await listed(coder) == [saved, unnamed]
    assert await coder.use(lambda sandbox: sandbox.snapshots.get(saved.id)) == saved
    [image] = [image for image in await memory_engine.saved() if image.id == saved.id]
    assert image.labels["agentkit.agent"] == "Coder/ada"
    assert image.labels["agentkit.managed"] == "1"


@pytest.mark.parametrize("name", ["", 5, "a\nb", "\x1b[31m", "x" * 201])
async def test_impossible_names_are_refused(coder: Coder, name: Any) -> None:
    """A printable text of at most 200 letters."""
    with pytest.raises(ConfigurationError, match="printable"):
        await coder.use(lambda sandbox: sandbox.snapshot(name))


async def test_restored_sandbox_is_a_new_container(coder: Coder) -> None:
    """Its files are those of the snapshot, its id and its processes new; the snapshot stays."""

    async def scenario(sandbox: Sandbox) -> Any:
        before = await sandbox.info()
        await sandbox.processes.start("dev", "sleep", "1d")
        saved = await sandbox.snapshot()
        await sandbox.files.write("a", "2")
        await sandbox.stop()
        await sandbox.start(snapshot=saved)
        return before.instance, await sandbox.info(), await sandbox.processes.list()

    before, after, processes = await coder.use(scenario)

    assert (after.state, processes) == ("running", [])
    assert after.instance != before
    assert await read(coder) == "1"


async def test_snapshot_is_taken_of_a_stopped_sandbox_and_of_no_absent_one(coder: Coder) -> None:
    """Its disk is there until it is removed."""
    await coder.use(lambda sandbox: sandbox.stop())
    saved = await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.destroy())

    with pytest.raises(SandboxStoppedError):
        await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.start(saved.id))
    assert await read(coder) == "1"


async def test_calls_wait_while_a_snapshot_is_made(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Trap T10: what begins meanwhile begins after it; what was over before is in it."""
    save, may_end, log = memory_engine.save, asyncio.Event(), []

    async def slow(*arguments: Any) -> Any:
        log.append("saving")
        await may_end.wait()
        log.append("saved")
        return await save(*arguments)

    async def note(what: str, action: Any) -> None:
        await coder.use(action)
        log.append(what)

    memory_engine.save = slow  # type: ignore[assignment, method-assign]  # this engine is the test's own
    saving = asyncio.ensure_future(note("snapshot", lambda sandbox: sandbox.snapshot()))
    await runtime.advance(0)
    others = [
        asyncio.ensure_future(note("exec", lambda sandbox: sandbox.exec("true"))),
        asyncio.ensure_future(note("write", lambda sandbox: sandbox.files.write("a", "2"))),
    ]
    await runtime.advance(0)
    before = list(log)
    may_end.set()
    await asyncio.gather(saving, *others)
    [saved] = await listed(coder)
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.start(saved))

    assert before == ["saving"]
    assert log[:2] == ["saving", "saved"]
    assert await read(coder) == "1"


async def test_snapshot_that_fails_leaves_nothing(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Neither a row nor an image, and the sandbox goes on."""

    async def fail(*_: Any) -> Any:
        message = "no space left"
        raise SandboxError(message)

    memory_engine.save = fail  # type: ignore[assignment, method-assign]  # this engine is the test's own
    with pytest.raises(SandboxError, match="no space"):
        await coder.use(lambda sandbox: sandbox.snapshot())

    rows = await coder.do(lambda agent: agent.sandbox.lifecycle.storage.list(prefix="snapshot:"))
    assert rows == {}
    assert await read(coder) == "1"


async def test_snapshot_is_deleted_once(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """A second time there is none, and what was started from it goes on."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.destroy())
    await coder.use(lambda sandbox: sandbox.start(saved))

    deleted = [await coder.use(lambda sandbox: sandbox.snapshots.delete(saved.id)) for _ in range(2)]

    assert deleted == [True, False]
    assert await memory_engine.saved() == []
    assert await read(coder) == "1"
    await coder.use(lambda sandbox: sandbox.destroy())
    with pytest.raises(SnapshotNotFoundError):
        await coder.use(lambda sandbox: sandbox.start(saved))


async def test_start_that_has_nothing_to_start_from_removes_nothing(coder: Coder) -> None:
    """A stopped container stays when the snapshot that was asked for doesn't exist."""
    await coder.use(lambda sandbox: sandbox.stop())

    with pytest.raises(SnapshotNotFoundError):
        await coder.use(lambda sandbox: sandbox.start("no such snapshot"))
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert await read(coder) == "1"


async def test_snapshot_lost_by_the_engine_is_not_found(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Somebody has pruned the engine: it is named, and no longer listed."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.destroy())
    await memory_engine.delete_saved(saved.id)

    with pytest.raises(SnapshotNotFoundError, match=saved.id):
        await coder.use(lambda sandbox: sandbox.start(saved))

    assert await listed(coder) == []


# --- expiry


async def test_snapshot_expires_thirty_days_after_its_last_restore(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """A restore on the 20th day gives it 30 more."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot("kept"))
    await coder.use(lambda sandbox: sandbox.snapshot("left"))
    await coder.use(lambda sandbox: sandbox.destroy())
    await runtime.advance(20 * DAY)
    await coder.use(lambda sandbox: sandbox.start(saved))
    await coder.use(lambda sandbox: sandbox.destroy())

    await runtime.advance(11 * DAY)
    after_31 = [snapshot.name for snapshot in await listed(coder)]
    await runtime.advance(18 * DAY)
    after_49 = [snapshot.expires_at for snapshot in await listed(coder)]
    await runtime.advance(2 * DAY)

    assert (after_31, after_49) == (["kept"], [START + 50 * DAY])
    assert await listed(coder) == []
    assert await memory_engine.saved() == []


async def test_nothing_is_deleted_that_is_not_ours(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Images of another store's agents, and of nobody's, are still there after a year."""
    name = (await memory_engine.instances())[0].name
    await memory_engine.save(name, "another-store", {"agentkit.managed": "1", "agentkit.store": "other"})
    await memory_engine.save(name, "nobodys", {})
    await coder.use(lambda sandbox: sandbox.snapshot())

    await runtime.advance(365 * DAY)

    assert sorted(memory_engine._saved) == ["another-store", "nobodys"]


# --- autosave


async def test_stopped_container_is_saved_and_removed_after_a_day(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """``ensure_started`` restores what was saved."""
    await coder.use(lambda sandbox: sandbox.stop())
    await runtime.advance(DAY - MINUTE)
    before = len(await memory_engine.instances())
    await runtime.advance(2 * MINUTE)
    after = len(await memory_engine.instances())
    [saved] = await listed(coder)
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert (before, after) == (1, 0)
    assert (saved.name, saved.is_autosave) == ("autosave", True)
    assert await read(coder) == "1"


async def test_without_autosave_the_disk_goes(
    runtime: ManualRuntime, given: Given, memory_engine: InMemoryEngine
) -> None:
    """Nothing is saved that wasn't asked for."""
    given.spec = SandboxSpec(autosave=False, keep_stopped=HOUR)
    coder = runtime.get(Coder, "ada")
    await coder.use(begin)
    await coder.use(lambda sandbox: sandbox.stop())

    await runtime.advance(HOUR)
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert await listed(coder) == []
    assert await coder.use(lambda sandbox: sandbox.files.list()) == []


async def test_new_start_saves_the_stopped_container_first(coder: Coder) -> None:
    """``start`` begins from the image, and what was there can still be had."""
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.start())
    anew = await coder.use(lambda sandbox: sandbox.files.list())
    [saved] = await listed(coder)
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.start(saved))

    assert anew == []
    assert await read(coder) == "1"


async def test_destroyed_sandbox_starts_from_its_image(coder: Coder) -> None:
    """What was saved by itself goes with it; what was saved by name stays."""
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.start())
    await coder.use(lambda sandbox: sandbox.snapshot("mine"))
    await coder.use(lambda sandbox: sandbox.destroy())

    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert [snapshot.name for snapshot in await listed(coder)] == ["mine"]
    assert await coder.use(lambda sandbox: sandbox.files.list()) == []


async def test_container_that_was_lost_goes_on_from_what_it_was_started_from(
    coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Somebody has removed it behind our back: the snapshot is better than nothing."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.destroy())
    await coder.use(lambda sandbox: sandbox.start(saved))
    await memory_engine.remove((await memory_engine.instances())[0].name)

    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert await read(coder) == "1"


async def test_cycles_of_saving_and_restoring_keep_every_file(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Reports 9 and 25: ten rounds lose nothing and leave one autosave, not ten."""
    expected: dict[str, str] = {}
    for number in range(10):
        content = f"{number}" * 1_000

        async def round(sandbox: Sandbox, number: int = number, content: str = content) -> dict[str, str]:
            await sandbox.files.write(f"file-{number}", content)
            saved = await sandbox.snapshot()
            await sandbox.stop()
            await sandbox.start(saved)
            await sandbox.snapshots.delete(saved.id)
            names = [info.name for info in await sandbox.files.list()]
            return {name: _hash(await sandbox.files.read(name)) for name in names if name != "a"}

        expected[f"file-{number}"] = _hash(content.encode())
        assert await coder.use(round) == expected

    assert [snapshot.name for snapshot in await listed(coder)] == ["autosave"]
    assert len(await memory_engine.saved()) == 1


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- another agent's


async def test_snapshot_is_forked_into_another_agent(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """The copy has a life of its own, and is made once, however often it is asked for."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot("shared"))
    bob = runtime.get(Coder, "bob")

    await bob.use(lambda sandbox: sandbox.start(snapshot=saved))
    await bob.use(lambda sandbox: sandbox.destroy())
    await bob.use(lambda sandbox: sandbox.start(snapshot=saved.id))
    await coder.use(lambda sandbox: sandbox.snapshots.delete(saved.id))
    [copy] = await listed(bob)
    await bob.use(lambda sandbox: sandbox.files.write("a", "bob's"))
    await bob.use(lambda sandbox: sandbox.destroy())
    await bob.use(lambda sandbox: sandbox.start(copy))

    assert copy.id != saved.id
    assert copy.name == "shared"
    assert (await read(bob), await read(coder)) == ("1", "1")


async def test_fork_without_a_start(runtime: ManualRuntime, coder: Coder) -> None:
    """A copy to keep."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot("shared"))
    bob = runtime.get(Coder, "bob")

    copy = await bob.use(lambda sandbox: sandbox.snapshots.fork(saved))

    assert await listed(bob) == [copy]
    assert (await bob.use(lambda sandbox: sandbox.info())).state == "absent"


async def test_snapshot_of_another_store_is_not_found(coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Two stores on one engine share nothing."""
    saved = await coder.use(lambda sandbox: sandbox.snapshot())

    async with ManualRuntime(Coder, engine=memory_engine, deps=Given()) as other:
        with pytest.raises(SnapshotNotFoundError):
            await other.get(Coder, "ada").use(lambda sandbox: sandbox.start(saved))
        await other.get(Coder, "ada").use(lambda sandbox: sandbox.start())
        names = {instance.name for instance in await memory_engine.instances()}

    assert len(names) == 2


# --- another spec


@pytest.mark.parametrize("is_running", [True, False])
async def test_other_spec_is_refused_unless_replaced(
    runtime: ManualRuntime, coder: Coder, given: Given, is_running: bool
) -> None:
    """Running or stopped; with ``replace`` the files go along (SPEC 12.8)."""
    before = (await coder.use(lambda sandbox: sandbox.info())).instance
    if not is_running:
        await coder.use(lambda sandbox: sandbox.stop())
    given.spec = SandboxSpec(memory="2g")
    await runtime.crash()

    with pytest.raises(SpecMismatchError, match="replace=True"):
        await coder.use(lambda sandbox: sandbox.ensure_started())
    await coder.use(lambda sandbox: sandbox.ensure_started(replace=True))
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert await read(coder) == "1"
    assert (await coder.use(lambda sandbox: sandbox.info())).instance != before


async def test_changed_variables_hold_from_the_next_start(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """A container that runs keeps those it was started with, whatever a deploy has changed (SPEC 12.8)."""

    async def variable(coder: Coder) -> str:
        return (await coder.use(lambda sandbox: sandbox.exec(shell="echo $A-$B"))).stdout

    await coder.use(lambda sandbox: sandbox.destroy())
    given.spec = SandboxSpec(env={"A": "old"})
    await runtime.crash()
    await coder.use(lambda sandbox: sandbox.start())
    given.spec = SandboxSpec(env={"A": "new", "B": "added"})
    await runtime.crash()

    before = await variable(coder)
    await coder.use(lambda sandbox: sandbox.ensure_started(replace=True))
    after = await variable(coder)

    assert (before, after) == ("old-\n", "new-added\n")


async def test_command_runs_in_a_container_of_another_spec(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """A deploy with another spec breaks no command: it applies at the next start."""
    given.spec = SandboxSpec(memory="2g")
    await runtime.crash()

    assert await read(coder) == "1"


# --- the agent's end


async def test_destroyed_agent_leaves_nothing(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Its container and its snapshots go with it; those of others stay."""
    await coder.use(lambda sandbox: sandbox.snapshot())
    bob = runtime.get(Coder, "bob")
    await bob.use(begin)
    await bob.use(lambda sandbox: sandbox.snapshot())

    await runtime.destroy(Coder, "ada")
    await runtime.advance(1)

    assert [instance.labels["agentkit.agent"] for instance in await memory_engine.instances()] == ["Coder/bob"]
    assert [image.labels["agentkit.agent"] for image in await memory_engine.saved()] == ["Coder/bob"]


async def test_agent_is_not_held_up_by_an_engine_that_is_away(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Its teardown is tried three times; then an event names what stayed."""
    memory_engine.is_available = False

    await runtime.destroy(Coder, "ada")
    await runtime.advance(MINUTE)

    [leftover] = runtime.events.of("destroy:leftover")
    assert leftover.payload["capability"] == "sandbox"
    assert runtime.events.count("destroy") == 1


async def test_new_agent_of_a_name_gets_nothing_of_the_destroyed_one(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """The engine was away when the old one was destroyed; its container, with its files, is a leftover (SPEC 11.2)."""
    memory_engine.is_available = False
    await runtime.destroy(Coder, "ada")
    await runtime.advance(MINUTE)
    memory_engine.is_available = True

    info = await coder.use(lambda sandbox: sandbox.info())
    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert info.state == "absent"
    assert await coder.use(lambda sandbox: sandbox.files.list()) == []
    assert len(await memory_engine.instances()) == 1


async def test_agent_that_never_used_its_sandbox_needs_no_engine(
    runtime: ManualRuntime, memory_engine: InMemoryEngine
) -> None:
    """Neither to live nor to end."""
    memory_engine.is_available = False
    eve = runtime.get(Coder, "eve")
    await eve.do(lambda agent: agent.storage.put("a", 1))

    await runtime.destroy(Coder, "eve")
    await runtime.advance(1)

    assert runtime.events.count("destroy:leftover") == 0
    assert runtime.events.count("destroy") == 1
