"""Failures that users of other schedulers reported: the table in ``reports.md`` is complete, and tests of its own.

The tests here are those of rows that fit no single part of the package; their docstrings name the row.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, RetryPolicy
from agentkit.clock import RECHECK_SECONDS, SystemClock
from agentkit.testing import FakeClock, ManualRuntime
from tests.report_table import incomplete, missing_tests, reports

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_name("reports.md")
# Numbers that were merged with others are not given again.
NUMBERS = [*range(1, 7), *range(8, 15), 16, *range(17, 21), 22, 23, *range(25, 29), *range(30, 41), 42, 44, 45, 47]
NUMBERS += range(49, 54)

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


# --- the table


def test_every_report_is_in_the_table_once() -> None:
    """The table is complete and in order."""
    rows = reports(TABLE.read_text(encoding="utf-8"))

    assert [row.number for row in rows] == NUMBERS


def test_every_report_names_tests_or_a_reason() -> None:
    """No row is empty: it has threads, words, and tests or why it doesn't apply."""
    assert incomplete(reports(TABLE.read_text(encoding="utf-8"))) == []


def test_every_test_of_the_table_exists() -> None:
    """A test that was renamed or removed is missed here."""
    rows = reports(TABLE.read_text(encoding="utf-8"))

    assert missing_tests(rows, ROOT) == []


def test_missing_test_is_noticed(tmp_path: Path) -> None:
    """The check finds a test in a class, and misses one that is only mentioned."""
    (tmp_path / "test_a.py").write_text("class TestA:\n    async def test_b(self): ...\n# def test_c(): ...\n")
    row = "| 1 | x #1 | it broke | `test_a.py::test_b`, `test_a.py::test_c`, `test_d.py::test_b` |"

    missing = missing_tests(reports(row), tmp_path)

    assert missing == ["test_a.py::test_c", "test_d.py::test_b"]


# --- tests of rows


@dataclass
class Log:
    """What callbacks did, and what they are to do.

    Attributes:
        runs: When each began, with its payload.
        failures: How many attempts are still to fail.
        block: What a run does without giving way.
        takes: How long a run takes.
        fails_to_start: Start-up raises, at its end.
        is_over: The test has ended: what ignores its cancellation may stop.
    """

    runs: list[tuple[datetime, Any]] = field(default_factory=list)
    failures: int = 0
    block: Callable[[], None] | None = None
    takes: timedelta = timedelta(0)
    fails_to_start: bool = False
    is_over: bool = False

    @property
    def times(self) -> list[datetime]:
        """Return when runs began."""
        return [at for at, _ in self.runs]


class Bot(Agent[None]):
    """Does what its log says."""

    async def remind(self, payload: Any) -> None:
        """Note the run."""
        self.deps.runs.append((self.lifecycle.clock.now(), payload))
        if self.deps.block is not None:
            self.deps.block()
        if self.deps.takes:
            await self.lifecycle.clock.sleep(self.deps.takes)
        if self.deps.failures > 0:
            self.deps.failures -= 1
            raise LookupError

    async def number(self, payload: int) -> None:
        """Take a number."""
        await self.remind(payload)

    async def deaf(self, payload: Any) -> None:
        """Ignore cancellation."""
        self.deps.runs.append((self.lifecycle.clock.now(), payload))
        while not self.deps.is_over:
            try:
                await self.lifecycle.clock.sleep(HOUR)
            except asyncio.CancelledError:
                if self.deps.is_over:
                    raise


class Crashing(Agent[None]):
    """Schedules things while it starts, and may not get through."""

    async def on_start(self) -> None:
        """Make two schedules, then fail."""
        await self.schedule("0 * * * *", self.remind)
        await self.schedule_every(HOUR, self.remind)
        await self.schedule(600, self.remind, key="once")
        if self.deps.fails_to_start:
            raise OSError

    async def remind(self) -> None:
        """Note the run."""
        self.deps.runs.append((self.lifecycle.clock.now(), None))


@pytest.fixture
def log() -> Log:
    """Return what the callbacks of this test go by."""
    return Log()


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands at the start of 2026."""
    return FakeClock(START)


@pytest.fixture
async def runtime(log: Log, clock: FakeClock, tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    """Return a runtime on the clock, with a store in a file."""
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Bot, Crashing, deps=log, clock=clock, store=store) as runtime:
        yield runtime
        log.is_over = True


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


async def test_zero_is_not_the_same_as_not_given(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 19: no delay means no delay, and the schedule shows the policy that holds."""
    log.failures = 2
    given = await bot.schedule(0, "remind", retry=RetryPolicy(base_delay=0))
    left_out = await bot.schedule("0 9 * * *", "remind")

    await runtime.advance(0)

    assert log.times == [START] * 3
    assert given.retry.base_delay == timedelta(0)
    assert (left_out.retry.base_delay, left_out.timeout, left_out.catch_up) == (None, None, "once")


async def test_restart_runs_nothing_at_once(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 20: a restart between two occurrences runs neither of them."""
    await bot.schedule("0 * * * *", "remind", catch_up="all")
    await bot.schedule_every(HOUR, "remind", catch_up="all")
    await runtime.advance(30 * MINUTE)

    await runtime.crash()
    await runtime.close()
    await runtime.start()
    await runtime.advance(29 * MINUTE)

    assert log.runs == []


class HastyLoop(asyncio.SelectorEventLoop):
    """An event loop whose long waits are over at once, as if its clock ran away from the wall clock."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def call_later(  # type: ignore[override]  # passed on as it comes
        self, delay: float, callback: Any, *args: Any, **keywords: Any
    ) -> asyncio.TimerHandle:
        """Note how long was to be waited, and cut it short."""
        self.waits.append(delay)
        return super().call_later(0 if delay >= 1 else delay, callback, *args, **keywords)


def test_wall_clock_is_read_again_every_thirty_seconds() -> None:
    """Reports 23 and 25: a wait of ten years is many short ones, each ended by a look at the wall clock."""
    loop = HastyLoop()
    fired: list[int] = []

    async def wait() -> None:
        clock = SystemClock()
        far = clock.call_at(clock.now_ms() + 10 * 365 * 86_400_000, lambda: fired.append(1))
        while len(loop.waits) < 50:
            await asyncio.sleep(0)
        far.cancel()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(wait())

    assert loop.waits == [pytest.approx(RECHECK_SECONDS, abs=0.001)] * len(loop.waits)
    assert RECHECK_SECONDS <= 30
    assert fired == []


async def test_run_now_waits_for_no_second_flight(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 27: a run asked for by hand is left out, too, while an earlier one is alive, and the event says so."""
    options: dict[str, Any] = {"timeout": 1, "retry": RetryPolicy(max_attempts=1)}
    made = await bot.schedule_every(HOUR, "deaf", **options)
    await runtime.advance(HOUR + 10 * SECOND)

    await bot.run_schedule_now(made.id)
    await runtime.advance(SECOND)

    assert log.times == [START + HOUR]
    assert runtime.events.count("schedule:skip") == 1
    [left] = await bot.list_schedules()
    assert left.next_run == START + 2 * HOUR


async def test_crash_loop_piles_nothing_up(runtime: ManualRuntime, log: Log) -> None:
    """Report 32: fifty start-ups that fail after scheduling leave what one does."""
    log.fails_to_start = True
    for _ in range(50):
        with pytest.raises(OSError):
            await runtime.activate(Crashing, "ada")

    log.fails_to_start = False
    schedules = await runtime.get(Crashing, "ada").list_schedules()
    await runtime.advance(HOUR)

    assert sorted(schedule.type for schedule in schedules) == ["cron", "delayed", "interval"]
    assert log.times == [START + 10 * MINUTE, START + HOUR, START + HOUR]


async def test_job_that_waits_is_never_copied(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 34: a job two weeks away, over crashes, evictions and calls, runs once."""
    await bot.schedule(14 * DAY, "remind")

    for _ in range(13):
        await runtime.advance(DAY)
        await runtime.crash()
        await bot.list_schedules()
        await runtime.evict(Bot, "ada")
    await runtime.advance(7 * DAY)

    assert log.times == [START + 14 * DAY]


async def test_blocked_event_loop_runs_nothing_twice(
    runtime: ManualRuntime, bot: Bot, log: Log, clock: FakeClock
) -> None:
    """Report 35: a callback that blocks everything for an hour has one run, and the process goes on."""

    def block() -> None:
        log.block = None
        clock.move_to(clock.now() + HOUR)

    log.block = block
    await bot.schedule(60, "remind", 1)
    await bot.schedule(90, "remind", 2)
    await runtime.get(Bot, "bob").schedule(120, "remind", 3)

    await runtime.advance(2 * HOUR)

    assert sorted(payload for _, payload in log.runs) == [1, 2, 3]
    assert [run.outcome for run in await bot.history()] == ["completed", "completed"]


async def test_long_timeout_delays_no_recovery(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 40: a run cut off by a crash comes again at once, though it may take ten hours."""
    log.takes = HOUR
    await bot.schedule(60, "remind", timeout=10 * HOUR)
    await runtime.advance(2 * MINUTE)

    log.takes = timedelta(0)
    await runtime.crash()
    await runtime.advance(0)

    assert log.times == [START + MINUTE, START + 2 * MINUTE]


@pytest.mark.parametrize("stored", ["gone", "invalid"])
async def test_job_that_cannot_run_holds_no_other_up(log: Log, tmp_path: Path, stored: str) -> None:
    """Report 42: a callback that is gone or a payload that no longer fits is its own trouble, not the others'."""
    store = f"sqlite:///{tmp_path}/agents.db"

    class Before(Agent[None]):
        options = AgentOptions(name="Bot")

        async def number(self, payload: Any) -> None:
            """Take anything."""

        async def gone(self, payload: Any) -> None:
            """Be taken away."""

        async def remind(self, payload: Any) -> None:
            """Stay."""

    async with ManualRuntime(Before, store=store, deps=log) as runtime:
        before = runtime.get(Before, "ada")
        await before.schedule(60, "number" if stored == "invalid" else "gone", "no number")
        await before.schedule(60, "remind", 1)
        await before.schedule(60, "remind", 2)

    async with ManualRuntime(Bot, store=store, deps=log) as runtime:
        await runtime.advance(MINUTE)
        outcomes = [run.outcome for run in await runtime.get(Bot, "ada").history()]

    assert [payload for _, payload in log.runs] == [1, 2]
    assert outcomes == ["completed", "completed", "orphaned" if stored == "invalid" else "failed"]


async def test_retry_may_be_weeks_away(runtime: ManualRuntime, bot: Bot, log: Log) -> None:
    """Report 47: neither the job nor its count of attempts expires while it waits to be tried again."""
    log.failures = 2
    policy = RetryPolicy(max_attempts=3, base_delay=timedelta(days=10), max_delay=timedelta(days=50))
    await bot.schedule(60, "remind", retry=policy)

    await runtime.advance(timedelta(days=61))
    [run] = await bot.history()

    assert (run.outcome, run.attempts) == ("completed", 3)


async def test_many_callers_at_once_find_no_lock(runtime: ManualRuntime, log: Log) -> None:
    """Report 52: five hundred schedules made at one time by fifty agents are all stored, in a file."""
    bots = [runtime.get(Bot, f"bot {number}") for number in range(50)]

    made = await asyncio.gather(*(bot.schedule(60, "remind", n) for n in range(10) for bot in bots))
    await runtime.crash()
    await runtime.advance(MINUTE)

    assert len({schedule.id for schedule in made}) == 500
    assert len(log.runs) == 500


async def test_agents_that_wait_are_not_in_memory(runtime: ManualRuntime, log: Log) -> None:
    """Report 53: after a start, agents whose time has not come are not loaded; they run when it has."""
    for number in range(100):
        await runtime.get(Bot, f"bot {number}").schedule(2 * DAY, "remind")

    await runtime.crash()
    await runtime.advance(DAY)
    waiting = await runtime.store.agents()
    await runtime.advance(DAY)

    assert len(waiting) == 100
    assert not any(summary.is_live for summary in waiting)
    assert log.times == [START + 2 * DAY] * 100
