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


class Job:
    """A durable call to come: a read-only view of its row, so that making one costs next to nothing."""

    __slots__ = ("_row",)

    def __init__(self, row: JobRow) -> None:
        self._row = row

    @property
    def id(self) -> str:
        """Unique within the agent."""
        return self._row.id

    @property
    def owner(self) -> str:
        """``"host"`` or the id of the capability that pushed it."""
        return self._row.owner

    @property
    def function(self) -> str:
        """What its owner is to call."""
        return self._row.function

    @property
    def due_at(self) -> datetime:
        """When; it never runs earlier."""
        return from_ms(self._row.due_ms)

    @property
    def payload(self) -> Any:
        """JSON, read afresh at each look: also in the process that pushed it, it has been through text."""
        return from_text(self._row.payload)

    @property
    def retry(self) -> RetryPolicy:
        """The job's own policy; fields that are None follow wider ones."""
        return self.options.retry

    @property
    def single_flight(self) -> bool:
        """Not run while an earlier run of it is still alive."""
        return self.options.single_flight

    @property
    def hung_timeout(self) -> timedelta | None:
        """After this long a run is reported as slow; None means the class's option."""
        return self.options.hung_timeout

    @property
    def timeout(self) -> timedelta | None:
        """After this long a run is cancelled; None means never."""
        return self.options.timeout

    @property
    def exclusive(self) -> bool:
        """While it is pending, nothing else of the agent runs."""
        return bool(self._row.exclusive)

    @property
    def recovery_loop(self) -> bool:
        """It restarts work that a crash cut off; the memory-limit breaker slows it down."""
        return self.options.recovery_loop

    @property
    def created_at(self) -> datetime:
        """When the id was first pushed."""
        return from_ms(self._row.created_ms)

    @property
    def options(self) -> JobOptions:
        """The settings that are mostly at their defaults."""
        return JobOptions.from_text(self._row.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._row == other._row

    def __hash__(self) -> int:
        return hash(self._row)

    def __repr__(self) -> str:
        return f"<job {self.id!r} of {self.owner!r}: {self.function} at {self.due_at.isoformat()}>"


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
    if type(value) is str and len(value) <= longest and value.isascii() and not value.isspace() and value:
        return value
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
