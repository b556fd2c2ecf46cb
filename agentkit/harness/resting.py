"""The points at which a run rests: over, waiting for a person, or put off by a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentkit.clock import from_ms
from agentkit.harness.output import clipped, fitting
from agentkit.harness.parts import Parts
from agentkit.harness.planning import UNKNOWN, ended
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, RunStatus, entry_key, to_entry
from agentkit.harness.run_log import RunLog
from agentkit.harness.signals import Stop

CANCELLED: Final = "cancelled"
#: In characters; a store keeps it beside an answer.
_LONGEST_REASON: Final = 2_000


def cancel_key(run: str) -> str:
    """Return the key of the mark that a run is to be cancelled."""
    return f"cancel:{run}"


class Resting:
    """Brings one run to rest, each time in one commit.

    Attributes:
        is_reached: It rests: whoever drives it leaves it now.
    """

    def __init__(self, parts: Parts, log: RunLog, stop: Stop) -> None:
        self.is_reached = False
        self._parts = parts
        self._scope = parts.lifecycle
        self._log = log
        self._stop = stop

    async def park(self) -> None:
        """Wait for a person, for days if need be: nothing runs, nothing beats (SPEC 13.8).

        What was decided, or cancelled, meanwhile wins: then the run doesn't rest.
        """
        run, transcript = self._log.run, self._log.transcript
        awaiting = [call for call in transcript.open_calls() if call.state == "awaiting"]
        async with self._scope.transaction():
            if await self._scope.storage.get(cancel_key(run.id)):
                self._stop.ask(CANCELLED)
                return
            stored = [to_entry(await self._scope.storage.get(entry_key(call.number))) for call in awaiting]
            if stored != awaiting:
                transcript.take(stored)
                return
            run.status, run.awaiting = "parked", [call.number for call in awaiting]
            changes = await self._store()
            await self._parts.queue.park()
        self._log.committed(changes, [])
        self.is_reached = True
        self._parts.live.rest()
        for call in awaiting:
            self._log.tell("harness:approval", tool=call.name, call_id=call.call_id)

    async def postpone(self, until_ms: int) -> None:
        """Free the agent until a server wants to be asked again (SPEC 13.5)."""
        moment = from_ms(until_ms)
        self._log.run.retry_at_ms = until_ms
        async with self._scope.transaction():
            changes = await self._store()
            await self._parts.queue.beat_at(moment)
        self._log.committed(changes, [])
        self.is_reached = True
        self._log.tell("harness:postpone", until=moment)

    async def finish(self, status: RunStatus, reason: str = "", answer: AnswerEntry | None = None) -> None:
        """End the run: every call gets its result, the turn is closed, and the next run may begin.

        Nothing of it is so long that it can't be stored: an end always comes.

        Args:
            status: How it ends.
            reason: Which limit, or why it failed.
            answer: The model's last word; without one the harness closes the turn.
        """
        run, live = self._log.run, self._parts.live
        reason = fitting(clipped(reason, _LONGEST_REASON), self._log.room // 2)
        lines: list[Entry] = [self._closed(call, reason or status) for call in self._log.transcript.open_calls()]
        run.status, run.reason, run.retry_at_ms, run.awaiting, run.output = status, reason, None, [], None
        run.text = self._log.fitting(self._latest_text() if answer is None else answer.text)
        if status != "completed":
            run.value = None
        run.ended_ms = self._scope.clock.now_ms()
        lines.append(answer or self._closing(status, reason))
        async with self._scope.transaction():
            changes = await self._store(lines)
            await self._scope.storage.delete(cancel_key(run.id))
            await self._parts.queue.remove(run.id)
        self._log.committed(changes, lines)
        self.is_reached = True
        live.reset()
        live.rest()
        told = reason if status == "stopped" else ""
        self._log.tell("harness:end", status=status, reason=told, turns=run.turns, tokens=run.usage.tokens)

    async def _store(self, lines: Sequence[Entry] = ()) -> Mapping[str, Any]:
        changes = self._log.changes(lines)
        await self._scope.storage.put_many(changes)
        return changes

    def _closed(self, call: CallEntry, reason: str) -> CallEntry:
        arguments = self._log.arguments(call)
        if call.state == "started" and call.effect != "read":
            return ended(call, arguments, "unknown", UNKNOWN)
        return ended(call, arguments, "cancelled", f"Not run: the run was ended ({reason}).")

    def _closing(self, status: str, reason: str) -> AnswerEntry:
        """Return what stands in for the model's last word: what had come of it, and why no more did."""
        why = {"stopped": f"stopped by its limit: {reason}", "failed": "given up after an error"}.get(status, status)
        text = f"{self._log.fitting(self._parts.live.text)}\n[This run was {why}.]".strip()
        return AnswerEntry(number=self._log.transcript.next_number, run=self._log.run.id, text=text)

    def _latest_text(self) -> str:
        """Return what the run has to say for itself: what was coming in, else its latest words."""
        if self._parts.live.text:
            return self._parts.live.text
        for entry in reversed(self._log.transcript.entries):
            if isinstance(entry, AnswerEntry) and entry.run == self._log.run.id and entry.text:
                return entry.text
        return ""
