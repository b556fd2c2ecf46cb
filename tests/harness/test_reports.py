"""Failures that users of other agent loops reported: the table in ``reports.md`` is complete."""

from __future__ import annotations

from pathlib import Path

from tests.report_table import incomplete, missing_tests, reports

TABLE = Path(__file__).with_name("reports.md")
ROOT = TABLE.parent.parent.parent


def test_every_report_is_in_the_table_once() -> None:
    """In order, each with threads, words, and tests or why it doesn't apply."""
    rows = reports(TABLE.read_text(encoding="utf-8"))

    assert [row.number for row in rows] == list(range(1, 21))
    assert incomplete(rows) == []


def test_every_test_of_the_table_exists() -> None:
    """A test that was renamed or removed is missed here."""
    rows = reports(TABLE.read_text(encoding="utf-8"))

    assert missing_tests(rows, ROOT) == []
