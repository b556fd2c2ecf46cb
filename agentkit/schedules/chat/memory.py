"""What a chat remembers between two messages, as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

Action: TypeAlias = Literal["cancel", "pause", "resume"]
ACTIONS: Final[tuple[Action, ...]] = ("cancel", "pause", "resume")
#: A "yes" that comes later than this answers nothing.
ANSWER_WITHIN: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What was asked last and is still open.

    Attributes:
        kind: ``when`` (the time of ``request`` is open), ``what`` (its task is), ``which`` (which of the schedules
            ``numbers`` the ``action`` is meant for; of a single one or ``is_all``, whether), ``how_long`` (for how
            long to snooze the one of ``numbers``, or what ran last), or ``change_or_new`` (whether ``request`` changes
            those of ``numbers`` or is a task of its own).
        asked_at_ms: When.
        request: The words to be completed.
        task: What the request is about, as far as it was understood.
        question: As it was put; empty if nothing was asked, so that only a clear answer counts as one.
        action: What to do to the schedules.
        numbers: Which ones it may be.
        is_all: A yes means all of ``numbers``.
        tries: Answers that were not understood.
    """

    kind: Literal["when", "what", "which", "how_long", "change_or_new"]
    asked_at_ms: int
    request: str = ""
    task: str = ""
    question: str = ""
    action: Action = "cancel"
    numbers: tuple[int, ...] = ()
    is_all: bool = False
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A conversation, as far as the next message may depend on it.

    Attributes:
        count: The number given to the latest schedule.
        last: The schedule that "it" means.
        last_task: What that schedule is about; known also when it has run.
        pending: The open question.
    """

    count: int = 0
    last: int | None = None
    last_task: str = ""
    pending: Pending | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        """Return what to store."""
        return asdict(self)

    def open_question(self, now: datetime) -> Pending | None:
        """Return the open question, unless it was asked too long ago."""
        if self.pending is None:
            return None
        age = now - datetime.fromtimestamp(self.pending.asked_at_ms / 1000, now.tzinfo)
        return self.pending if age <= ANSWER_WITHIN else None


def memory_from_json(stored: Any) -> Memory:
    """Read what ``to_json`` gave; anything else, such as nothing, is a conversation that begins."""
    try:
        fields = dict(stored or {})
        pending = fields.pop("pending", None)
        return Memory(pending=None if pending is None else _pending(pending), **fields)
    except (TypeError, ValueError, KeyError):
        return Memory()


def _pending(stored: Mapping[str, Any]) -> Pending:
    fields = dict(stored)
    fields["numbers"] = tuple(fields.get("numbers", ()))
    return Pending(**fields)
