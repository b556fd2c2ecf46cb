"""``agents``, ``schedules`` and ``history`` read a store beside its owner, and never change or make one."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, RetryPolicy
from agentkit.cli import main
from agentkit.testing import FakeClock, ManualRuntime


class Shop(Agent):
    """An agent with a bit of everything."""

    options = AgentOptions(timezone="Europe/Berlin", retry=RetryPolicy(max_attempts=1))

    async def fill(self) -> None:
        await self.schedule("0 9 * * 1-5", self.open_up, {"text": "open\x1b[31m up"}, key="open")
        await self.schedule(60, self.fail)
        paused = await self.schedule(3600, self.open_up)
        await self.pause_schedule(paused.id)

    async def open_up(self, payload: Any) -> None:
        """Do nothing."""

    async def fail(self) -> None:
        message = "no\x1b[2J milk"
        raise ValueError(message)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    """A runtime that serves the store while the commands look at it."""
    clock = FakeClock(datetime(2026, 11, 30, 18, 0, tzinfo=UTC))
    async with ManualRuntime(Shop, store=f"sqlite:///{tmp_path}/shop.db", clock=clock) as runtime:
        await runtime.get(Shop, "ada").fill()
        await runtime.advance(timedelta(minutes=2))
        yield runtime


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/shop.db"


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return what a command prints as JSON."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


async def test_agents(shop: ManualRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its next alarm, jobs to come and runs."""
    rows = listed(capsys, "agents", "--store", url(tmp_path))

    assert rows == [{"class": "Shop", "name": "ada", "next_alarm": "2026-12-01T08:00:00+00:00", "jobs": 2, "runs": 1}]


async def test_schedules(shop: ManualRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next to run first, paused ones last."""
    first, second = listed(capsys, "schedules", "Shop/ada", "--store", url(tmp_path))

    assert (first["cron"], first["next_run"], first["key"]) == ("0 9 * * 1-5", "2026-12-01T08:00:00+00:00", "open")
    assert (second["type"], second["paused"], second["next_run"]) == ("delayed", True, None)


async def test_history(shop: ManualRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that failed, with its error."""
    (run,) = listed(capsys, "history", "--failed", "--store", url(tmp_path))

    assert (run["function"], run["outcome"], run["attempts"]) == ("fail", "failed", 1)
    assert "ValueError" in run["error"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("agents",), "Shop/ada"),
        (("schedules",), 'every weekday at 09:00 Europe/Berlin, next 2026-12-01 09:00  {"text":"open'),
        (("history",), "ValueError: no milk"),
        (("history", "--errors"), "Traceback (most recent call last)"),
        (("history", "--limit", "1", "Shop/ada"), "failed"),
    ],
)
async def test_tables_for_people(
    shop: ManualRuntime,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    shown: str,
) -> None:
    """Nothing that users or errors wrote reaches the terminal as a control sequence."""
    code = main([*arguments, "--store", url(tmp_path)])

    printed = capsys.readouterr().out
    assert code == 0
    assert shown in printed
    assert "\x1b" not in printed


async def test_nothing_to_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty store is no error."""
    async with ManualRuntime(Shop, store=url(tmp_path)):
        codes = [main([command, "--store", url(tmp_path)]) for command in ("agents", "schedules", "history")]

    printed = capsys.readouterr().out.splitlines()
    assert codes == [0, 0, 0]
    assert printed == ["The store has no agents.", "Nothing is scheduled.", "No runs are recorded."]


@pytest.mark.parametrize("command", ["agents", "schedules", "history"])
def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Looking changes nothing, not even an empty folder."""
    code = main([command, "--store", url(tmp_path / "deeper")])

    assert code == 1
    assert "there is no store at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


async def test_a_store_at_rest_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a byte is written and no file appears, so that even a read-only folder can be looked at."""
    async with ManualRuntime(Shop, store=url(tmp_path)) as runtime:
        await runtime.get(Shop, "ada").fill()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)

    rows = listed(capsys, "agents", "--store", url(tmp_path))
    tmp_path.chmod(stat.S_IRWXU)

    assert len(rows) == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an agentkit store"),
        (b"hello, this is no database at all" * 50, "file is not a database"),
    ],
)
def test_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str) -> None:
    """It is named, and left alone."""
    (tmp_path / "shop.db").write_bytes(content)

    code = main(["agents", "--store", url(tmp_path)])

    assert code == 1
    assert message in capsys.readouterr().err
    assert (tmp_path / "shop.db").read_bytes() == content


@pytest.mark.parametrize(("version", "message"), [(99, "upgrade agentkit"), (0, "serve it once with this agentkit")])
async def test_another_schema_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int, message: str
) -> None:
    """A newer store needs a newer agentkit, an older one must be upgraded by its owner."""
    async with ManualRuntime(Shop, store=url(tmp_path)):
        pass
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute(f"pragma user_version={version}")
    connection.close()

    code = main(["history", "--store", url(tmp_path)])

    assert code == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("Shop/bob", "the store has no agent Shop/bob"),
        ("Shop", "names no agent; write CLASS/NAME"),
        ("/x", "names no agent"),
        ("x\x1b[2J/y", "the store has no agent x/y"),
    ],
)
async def test_an_agent_that_is_not_there(
    shop: ManualRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, message: str
) -> None:
    """The message says which there are."""
    code = main(["schedules", agent, "--store", url(tmp_path)])

    assert code == 1
    assert message in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="a path of another system")
def test_a_path_with_odd_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A question mark or a percent sign in a path is no option of SQLite's."""
    folder = tmp_path / "a?mode=rwc&b%41#c"
    folder.mkdir()

    code = main(["agents", "--store", url(folder)])

    assert code == 1
    assert list(folder.iterdir()) == []
