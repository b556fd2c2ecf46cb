"""The README's Python blocks run. Blocks of one ``##`` section share their names, as a reader would assume.

A block that can't run has ``<!-- not run: reason -->`` on the line before it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

README = Path(__file__).parent.parent / "README.md"
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The blocks under one heading, as one program whose line numbers are those of the document."""

    heading: str
    code: str


def sections(text: str) -> list[Section]:
    """Return the sections of a Markdown document that have a Python block to run."""
    programs: dict[str, list[str]] = {}
    heading, fence, before, is_run = "", "", "", False
    for number, line in enumerate(text.splitlines()):
        if not fence and line.startswith("## "):
            heading = line.removeprefix("## ")
        elif not fence and line.startswith("```"):
            fence, is_run = "```", line == "```python" and not NOT_RUN.fullmatch(before)
        elif line == fence:
            fence, is_run = "", False
        elif is_run:
            program = programs.setdefault(heading, [])
            program += [""] * (number - len(program)) + [line]
        before = line
    return [Section(heading=heading, code="\n".join(lines)) for heading, lines in programs.items()]


@pytest.mark.parametrize("section", [pytest.param(each, id=each.heading) for each in sections(README.read_text())])
def test_readme_section_runs(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who pastes a section's blocks into one file, in an empty folder, gets a program that works."""
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTKIT_STORE", raising=False)

    exec(compile(section.code, str(README), "exec", dont_inherit=True), module.__dict__)


def test_blocks_of_a_section_are_one_program() -> None:
    """Blocks under one heading go together, those of another language or marked as not run are left out."""
    text = """\
## First
```python
a = 1
```
```sh
## not a heading
```
```python
b = a
```
## Second
<!-- not run: needs a key -->
```python
c = 3
```
"""

    found = sections(text)

    assert found == [Section(heading="First", code="\n\na = 1\n\n\n\n\n\nb = a")]
