"""What commands print: tables for people, JSON for scripts, errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agentkit.plain_text import one_line, shortened

_WIDEST = 60


def fail(message: str) -> int:
    """Print an error and return the exit code of failure."""
    print(f"agentkit: error: {one_line(message)}", file=sys.stderr)
    return 1


def print_json(value: object) -> None:
    """Print a value as JSON; what is no JSON, such as a moment, as ISO 8601 text."""
    print(json.dumps(value, indent=2, default=_plain))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows in columns, each cell on one line and without control sequences.

    Args:
        columns: Their headings.
        rows: Cells, as many as columns; only those of the last are shortened, since others are ids to be copied.
        empty: What to say when there are no rows.
    """
    if not rows:
        print(empty)
        return
    cells = [[*(_cell(value) for value in row[:-1]), shortened(_cell(row[-1]), _WIDEST)] for row in rows]
    lines = [list(columns), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return one_line(str(value))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
