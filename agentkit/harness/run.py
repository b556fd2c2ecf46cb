"""What a caller holds of a run: wait for its end, follow it, cancel it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agentkit.harness.messages import Usage
from agentkit.harness.outcome import Outcome
from agentkit.harness.records import Ending

if TYPE_CHECKING:
    from agentkit.harness.harness import Harness


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More of the model's text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDiscarded:
    """The text since the last call or answer is void: the model is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A tool has begun."""

    call_id: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call has its result.

    Attributes:
        text: As the model is shown it.
    """

    call_id: str
    tool: str
    ending: Ending
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The last thing that comes."""

    outcome: Outcome


StreamEvent: TypeAlias = TextDelta | TextDiscarded | CallStarted | CallEnded | RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for ``harness.decide(call_id, approved, by)``.

    Attributes:
        arguments: JSON, as the model wrote it; text of a model is to be shown as such.
    """

    call_id: str
    run_id: str
    tool: str
    arguments: str


class Run:
    """A message on its way to its reply. It goes on whether or not anybody holds this.

    Attributes:
        id: Finds it again: ``harness.get(id)``.
    """

    __slots__ = ("_harness", "id")

    def __init__(self, harness: Harness, id: str) -> None:
        self._harness = harness
        self.id = id

    async def wait(self) -> Outcome:
        """Wait for the end, for days if a person must decide first; no end raises.

        A caller that is cancelled leaves the run alone.

        Raises:
            HarnessError: It can't end while the caller waits: inside of a ``transaction()``, or in a tool that the
                harness waits for, itself or by way of others.
            AgentGoneError: The instance has left; the run goes on where the agent lives next.
        """
        return await self._harness.wait_for(self.id)

    def stream(self) -> AsyncIterator[StreamEvent]:
        """Follow the run from its beginning to ``RunEnded``; may be begun at any time, also again.

        Leaving it early cancels nothing.

        Raises:
            HarnessError, AgentGoneError: See ``wait``.
        """
        return self._harness.follow(self.id)

    async def cancel(self) -> bool:
        """End the run, durably; False if it was over. What its model had said is kept, open calls are closed."""
        return await self._harness.cancel(self.id)

    async def outcome(self) -> Outcome | None:
        """Return how it ended; None while it hasn't."""
        return await self._harness.outcome_of(self.id)

    async def usage(self) -> list[Usage]:
        """Return what each of its model calls took, failed ones included."""
        return await self._harness.usage_of(self.id)

    def __repr__(self) -> str:
        return f"<run {self.id}>"
