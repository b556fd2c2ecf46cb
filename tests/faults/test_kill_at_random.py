"""``kill -9`` at any moment, over and over on one file: nothing that was promised is lost (SPEC 3.5, 4.11, 6.3)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentkit import AgentOptions
from tests.faults.evidence import Evidence, read_evidence
from tests.faults.journal import Journal
from tests.faults.plan import plan_round

ROOT = Path(__file__).parent.parent.parent
PROGRAM = [sys.executable, "-m", "tests.faults.crowd"]


def live_and_die(folder: Path, seed: int, number: int) -> None:
    """Let a process live for one round, then kill it."""
    command = [*PROGRAM, str(folder), str(seed), str(number)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"serving\n"
        time.sleep(plan_round(seed, number).kill_after_ms / 1_000)
        assert process.poll() is None, "the process ended before it was killed"
        process.kill()
    journal = Journal(folder / "journal")
    journal.write("kill", number)
    journal.close()


def torment(folder: Path, seed: int, rounds: int) -> Evidence:
    """Kill a process in every round, let the last one work off what is left, and read the journal."""
    for number in range(rounds):
        live_and_die(folder, seed, number)
    subprocess.run([*PROGRAM, str(folder), "finish"], cwd=ROOT, check=True, timeout=120, capture_output=True)
    journal = Journal(folder / "journal")
    lines = journal.read()
    journal.close()
    return read_evidence(lines)


def check(folder: Path, evidence: Evidence, rounds: int) -> None:
    """Compare what happened with what was promised."""
    with sqlite3.connect(folder / "agents.db") as connection:
        integrity = connection.execute("pragma integrity_check").fetchall()
        left = connection.execute("select id from jobs").fetchall()
        recorded = connection.execute("select job_id, outcome from history where pinned=1").fetchall()
        owned = connection.execute("select count(*) from agents where node is not null").fetchone()
    connection.close()
    poisoned = {job_id for job_id, outcome in recorded if outcome == "poisoned"}

    assert evidence.faults == []
    assert evidence.kills == rounds
    assert len(recorded) == len(poisoned)
    assert evidence.acknowledged - set(evidence.ended) <= poisoned
    # The first strike may come from shared evidence, noted when the agent was claimed and before its job began.
    assert all(evidence.hits[job_id] >= AgentOptions().max_crash_strikes - 1 for job_id in poisoned)
    assert left == []
    assert owned == (0,)
    assert integrity == [("ok",)]


def test_same_seed_gives_the_same_plan() -> None:
    """A failure can be played again."""
    assert [plan_round(7, number) for number in range(20)] == [plan_round(7, number) for number in range(20)]
    assert [plan_round(7, number) for number in range(20)] != [plan_round(8, number) for number in range(20)]


@pytest.mark.parametrize(
    ("journal", "fault"),
    [
        ("start a ada 1 r/end a ada/start a ada 1 r", "twice without a kill"),
        ("start a ada 1 r/end a ada/start b ada 1 r/kill 0/start a ada 1 r", "ran again though a later job"),
        ("start a ada 1 r/start b ada 1 r", "beside"),
        ("start a ada 2 r", "attempt 2"),
        ("start a ada 1 r/kill 0/end a ada", "without having begun"),
        ("nonsense", "unreadable"),
    ],
)
def test_evidence_finds_what_must_not_happen(journal: str, fault: str) -> None:
    """The judge of the tests below isn't blind."""
    evidence = read_evidence(line.split() for line in journal.split("/"))

    assert len(evidence.faults) == 1
    assert fault in evidence.faults[0]


def test_evidence_accepts_what_may_happen() -> None:
    """A kill inside a job, or between its end and its outcome, lets it run again."""
    journal = "start a ada 1 r/kill 0/start a ada 1 r/end a ada/kill 1/start a ada 1 r/end a ada/start b ada 1 r"

    evidence = read_evidence(line.split() for line in journal.split("/"))

    assert evidence.faults == []
    assert (evidence.kills, evidence.kills_inside) == (2, 1)
    assert (evidence.started["a"], evidence.ended["a"], evidence.hits["a"]) == (3, 2, 1)


def test_kills_at_random_lose_nothing(tmp_path: Path) -> None:
    """Ten lives on one file, each killed at some moment: every acknowledged job runs."""
    evidence = torment(tmp_path, seed=1, rounds=10)

    check(tmp_path, evidence, rounds=10)
    assert evidence.kills_inside >= 2
    assert len(evidence.acknowledged) > 50


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_kills_at_random_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same a hundred times over; at least twenty kills hit inside a job."""
    evidence = torment(tmp_path, seed=2, rounds=100)

    with capsys.disabled():
        sys.stdout.write(
            f"\n{evidence.kills} kills, {evidence.kills_inside} of them inside a job; "
            f"{len(evidence.acknowledged)} jobs acknowledged, {evidence.started.total()} runs begun, "
            f"{evidence.hits.total()} of them cut off\n"
        )
    check(tmp_path, evidence, rounds=100)
    assert evidence.kills_inside >= 20
    assert len(evidence.acknowledged) > 1_000
