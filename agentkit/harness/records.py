"""What a harness stores: one line of the log for each message and each call, one record for each run.

A call's line is both its place in the transcript and its place in the ledger, so the two can't disagree. Keys sort by
number: ``msg:0000000012``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit.harness.messages import ToolCall, Usage
from agentkit.harness.tools import Effect
from agentkit.json_value import JsonValue

#: ``planned`` waits for its turn, ``awaiting`` for a person; ``started`` may have had its effect; ``done`` has a
#: result.
CallState: TypeAlias = Literal["planned", "awaiting", "approved", "started", "done"]
#: How a call ended.
Ending: TypeAlias = Literal["", "result", "error", "invalid", "denied", "cancelled", "unknown"]
RunStatus: TypeAlias = Literal["queued", "running", "parked", "completed", "stopped", "failed", "cancelled"]

OVER = ("completed", "stopped", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEntry:
    """Something the model is told, by a user or (``by``) by the harness itself."""

    number: int
    run: str
    text: str
    by: Literal["user", "harness"] = "user"
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEntry:
    """A model's answer; its calls have the numbers that follow.

    Attributes:
        source: The model; empty where the harness closed a turn, or kept what a cut-off answer had said.
        tokens: Of the request and the answer together: how much of the context the conversation fills.
    """

    number: int
    run: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    source: str = ""
    extra: dict[str, JsonValue] = field(default_factory=dict)
    tokens: int = 0
    role: Literal["assistant"] = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEntry:
    """A call, from its plan to its one result.

    Attributes:
        id: Pairs it with the answer's call, for the provider.
        text: The result, as the model is shown it.
        digest: Of name, arguments and result: equal ones in a row are a loop.
        is_clipped: The result was longer; what fits of it is under ``full:``.
        by: Who decided about it.
    """

    number: int
    run: str
    id: str
    name: str
    effect: Effect
    state: CallState = "planned"
    ending: Ending = ""
    text: str = ""
    digest: str = ""
    is_clipped: bool = False
    by: str = ""
    role: Literal["tool"] = "tool"

    @property
    def call_id(self) -> str:
        """Names the call for ever, for those who decide about it and as its idempotency key."""
        return f"{self.run}-{self.number}"


Entry: TypeAlias = UserEntry | AnswerEntry | CallEntry


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """A run, as it is stored. Only the code that drives it changes it, once it has left the queue.

    Attributes:
        message: What was submitted, until it is in the transcript.
        first: Number of its message in the transcript.
        output: Name, JSON schema and class of the form that the answer is to have.
        turns: Model calls that were answered.
        requests: Model calls made: one line of usage each.
        spent_ms: Time worked at it, up to the last commit.
        starts: How often it was taken up without getting any further since.
        failures: Model calls in a row that failed.
        retry_at_ms: A server asked to wait until then.
        corrections: Answers in a row that did not have the form.
        awaiting: Numbers of the calls it is parked for.
    """

    id: str
    status: RunStatus = "queued"
    message: str = ""
    first: int = -1
    output: dict[str, Any] | None = None
    turns: int = 0
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    spent_ms: int = 0
    starts: int = 0
    failures: int = 0
    retry_at_ms: int | None = None
    corrections: int = 0
    awaiting: list[int] = field(default_factory=list)
    created_ms: int = 0
    ended_ms: int | None = None
    reason: str = ""
    text: str = ""
    value: JsonValue = None

    @property
    def is_over(self) -> bool:
        """It has an outcome."""
        return self.status in OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where the log stands.

    Attributes:
        count: Number of the next line.
        answers: How many answers of models it holds.
        start: First line of the view; a summary stands in for what is before it.
        compacted_at: How long the log was when that summary was made.
    """

    count: int = 0
    answers: int = 0
    start: int = 0
    compacted_at: int = 0


def entry_key(number: int) -> str:
    """Return the key of a line."""
    return f"msg:{number:010d}"


def full_key(number: int) -> str:
    """Return the key of a result that was too long to be shown in full."""
    return f"full:{number:010d}"


def run_key(id: str) -> str:
    """Return the key of a run."""
    return f"run:{id}"


def usage_key(run: str, request: int) -> str:
    """Return the key of what one model call took."""
    return f"usage:{run}:{request:06d}"


def to_entry(stored: Mapping[str, Any]) -> Entry:
    """Read a line."""
    match stored["role"]:
        case "user":
            return UserEntry(**stored)
        case "assistant":
            calls = tuple(ToolCall(**call) for call in stored["calls"])
            return AnswerEntry(**{**stored, "calls": calls})
        case _:
            return CallEntry(**stored)


def to_run(stored: Mapping[str, Any]) -> RunRecord:
    """Read a run."""
    return RunRecord(**{**stored, "usage": Usage(**stored["usage"])})


def to_head(stored: Mapping[str, Any] | None) -> Head:
    """Read where the log stands; at its beginning if nothing says otherwise."""
    return Head(**stored) if stored else Head()
