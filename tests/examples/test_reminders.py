"""The reminder examples do what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.reminders import bot

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_demo() -> None:
    """A reminder made in a process that is killed comes on time in the next one, in less than half a minute."""
    command = [sys.executable, "-m", "examples.reminders.demo"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "Reminder: stretch" in done.stdout
    assert "#2 send the report - every weekday at 09:00" in done.stdout


def test_bot_of_the_readme() -> None:
    """The bot in the README is the one in the example, apart from what each prints around it."""
    readme = (ROOT / "README.md").read_text()
    method = "    async def remind(self, request: str) -> str:"
    example = Path(bot.__file__).read_text()

    def shown(text: str) -> list[str]:
        lines = text[text.index(method) :].splitlines()[:6]
        return [line.partition("  #")[0].rstrip() for line in lines]

    assert shown(readme) == shown(example)
