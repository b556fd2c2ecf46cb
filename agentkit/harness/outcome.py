"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentkit.harness.messages import Usage
from agentkit.harness.records import RunRecord
from agentkit.json_value import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: no end is an error here.

    Attributes:
        status: ``stopped`` by a limit is a normal end.
        reason: Which limit (``turns``, ``tokens``, ``seconds``, ``loop``, ``length``, ``wake_ups``), or why it failed.
        text: The answer; of a run that was not completed, the latest text there is.
        value: The answer as JSON, where a form was asked for.
        usage: What all of its model calls took.
        turns: How many there were.
    """

    status: Literal["completed", "stopped", "failed", "cancelled"]
    reason: str = ""
    text: str = ""
    value: JsonValue = None
    usage: Usage = Usage()  # noqa: RUF009  # frozen
    turns: int = 0

    @property
    def is_completed(self) -> bool:
        """The model gave its answer."""
        return self.status == "completed"

    def __str__(self) -> str:
        reason = self.reason if len(self.reason) <= 300 else f"{self.reason[:300]}…"
        return f'{self.status}("{reason}")' if reason else self.status


def outcome_of(run: RunRecord) -> Outcome | None:
    """Return how a run ended, or None."""
    match run.status:
        case "completed" | "stopped" | "failed" | "cancelled":
            return Outcome(
                status=run.status,
                reason=run.reason,
                text=run.text,
                value=run.value,
                usage=run.usage,
                turns=run.turns,
            )
        case _:
            return None
