"""ARCHITECTURE.md names what is there, and every place that catches any error."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CATCHES_ALL = re.compile(r"^\s+except (?:Exception|BaseException)\b", re.MULTILINE)
ROW = re.compile(r"^\| `([\w/]+\.py)` \|", re.MULTILINE)
FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


def test_places_that_catch_any_error_are_listed() -> None:
    """Each is there for a reason that the table gives; a place that is gone leaves the table."""
    files = {
        path.relative_to(ROOT / "agentkit").as_posix()
        for path in (ROOT / "agentkit").rglob("*.py")
        if CATCHES_ALL.search(path.read_text(encoding="utf-8"))
    }

    assert set(ROW.findall(TEXT)) == files


def test_files_that_are_named_exist() -> None:
    """Each file is found below the package, in the folder of its section or at the root."""
    names = {"/" + path.relative_to(ROOT / "agentkit").as_posix() for path in (ROOT / "agentkit").rglob("*.py")}
    names.add("/tools/layers.py")

    assert [name for name in FILE.findall(TEXT) if not any(known.endswith("/" + name) for known in names)] == []
