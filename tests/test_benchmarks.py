"""The benchmarks build their tables, whatever the figures are: a tiny run, with no time asserted."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import MEASURES, main, run
from benchmarks.figures import ratios, short, spread
from benchmarks.fresh import MeasurementError, run_fresh
from benchmarks.report import Report, Row, below, markdown
from benchmarks.scale import TINY

NEEDS_PSUTIL = {"overdue", "agents"}
needs_psutil = pytest.mark.skipif(importlib.util.find_spec("psutil") is None, reason="needs psutil")


def promises(names: list[str]) -> list[Row]:
    """Return the rows of a tiny run of some measures."""
    reports = run(names, replace(TINY, budget=0.02, startups=1))
    assert json.dumps([report.raw for report in reports.values()])
    return [row for report in reports.values() for row in report.rows]


def test_pushes_are_compared_with_the_floor() -> None:
    """Each way of pushing is one row, with a ratio to the floor of the same run."""
    rows = promises(["slow-disk"])

    assert len(rows) == 6
    assert all("×" in row.measured and row.is_met is not None for row in rows)


def test_due_jobs_are_counted_to_the_last_outcome() -> None:
    """Dispatch reports every job done and recorded, and one agent's jobs take one sync each."""
    reports = run(["dispatch", "one-agent"], TINY)

    assert reports["dispatch"].notes == []
    assert reports["one-agent"].raw["left"] == 0
    assert reports["one-agent"].raw["count"] == TINY.one_agent_jobs
    assert reports["one-agent"].rows[0].is_met


def test_steps_of_a_harness_are_measured() -> None:
    """One row, with a figure for each round."""
    report = run(["harness"], TINY)["harness"]

    assert len(report.rows) == TINY.repeat == len(report.raw["p50_ms"])


@pytest.mark.docker
def test_sandboxes_are_compared_with_the_bare_engine() -> None:
    """One promise, and a table in which each figure of another has its ratio."""
    report = run(["sandbox"], TINY)["sandbox"]

    assert len(report.rows) == 1
    [table] = report.tables
    assert {line[0] for line in table.lines} == set(report.raw)
    assert all(("×" in line[3]) == (line[1] != "agentkit") for line in table.lines)


@needs_psutil
@pytest.mark.parametrize("name", sorted(NEEDS_PSUTIL))
def test_memory_is_measured(name: str) -> None:
    """The measures that look at a process find one."""
    assert all(row.measured for row in promises([name]))


def test_a_failed_measurement_says_why(tmp_path: Path) -> None:
    """What the process printed last is in the error."""
    with pytest.raises(MeasurementError, match="unexpected keyword argument 'nonsense'"):
        run_fresh("benchmarks.measures.parser:read", tmp_path, nonsense=1)


def test_unknown_measure_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the measures there are."""
    with pytest.raises(SystemExit):
        main(["nonsense"])

    message = capsys.readouterr().err
    assert all(name in message for name in MEASURES)


def test_misses_stand_out() -> None:
    """A promise that isn't kept is marked, one that can't be judged is not."""
    met = below("a", 1.0, 2.0, shown="1 s", unit="s")
    missed = below("b", 3.0, 2.0, shown="3 s", unit="s")
    open_question = Row(what="c", target="d", measured="e", is_met=None)

    lines = markdown([Report(rows=[met, missed, open_question])]).splitlines()

    assert lines[2:] == [
        "| a | < 2 s | 1 s | pass |",
        "| b | < 2 s | 3 s | **miss** |",
        "| c | d | e |  |",
    ]


def test_ratios_are_taken_within_a_round() -> None:
    """Noise that falls on both sides of a round cancels."""
    found = ratios([10, 100], [20, 200])

    assert found.values == (0.5, 0.5)


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.000012, "0.000012"), (12.345, "12.3"), (999.6, "1,000"), (65_432.1, "65,400")]
)
def test_three_digits_count(value: float, shown: str) -> None:
    """Figures are as long as they are trustworthy."""
    assert short(value) == shown


def test_spread_of_one_round_is_one_figure() -> None:
    """There is no range to show."""
    assert spread([2.0]).show("ms") == "2 ms"
    assert spread([1.0, 2.0, 4.0]).show("ms") == "2 (1..4) ms"
