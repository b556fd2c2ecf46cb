"""``agentkit run``: what is served, and what is said when it can't be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.cli import main

BOTS = """
from agentkit import Agent, Runtime

class Bot(Agent):
    async def on_start(self):
        await self.schedule(0.05, self.hello, idempotent=True)

    async def hello(self):
        print("hello from", self.name, flush=True)

STORE = "sqlite:///bots.db"
runtime = Runtime(Bot, store=STORE)

def plain():
    return Runtime(Bot, store=STORE)

async def warm():
    runtime = plain()
    await runtime.start()
    await runtime.activate(Bot, "ada")
    return runtime

number = 5

def raises():
    raise ValueError("no luck")

def busy():
    return Runtime(Bot, store="mysql://x")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules, which is the current one."""
    name = f"bots_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BOTS)
    (tmp_path / f"{name}_broken.py").write_text("1 / 0\n")
    (tmp_path / f"{name}_needs.py").write_text("import no_such_library\n")
    (tmp_path / f"{name}_wrong.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / f"{name}.py"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}", "is not MODULE:NAME"),
        ("{}:", "is not MODULE:NAME"),
        ("{}.py:runtime", "name the module, as in {}:runtime"),
        ("no_such_module:runtime", "there is no module 'no_such_module'"),
        ("{}.deeper:runtime", "there is no module '{}.deeper'"),
        ("{}:missing", "has no 'missing'; it has runtime"),
        ("{}_needs:runtime", "imports 'no_such_library', which is not installed"),
        ("{}:number", "is of type int; name a Runtime"),
        ("{}:Bot", "is a class; name a Runtime"),
        ("{}:busy", "write sqlite:///bots.db"),
    ],
)
def test_a_target_that_can_not_be_served(
    folder: Path, capsys: pytest.CaptureFixture[str], target: str, message: str
) -> None:
    """One line says what to write instead."""
    code = main(["run", target.replace("{}", folder.stem)])

    printed = capsys.readouterr().err
    assert code == 1
    assert message.replace("{}", folder.stem) in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("target", "last_lines"),
    [
        ("{}_broken:runtime", ("ZeroDivisionError: division by zero", "importing the module raised ZeroDivisionError")),
        ("{}_wrong:runtime", ("SyntaxError: invalid syntax", "importing the module raised SyntaxError")),
        ("{}:raises", ("ValueError: no luck", "the function raised ValueError")),
    ],
)
def test_code_of_the_user_that_raises(
    folder: Path, capsys: pytest.CaptureFixture[str], target: str, last_lines: tuple[str, str]
) -> None:
    """Its own traceback is shown, without a frame of ours."""
    code = main(["run", target.replace("{}", folder.stem)])

    printed = capsys.readouterr().err
    assert code == 1
    assert last_lines[0] in printed
    assert last_lines[1] in printed
    assert "agentkit/cli" not in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_a_signal(folder: Path, number: signal.Signals) -> None:
    """Agents work meanwhile, and the end is clean."""
    command = [sys.executable, "-m", "agentkit.cli", "run", f"{folder.stem}:warm"]
    serving = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert serving.stdout is not None
    heard = serving.stdout.readline()

    serving.send_signal(number)
    _, errors = serving.communicate(timeout=30)

    assert heard == "hello from ada\n"
    assert serving.returncode == 0
    assert "ready; Ctrl+C or SIGTERM stops" in errors
