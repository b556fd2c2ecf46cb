"""Tables of failures that users of other libraries reported, and the tests that show what happens here."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One row: its number, where it was reported, what went wrong, and the tests or why there are none."""

    number: int
    threads: str
    symptom: str
    tests: str


def reports(text: str) -> list[Report]:
    """Return the rows of all tables of a document."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    return [
        Report(number=int(number), threads=threads, symptom=symptom, tests=tests)
        for number, threads, symptom, tests in cells
    ]


@functools.cache
def names_of_tests(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    if not path.is_file():
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def missing_tests(rows: list[Report], root: Path) -> list[str]:
    """Return the tests that rows name and that don't exist."""
    named = [name for row in rows for name in re.findall(r"`([^`]+::[^`]+)`", row.tests)]
    return [name for name in named if name.partition("::")[2] not in names_of_tests(root / name.partition("::")[0])]


def incomplete(rows: list[Report]) -> list[Report]:
    """Return the rows that lack threads, words, or tests and a reason why there are none."""
    return [
        row
        for row in rows
        if not (row.threads and row.symptom and ("::" in row.tests or re.match(r"does not apply: \S", row.tests)))
    ]
