"""SIGTERM drains: what runs may finish, what is cut off spends nothing, nothing new begins (SPEC 2.1, 5.3, 16.2)."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.journal import Journal

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")


def serve(folder: Path, grace: float, *seconds: float) -> subprocess.Popen[bytes]:
    """Start a process whose agent naps for so many seconds, job by job."""
    command = [sys.executable, "-m", "tests.faults.naps", str(folder), str(grace), *map(str, seconds)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def read(folder: Path) -> list[str]:
    """Return the journal's lines."""
    journal = Journal(folder / "journal")
    lines = [" ".join(words) for words in journal.read()]
    journal.close()
    return lines


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another process, at most twenty seconds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the other process takes too long"
        time.sleep(0.01)


def end(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end of a process that was told to stop; returns how many seconds that took."""
    begun = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors.decode()
    return time.monotonic() - begun


def stored(folder: Path, what: str) -> list[tuple[object, ...]]:
    """Read from the store's file."""
    connection = sqlite3.connect(folder / "agents.db")
    rows = connection.execute(what).fetchall()
    connection.close()
    return rows


def test_job_cut_off_by_the_grace_runs_again_from_attempt_one(tmp_path: Path) -> None:
    """A deploy is no failure: no attempt, no crash strike, and the next start doesn't call it recovered."""
    with serve(tmp_path, 0.2, 60) as process:
        wait_until(lambda: "start nap0 1 False" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        end(process)
    left = stored(tmp_path, "select node, running, crash_strikes, memory_strikes, runs from agents")
    first = read(tmp_path)

    with serve(tmp_path, 0.2) as process:
        wait_until(lambda: len(read(tmp_path)) > len(first))
        process.send_signal(signal.SIGTERM)
        end(process)

    assert left == [(None, None, 0, 0, 0)]
    assert first == ["start nap0 1 False", "cut nap0", "closed"]
    assert read(tmp_path) == first + first
    assert stored(tmp_path, "select id from jobs") == [("nap0",)]


def test_job_that_ends_within_the_grace_is_done(tmp_path: Path) -> None:
    """It is let finish, its outcome is stored, and the process doesn't wait longer than that."""
    with serve(tmp_path, 20, 0.5) as process:
        wait_until(lambda: "start nap0 1 False" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        took = end(process)

    assert took < 10
    assert read(tmp_path) == ["start nap0 1 False", "end nap0", "closed"]
    assert stored(tmp_path, "select id from jobs") == []
    assert stored(tmp_path, "select outcome, attempts from history") == [("completed", 1)]


def test_nothing_new_begins_during_the_drain(tmp_path: Path) -> None:
    """Of an agent's due jobs the one under way is the last; the others wait for the next start."""
    with serve(tmp_path, 20, 0.5, 0.1, 0.1) as process:
        wait_until(lambda: "start nap0 1 False" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        end(process)

    assert read(tmp_path) == ["start nap0 1 False", "end nap0", "closed"]
    assert stored(tmp_path, "select id from jobs order by id") == [("nap1",), ("nap2",)]

    with serve(tmp_path, 20) as process:
        wait_until(lambda: "end nap2" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        end(process)

    assert "start nap1 1 False" in read(tmp_path)
    assert stored(tmp_path, "select id from jobs") == []


def test_second_signal_cuts_the_drain_short(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C twice doesn't want to wait; the job is kept all the same."""
    with serve(tmp_path, 60, 60) as process:
        wait_until(lambda: "start nap0 1 False" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        is_waiting = process.poll() is None
        process.send_signal(signal.SIGINT)
        took = end(process)

    assert is_waiting
    assert took < 10
    assert read(tmp_path) == ["start nap0 1 False", "cut nap0", "closed"]
    assert stored(tmp_path, "select id from jobs") == [("nap0",)]
    assert stored(tmp_path, "select running, crash_strikes from agents") == [(None, 0)]


def test_kill_during_the_drain_loses_nothing(tmp_path: Path) -> None:
    """An impatient supervisor: the job runs again, this time recovered from a crash."""
    with serve(tmp_path, 60, 60) as process:
        wait_until(lambda: "start nap0 1 False" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.kill()

    with serve(tmp_path, 0.1) as process:
        wait_until(lambda: "start nap0 1 True" in read(tmp_path))
        process.send_signal(signal.SIGTERM)
        end(process)

    assert stored(tmp_path, "select id from jobs") == [("nap0",)]
