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

#: A record holds an answer as text and as a value, and there is more in it.
_SHARE: Final = 3


class RunLog:
    """Commits what happens in a run: its record, its lines and what its model calls took change together.

    Attributes:
        run: The run.
        transcript: What of the log the model is shown.
        latest: What the latest model call took.
    """

    def __init__(self, parts: Parts, run: RunRecord, transcript: Transcript) -> None:
        self.run = run
        self.transcript = transcript
        self.latest = Usage()
        self._uncommitted: dict[str, Usage] = {}
        self._scope = parts.lifecycle
        self._live = parts.live
        self._spent_ms = run.spent_ms
        self._began_ms = self._scope.clock.now_ms()

    def count(self, used: Usage) -> None:
        """Take in what a model call took; it is stored with the next commit, whatever that is."""
        self._uncommitted[usage_key(self.run.id, self.run.requests)] = used
        self.run.requests += 1
        self.run.usage += used
        self.latest = used

    def changes(self, lines: Sequence[Entry]) -> dict[str, Any]:
        """Return what is stored with these lines; see ``committed``."""
        self.run.spent_ms = self._spent_ms + self._scope.clock.now_ms() - self._began_ms
        return {**self.transcript.changes(lines), **self._uncommitted, run_key(self.run.id): self.run}

    def committed(self, changes: Mapping[str, Any], lines: Sequence[Entry]) -> None:
        """Take over what was stored, and tell whoever follows the run."""
        for key in changes:
            self._uncommitted.pop(key, None)
        self.transcript.take(lines)
        self._live.signal.notify()

    async def commit(self, *lines: Entry, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Store lines and the run together; who follows the run is told.

        Args:
            lines: New ones, or new states of calls.
            more: Further values.
        """
        changes = self.changes(lines)
        await self._scope.storage.put_many({**changes, **more})
        self.committed(changes, lines)
        if any(isinstance(line, AnswerEntry) for line in lines):
            self._live.reset()

    def arguments(self, call: CallEntry) -> str:
        """Return the arguments of a call, as the model wrote them."""
        return self.transcript.call_of(call).arguments

    @property
    def room(self) -> int:
        """Bytes that an answer, or any other text in a line or the record, may take as JSON."""
        return self._scope.storage.max_value_bytes // _SHARE

    def fitting(self, text: str) -> str:
        """Return as much of a text as a line can hold."""
        return fitting(text, self.room)

    def full(self, text: str) -> str:
        """Return as much of a text as a value of its own can hold."""
        return fitting(text, self._scope.storage.max_value_bytes)

    def tell(self, event: str, **facts: Any) -> None:
        """Emit an event of the run."""
        self._scope.emit(HARNESS, event, {"run_id": self.run.id, **facts})
