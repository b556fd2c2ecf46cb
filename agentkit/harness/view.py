"""Turns lines of the log into the messages that providers take, each once: a long conversation costs no more a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from agentkit.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, check_history
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, UserEntry
from agentkit.harness.repetition import WARN_AT, WARNING, Repetition
from agentkit.json_value import plain

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_BROKEN: Final = 1_000
#: Stands in for an answer whose thinking took all the length there was.
_NOTHING: Final = "[This answer was cut off before it said anything.]"


class View:
    """What a model is shown of the log.

    Attributes:
        messages: So far.
        repetition: Of what was done.
        seen: How many lines that is.
    """

    def __init__(self, summary: str = "") -> None:
        self.messages: list[Message] = [UserMessage(text=summary)] if summary else []
        self.repetition = Repetition()
        self.seen = 0

    def catch_up(self, entries: Sequence[Entry]) -> None:
        """Take further lines in; every call among them has its result.

        Raises:
            HarnessError: No provider would take the messages.
        """
        if self.seen == len(entries):
            return
        first = len(self.messages)
        for is_call, group in groupby(entries[self.seen :], key=lambda entry: isinstance(entry, CallEntry)):
            if is_call:
                self._add_calls([entry for entry in group if isinstance(entry, CallEntry)])
            else:
                for entry in group:
                    self._add(entry)
        check_history(self.messages[first:])
        self.seen = len(entries)

    def _add(self, entry: Entry) -> None:
        last = self.messages[-1] if self.messages else None
        match entry:
            case UserEntry(text=text) if isinstance(last, UserMessage):  # some providers take no two in a row
                self.messages[-1] = UserMessage(text=f"{last.text}\n\n{text}")
            case UserEntry(text=text):
                self.messages.append(UserMessage(text=text))
            case AnswerEntry(text=text, calls=()) if not text.strip():
                # Some providers refuse an empty message, others thinking without an answer.
                self.messages.append(AssistantMessage(text=_NOTHING))
            case AnswerEntry():
                calls = tuple(_sendable(call) for call in entry.calls)
                self.messages.append(
                    AssistantMessage(text=entry.text, calls=calls, source=entry.source, extra=dict(entry.extra))
                )

    def _add_calls(self, calls: Sequence[CallEntry]) -> None:
        for call, count in zip(calls, self.repetition.add(calls), strict=True):
            warning = f"\n\n{WARNING.format(count=count)}" if count >= WARN_AT else ""
            self.messages.append(ToolMessage(call_id=call.id, name=_sendable_name(call.name), text=call.text + warning))


def _sendable(call: ToolCall) -> ToolCall:
    """Return a call as providers take it back: with a proper name, and a JSON object for arguments."""
    arguments = call.arguments
    if not _is_object(arguments):
        arguments = json.dumps({"invalid_arguments": arguments[:_LONGEST_BROKEN]}) if arguments.strip() else "{}"
    return replace(call, name=_sendable_name(call.name), arguments=arguments)


def _is_object(arguments: str) -> bool:
    """Tell whether strict servers take arguments as a JSON object: not what Python alone reads, nor half characters."""
    try:
        value = json.loads(arguments)
        json.dumps(plain(value, "arguments"), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _sendable_name(name: str) -> str:
    return _NO_NAME.sub("_", name)[:64] or "unknown"
