"""``cancel``, ``pause``, ``resume``, ``run-now`` and ``requeue`` on a store that no process serves."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentkit import Agent, AgentOptions, RetryPolicy
from agentkit.cli import main
from agentkit.testing import FakeClock, ManualRuntime

# Later than the machine's own clock, by which the commands go.
START = datetime(2100, 11, 30, 18, 0, tzinfo=UTC)


class Shop(Agent):
    """Works daily, and has failed once."""

    options = AgentOptions(retry=RetryPolicy(max_attempts=1))
    is_broken = True

    async def fill(self) -> None:
        await self.schedule("0 9 * * *", self.open_up, key="open")
        await self.schedule(60, self.fail)

    async def open_up(self) -> None:
        await self.storage.put("opened", await self.storage.get("opened", 0) + 1)

    async def fail(self) -> None:
        if Shop.is_broken:
            message = "no milk"
            raise ValueError(message)
        await self.storage.put("repaired", True)

    async def facts(self) -> dict[str, object]:
        found: dict[str, object] = await self.storage.list()
        return found


def serve(folder: Path, work: Callable[[ManualRuntime], object], start: datetime = START) -> object:
    """Serve the store for as long as a coroutine function takes."""

    async def serving() -> object:
        async with ManualRuntime(Shop, store=f"sqlite:///{folder}/shop.db", clock=FakeClock(start)) as runtime:
            return await work(runtime)  # type: ignore[misc]  # a coroutine function

    return asyncio.run(serving())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that was served once."""
    monkeypatch.setenv("AGENTKIT_STORE", f"sqlite:///{tmp_path}/shop.db")

    async def fill(runtime: ManualRuntime) -> None:
        await runtime.get(Shop, "ada").fill()
        await runtime.advance(timedelta(minutes=2))

    serve(tmp_path, fill)
    return tmp_path


def described(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the schedules as the command line describes them."""
    assert main(["schedules", "--json"]) == 0
    return [schedule["description"] for schedule in json.loads(capsys.readouterr().out)]


def test_cancel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The schedule is gone; a second time there is none."""
    codes = [main(["cancel", "Shop/ada", "key:open"]) for _ in range(2)]

    printed = capsys.readouterr()
    assert codes == [0, 1]
    assert printed.out == "key:open of Shop/ada: cancelled\n"
    assert "has no schedule 'key:open'" in printed.err
    assert described(capsys) == []


def test_pause_and_resume(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is paused stays paused when the store is served, until it is resumed."""

    async def a_day(runtime: ManualRuntime) -> object:
        await runtime.advance(timedelta(days=1))
        return await runtime.get(Shop, "ada").facts()

    main(["pause", "Shop/ada", "key:open"])
    rested = serve(folder, a_day)
    main(["resume", "Shop/ada", "key:open"])
    worked = serve(folder, a_day)

    # The resumed one was due by the machine's clock, long before the day that is served: that run is caught up on.
    assert (rested, worked) == ({}, {"opened": 2})


def test_run_now(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs when the store is served again, and goes on as before."""

    async def look(runtime: ManualRuntime) -> object:
        await runtime.advance(timedelta(seconds=1))
        return await runtime.get(Shop, "ada").facts()

    code = main(["run-now", "Shop/ada", "key:open", "--json"])
    done = json.loads(capsys.readouterr().out)

    assert (code, done) == (0, {"agent": "Shop/ada", "id": "key:open", "done": "run-now"})
    assert serve(folder, look) == {"opened": 1}
    assert len(described(capsys)) == 1


def test_requeue(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that failed is tried again once the code has been repaired."""

    async def look(runtime: ManualRuntime) -> object:
        await runtime.advance(timedelta(seconds=1))
        return await runtime.get(Shop, "ada").facts()

    main(["history", "--failed", "--json"])
    (failed,) = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(Shop, "is_broken", False)

    codes = [main(["requeue", "Shop/ada", failed["run_id"]]), main(["requeue", "Shop/ada", "nonsense"])]

    assert codes == [0, 1]
    assert serve(folder, look) == {"repaired": True}


def test_a_job_that_a_crash_cut_off_still_counts_as_cut_off(folder: Path) -> None:
    """The mark that tells the next start whom a crash hit is left where it was."""
    connection = sqlite3.connect(folder / "shop.db", isolation_level=None)
    connection.execute("update agents set node='dead', running='key:open'")

    code = main(["pause", "Shop/ada", "key:open"])

    found = connection.execute("select node, running, crash_strikes from agents").fetchall()
    connection.close()
    assert code == 0
    assert found == [(None, "key:open", 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cancel", "Shop/bob", "x"), "the store has no agent Shop/bob"),
        (("cancel", "Shop", "x"), "names no agent"),
        (("pause", "Shop/ada", "x"), "Shop/ada has no schedule 'x'"),
        (("requeue", "Shop/ada", "x"), "no failed or set-aside run 'x'"),
    ],
)
def test_mistakes_change_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 1, and a message."""
    before = described(capsys)

    code = main(arguments)

    assert code == 1
    assert message in capsys.readouterr().err
    assert described(capsys) == before


def test_a_store_that_is_served_is_left_to_its_owner(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says why nothing was done."""

    async def meanwhile(runtime: ManualRuntime) -> object:
        return await asyncio.to_thread(main, ["cancel", "Shop/ada", "key:open"])

    code = serve(folder, meanwhile)

    assert code == 1
    assert "is in use by another agentkit process" in capsys.readouterr().err


def test_no_store_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong path is a message."""
    code = main(["cancel", "Shop/ada", "x", "--store", f"sqlite:///{tmp_path}/nope.db"])

    assert code == 1
    assert "there is no store at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
