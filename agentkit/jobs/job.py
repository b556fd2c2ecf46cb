"""A job as its owner sees it, and how it becomes a row and comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agentkit.clock import from_ms
from agentkit.errors import PayloadError
from agentkit.json_value import canonical, from_text
from agentkit.retry import RetryPolicy
from agentkit.store.store import JobRow

HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A durable call to come.

    Attributes:
        id: Unique within the agent.
        owner: ``"host"`` or the id of the capability that pushed it.
        function: What its owner is to call.
        due_at: When; it never runs earlier.
        payload: JSON; has been through text once, also in the process that pushed it.
        retry: The job's own policy; fields that are None follow wider ones.
        single_flight: Not run while an earlier run of it is still alive.
        hung_timeout: After this long a run is reported as slow; None means the class's option.
        timeout: After this long a run is cancelled; None means never.
        exclusive: While it is pending, nothing else of the agent runs.
        recovery_loop: It restarts work that a crash cut off; the memory-limit breaker slows it down.
        created_at: When the id was first pushed.
    """

    id: str
    owner: str
    function: str
    due_at: datetime
    payload: Any
    retry: RetryPolicy
    single_flight: bool
    hung_timeout: timedelta | None
    timeout: timedelta | None
    exclusive: bool
    recovery_loop: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a run is told.

    Attributes:
        job: The job.
        attempt: 1 for the first run within this alarm.
        run_id: Names this due occurrence: the same in every attempt and after a crash, new after each
            reschedule. Noted in a ``transaction()`` with an effect, it makes the effect happen once.
        due_at: When it was due.
        recovered: A crash cut an earlier run of this occurrence off.
        serving_since: Since when runtimes have served the store without a gap.
    """

    job: Job
    attempt: int
    run_id: str
    due_at: datetime
    recovered: bool
    serving_since: datetime


class JobOptions(NamedTuple):
    """The part of a job that is mostly at its defaults; stored as JSON, or as nothing."""

    retry: RetryPolicy = RetryPolicy()
    single_flight: bool = False
    hung_timeout: timedelta | None = None
    timeout: timedelta | None = None
    recovery_loop: bool = False

    def to_text(self) -> str:
        """Return JSON of what differs from the defaults; empty if nothing does."""
        if self == _DEFAULTS:
            return ""
        retry = self.retry
        fields = {
            "max_attempts": retry.max_attempts,
            "base_delay": _seconds(retry.base_delay),
            "max_delay": _seconds(retry.max_delay),
            "single_flight": self.single_flight or None,
            "hung_timeout": _seconds(self.hung_timeout),
            "timeout": _seconds(self.timeout),
            "recovery_loop": self.recovery_loop or None,
        }
        return canonical({name: value for name, value in fields.items() if value is not None})

    @classmethod
    def from_text(cls, text: str) -> JobOptions:
        """Read what ``to_text`` wrote."""
        if not text:
            return _DEFAULTS
        fields = from_text(text)
        return cls(
            retry=RetryPolicy(
                max_attempts=fields.get("max_attempts"),
                base_delay=fields.get("base_delay"),
                max_delay=fields.get("max_delay"),
            ),
            single_flight=fields.get("single_flight", False),
            hung_timeout=_timedelta(fields.get("hung_timeout")),
            timeout=_timedelta(fields.get("timeout")),
            recovery_loop=fields.get("recovery_loop", False),
        )


_DEFAULTS = JobOptions()


def to_job(row: JobRow) -> Job:
    """Return a row as its owner sees it."""
    options = JobOptions.from_text(row.options)
    return Job(
        id=row.id,
        owner=row.owner,
        function=row.function,
        due_at=from_ms(row.due_ms),
        payload=from_text(row.payload),
        retry=options.retry,
        single_flight=options.single_flight,
        hung_timeout=options.hung_timeout,
        timeout=options.timeout,
        exclusive=bool(row.exclusive),
        recovery_loop=options.recovery_loop,
        created_at=from_ms(row.created_ms),
    )


def row_to_text(row: JobRow) -> str:
    """Return a row as JSON, for the history."""
    return canonical(row._asdict())


def row_from_text(text: str) -> JobRow:
    """Read what ``row_to_text`` wrote."""
    return JobRow(**from_text(text))


def check_word(value: object, name: str, longest: int = 1024) -> str:
    """Return a non-blank, storable text of at most ``longest`` bytes.

    Raises:
        PayloadError: Otherwise, naming the value.
    """
    if not isinstance(value, str) or not value.strip():
        raise PayloadError(name, f"must be a non-empty text, got {value!r}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise PayloadError(name, f"{value!r} can't be stored as UTF-8") from None
    if size > longest:
        raise PayloadError(name, f"{value[:40]!r}… has {size} bytes; at most {longest} are allowed")
    return value


def _seconds(value: timedelta | None) -> float | None:
    return None if value is None else value.total_seconds()


def _timedelta(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)
