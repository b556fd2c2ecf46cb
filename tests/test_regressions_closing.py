"""Starting and closing: cancelled, at the same time, in one loop after another, and by a signal for several."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest

from agentkit import Agent, RetryPolicy, Runtime, from_thread
from agentkit.errors import RuntimeClosedError


class Slow(Agent):
    """Takes a while to answer."""

    async def answer(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "answer"


def writers() -> list[threading.Thread]:
    """Return the threads of open stores."""
    return [thread for thread in threading.enumerate() if thread.name == "agentkit-writer"]


async def under_way(runtime: Runtime, seconds: float) -> asyncio.Task[str]:
    """Return a call that has begun."""
    call = asyncio.ensure_future(runtime.get(Slow, "ada").answer(seconds))
    await asyncio.sleep(0.03)
    return call


async def test_cancelled_close_still_closes(tmp_path: Path) -> None:
    """It gives up the grace, not the store: another runtime can have that at once."""
    url = f"sqlite:///{tmp_path}/agents.db"
    runtime = Runtime(Slow, store=url)
    await runtime.start()
    call = await under_way(runtime, 60)

    closing = asyncio.ensure_future(runtime.close())
    await asyncio.sleep(0.03)
    closing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(RuntimeClosedError):
        await call
    assert writers() == []
    async with Runtime(Slow, store=url) as another:
        assert await another.get(Slow, "ada").answer(0) == "answer"


async def test_every_close_returns_when_it_is_closed(tmp_path: Path) -> None:
    """The second of two waits for the first: nobody goes on while calls are still finishing."""
    runtime = Runtime(Slow, store=f"sqlite:///{tmp_path}/agents.db")
    await runtime.start()
    call = await under_way(runtime, 0.2)

    first = asyncio.ensure_future(runtime.close())
    await asyncio.sleep(0)
    await runtime.close()

    assert call.done()
    assert await call == "answer"
    assert writers() == []
    await first


async def test_two_starts_make_one_runtime(tmp_path: Path) -> None:
    """Both return when it serves, and one close ends it."""
    runtime = Runtime(Slow, store=f"sqlite:///{tmp_path}/agents.db")

    await asyncio.gather(runtime.start(), runtime.start())
    answer = await runtime.get(Slow, "ada").answer(0)
    await runtime.close()

    assert answer == "answer"
    assert writers() == []


def test_runtime_serves_in_one_loop_after_another(tmp_path: Path) -> None:
    """Closing a busy runtime works in the second loop as in the first."""
    runtime = Runtime(Slow, store=f"sqlite:///{tmp_path}/agents.db", shutdown_grace=5)

    async def use() -> str:
        async with runtime:
            call = await under_way(runtime, 0.1)
        return await call

    assert [asyncio.run(use()), asyncio.run(use())] == ["answer"] * 2


async def test_second_signal_counts_for_one_close_only(tmp_path: Path) -> None:
    """A drain that was cut short once leaves the grace of later ones as it is."""
    runtime = Runtime(Slow, store=f"sqlite:///{tmp_path}/agents.db", shutdown_grace=5)
    await runtime.start()
    serving = asyncio.ensure_future(runtime.run())
    cut_off = await under_way(runtime, 60)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.03)
    await serving
    with pytest.raises(RuntimeClosedError):
        await cut_off

    async with runtime:
        call = await under_way(runtime, 0.1)

    assert await call == "answer"


async def test_signal_stops_every_runtime_of_a_loop(tmp_path: Path) -> None:
    """Two that serve side by side end with one SIGTERM."""
    one, other = (Runtime(Slow, store=f"sqlite:///{tmp_path}/{name}.db") for name in ("one", "other"))

    async with one, other, asyncio.timeout(5):
        serving = asyncio.gather(one.run(), other.run())
        await asyncio.sleep(0.03)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    assert writers() == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_cancelled_start_leaves_nothing_open(tmp_path: Path, turns: int) -> None:
    """Whenever it is cancelled: nothing goes on serving, and another runtime can have the store."""
    url = f"sqlite:///{tmp_path}/agents.db"
    runtime = Runtime(Slow, store=url)
    starting = asyncio.ensure_future(runtime.start())
    for _ in range(turns):
        await asyncio.sleep(0)

    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled():  # it was quicker
        await runtime.close()

    assert writers() == []
    async with Runtime(Slow, store=url) as another:
        assert await another.get(Slow, "ada").answer(0) == "answer"


class Waiting(Agent):
    """Has a job that waits, without a second attempt."""

    async def plan(self) -> None:
        await self.schedule(0.01, self.wait, retry=RetryPolicy(max_attempts=1))

    async def wait(self) -> None:
        self.deps.append(asyncio.current_task())
        await asyncio.sleep(60)

    async def left(self) -> tuple[int, int]:
        return len(await self.list_schedules()), len(await self.history())


async def test_cancelled_alarm_spends_no_attempt(tmp_path: Path) -> None:
    """A program that cancels every task before it closes cuts jobs off, as closing does (SPEC 5.3)."""
    url = f"sqlite:///{tmp_path}/agents.db"
    tasks: list[asyncio.Task[None]] = []
    async with Runtime(Waiting, store=url, deps=tasks, shutdown_grace=0) as runtime:
        await runtime.get(Waiting, "ada").plan()
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        await asyncio.wait(tasks, timeout=5)

    async with Runtime(Waiting, store=url, deps=tasks, shutdown_grace=0) as runtime:
        left = await runtime.get(Waiting, "ada").left()

    assert tasks[0].cancelled()
    assert left == (1, 0)


class Threaded(Agent):
    """A plain callback that outlives its event loop."""

    async def plan(self) -> None:
        await self.schedule(0.01, self.linger)

    def linger(self) -> None:
        time.sleep(0.3)
        try:
            from_thread(self.storage.put("late", 1))
        except Exception as error:
            self.deps.append(error)


def test_thread_that_outlives_its_loop_is_refused(tmp_path: Path) -> None:
    """``from_thread`` raises there, and leaves no coroutine behind that was never awaited."""
    errors: list[Exception] = []

    async def serve() -> None:
        async with Runtime(Threaded, store=f"sqlite:///{tmp_path}/agents.db", deps=errors, shutdown_grace=0) as runtime:
            await runtime.get(Threaded, "ada").plan()
            await asyncio.sleep(0.1)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(serve())
        time.sleep(0.4)

    assert [type(error) for error in errors] == [RuntimeClosedError]
    assert [str(warning.message) for warning in warned if "never awaited" in str(warning.message)] == []


async def test_start_waits_for_a_close_under_way(tmp_path: Path) -> None:
    """However far a close has got, a second one ends with it and a start begins after it."""
    url = f"sqlite:///{tmp_path}/agents.db"
    for turns in range(0, 60, 3):
        runtime = Runtime(Slow, store=url)
        await runtime.start()
        closing = asyncio.ensure_future(runtime.close())
        for _ in range(turns):
            await asyncio.sleep(0)

        await runtime.close()
        assert writers() == []
        await runtime.start()
        await closing

        assert await runtime.get(Slow, "ada").answer(0) == "answer"
        await runtime.close()
