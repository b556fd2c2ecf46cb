"""Turns the end of a run into one batch: the job's row, and its line in the history."""

from __future__ import annotations

from agentkit.clock import EARLIEST_MS, LATEST_MS, to_ms
from agentkit.errors import AgentKitError
from agentkit.ids import IdSource
from agentkit.jobs.dispatch import RunResult
from agentkit.jobs.failures import storable, to_traceback
from agentkit.jobs.job import JobOptions, row_to_text
from agentkit.jobs.outcome import SAME, RescheduleAt, YieldNow
from agentkit.json_value import to_text
from agentkit.options import AgentOptions
from agentkit.store.job_table import JobTable
from agentkit.store.store import AgentRow, Batch, HistoryRow, JobRow

#: The history is pruned once in so many runs: a prune costs more than a run's own row.
_PRUNE_EVERY = 32


def settle(
    row: JobRow,
    result: RunResult,
    *,
    table: JobTable,
    hot: AgentRow,
    options: AgentOptions,
    ids: IdSource,
    started_ms: int,
    now_ms: int,
) -> Batch:
    """Return what to commit after a run; counts it in the hot row."""
    batch = Batch()
    current = table.get(row.id)
    if current is not None and current.run_id == row.run_id:
        batch.jobs[row.id] = _next_row(row, result, ids=ids, now_ms=now_ms, options=options)
    if not _only_looked(row, result):
        record(batch, history_row(row, result, started_ms=started_ms, now_ms=now_ms), hot=hot, options=options)
    return batch


def _only_looked(row: JobRow, result: RunResult) -> bool:
    """Tell whether a recovery loop found its work under way: twice a minute of that would crowd the history out."""
    is_waiting = result.kind == "completed" and isinstance(result.outcome, RescheduleAt)
    return is_waiting and JobOptions.from_text(row.options).recovery_loop


def record(batch: Batch, run: HistoryRow, *, hot: AgentRow, options: AgentOptions) -> None:
    """Add a run to the history, and prune it now and then."""
    hot.runs += 1
    batch.history.append(run._replace(seq=hot.runs))
    if hot.runs % _PRUNE_EVERY == 0 or options.keep_history < _PRUNE_EVERY:
        batch.keep_history = options.keep_history


def history_row(row: JobRow, result: RunResult, *, started_ms: int, now_ms: int) -> HistoryRow:
    """Return a run's line in the history; the whole job with it where it may be requeued."""
    error = result.error
    gone = result.kind in ("failed", "orphaned", "sealed", "poisoned")
    return HistoryRow(
        run_id=row.run_id,
        job_id=row.id,
        owner=row.owner,
        function=row.function,
        due_ms=row.due_ms,
        started_ms=started_ms,
        finished_ms=now_ms,
        attempts=result.attempts,
        outcome=result.kind,
        error=None if error is None else _reason(error),
        job=row_to_text(row) if gone else None,
        pinned=int(result.kind in ("orphaned", "sealed", "poisoned")),
    )


def _reason(error: BaseException) -> str:
    """Errors of ours that nobody's code raised need no traceback."""
    if isinstance(error, AgentKitError) and error.__traceback__ is None:
        return storable(f"{type(error).__name__}: {error}")
    return to_traceback(error)


def _next_row(row: JobRow, result: RunResult, *, ids: IdSource, now_ms: int, options: AgentOptions) -> JobRow | None:
    match result.outcome:
        case RescheduleAt(moment=moment, payload=payload):
            due_ms = max(EARLIEST_MS, min(to_ms(moment), LATEST_MS))
            text = row.payload
            if payload is not SAME:
                text = to_text(payload, "payload", limit=options.max_payload_bytes, quota="max_payload_bytes")
            return row._replace(due_ms=due_ms, payload=text, run_id=ids.new())
        case YieldNow():
            return row._replace(due_ms=max(now_ms, row.due_ms), run_id=ids.new())
        case None:
            return None
