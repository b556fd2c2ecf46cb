"""Starts and stops as users see them, and why an instance stopped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agentkit.clock import from_ms, to_ms
from agentkit.sandbox.engine import EXIT_ASKED, EXIT_INACTIVE, EXIT_LIFETIME, Instance

#: Inactivity; ``max_lifetime``; ``stop()`` or a replacement; ``destroy()``; the main process ended by itself; memory
#: ran out; SIGKILL; the engine, which was restarted or lost the container.
Reason = Literal["inactive", "lifetime", "stopped", "destroyed", "exited", "out_of_memory", "killed", "engine"]
#: What we were about to do to an instance; stored first, so that after a crash it is known why the instance stopped.
Intent = Literal["start", "restart", "stop", "inactive", "lifetime", "destroy"]

_KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A sandbox started.

    Attributes:
        instance: Id of its container: the same again when a stopped one goes on.
        at: When, by the agent's clock.
    """

    instance: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A sandbox stopped, and every process in it ended.

    Attributes:
        id: Names this stop; the same however often it is told.
        reason: Why.
        exit_code: Of its main process, where the engine still knew.
        at: When, by the agent's clock.
    """

    id: str
    reason: Reason
    exit_code: int | None
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return {"id": self.id, "reason": self.reason, "exit_code": self.exit_code, "at_ms": to_ms(self.at)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Stopped:
        """Read what ``to_json`` gave."""
        return cls(id=stored["id"], reason=stored["reason"], exit_code=stored["exit_code"], at=from_ms(stored["at_ms"]))


def reason_of(instance: Instance, intent: Intent | None) -> Reason:
    """Return why an instance stopped, from what the engine tells and what we were about to do."""
    if instance.exit_code == EXIT_INACTIVE or intent == "inactive":
        return "inactive"
    if instance.exit_code == EXIT_LIFETIME or intent == "lifetime":
        return "lifetime"
    if intent in ("stop", "destroy"):
        return "destroyed" if intent == "destroy" else "stopped"
    if instance.exit_code == _KILLED:
        return "out_of_memory" if instance.out_of_memory else "killed"
    if instance.exit_code in (EXIT_ASKED, None):
        return "engine"
    return "exited"
