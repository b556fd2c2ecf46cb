"""`import agentkit` stays quick because it opens none of the slow libraries (SPEC 17)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SLOW = {"aiosqlite", "croniter", "dateutil", "docker", "hypothesis", "instructor", "mcp", "openai"}
LOADED = "import json, sys, {}; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"


@pytest.mark.parametrize("module", ["agentkit", "agentkit.harness", "agentkit.assistant"])
def test_import_loads_no_slow_library(module: str) -> None:
    """A program that imports agentkit pays for no library before it uses the part that needs it."""
    command = [sys.executable, "-c", LOADED.format(module)]

    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    assert SLOW & set(json.loads(printed)) == set()
