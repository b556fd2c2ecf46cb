"""Follows a run: what is stored of it first, then what comes, so that it can be begun at any time (SPEC 13.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from agentkit.harness.outcome import outcome_of
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, RunRecord
from agentkit.harness.run import CallEnded, CallStarted, RunEnded, StreamEvent, TextDelta, TextDiscarded
from agentkit.harness.signals import Live


class Source(Protocol):
    """Where a follower looks."""

    live: Live

    async def record(self, id: str) -> RunRecord:
        """Return the run as it stands."""

    async def line(self, number: int) -> Entry | None:
        """Return a line of the log; None if there is none yet."""

    def is_live(self, id: str) -> bool:
        """Tell whether what is coming in belongs to this run."""


class Follower:
    """Turns the lines of a run, and the answer that is coming in, into events; holds no more than its place."""

    def __init__(self, source: Source, id: str) -> None:
        self._source = source
        self._id = id
        self._number = -1
        self._shown = ""
        self._attempt = source.live.attempt
        self._begun = False
        #: All that is stored has been shown: what is coming in is what comes next.
        self._is_at_end = False

    async def follow(self) -> AsyncIterator[StreamEvent]:
        """Yield events until the run has ended."""
        while True:
            changed = self._source.live.signal.next()
            run = await self._source.record(self._id)
            # Looked at first: while events are handed on, the run may end, and what it said last comes before its end.
            outcome = outcome_of(run)
            if run.first >= 0:
                self._number = max(self._number, run.first + 1)
                async for event in self._stored():
                    yield event
                # All of it at once: while one is handed on, the answer may be stored and the next one be coming in.
                is_next = self._is_at_end and self._source.is_live(self._id)
                for event in list(self._coming()) if is_next else ():
                    yield event
            if outcome is not None:
                yield RunEnded(outcome=outcome)
                return
            await changed.wait()

    async def _stored(self) -> AsyncIterator[StreamEvent]:
        while True:
            line = await self._source.line(self._number)
            self._is_at_end = line is None
            if line is None or line.run != self._id:
                return
            if isinstance(line, AnswerEntry):
                for event in self._answer(line):
                    yield event
            if isinstance(line, CallEntry):
                for event in self._call(line):
                    yield event
                if line.state != "done":
                    return
            self._number += 1
            self._begun = False

    def _answer(self, line: AnswerEntry) -> Iterator[StreamEvent]:
        """Yield what of an answer has not been shown as it came; what the harness closed a turn with is not text."""
        if line.source and not line.text.startswith(self._shown):
            yield TextDiscarded()
            self._shown = ""
        if line.source and len(line.text) > len(self._shown):
            yield TextDelta(text=line.text[len(self._shown) :])
        self._shown = ""
        self._attempt = self._source.live.attempt

    def _call(self, line: CallEntry) -> Iterator[StreamEvent]:
        if not self._begun and line.state in ("started", "done"):
            self._begun = True
            yield CallStarted(call_id=line.call_id, tool=line.name)
        if line.state == "done":
            yield CallEnded(call_id=line.call_id, tool=line.name, ending=line.ending, text=line.text)

    def _coming(self) -> Iterator[StreamEvent]:
        live = self._source.live
        if live.attempt != self._attempt:
            self._attempt = live.attempt
            if self._shown:
                yield TextDiscarded()
            self._shown = ""
        if len(live.text) > len(self._shown):
            shown, self._shown = self._shown, live.text
            yield TextDelta(text=live.text[len(shown) :])
