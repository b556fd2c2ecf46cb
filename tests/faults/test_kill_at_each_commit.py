"""A kill right before and after each commit: what was acknowledged is there, the rest is absent (SPEC 3.4, 3.5)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId
from agentkit.testing import FakeClock, ManualRuntime
from tests.faults.journal import Journal
from tests.faults.life import Diary

ROOT = Path(__file__).parent.parent.parent
ADA, BOB = AgentId("Diary", "ada"), AgentId("Diary", "bob")
LATER = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def kill_at(folder: Path, moment: str) -> list[str]:
    """Let a child die before or after each commit; returns the points."""
    command = [sys.executable, "-m", "tests.faults.life", str(folder), moment]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def lines_of(path: Path) -> list[list[str]]:
    """Return what a journal says."""
    journal = Journal(path)
    lines = journal.read()
    journal.close()
    return lines


def rows(path: Path, what: str) -> list[tuple[object, ...]]:
    """Read from a store's file."""
    connection = sqlite3.connect(path)
    found = connection.execute(what).fetchall()
    connection.close()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What is found when a store is opened after a kill, and five minutes later.

    Attributes:
        acknowledged: Steps that were acknowledged before the kill.
        values: The agent's values when it is opened.
        jobs: Ids of its jobs then.
        condemned: Names of agents whose teardown had begun by then.
        started: Names of agents whose start-up ran afterwards.
        ran: How often each reminder was given and each job ran, over both lives, as (agent, what).
        attempts: The attempts of all runs.
        later: Its values five minutes later.
        schedules: Keys of its schedules by then, each due in the future.
        agents: Which agents are left by then.
        bob: The other agent's values by then, if it is left.
        due: When the moved job was due, if it ran.
    """

    acknowledged: set[str]
    values: dict[str, object]
    jobs: set[str]
    condemned: set[str]
    started: set[str]
    ran: Counter[tuple[str, str]]
    attempts: set[str]
    later: dict[str, object]
    schedules: set[str | None]
    agents: set[AgentId]
    bob: dict[str, object]
    due: set[datetime]


async def aftermath(folder: Path, point: str) -> Aftermath:
    """Open the store of a killed child, let time pass, and collect what is found."""
    path, journal = folder / f"{point}.db", Journal(folder / f"{point}.journal")
    first_life = journal.read()
    acknowledged = {words[0] for kind, *words in first_life if kind == "acknowledged"}
    store = SqliteStore(path)
    await store.open()
    jobs = {row.id for row in await store.jobs(ADA)}
    condemned = {str(name) for (name,) in rows(path, "select name from agents where destroying")}
    await store.close()
    clock = FakeClock(LATER)
    async with ManualRuntime(Diary, store=store, clock=clock, deps=journal) as runtime:
        ada = runtime.get(Diary, "ada")
        values = await ada.read()
        await runtime.advance(timedelta(minutes=5))
        later = await ada.read()
        schedules = await ada.list_schedules()
        assert all(schedule.next_run is not None and schedule.next_run > clock.now() for schedule in schedules)
        runs = await store.history(ADA, 100)
        is_bob_left = BOB in {summary.agent for summary in await store.agents()}
        bob = await runtime.get(Diary, "bob").read() if is_bob_left else {}
    await store.open()
    agents = {summary.agent for summary in await store.agents()}
    await store.close()
    lines = journal.read()
    journal.close()
    return Aftermath(
        acknowledged=acknowledged,
        values=values,
        jobs=jobs,
        condemned=condemned,
        started={words[0] for kind, *words in lines[len(first_life) :] if kind == "started"},
        ran=Counter((words[0], words[1]) for kind, *words in lines if kind in ("ran", "reminded")),
        attempts={words[2] for kind, *words in lines if kind == "ran"},
        later=later,
        schedules={schedule.key for schedule in schedules},
        agents=agents,
        bob=bob,
        due={datetime.fromtimestamp(run.due_ms / 1_000, UTC) for run in runs if run.job_id == "moved"},
    )


def check_acknowledged(found: Aftermath) -> None:
    """What a step acknowledged is there."""
    for job_id in ("soon", "order"):
        assert job_id not in found.acknowledged or found.ran["ada", job_id] >= 1
    for job_id, step in (("moved", "pushed"), ("twice", "worked")):
        assert step not in found.acknowledged or found.ran["ada", job_id] >= 1
    assert "moved" not in found.acknowledged or found.due == {datetime(2026, 1, 1, 0, 3, tzinfo=UTC)}
    assert "cancelled" not in found.acknowledged or "cancelled" not in found.jobs
    assert "cancelled" not in found.acknowledged or found.ran["ada", "cancelled"] == 0
    assert "often" not in found.acknowledged or "often" in found.schedules
    assert "pair" not in found.acknowledged or found.values["left"] == "2"


def check_whole_or_absent(found: Aftermath) -> None:
    """Transactions are whole or absent, and effects noted with their run happen once."""
    assert (found.values.get("order") == "made") == (found.ran["ada", "order"] >= 1)
    assert found.values.get("left") == found.values.get("right")
    effects = [value for key, value in found.later.items() if key.startswith("effect of ")]
    assert found.later.get("effects", 0) == len(effects) == len(set(effects))


def check_runs(found: Aftermath) -> None:
    """Everything due ran, at most once more than without the kill, and the kill spent no attempt."""
    assert found.attempts <= {"1"}
    once = {key: count for key, count in found.ran.items() if key[1] != "often"}
    assert sum(once.values()) <= len(once) + 1
    assert found.schedules <= {"often"}


def check_destroyed(found: Aftermath) -> None:
    """A destroy that was acknowledged completes, nothing else runs, and one that has begun ends before a start-up."""
    assert found.ran["bob", "never"] == 0
    assert not found.condemned & found.started
    if "destroying" in found.acknowledged:
        assert BOB not in found.agents
    elif "bob" in found.acknowledged and BOB in found.agents:
        assert found.bob == {"left": "bob", "right": "bob"}


def check_integrity(path: Path) -> None:
    """The file is sound and holds no rows of agents that are gone."""
    assert rows(path, "pragma integrity_check") == [("ok",)]
    for table in ("jobs", "key_values", "history"):
        assert rows(path, f"select * from {table} where agent_id not in (select agent_id from agents)") == []


async def check_point(folder: Path, point: str) -> None:
    """Check a store that was left by a kill."""
    found = await aftermath(folder, point)
    check_acknowledged(found)
    check_whole_or_absent(found)
    check_runs(found)
    check_destroyed(found)
    check_integrity(folder / f"{point}.db")


async def test_kill_before_each_commit_leaves_all_or_nothing(tmp_path: Path) -> None:
    """What the commit before has stored is all there, and nothing of this one."""
    killed = kill_at(tmp_path, "before")

    assert len(killed) > 25
    for point in killed:
        await check_point(tmp_path, point)


@pytest.mark.slow
async def test_kill_after_each_commit_leaves_all_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was stored is all there, though nobody had heard of it yet; and so is a life that isn't cut short."""
    killed = kill_at(tmp_path, "after")

    with capsys.disabled():
        sys.stdout.write(f"\n{len(killed)} kills, one after each commit\n")
    assert len(killed) > 25
    for point in [*killed, f"after-{len(killed) + 1}"]:
        await check_point(tmp_path, point)
    assert ["acknowledged", "destroyed"] in lines_of(tmp_path / f"after-{len(killed) + 1}.journal")
