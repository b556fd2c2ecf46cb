"""Runs whose end could not be settled, and so began again for ever."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from agentkit import JobContext, RescheduleAt, RetryPolicy, Runtime
from tests.jobs.worker import Run, Script, Start, Worker, history

ONCE = RetryPolicy(max_attempts=1)


class Unshown:
    """An object that can't be printed."""

    def __repr__(self) -> str:
        raise RuntimeError


class Odd(BaseException):
    """What no ``except Exception`` sees."""


async def unencodable(agent: Worker, context: JobContext) -> None:
    """Raise an error that names a file as ``os.listdir`` gives it."""
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    message = f"can't read {name}"
    raise ValueError(message)


async def unshown(agent: Worker, context: JobContext) -> Any:
    """Return what a run may not return, and what can't be printed either."""
    return Unshown()


async def odd(agent: Worker, context: JobContext) -> None:
    """Raise what isn't an ``Exception``."""
    raise Odd


async def leave(agent: Worker, context: JobContext) -> None:
    """Do what ``argparse`` does with a wrong argument."""
    sys.exit(2)


@pytest.mark.parametrize("run", [unencodable, unshown, odd, leave])
async def test_run_that_ends_oddly_fails_once(manual_runtime: Start, run: Run) -> None:
    """It is in the history as failed, and does not run again."""
    script = Script(run=run)
    runtime = await manual_runtime(Worker, deps=script, real_timeout=5)
    await runtime.get(Worker, "ada").push("run", after=1, retry=ONCE)

    await runtime.advance(600)

    assert script.log == ["run"]
    assert [(entry.outcome, entry.attempts) for entry in await history(runtime)] == [("failed", 1)]


async def cancel_itself(agent: Worker, context: JobContext) -> None:
    """Cancel the task that runs the job, the first time."""
    if len(agent.deps.log) == 1:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)


async def test_job_that_cancels_its_alarm_is_tried_again_later(manual_runtime: Start) -> None:
    """It is cut off, which uses no attempt, and comes back after a wait instead of at once."""
    script = Script(run=cancel_itself)
    runtime = await manual_runtime(Worker, deps=script, real_timeout=5)
    await runtime.get(Worker, "ada").push("run", after=1, retry=ONCE)

    await runtime.advance(60)

    assert script.log == ["run", "run"]
    assert [(entry.outcome, entry.attempts) for entry in await history(runtime)] == [("completed", 1)]


async def test_job_moved_before_the_first_year_can_be_listed(manual_runtime: Start) -> None:
    """A moment that no UTC datetime can tell is the earliest that one can."""
    earliest = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))

    async def move(agent: Worker, context: JobContext) -> Any:
        return RescheduleAt(earliest) if len(agent.deps.log) == 1 else None

    script = Script(move=move)
    runtime = await manual_runtime(Worker, deps=script, real_timeout=5)
    await runtime.get(Worker, "ada").push("move", after=1)

    await runtime.advance(10)

    assert script.log == ["move", "move"]
    assert await runtime.get(Worker, "ada").jobs() == []


async def test_failure_because_of_another_runtime_counts_as_an_attempt(manual_runtime: Start) -> None:
    """A runtime of the job's own that is closed is no failure of the platform that runs it (SPEC 5.3)."""
    closed = Runtime(Worker, store="sqlite:///:memory:")

    async def ask(agent: Worker, context: JobContext) -> None:
        try:
            await closed.get(Worker, "ada").jobs()
        except Exception as error:
            message = "upstream failed"
            raise ValueError(message) from error

    script = Script(ask=ask)
    runtime = await manual_runtime(Worker, deps=script, real_timeout=5)
    await runtime.get(Worker, "ada").push("ask", after=1, retry=RetryPolicy(max_attempts=2))

    await runtime.advance(600)

    assert script.log == ["ask"] * 2
    assert [(entry.outcome, entry.attempts) for entry in await history(runtime)] == [("failed", 2)]


async def test_hung_job_of_a_suspect_stops_no_other_agent(manual_runtime: Start) -> None:
    """An agent with a strike runs alone, but nobody waits for it longer than half a minute (SPEC 4.8, 7.5)."""

    async def hang(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(1_000_000)

    script = Script(hang=hang)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "suspect").push("hang", after=1)
    await runtime.advance(2)
    await runtime.crash()
    await runtime.advance(1)
    await runtime.get(Worker, "other").push("quick", after=60)

    await runtime.advance(100)

    assert script.log == ["hang", "hang", "quick"]


async def test_suspect_waits_no_longer_for_a_hung_job_of_others(manual_runtime: Start) -> None:
    """It has its turn beside a job that never ends, and so have those who came after it."""

    async def hang(agent: Worker, context: JobContext) -> None:
        await agent.lifecycle.clock.sleep(1_000_000)

    async def exhaust(agent: Worker, context: JobContext) -> None:
        if agent.deps.log == ["exhaust"]:
            raise MemoryError

    script = Script(hang=hang, exhaust=exhaust)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "suspect").push("exhaust", after=1)
    await runtime.get(Worker, "healthy").push("hang", after=10)
    await runtime.get(Worker, "late").push("late", after=40)

    await runtime.advance(100)

    assert script.log[:2] == ["exhaust", "hang"]
    assert sorted(script.log[2:]) == ["exhaust", "late"]


async def test_cancelled_job_does_not_run_after_the_one_before_it(manual_runtime: Start) -> None:
    """The queue is read again when an outcome is on disk: what a call cancelled meanwhile is left out (SPEC 4.6)."""

    async def first(agent: Worker, context: JobContext) -> None:
        # While the outcome of this run is on its way to the disk.
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: tasks.append(loop.create_task(agent.lifecycle.jobs.cancel("second"))))

    tasks: list[asyncio.Task[bool]] = []
    script = Script(first=first)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("first", after=1)
    await ada.push("second", after=1, id="second")

    await runtime.advance(10)

    assert await tasks[0] is True
    assert script.log == ["first"]
