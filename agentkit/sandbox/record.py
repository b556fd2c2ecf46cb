"""What the store knows of a sandbox, and what it means when the engine is asked: decided here, done elsewhere.

The engine is the truth for what runs, the record for why it stopped and what to go on from. Every change of an
instance is preceded by its intent in the record, so that whatever a crash cuts off is understood by the next look.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from agentkit.clock import to_ms
from agentkit.sandbox.engine import Instance
from agentkit.sandbox.stops import Intent, Stopped, reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A sandbox's row.

    Attributes:
        instance: Id of the container that exists, or is being made.
        is_running: It was started and no stop of it has been told since.
        intent: What we are about to do to it.
        started_ms: When its run began, by the engine's clock.
        restore: Snapshot that ``ensure_started`` goes on from where there is no container.
        runs: How often it was started, over all its containers; names its stops.
        told: The engine's moment of the last stop of this instance that was told.
        last: The last stop that was told.
    """

    instance: str | None = None
    is_running: bool = False
    intent: Intent | None = None
    started_ms: int | None = None
    restore: str | None = None
    runs: int = 0
    told: str | None = None
    last: Stopped | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return {**asdict(self), "last": None if self.last is None else self.last.to_json()}

    @classmethod
    def from_json(cls, stored: dict[str, Any] | None) -> Record:
        """Read what ``to_json`` gave; None for a sandbox that never started."""
        if stored is None:
            return cls()
        last = stored["last"]
        return cls(**{**stored, "last": None if last is None else Stopped.from_json(last)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What follows from a look at the engine.

    Attributes:
        record: What holds now.
        stop: A stop that nobody was told of yet.
        must_go: The instance is to be removed first, and then looked again.
    """

    record: Record
    stop: Stopped | None = None
    must_go: bool = False


def look(record: Record, found: Instance | None, *, now: datetime, age: timedelta) -> Look:
    """Compare what the engine has under a sandbox's name with its record.

    Args:
        record: What the store knows.
        found: What the engine has.
        now: By the agent's clock.
        age: How long ago ``found`` stopped, by the engine's clock.
    """
    if found is None:
        return _gone(record, now)
    was_never_started = not found.is_running and found.stopped_at is None
    # One that the record knows nothing of was left behind by an earlier agent of this name: its files are not ours.
    if record.intent == "destroy" or record.instance is None or was_never_started:
        return Look(record=record, must_go=True)
    if found.id != record.instance:
        record = replace(record, instance=found.id, told=None, is_running=True, intent=None, runs=record.runs + 1)
    if found.is_running and record.intent == "start":
        return Look(record=record)  # nobody was told of it yet: whoever takes it on ends the intent
    if found.is_running:
        # A restart that was cut off may not have handed out all that goes with one.
        intent = record.intent if record.intent == "restart" else None
        return Look(record=replace(record, is_running=True, intent=intent))
    return _stopped(record, found, now - max(age, timedelta(0)))


def _stopped(record: Record, found: Instance, at: datetime) -> Look:
    """It doesn't run: is that known already, was it never started again, or has it stopped since?"""
    told = _moment(found)
    if told == record.told and not record.is_running:
        return Look(record=replace(record, intent=None))
    is_ours = record.is_running or record.intent in ("start", "restart")
    runs = record.runs if is_ours else record.runs + 1  # somebody else has started it
    stop = Stopped(id=f"{found.id}-{runs}", reason=reason_of(found, record.intent), exit_code=found.exit_code, at=at)
    return Look(record=replace(record, is_running=False, intent=None, told=told, runs=runs, last=stop), stop=stop)


def _gone(record: Record, now: datetime) -> Look:
    """No container: was it removed by us, was it never made, or has it been lost?"""
    left = replace(record, instance=None, is_running=False, intent=None, told=None)
    if record.intent == "destroy":
        left = replace(left, restore=None)
    if record.instance is None or not record.is_running:
        return Look(record=left)
    is_ours = record.intent == "destroy"
    stop = Stopped(
        id=f"{record.instance}-{record.runs}", reason="destroyed" if is_ours else "engine", exit_code=None, at=now
    )
    return Look(record=replace(left, last=stop), stop=stop)


def _moment(found: Instance) -> str:
    assert found.stopped_at is not None
    return str(to_ms(found.stopped_at))
