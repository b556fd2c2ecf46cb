"""The Python blocks of each page in ``docs/`` run: a page is one program, as a reader would paste it.

A block after ``<!-- not run: reason -->`` is left out; one after ``<!-- needs docker -->`` where there is no Docker.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agentkit.sandbox.engines import close_engines
from tests.sandbox.engines import CANDIDATES, absence

DOCS = Path(__file__).parent.parent / "docs"
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
NEEDS_DOCKER = "<!-- needs docker -->"


def program(text: str, *, has_docker: bool) -> str:
    """Return a page's blocks as one program, whose line numbers are those of the page."""
    lines: list[str] = []
    before, fence, is_run = "", "", False
    for number, line in enumerate(text.splitlines()):
        if not fence and line.startswith("```"):
            is_left_out = bool(NOT_RUN.fullmatch(before)) or (before == NEEDS_DOCKER and not has_docker)
            fence, is_run = "```", line == "```python" and not is_left_out
        elif line == fence:
            fence, is_run = "", False
        elif is_run:
            lines += [""] * (number - len(lines)) + [line]
        before = line
    return "\n".join(lines)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those blocks that need Docker, where there is one."""
    module = ModuleType(page.stem)
    monkeypatch.setitem(sys.modules, page.stem, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTKIT_STORE", raising=False)
    has_docker = absence("docker") is None
    monkeypatch.setenv("AGENTKIT_SANDBOX_IMAGE", CANDIDATES["docker"].image)

    code = compile(program(page.read_text(), has_docker=has_docker), str(page), "exec", dont_inherit=True)
    try:
        exec(code, module.__dict__)
    finally:
        asyncio.run(close_engines())


def test_blocks_are_left_out_as_marked() -> None:
    """Those of another language, those that are not run, and those that need what isn't there."""
    blocks = [
        "```python\na = 1\n```",
        f"{NEEDS_DOCKER}\n```python\nb = 2\n```",
        "<!-- not run: why -->\n```python\nc\n```",
    ]
    text = "\n".join(blocks)

    assert program(text, has_docker=True).split() == ["a", "=", "1", "b", "=", "2"]
    assert program(text, has_docker=False).split() == ["a", "=", "1"]
