"""Shortens what the model is shown when it grows longer than the model's context; the log keeps every line (SPEC 13.6).

The cut is always between turns, so that no call is parted from its result. What is before it becomes a summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agentkit.errors import ModelError
from agentkit.harness.answering import Answering
from agentkit.harness.asking import TOKEN, estimate_tokens
from agentkit.harness.messages import UserMessage
from agentkit.harness.model import ChatModel, ChatRequest
from agentkit.harness.output import clipped
from agentkit.harness.parts import Parts
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, Head, UserEntry, entry_key
from agentkit.harness.run_log import RunLog
from agentkit.harness.transcript import Transcript
from agentkit.prompts import load_prompt

#: How full the context may get.
_FULL: Final = 0.8
#: What of that is kept word for word.
_KEPT: Final = 0.25
#: What of that the record may take that a summary is made of.
_RECORD: Final = 0.5
#: Where less than this of it are lines that could be cut, instructions and tools fill the context: no cut helps.
_WORTH: Final = 0.1
#: Of one message or result in the record, in characters.
_LONGEST_LINE: Final = 2_000
_LONGEST_SUMMARY: Final = 2_048
_SHORTEST_SUMMARY: Final = 100
_LONGEST_REQUEST: Final = 10_000
#: Shorter than this no result is cut.
_SHORTEST_RESULT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What is to be stored.

    Attributes:
        head: Where the view now begins.
        summary: What stands in for what is before it.
        entries: Results that were shortened, by their new lines.
        full: Those results as they were, by number.
    """

    head: Head
    summary: str
    entries: Sequence[CallEntry]
    full: Mapping[int, str]


def size_of(transcript: Transcript, instructions: str) -> int:
    """Return about how many tokens a request takes: as counted for the latest answer, and what has come since."""
    for position in range(len(transcript.entries) - 1, -1, -1):
        entry = transcript.entries[position]
        if isinstance(entry, AnswerEntry) and entry.tokens and entry.number >= transcript.head.compacted_at:
            return entry.tokens + _tokens(transcript.entries[position + 1 :])
    return estimate_tokens(transcript.messages()) + len(instructions) // TOKEN


def longest_view(parts: Parts) -> int:
    """Return how many tokens a request may take."""
    room = max(parts.context_tokens - parts.max_tokens, parts.context_tokens // 2)
    return min(int(parts.context_tokens * _FULL), room)


class Compacting:
    """Makes the view of one run shorter."""

    def __init__(self, parts: Parts, log: RunLog, answering: Answering) -> None:
        self._parts = parts
        self._run = log.run
        self._transcript = log.transcript
        self._answering = answering

    @property
    def is_due(self) -> bool:
        """The view has grown too long, and a cut would help."""
        longest = longest_view(self._parts)
        is_long = size_of(self._transcript, self._parts.instructions) > longest
        return is_long and _tokens(self._transcript.entries) > longest * _WORTH

    async def compact(self, model: ChatModel, *, longest: int) -> Compacted | None:
        """Return how to shorten the view; None if that is not possible, or the run is to end.

        Args:
            model: Makes the summary. One that gives none is done without.
            longest: Tokens that the view may have.

        Raises:
            Postponed: The model's server asks for a long wait.
        """
        transcript = self._transcript
        # In tokens as we estimate them: of some languages they are fewer than the server counts.
        longest = int(longest * min(1.0, _tokens(transcript.entries) / max(size_of(transcript, ""), 1)))
        start = cut_at(transcript.entries, int(longest * _KEPT))
        before, kept = transcript.entries[:start], transcript.entries[start:]
        shortened = shorter_results(kept, int(longest * _KEPT) * TOKEN)
        if not before and not shortened:
            return None
        summary = transcript.summary
        if before:
            record = to_record(before, longest=int(longest * _RECORD) * TOKEN)
            told = await self._told(model, record, room=int(longest * _KEPT))
            if told is None:
                return None
            summary = await self._summary(told, before[-1].number, longest=int(longest * _KEPT) * TOKEN)
        head = replace(transcript.head, start=transcript.head.start + start, compacted_at=transcript.head.count)
        full = {entry.number: entry.text for entry in kept if isinstance(entry, CallEntry) and not entry.is_clipped}
        return Compacted(
            head=head,
            summary=summary,
            entries=shortened,
            full={entry.number: full[entry.number] for entry in shortened if entry.number in full},
        )

    async def _summary(self, told: str, last: int, *, longest: int) -> str:
        """Return a summary with the message that the run is about, if that is left out, wherever it is by now."""
        summary = load_prompt("compact_summary").fill(summary=told)
        if self._run.first > last:
            return summary
        stored = await self._parts.lifecycle.storage.get(entry_key(self._run.first))
        request = clipped(stored["text"], min(_LONGEST_REQUEST, longest))
        return f"{summary}\n\n{load_prompt('compact_request').fill(request=request)}"

    async def _told(self, model: ChatModel, record: str, *, room: int) -> str | None:
        """Return what stands in for the record and for what was before it, in so many tokens; None at an end."""
        before = self._transcript.summary
        request = ChatRequest(
            instructions=load_prompt("compact").text,
            messages=(UserMessage(text=load_prompt("compact_record").fill(before=before, record=record)),),
            max_tokens=max(min(_LONGEST_SUMMARY, self._parts.max_tokens, room), _SHORTEST_SUMMARY),
            answers=self._transcript.head.answers,
            purpose="summary",
        )
        try:
            reply = await self._answering.ask(model, request)
            if reply is not None and not reply.text.strip():
                raise ModelError(f"{model.name} gave an empty summary")
        except ModelError:
            # Better to go on with a poor memory than not at all.
            return clipped(f"{before}\n\n{record}".strip(), room * TOKEN)
        return None if reply is None else clipped(reply.text, room * TOKEN)


def cut_at(entries: Sequence[Entry], tokens: int) -> int:
    """Return the position from which on lines are kept: the first turn from which on they take so many tokens at most.

    The latest turn is always kept, however long.
    """
    start = len(entries)
    for position in range(len(entries) - 1, -1, -1):
        if isinstance(entries[position], CallEntry):
            continue
        if start < len(entries) and _tokens(entries[position:]) > tokens:
            break
        start = position
    return start


def shorter_results(entries: Sequence[Entry], characters: int) -> list[CallEntry]:
    """Return new lines for results that must be shorter so that all lines take so many characters at most."""
    calls = [entry for entry in entries if isinstance(entry, CallEntry)]
    if not calls or sum(len(call.text) for call in calls) <= characters:
        return []
    longest = max(characters // len(calls), _SHORTEST_RESULT)
    return [
        replace(call, text=clipped(call.text, longest), is_clipped=True) for call in calls if len(call.text) > longest
    ]


def to_record(entries: Sequence[Entry], *, longest: int) -> str:
    """Return lines as the text that a summary is made of; long ones, and a long text, without their middle."""
    lines = []
    for entry in entries:
        match entry:
            case UserEntry(text=text):
                lines.append(f"User: {clipped(text, _LONGEST_LINE)}")
            case AnswerEntry(text=text, calls=calls):
                lines.append(f"Assistant: {clipped(text, _LONGEST_LINE)}")
                lines += [f"Call of {call.name}: {clipped(call.arguments, _LONGEST_LINE)}" for call in calls]
            case CallEntry(name=name, text=text):
                lines.append(f"Result of {name}: {clipped(text, _LONGEST_LINE)}")
    return clipped("\n".join(lines), longest)


def _tokens(entries: Sequence[Entry]) -> int:
    size = 0
    for entry in entries:
        size += len(entry.text)
        if isinstance(entry, AnswerEntry):
            size += sum(len(call.arguments) for call in entry.calls)
    return size // TOKEN
