"""When a schedule that is asked for exists already, and what a key's schedule passes on to its successor."""

from __future__ import annotations

from collections.abc import Iterable

from agentkit.clock import LATEST_MS
from agentkit.errors import PayloadError
from agentkit.json_value import canonical
from agentkit.schedules.callbacks import Callbacks
from agentkit.schedules.record import Record, read_record
from agentkit.store.store import JobRow


def find_equal(rows: Iterable[JobRow], record: Record, callback: str, callbacks: Callbacks) -> JobRow | None:
    """Return the job of an equal schedule without a key; payloads are compared as the callback reads them today."""
    for row in rows:
        if row.function != callback:
            continue
        found = read_record(row)
        if (
            found.key is None
            and found.identity() == record.identity()
            and _same_payload(found, record, callback, callbacks)
        ):
            return row
    return None


def is_unchanged(row: JobRow, record: Record, callback: str, options: str, callbacks: Callbacks) -> bool:
    """Tell whether a key's schedule is already what is asked for."""
    found = read_record(row)
    return (
        row.function == callback
        and row.options == options
        and found.identity() == record.identity()
        and found.catch_up == record.catch_up
        and _same_payload(found, record, callback, callbacks)
    )


def take_over(row: JobRow, record: Record, due_ms: int, now_ms: int) -> int:
    """Return when the successor of a key's schedule is due: paused as that was, and in the same rhythm."""
    found = read_record(row)
    if record.is_recurring and found.identity() == record.identity():
        # A payload that changes with every deploy must not keep a long interval from ever ending.
        record.first_ms, record.remaining, record.skipped = found.first_ms, found.remaining, found.skipped
        if not found.is_paused and row.due_ms > now_ms:
            due_ms = row.due_ms
    if found.is_paused:
        record.is_paused, due_ms = True, LATEST_MS
    return due_ms


def _same_payload(found: Record, record: Record, callback: str, callbacks: Callbacks) -> bool:
    if canonical(found.payload) == canonical(record.payload):
        return True
    try:
        return canonical(callbacks.checked(callback, found.payload)) == canonical(record.payload)
    except PayloadError:
        return False
