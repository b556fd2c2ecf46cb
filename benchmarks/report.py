"""What measures return, and how it is printed as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise about speed beside what was measured.

    Attributes:
        is_met: None where there is nothing to judge.
    """

    what: str
    target: str
    measured: str
    is_met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A comparison that promises nothing."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(slots=True, kw_only=True)
class Report:
    """What one measure found.

    Attributes:
        raw: Every figure of every round.
    """

    rows: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)


def at_least(what: str, measured: float, target: float, *, shown: str, unit: str) -> Row:
    """Return a row that is met when the figure reaches the target."""
    return Row(what=what, target=f"≥ {target:,g} {unit}".rstrip(), measured=shown, is_met=measured >= target)


def below(what: str, measured: float, target: float, *, shown: str, unit: str) -> Row:
    """Return a row that is met when the figure stays below the target."""
    return Row(what=what, target=f"< {target:,g} {unit}".rstrip(), measured=shown, is_met=measured < target)


def markdown(reports: Sequence[Report]) -> str:
    """Return the promises as one table, then the comparisons and the notes."""
    parts = []
    rows = [row for report in reports for row in report.rows]
    if rows:
        lines = [(row.what, row.target, row.measured, _verdict(row)) for row in rows]
        parts.append(_table(("what", "target", "measured", ""), lines))
    for table in (table for report in reports for table in report.tables):
        parts.append(f"### {table.title}\n\n{_table(table.columns, table.lines)}")
    notes = [note for report in reports for note in report.notes]
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts)


def _verdict(row: Row) -> str:
    if row.is_met is None:
        return ""
    return "pass" if row.is_met else "**miss**"


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = ["---"] * len(columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, marks, *lines))
