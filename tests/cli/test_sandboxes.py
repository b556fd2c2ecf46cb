"""``agentkit sandboxes`` and ``doctor`` where there is no engine, or nothing that can be done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentkit import Agent
from agentkit.cli import main
from agentkit.sandbox.engines import close_engines
from agentkit.testing import ManualRuntime


class Bot(Agent):
    """An agent."""


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """Return a store at rest with an agent in it."""
    url = f"sqlite:///{tmp_path}/bots.db"
    async with ManualRuntime(Bot, store=url) as runtime:
        await runtime.get(Bot, "ada").set_timezone("Europe/Berlin")
    return url


@pytest.fixture
def no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Docker be looked for where it isn't, also if another test has found it already."""
    asyncio.run(close_engines())
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


def test_engine_that_is_away_is_named(no_docker: None, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what may help, on one line, and exit code 1."""
    code = main(["sandboxes", "--engine", "docker", "--store", store])

    error = capsys.readouterr().err
    assert code == 1
    assert "none.sock" in error
    assert "Traceback" not in error


def test_engine_that_could_not_be_asked_is_never_left_out_in_silence(
    no_docker: None, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether another one works or not: what it has is not known, so nothing is said to be clean."""
    code = main(["sandboxes", "clean-up", "--store", store])

    assert code == 1
    assert "none.sock" in capsys.readouterr().err


def test_doctor_needs_no_engine(no_docker: None, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An engine that is away is optional, and says how to get it."""
    code = main(["doctor", "--json", "--store", store])

    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert code == 0
    assert checks["docker"]["state"] == "missing"
    assert "none.sock" in checks["docker"]["found"]
    assert checks["docker"]["fix"]
    assert checks["bubblewrap"]["state"] in ("ok", "missing")


@pytest.mark.parametrize(
    "arguments", [["stop"], ["destroy"], ["clean-up", "Bot/ada"], ["stop", "Bot/eve"], ["stop", "no name"]]
)
def test_wrong_arguments_say_so(arguments: list[str], store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any engine is asked."""
    code = main(["sandboxes", *arguments, "--store", store])

    assert code == 1
    assert "agentkit: error:" in capsys.readouterr().err


def test_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None is made."""
    code = main(["sandboxes", "--store", f"sqlite:///{tmp_path}/none.db"])

    assert code == 1
    assert "there is no store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
