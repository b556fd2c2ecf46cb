"""``agentkit doctor`` says what works, and how to fix the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent
from agentkit.cli import main
from agentkit.cli.local_zone import local_zone
from agentkit.testing import ManualRuntime


class Bot(Agent):
    """An agent."""


def checks(capsys: pytest.CaptureFixture[str], folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the checks by name."""
    code = main(["doctor", "--json", "--store", f"sqlite:///{folder}/bots.db"])
    return code, {check["name"]: check for check in json.loads(capsys.readouterr().out)}


async def test_a_good_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside its owner too."""
    async with ManualRuntime(Bot, store=f"sqlite:///{tmp_path}/bots.db") as runtime:
        await runtime.get(Bot, "ada").set_timezone("Europe/Berlin")
        code, found = checks(capsys, tmp_path)

    assert code == 0
    assert found["store"]["found"].endswith("bots.db: 1 agents, quick_check ok")
    assert {found[name]["state"] for name in ("Python", "SQLite", "croniter", "time zones")} == {"ok"}


def test_no_store_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That is fine, and none is made."""
    code, found = checks(capsys, tmp_path)

    assert code == 0
    assert "doesn't exist yet" in found["store"]["found"]
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and what to do."""
    (tmp_path / "bots.db").write_bytes(b"no database" * 100)

    code, found = checks(capsys, tmp_path)

    assert code == 1
    assert found["store"]["state"] == "failed"
    assert found["store"]["fix"]


async def test_a_store_others_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning with the command that mends it."""
    async with ManualRuntime(Bot, store=f"sqlite:///{tmp_path}/bots.db"):
        pass
    (tmp_path / "bots.db").chmod(0o644)

    code, found = checks(capsys, tmp_path)

    assert code == 0
    assert found["store"]["fix"] == f"chmod 600 {tmp_path}/bots.db"


def test_keys_are_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only whether there is one."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    code = main(["doctor", "--store", f"sqlite:///{tmp_path}/bots.db"])

    printed = capsys.readouterr()
    assert code == 0
    assert "secret" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("zone", "found"), [("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("Etc/UTC", "UTC")]
)
def test_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch, zone: str, found: str) -> None:
    """$TZ comes first."""
    monkeypatch.setenv("TZ", zone)

    assert local_zone() == found


def test_an_unknown_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone that is no IANA name is passed over."""
    monkeypatch.setenv("TZ", "CET-1CEST")

    assert "/" in local_zone() or local_zone() == "UTC"
