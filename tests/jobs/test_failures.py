"""Failures: attempts, waits, who decides at the end, and failures that are nobody's fault."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from agentkit import AgentOptions, Capability, JobContext, RescheduleAt, RetryPolicy, YieldNow
from agentkit.errors import AgentGoneError, FencedError, RuntimeClosedError, StoreUnavailableError
from agentkit.host import AgentContext
from agentkit.jobs.failures import is_memory_limit, is_platform, to_traceback
from tests.jobs.worker import START, Script, Start, Worker, at, history

# --- retries (SPEC 5.1)


@pytest.mark.parametrize(("max_attempts", "runs"), [(1, 1), (2, 2), (6, 6)])
async def test_job_is_tried_as_often_as_its_policy_allows(manual_runtime: Start, max_attempts: int, runs: int) -> None:
    """``max_attempts`` counts the first attempt."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, retry=RetryPolicy(max_attempts=max_attempts))

    await runtime.advance(600)

    assert [context.attempt for context in script.contexts] == list(range(1, runs + 1))
    assert await ada.jobs() == []
    assert runtime.events.count("job:failed") == 1


async def test_three_attempts_are_the_default(manual_runtime: Start) -> None:
    """Without a policy anywhere a job runs three times."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(60)

    assert script.log == ["work"] * 3


async def test_policy_of_the_class_fills_what_the_job_leaves_open(manual_runtime: Start) -> None:
    """A job with a policy of its own takes the fields it leaves out from ``options.retry``."""

    class Stubborn(Worker):
        options = AgentOptions(retry=RetryPolicy(max_attempts=5, base_delay=0))

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Stubborn, deps=script)
    await runtime.get(Stubborn, "ada").push("work", after=1, retry=RetryPolicy(base_delay=100, max_delay=0))

    await runtime.advance(1)

    assert script.log == ["work"] * 5


async def test_waits_between_attempts_stay_within_their_bounds(manual_runtime: Start) -> None:
    """The wait before attempt n+1 lies between nothing and the smaller of 2ⁿ·base and max."""
    moments: dict[str, list[float]] = {}

    async def work(agent: Worker, context: JobContext) -> None:
        passed = agent.lifecycle.clock.now() - START
        moments.setdefault(context.job.id, []).append(passed.total_seconds())
        raise ValueError("no")

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    retry = RetryPolicy(max_attempts=5, base_delay=10, max_delay=70)
    for number in range(20):
        await runtime.get(Worker, f"agent{number}").push("work", after=1, retry=retry)

    await runtime.advance(3_600)

    waits = [[b - a for a, b in pairwise(runs)] for runs in moments.values()]
    assert len(waits) == 20
    for bound, column in zip([20, 40, 70, 70], zip(*waits, strict=True), strict=True):
        assert all(0 <= wait <= bound + 0.001 for wait in column)
        assert len(set(column)) > 1, "the waits are to be random"
        assert max(column) > bound / 2, "the waits are to use their bounds"


async def test_retries_happen_inside_the_same_alarm(manual_runtime: Start) -> None:
    """The next job waits until the failing one is through with its attempts."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", at=at(1), retry=RetryPolicy(base_delay=50, max_delay=50))
    await ada.push("other", at=at(1))

    await runtime.advance(3_600)

    assert script.log == ["work", "work", "work", "other"]


async def test_job_that_succeeds_at_last_is_completed(manual_runtime: Start) -> None:
    """Failed attempts before a good one leave their count, and no error."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        if context.attempt < 3:
            raise ValueError("not yet")
        return None

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(60)

    [run] = await history(runtime)
    assert (run.outcome, run.attempts, run.error) == ("completed", 3, None)
    assert runtime.events.count("job:failed") == 0


async def test_attempts_are_counted_anew_at_each_occurrence(manual_runtime: Start) -> None:
    """A job that comes again has all its attempts again."""

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        if context.attempt < 3:
            raise ValueError("not yet")
        return RescheduleAt(at(100)) if len(script.log) == 3 else None

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1)

    await runtime.advance(200)

    assert [context.attempt for context in script.contexts] == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("change", ["cancel", "push"])
async def test_job_changed_between_attempts_is_not_tried_again(manual_runtime: Start, change: str) -> None:
    """A job that was cancelled or replaced while it waited for its next attempt has no next attempt."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", at=at(1), id="one", retry=RetryPolicy(base_delay=1_000, max_delay=1_000))
    await runtime.advance(1)

    if change == "cancel":
        await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
    else:
        await ada.push("newer", at=at(5_000), id="one")
    await runtime.advance(10_000)

    assert script.log == (["work"] if change == "cancel" else ["work", "newer"])


# --- at the end of the attempts (SPEC 5.2)


class Decider(Capability):
    """A capability whose ``on_job_error`` does what a test says."""

    id = "decider"

    def __init__(self, decide: Any) -> None:
        self.decide = decide
        self.told: list[tuple[int, str]] = []
        self.runs = 0

    async def on_job(self, context: JobContext) -> None:
        self.runs += 1
        if self.runs <= context.job.payload:
            raise ValueError(f"attempt {context.attempt}")

    async def on_job_error(self, context: JobContext, error: Exception) -> Any:
        self.told.append((context.attempt, str(error)))
        if isinstance(self.decide, Exception):
            raise self.decide
        return self.decide


def deciding(decider: Decider) -> type[Worker]:
    """Return a worker with this capability installed."""

    class Deciding(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle.use(decider)

        async def push_theirs(self, failures: int) -> None:
            await decider.lifecycle.jobs.push("theirs", after=1, payload=failures)

    return Deciding


async def push_theirs(agent: Worker, failures: int) -> None:
    """Push a job of the decider that fails so many times."""
    await agent.push_theirs(failures)  # type: ignore[attr-defined]  # see ``deciding``


async def test_on_job_error_is_told_the_last_error(manual_runtime: Start) -> None:
    """After the last attempt, and only then, the capability hears of the error of that attempt."""
    decider = Decider(None)
    agent_class = deciding(decider)
    runtime = await manual_runtime(agent_class, deps=Script())
    await push_theirs(runtime.get(agent_class, "ada"), 3)

    await runtime.advance(60)

    assert decider.told == [(3, "attempt 3")]


@pytest.mark.parametrize(
    ("decision", "runs"),
    [(None, 3), (RescheduleAt(at(100)), 4), (YieldNow(), 4), ("nonsense", 3), (KeyError("hook"), 3)],
    ids=repr,
)
async def test_on_job_error_decides_like_an_outcome(manual_runtime: Start, decision: Any, runs: int) -> None:
    """Its return keeps the job or lets it go; one that raises, or returns nonsense, completes it."""
    decider = Decider(decision)
    agent_class = deciding(decider)
    runtime = await manual_runtime(agent_class, deps=Script())
    ada = runtime.get(agent_class, "ada")
    await push_theirs(ada, 3)

    await runtime.advance(3_600)

    runs_recorded = await history(runtime, agent_class="Deciding")
    assert decider.runs == runs
    assert runs_recorded[-1].outcome == "failed"
    assert "attempt 3" in (runs_recorded[-1].error or "")
    assert len(runs_recorded) == (2 if runs == 4 else 1)
    assert runtime.events.count("job:failed") == 1


async def test_raising_on_job_error_is_logged(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """An error in the hook isn't silent."""
    agent_class = deciding(Decider(KeyError("the hook is broken")))
    runtime = await manual_runtime(agent_class, deps=Script())
    await push_theirs(runtime.get(agent_class, "ada"), 3)

    await runtime.advance(60)

    assert any("on_job_error" in record.message and record.exc_info for record in caplog.records)


# --- failures of the platform (SPEC 5.3, 5.4)


async def test_run_cut_off_by_a_crash_uses_no_attempt(manual_runtime: Start) -> None:
    """However often the process dies in a job, its next run is attempt 1."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) < 4:
            await agent.lifecycle.clock.sleep(3_600)

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1, retry=RetryPolicy(max_attempts=1))
    await runtime.advance(1)

    for _ in range(3):
        await runtime.crash()
        await runtime.advance(0)

    [run] = await history(runtime)
    assert [context.attempt for context in script.contexts] == [1, 1, 1, 1]
    assert (run.outcome, run.attempts) == ("completed", 1)


async def test_run_cut_off_by_closing_uses_no_attempt(manual_runtime: Start) -> None:
    """A job cancelled at shutdown runs from attempt 1 at the next start."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            await asyncio.Event().wait()

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script, store="sqlite:///:memory:", shutdown_grace=0, real_timeout=0.3)
    await runtime.get(Worker, "ada").push("work", after=1, retry=RetryPolicy(max_attempts=1))
    with pytest.raises(TimeoutError):
        await runtime.advance(1)

    await runtime.crash()
    await runtime.advance(0)

    assert [context.attempt for context in script.contexts] == [1, 1]
    assert runtime.events.count("job:failed") == 0


async def test_unreachable_store_uses_no_attempt(manual_runtime: Start) -> None:
    """A run that ends in a ``StoreError``, also as a cause, isn't the job's failure: the job stays and runs again."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            raise RuntimeError("could not save") from StoreUnavailableError("the disk is full")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1, retry=RetryPolicy(max_attempts=1))

    await runtime.advance(120)

    [run] = await history(runtime)
    assert [context.attempt for context in script.contexts] == [1, 1]
    assert run.outcome == "completed"
    assert runtime.events.count("job:failed") == 0


async def test_cancelled_error_that_nobody_asked_for_is_a_failed_attempt(manual_runtime: Start) -> None:
    """A job that awaits a task which was cancelled has failed, and is retried like any other."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) > 10:
            return
        cancelled = asyncio.ensure_future(asyncio.sleep(1_000))
        cancelled.cancel()
        await cancelled

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", at=at(1))
    await ada.push("other", at=at(1))

    await runtime.advance(60)

    assert script.log == ["work", "work", "work", "other"]
    assert [run.outcome for run in await history(runtime)] == ["completed", "failed"]


async def test_cancelled_error_within_a_timeout_is_a_failed_attempt(manual_runtime: Start) -> None:
    """The same for a job that has a timeout which hasn't passed."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) > 10:
            return
        raise asyncio.CancelledError

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", at=at(1), timeout=30)

    await runtime.advance(60)

    assert script.log == ["work", "work", "work"]
    assert [run.outcome for run in await history(runtime)] == ["failed"]


def _caused_by(*links: Exception) -> Exception:
    for outer, inner in pairwise(links):
        outer.__cause__ = inner
    return links[0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (_caused_by(ValueError(), KeyError(), MemoryError()), True),
        (ExceptionGroup("several", [ValueError(), _caused_by(KeyError(), MemoryError())]), True),
        (ValueError("MemoryError: out of memory"), False),
        (OSError(12, "Cannot allocate memory"), False),
    ],
    ids=repr,
)
def test_memory_limit_is_told_by_type_along_the_causes(error: BaseException, expected: bool) -> None:
    """The class of an error or of a cause counts, its text doesn't."""
    assert is_memory_limit(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StoreUnavailableError("x", "here"), True),
        (StoreUnavailableError("x"), True),
        (StoreUnavailableError("x", "elsewhere"), False),
        (_caused_by(ValueError(), FencedError("Worker/ada")), True),
        (FencedError("Worker/bob"), False),
        (ExceptionGroup("several", [AgentGoneError("Worker/ada", "x")]), True),
        (RuntimeClosedError("another one"), False),
        (ValueError("StoreUnavailableError"), False),
        (ConnectionError(), False),
    ],
    ids=repr,
)
def test_platform_failure_is_told_by_type_along_the_causes(error: BaseException, expected: bool) -> None:
    """Likewise for failures of the platform: our own, not another store's or another agent's."""
    assert is_platform(error, agent="Worker/ada", location="here", is_closing=False) is expected


def test_causes_that_form_a_ring_end() -> None:
    """A chain of causes that comes back to its beginning is looked at once."""
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert is_memory_limit(first) is False


def test_long_traceback_keeps_its_end() -> None:
    """The end of a traceback says what happened; the history keeps that."""
    text = to_traceback(ValueError("x" * 100_000 + "the end"))

    assert len(text) < 20_000
    assert text.endswith("the end\n")


async def test_failing_job_of_one_agent_does_not_hold_up_another(manual_runtime: Start) -> None:
    """While one agent waits between attempts, others run."""

    async def work(agent: Worker, context: JobContext) -> None:
        if agent.name == "ada":
            raise ValueError("no")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    retry = RetryPolicy(base_delay=1_000, max_delay=1_000)
    await runtime.get(Worker, "ada").push("work", at=at(1), retry=retry)
    await runtime.get(Worker, "bob").push("other", at=at(1) + timedelta(milliseconds=1))

    await runtime.advance(1.001)

    assert script.log == ["work", "other"]
