"""The coding agent's hour away, on real engines: everything but the model's words happens (SPEC 14)."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit.harness import ReplayModel
from agentkit.sandbox.engine import SandboxEngine
from agentkit.testing import ManualRuntime
from examples.coding_agent.agent import CodingAgent, Order, Progress
from examples.coding_agent.main import REPLAY, Deps
from examples.coding_agent.sample import LOST_CENT, Bug, make_sample
from tests.examples.test_coding_agent_project import LOST_ZEROS
from tests.sandbox.engines import CANDIDATES, needs

ROOT = Path(__file__).parent.parent.parent
TASK = "A test fails. Mend it."

pytestmark = [needs("process_tree", "allowlist"), pytest.mark.timeout(400)]


#: What has nothing to do with the engine runs on Docker alone: each of these installs packages.
ONCE = needs("images")


class Notes:
    """A ``Watcher`` that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self, text: str) -> None:
        self.told.append(text)

    def detail(self, text: str) -> None:
        self.told.append(text)

    def finished(self) -> None:
        self.told.append("finished")


def settings(engine: SandboxEngine, notes: Notes, *, keep: bool = False) -> Deps:
    """Return what the agent is given."""
    return Deps(
        model=ReplayModel(REPLAY),
        engine=engine,
        image=CANDIDATES[engine.name].image,
        hosts=(),
        token=None,
        keep=keep,
        watcher=notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """An agent's hour: where it was while away, where it is now, and what is left of its sandboxes."""

    away: Progress
    ran_while_away: int
    back: Progress
    left: int
    saved: int


async def spend(engine: SandboxEngine, repository: Path, *, crashes: bool = False) -> Hour:
    """Give an agent a task, and move the clock an hour on."""
    deps = settings(engine, Notes())
    async with ManualRuntime(CodingAgent, deps=deps, real_timeout=180) as runtime:
        store = runtime.store.id

        async def ours() -> list[bool]:
            found = await engine.instances()
            return [instance.is_running for instance in found if instance.labels["agentkit.store"] == store]

        agent = runtime.get(CodingAgent, "mend")
        await agent.begin(Order(repository=str(repository), task=TASK))
        await runtime.advance(0)
        away, running = await agent.progress(), sum(await ours())
        if crashes:
            await runtime.crash()
        await runtime.advance(timedelta(hours=1))
        back = await runtime.get(CodingAgent, "mend").progress()
        saved = [image for image in await engine.saved() if image.labels["agentkit.store"] == store]
        return Hour(away=away, ran_while_away=running, back=back, left=len(await ours()), saved=len(saved))


@pytest.mark.parametrize(("bug", "crashes"), [(LOST_CENT, True), pytest.param(LOST_ZEROS, False, marks=ONCE)])
async def test_work_goes_on_an_hour_later(engine: SandboxEngine, tmp_path: Path, bug: Bug, crashes: bool) -> None:
    """Another bug in another file gives another diff; nothing runs during the hour, nothing is left at its end."""
    repository = make_sample(tmp_path / "bills", bug, ignores=not crashes)

    hour = await spend(engine, repository, crashes=crashes)

    result = hour.back.result
    assert (hour.away.phase, hour.ran_while_away) == ("away", 0)
    assert (hour.back.phase, result.ended, result.tests_passed) == ("done", "completed", True)
    assert f"diff --git a/{bug.path} b/{bug.path}" in result.diff
    assert [f"+{line}" in result.diff.splitlines() for line in bug.right.splitlines() if line.startswith(" ")].count(
        False
    ) == 0
    assert bug.message in result.diff
    assert result.diff.count("diff --git") == 2
    assert "4 passed" in result.tests
    assert ["together" in page for page in result.page] == [True, True]
    assert (hour.left, hour.saved) == (0, 0)


@ONCE
async def test_tests_that_still_fail_are_told(engine: SandboxEngine, tmp_path: Path) -> None:
    """The replay undoes one change and nothing else: what the tests say is what they said."""
    repository = make_sample(tmp_path / "bills")
    test = repository / "tests" / "test_split.py"
    test.write_text(test.read_text().replace("== [300, 300, 300]", "== [300, 300, 301]"))
    await commit(repository)

    hour = await spend(engine, repository)

    assert (hour.back.phase, hour.back.result.tests_passed) == ("done", False)
    assert "1 failed, 3 passed" in hour.back.result.tests
    assert "1 failed, 3 passed" in hour.back.result.report


async def commit(repository: Path) -> None:
    """Commit what was changed."""
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    process = await asyncio.create_subprocess_exec(
        "git", "-C", str(repository), *who, "commit", "--quiet", "--all", "--message", "Expect another share"
    )
    assert await process.wait() == 0


async def test_killed_at_any_step_it_finishes(engine: SandboxEngine, tmp_path: Path) -> None:
    """Killed in the clone, in a test run, in the snapshot, while away, and at the very end, it goes on each time."""
    repository = make_sample(tmp_path / "bills")
    command = [sys.executable, "-m", "examples.coding_agent", "--repo", str(repository), "--task", TASK]
    command += ["--resume-after", "10s", "--engine", engine.name, "--store", f"sqlite:///{tmp_path}/agent.db"]
    command += ["--image", CANDIDATES[engine.name].image]

    for moment in ("Cloning", "list_files:", "Saving a snapshot", "Away until", "a last time", "Removing"):
        printed = await run_until(command, moment)
        assert moment in printed
    last = await run_until(command, None)

    assert "no model was called" in last.splitlines()[0]
    assert "Tests: passed" in last
    assert "answered 2 times" in last


async def run_until(command: list[str], moment: str | None) -> str:
    """Run a command to its end, or until a line with a text comes and kill it there; returns what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    assert process.stdout is not None
    lines = []
    async for line in process.stdout:
        lines.append(line.decode())
        if moment is not None and moment in lines[-1]:
            process.kill()
            break
    await process.wait()
    return "".join(lines)
