"""SIGKILL right before and after each commit of a run of a harness, in a process of its own (SPEC 13.3)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentkit.harness import CallEntry
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import FakeClock, ManualRuntime
from tests.faults.errand import ANSWER, Courier, play, script
from tests.faults.journal import Journal

ROOT = Path(__file__).parent.parent.parent
LATER = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def kill_at(folder: Path, moment: str) -> list[str]:
    """Let a child die before or after each commit; returns the points."""
    command = [sys.executable, "-m", "tests.faults.errand", str(folder), moment]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


async def check_point(folder: Path, point: str) -> None:
    """Go on with a run that a kill has left, and check what has happened in both lives."""
    journal = Journal(folder / f"{point}.journal")
    store = SqliteStore(folder / f"{point}.db")
    model, clock = script(), FakeClock(LATER)
    async with ManualRuntime(Courier, store=store, clock=clock, model=model, deps=journal) as runtime:
        await runtime.advance(timedelta(seconds=31))
        answer = await play(runtime)
        log = await runtime.get(Courier, "ada").log()
        usage = await runtime.get(Courier, "ada").usage()
    lines = journal.read()
    journal.close()
    assert answer == ANSWER
    assert len(usage) == 3
    assert [line.state for line in log if isinstance(line, CallEntry)] == ["done"] * 6
    check_effects(lines)


def check_effects(lines: list[list[str]]) -> None:
    """At most one effect of each ``once`` call; what was repeated had one key."""
    times = Counter(tuple(words[:2]) for words in lines)
    for effect in (("delivered", "one"), ("delivered", "two"), ("signed", "receipt")):
        assert times[effect] <= 1
    assert 1 <= times["labelled", "fragile"] <= 2
    assert len({words[2] for words in lines if words[0] == "labelled"}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_kill_at_each_commit_of_a_run(tmp_path: Path, moment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run goes on in the next process, and what happens once has happened at most once."""
    killed = kill_at(tmp_path, moment)

    with capsys.disabled():
        sys.stdout.write(f"\n{len(killed)} kills, one {moment} each commit\n")
    assert len(killed) > 10
    for point in killed:
        await check_point(tmp_path, point)
