"""What "durable" means: the disk is asked, once a group, and the claim is measured rather than believed (SPEC 3.5)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import Agent
from agentkit.store.sqlite import Durability, SqliteStore
from agentkit.store.store import AgentId, AgentRow, Batch
from agentkit.testing import ManualRuntime
from tests.store.push_jobs import PUSHES
from tests.store.rows import activate

ROOT = Path(__file__).parent.parent.parent
LEVELS: dict[Durability, int] = {"full": 2, "process": 1}


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a setting of a connection."""
    value: int = connection.execute(f"pragma {name}").fetchone()[0]
    return value


class Bot(Agent):
    """Schedules."""

    async def later(self, number: int) -> None:
        """Push a job."""
        await self.schedule(3_600, self.work, number)

    async def work(self, payload: int) -> None:
        """Do nothing."""


@pytest.mark.parametrize("durability", LEVELS)
async def test_writer_waits_for_the_disk_unless_told_otherwise(tmp_path: Path, durability: Durability) -> None:
    """FULL (2) survives power loss; NORMAL (1) the death of the process, and has to be asked for."""
    store = SqliteStore(tmp_path / "agents.db", durability=durability)
    await store.open()
    lease = (await activate(store, await store.join(""))).lease
    await store.commit(lease, AgentRow(), Batch(values={("host", "key"): "1"})).wait()

    # The same level as the commit's: it is changed only where a transaction needs another one.
    level = await store.writer.call(lambda connection: pragma(connection, "synchronous"), synced=True)

    assert level == LEVELS[durability]
    await store.close()


async def test_full_durability_is_the_default(tmp_path: Path) -> None:
    """Nobody loses data by not having read about it."""
    store = SqliteStore(tmp_path / "agents.db")
    await store.open()
    lease = (await activate(store, await store.join(""))).lease
    before = store.writer.synced_commits

    await store.commit(lease, AgentRow(), Batch()).wait()

    assert store.writer.synced_commits == before + 1
    await store.close()


async def test_claims_need_no_sync_of_their_own(tmp_path: Path) -> None:
    """A claim that power loss takes back dies with its node."""
    store = SqliteStore(tmp_path / "agents.db")
    await store.open()
    node = await store.join("")
    before, commits = store.writer.synced_commits, store.writer.commits

    for number in range(5):
        await activate(store, node, AgentId("Bot", str(number)))
    await store.claim_due(node, ["Bot"], 1_000, 10)

    assert store.writer.synced_commits == before
    assert store.writer.commits > commits
    await store.close()


@pytest.mark.parametrize("agents", [1, PUSHES])
async def test_pushes_at_one_time_share_commits(tmp_path: Path, agents: int) -> None:
    """A hundred callers cost the disk a few waits, whether on one agent or on a hundred."""
    store = SqliteStore(tmp_path / "agents.db")
    async with ManualRuntime(Bot, store=store) as runtime:
        bots = [runtime.get(Bot, str(number % agents)) for number in range(PUSHES)]
        await asyncio.gather(*(bot.later(-1) for bot in bots))
        before = store.writer.synced_commits

        await asyncio.gather(*(bot.later(number) for number, bot in enumerate(bots)))

        assert 1 <= store.writer.synced_commits - before <= 5
        jobs = [len(await store.jobs(AgentId("Bot", str(number)))) for number in range(agents)]
        assert sum(jobs) == 2 * PUSHES


async def test_one_caller_gets_a_commit_for_each_push(tmp_path: Path) -> None:
    """No push returns before its own commit."""
    store = SqliteStore(tmp_path / "agents.db")
    async with ManualRuntime(Bot, store=store) as runtime:
        bot = runtime.get(Bot, "ada")
        await bot.later(-1)
        before = store.writer.synced_commits

        for number in range(20):
            await bot.later(number)

        assert store.writer.synced_commits - before == 20


@pytest.fixture(scope="session")
def counting_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that counts a process's calls of fsync and fdatasync."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("counting real syncs takes Linux and a C compiler (cc, gcc or $CC); found none")
    library = tmp_path_factory.mktemp("syncs") / "count_syncs.so"
    source = Path(__file__).parent / "count_syncs.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def syncs(library: Path, folder: Path, durability: Durability) -> dict[str, int]:
    """Push jobs in another process and return what it counted."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "SYNC_LOG": str(folder / "syncs")}
    command = [sys.executable, "-m", "tests.store.push_jobs", str(folder / "agents.db"), durability]
    printed = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    counted: dict[str, int] = json.loads(printed)
    return counted


def test_each_commit_reaches_the_disk(counting_library: Path, tmp_path: Path) -> None:
    """Every push in turn waits for a real fdatasync; a hundred at one time share a few."""
    counted = syncs(counting_library, tmp_path, "full")

    assert counted["commits in turn"] == PUSHES
    assert counted["syncs in turn"] >= PUSHES
    assert 1 <= counted["commits at one time"] <= 5
    # Besides its commits, SQLite syncs when it moves the log into the database.
    assert counted["commits at one time"] <= counted["syncs at one time"] <= 15


def test_process_durability_leaves_the_disk_alone(counting_library: Path, tmp_path: Path) -> None:
    """What was asked for is also what is saved: no sync but those of checkpoints."""
    counted = syncs(counting_library, tmp_path, "process")

    assert counted["commits in turn"] == 0
    assert counted["syncs in turn"] + counted["syncs at one time"] <= 10
