"""The part of the log that the model is shown, in memory while runs are driven; the log itself only grows.

What is changed here is first committed by whoever drives the run: ``changes`` says what to store, ``take`` takes it
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from agentkit.harness.messages import Message, ToolCall
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, Head, entry_key, to_entry, to_head
from agentkit.harness.view import View
from agentkit.storage import Storage

HEAD: Final = "head"
SUMMARY: Final = "summary"


class Transcript:
    """The log from the latest summary on.

    Attributes:
        head: Where the log stands.
        summary: What stands in for what came before; empty if nothing was left out.
        entries: The lines from ``head.start`` on.
    """

    def __init__(self, head: Head, summary: str, entries: list[Entry]) -> None:
        self.head = head
        self.summary = summary
        self.entries = entries
        self._view = View(summary)

    @classmethod
    async def load(cls, storage: Storage) -> Self:
        """Read it, with one read of the lines that count."""
        head = to_head(await storage.get(HEAD))
        summary = await storage.get(SUMMARY, "") if head.start else ""
        stored = await storage.list(prefix="msg:", start=entry_key(head.start))
        return cls(head, summary, [to_entry(line) for line in stored.values()])

    # --- looking

    @property
    def next_number(self) -> int:
        """The number that the next line gets."""
        return self.head.count

    @property
    def last(self) -> Entry | None:
        """The latest line."""
        return self.entries[-1] if self.entries else None

    def open_calls(self) -> list[CallEntry]:
        """Return the calls of the latest answer that have no result yet, in order."""
        found: list[CallEntry] = []
        for entry in reversed(self.entries):
            if not isinstance(entry, CallEntry):
                break
            if entry.state != "done":
                found.insert(0, entry)
        return found

    def call_of(self, entry: CallEntry) -> ToolCall:
        """Return the call that a line is about, as the model made it."""
        for position in range(entry.number - 1, self.head.start - 1, -1):
            answer = self.entries[position - self.head.start]
            if isinstance(answer, AnswerEntry):
                return answer.calls[entry.number - answer.number - 1]
        message = f"call {entry.call_id} has no answer in front of it"
        raise LookupError(message)

    def call_ids(self) -> set[str]:
        """Return the ids under which providers know the calls there are."""
        return {entry.id for entry in self.entries if isinstance(entry, CallEntry)}

    @property
    def repetitions(self) -> int:
        """How often in a row the latest turn has done the same."""
        self._view.catch_up(self.entries)
        is_latest = isinstance(self.last, CallEntry)
        return self._view.repetition.count if is_latest else 0

    def messages(self) -> tuple[Message, ...]:
        """Return what a model is shown, once every call has its result.

        Raises:
            HarnessError: No provider would take it, which is a fault of ours: nothing is sent.
        """
        self._view.catch_up(self.entries)
        return tuple(self._view.messages)

    # --- changing

    def changes(self, entries: Iterable[Entry]) -> dict[str, Any]:
        """Return what to store so that these lines, new ones or new states of calls, are in the log."""
        entries = list(entries)
        changes: dict[str, Any] = {entry_key(entry.number): entry for entry in entries}
        head = self._head_with(entries)
        return changes if head == self.head else {**changes, HEAD: head}

    def take(self, entries: Iterable[Entry]) -> None:
        """Take over what was stored."""
        entries = list(entries)
        self.head = self._head_with(entries)
        for entry in sorted(entries, key=lambda each: each.number):
            position = entry.number - self.head.start
            if position < len(self.entries):
                self.entries[position] = entry
                if position < self._view.seen:
                    self._view = View(self.summary)
            else:
                self.entries.append(entry)

    def cut(self, head: Head, summary: str) -> None:
        """Take over that a summary now stands in for the lines before ``head.start``."""
        self.entries = self.entries[head.start - self.head.start :]
        self.head, self.summary = head, summary
        self._view = View(summary)

    def _head_with(self, entries: Sequence[Entry]) -> Head:
        new = [entry for entry in entries if entry.number >= self.head.count]
        answers = sum(1 for entry in new if isinstance(entry, AnswerEntry) and entry.source)
        return replace(self.head, count=self.head.count + len(new), answers=self.head.answers + answers)
