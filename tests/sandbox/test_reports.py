"""Traps of engines, and failures that users of other sandboxes reported: the table is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report_table import Report, incomplete, missing_tests, reports

TABLE = Path(__file__).with_name("reports.md")
ROOT = Path(__file__).parent.parent.parent


def rows(section: str) -> list[Report]:
    """Return the rows of one of the two tables."""
    sections = re.split(r"^## ", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    [text] = [text for text in sections if text.startswith(f"{section}\n")]
    return reports(text)


@pytest.mark.parametrize(("section", "count"), [("Traps", 22), ("Reports", 32)])
def test_every_row_is_there_once_and_names_tests_or_a_reason(section: str, count: int) -> None:
    """The table is complete and in order, and no row is empty."""
    found = rows(section)

    assert [row.number for row in found] == list(range(1, count + 1))
    assert incomplete(found) == []


@pytest.mark.parametrize("section", ["Traps", "Reports"])
def test_every_test_of_the_table_exists(section: str) -> None:
    """A test that was renamed or removed is missed here."""
    assert missing_tests(rows(section), ROOT) == []
