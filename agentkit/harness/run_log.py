"""One run and its lines of the log: what is stored of them, one commit at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentkit.events import HARNESS
from agentkit.harness.messages import Usage
from agentkit.harness.output import fitting
from agentkit.harness.parts import Parts
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, RunRecord, run_key, usage_key
from agentkit.harness.transcript import Transcript

#: JSON may take six bytes for a character, and there is more in a line than its text.
_BYTES: Final = 7


class RunLog:
    """Commits what happens in a run: its record, its lines and what its model calls took change together.

    Attributes:
        run: The run.
        transcript: What of the log the model is shown.
        usage: What model calls took since the last commit.
    """

    def __init__(self, parts: Parts, run: RunRecord, transcript: Transcript) -> None:
        self.run = run
        self.transcript = transcript
        self.usage: list[Usage] = []
        self._scope = parts.lifecycle
        self._live = parts.live
        self._spent_ms = run.spent_ms
        self._began_ms = self._scope.clock.now_ms()

    def changes(self, lines: Sequence[Entry]) -> dict[str, Any]:
        """Return what is stored with these lines; it must be committed then."""
        run = self.run
        run.spent_ms = self._spent_ms + self._scope.clock.now_ms() - self._began_ms
        changes = self.transcript.changes(lines)
        while self.usage:
            used = self.usage.pop(0)
            changes[usage_key(run.id, run.requests)] = used
            run.requests += 1
            run.usage += used
        changes[run_key(run.id)] = run
        return changes

    async def commit(self, *lines: Entry, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Store lines and the run together; who follows the run is told.

        Args:
            lines: New ones, or new states of calls.
            more: Further values.
        """
        await self._scope.storage.put_many({**self.changes(lines), **more})
        self.transcript.take(lines)
        if any(isinstance(line, AnswerEntry) for line in lines):
            self._live.reset()
        self._live.signal.notify()

    def arguments(self, call: CallEntry) -> str:
        """Return the arguments of a call, as the model wrote them."""
        return self.transcript.call_of(call).arguments

    @property
    def longest(self) -> int:
        """Characters that one line of the log can hold, whatever they are."""
        return self._scope.storage.max_value_bytes // _BYTES

    def fitting(self, text: str) -> str:
        """Return as much of a text as one value can hold."""
        return fitting(text, self._scope.storage.max_value_bytes)

    def tell(self, event: str, **facts: Any) -> None:
        """Emit an event of the run."""
        self._scope.emit(HARNESS, event, {"run_id": self.run.id, **facts})
