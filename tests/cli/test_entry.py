"""The frame of the command line: help, versions, exit codes, and how quickly it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.cli import main
from agentkit.cli.entry import COMMANDS

SLOW = ("pydantic", "openai", "instructor", "croniter", "dateutil", "aiosqlite", "docker", "sqlite3")
LOADED = """
import sys
from agentkit.cli import main
code = main(["--help"])
print("LOADED", *sorted(name for name in sys.modules if name.partition(".")[0] in %r))
"""


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with a line of its own, on standard output."""
    code = main(["--help"])

    printed = capsys.readouterr()
    assert code == 0
    assert [name for name in COMMANDS if f"  {name} " not in printed.out] == []
    assert printed.err == ""


def test_help_loads_no_slow_library() -> None:
    """Help is there at once: what commands need is imported when they are called."""
    command = [sys.executable, "-c", LOADED % (SLOW,)]

    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert printed.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Its usage, what it does, and its options."""
    code = main([command, "--help"])

    printed = capsys.readouterr().out
    assert code == 0
    assert printed.startswith(f"usage: agentkit {command}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, as other tools print it."""
    code = main(["--version"])

    assert (code, capsys.readouterr().out) == (0, "agentkit 0.1.0\n")


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("agents", "--nonsense"), ("history", "--limit", "0"), ("run",)]
)
def test_wrong_calls(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Exit code 2, the usage on standard error, nothing on standard output."""
    code = main(arguments)

    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.startswith("usage: agentkit")


@pytest.mark.parametrize("url", ["mysql://host/x", "sqlite://x", "nonsense", "sqlite:///:memory:"])
def test_a_bad_store_url_is_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """A user's mistake shows no traceback."""
    code = main(["agents", "--store", url])

    printed = capsys.readouterr().err
    assert code == 1
    assert printed.startswith("agentkit: error: ")
    assert printed.count("\n") == 1


def test_a_password_in_a_store_url_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Keys never appear in errors (SPEC 19)."""
    code = main(["agents", "--store", "postgresql://ada:tops3cret@host/db"])

    printed = capsys.readouterr()
    assert code == 1
    assert "tops3cret" not in printed.out + printed.err


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """``agentkit … | head -1`` prints no traceback."""
    command = f"{sys.executable} -m agentkit.cli doctor --store sqlite:///{tmp_path}/x.db | true"

    done = subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, text=True)

    assert done.stderr == ""
