"""A disk without room: the caller hears of it, nothing is half-written, later everything goes on (SPEC 3.4, 5.3)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit import Agent
from agentkit.errors import StoreUnavailableError
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId
from agentkit.testing import ManualRuntime

ROOT = Path(__file__).parent.parent.parent
BIG = "x" * 200_000
EXHAUSTED = "the disk is full: free some space; nothing was written"


class Bot(Agent):
    """Notes what it was reminded of."""

    async def later(self, minutes: int, text: str) -> None:
        """Push a reminder."""
        await self.schedule(timedelta(minutes=minutes), self.remind, text)

    async def order(self, text: str) -> None:
        """Note an order, and schedule its reminder, together."""
        async with self.transaction():
            await self.storage.put("order", text)
            await self.schedule(timedelta(minutes=1), self.remind, "order")

    async def remind(self, payload: str) -> None:
        """Note a reminder and count it."""
        self.deps.append(payload)
        await self.storage.put(f"heard {payload[:10]}", payload)

    async def values(self) -> dict[str, object]:
        """Return all values."""
        return await self.storage.list()


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """A store in a file."""
    return SqliteStore(tmp_path / "agents.db")


@pytest.fixture
def ran() -> list[str]:
    """Payloads of the runs so far."""
    return []


@pytest.fixture
async def runtime(store: SqliteStore, ran: list[str]) -> AsyncIterator[ManualRuntime]:
    """A runtime on that store."""
    async with ManualRuntime(Bot, store=store, deps=ran) as runtime:
        yield runtime


async def fill_disk(store: SqliteStore) -> None:
    """Let the file grow no more."""

    def limit(connection: sqlite3.Connection) -> None:
        pages = connection.execute("pragma page_count").fetchone()[0]
        connection.execute(f"pragma max_page_count={pages}")

    await store.writer.call(limit)


async def free_disk(store: SqliteStore) -> None:
    """Let it grow again."""
    await store.writer.call(lambda connection: connection.execute("pragma max_page_count=1000000").fetchall())


async def test_push_that_finds_no_room_raises_and_stores_nothing(store: SqliteStore, runtime: ManualRuntime) -> None:
    """The caller is not told that a job is safe that isn't."""
    bot = runtime.get(Bot, "ada")
    await bot.later(1, "small")
    await fill_disk(store)

    with pytest.raises(StoreUnavailableError, match=EXHAUSTED):
        await bot.later(1, BIG)

    assert len(await store.jobs(AgentId("Bot", "ada"))) == 1


async def test_transaction_that_finds_no_room_is_absent(store: SqliteStore, runtime: ManualRuntime) -> None:
    """Not the reminder without the order."""
    bot = runtime.get(Bot, "ada")
    await bot.later(60, "small")
    await fill_disk(store)

    with pytest.raises(StoreUnavailableError, match=EXHAUSTED):
        await bot.order(BIG)

    await free_disk(store)
    await runtime.advance(timedelta(minutes=2))
    assert await bot.values() == {}
    assert len(await store.jobs(AgentId("Bot", "ada"))) == 1


async def test_acknowledged_jobs_run_once_there_is_room_again(
    store: SqliteStore, runtime: ManualRuntime, ran: list[str]
) -> None:
    """Of a live agent and of one that slept meanwhile; what was refused never runs."""
    live, asleep = runtime.get(Bot, "live"), runtime.get(Bot, "asleep")
    await live.later(5, "first")
    await asleep.later(5, "second")
    await runtime.evict(Bot, "asleep")
    await fill_disk(store)
    with pytest.raises(StoreUnavailableError):
        await live.later(5, BIG)
    await runtime.advance(timedelta(minutes=1))

    await free_disk(store)
    await live.later(5, "third")
    await runtime.advance(timedelta(minutes=10))

    assert sorted(ran) == ["first", "second", "third"]
    assert await store.jobs(AgentId("Bot", "live")) == []


async def test_job_whose_outcome_found_no_room_runs_again(
    store: SqliteStore, runtime: ManualRuntime, ran: list[str]
) -> None:
    """A platform failure spends no attempt and loses no job (SPEC 5.3)."""
    bot = runtime.get(Bot, "ada")
    await bot.later(1, BIG)
    await fill_disk(store)
    await runtime.advance(timedelta(minutes=1, seconds=10))
    tries = len(ran)

    await free_disk(store)
    await runtime.advance(timedelta(minutes=1))

    assert 1 <= tries < len(ran)
    assert await store.jobs(AgentId("Bot", "ada")) == []
    assert await bot.values() == {"heard xxxxxxxxxx": BIG}
    history = await store.history(AgentId("Bot", "ada"), 10)
    assert [(run.outcome, run.attempts) for run in history] == [("completed", 1)]


async def test_agent_can_start_on_a_full_disk(store: SqliteStore, runtime: ManualRuntime) -> None:
    """Reading takes no room, so a bot goes on answering."""
    bot = runtime.get(Bot, "ada")
    await bot.order("small")
    await runtime.evict(Bot, "ada")
    await fill_disk(store)

    assert await bot.values() == {"order": "small"}


def can_mount(folder: Path) -> bool:
    """Tell whether this process may mount a small file system of its own."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    mount = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True).returncode == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small file system, which takes Linux")
def test_real_disk_without_room(tmp_path: Path) -> None:
    """The same on a file system of eight megabytes, in a process that mounts it for itself alone."""
    if not can_mount(tmp_path):
        pytest.skip("mounting a small file system takes root and the right to unshare; this process has neither")
    script = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$2" -m tests.store.exhaust_disk "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable]

    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert printed.returncode == 0, printed.stderr
    *_, said = printed.stdout.splitlines()
    assert said == "refused, then stored; ran every acknowledged job and no other; intact"
