"""Decides, without doing anything, what becomes of the calls in an answer and which of them runs next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from agentkit.harness.messages import ToolCall
from agentkit.harness.model import Reply
from agentkit.harness.reasons import InvalidArguments, read_with
from agentkit.harness.records import CallEntry, Ending
from agentkit.harness.repetition import digest_of
from agentkit.harness.tools import Tool

#: So many calls of one answer are run; the rest is told to come later.
MOST_CALLS: Final = 32
#: So many that only read run at a time.
MOST_AT_ONCE: Final = 8
_LONGEST_ID: Final = 64

_CUT_OFF: Final = (
    "Not run: the answer was cut off at its longest length, so the arguments may be incomplete. Send less at once."
)
UNKNOWN: Final = (
    "Outcome unknown: the process ended while this call was running, so it may or may not have taken effect. It was "
    "not repeated. Find out before you make it again."
)


def plan_calls(
    reply: Reply, *, number: int, run: str, tools: Mapping[str, Tool], taken: set[str]
) -> tuple[tuple[ToolCall, ...], list[CallEntry]]:
    """Return the calls of an answer as they are stored, and a line for each.

    One that can't run has its result at once: cut off, unknown, with wrong arguments, too many.

    Args:
        reply: The answer.
        number: Its number in the log.
        run: The run it belongs to.
        tools: What there is.
        taken: Ids of calls that the conversation has already.
    """
    calls, entries = [], []
    taken, given = set(taken), {call.id for call in reply.calls}
    for position, call in enumerate(reply.calls):
        own = number + 1 + position
        is_good = call.id.strip() and call.id not in taken and len(call.id) <= _LONGEST_ID
        id = call.id if is_good else _new_id(own, taken | given)
        taken.add(id)
        calls.append(replace(call, id=id))
        entry = _line(call, CallEntry(number=own, run=run, id=id, name=call.name, effect="once"), reply, tools)
        if position >= MOST_CALLS and entry.state != "done":
            entry = ended(entry, call.arguments, "invalid", f"Not run: more than {MOST_CALLS} calls at once.")
        entries.append(entry)
    return tuple(calls), entries


def _new_id(number: int, taken: set[str]) -> str:
    """Return an id that no call has, nor any that the model is about to have given."""
    id = f"call_{number}"
    while id in taken:
        id += "_"
    return id


def _line(call: ToolCall, entry: CallEntry, reply: Reply, tools: Mapping[str, Tool]) -> CallEntry:
    tool = tools.get(call.name)
    if reply.finish == "length":
        return ended(entry, call.arguments, "invalid", _CUT_OFF)
    if tool is None:
        there_are = ", ".join(tools) or "none"
        return ended(entry, call.arguments, "invalid", f"There is no tool {call.name!r}; there are: {there_are}.")
    try:
        read_with(tool.read, call.arguments)
    except InvalidArguments as error:
        return ended(entry, call.arguments, "invalid", f"Not run, the arguments are wrong: {error}")
    return replace(entry, effect=tool.effect, state="awaiting" if tool.approve else "planned")


def ended(entry: CallEntry, arguments: str, ending: Ending, text: str) -> CallEntry:
    """Return a call's line with its result."""
    digest = digest_of(entry.name, arguments, text)
    return replace(entry, state="done", ending=ending, text=text, digest=digest)


def next_calls(open_calls: Sequence[CallEntry]) -> list[CallEntry]:
    """Return what runs next of the open calls of an answer: in order, but calls that only read together.

    Nothing overtakes a call that waits for a person: the model may have counted on its result.
    """
    ready = list(takewhile(lambda call: call.state != "awaiting", open_calls))
    if not ready:
        return []
    reading = list(takewhile(lambda call: call.effect == "read", ready))
    return reading[:MOST_AT_ONCE] or ready[:1]


def intents(open_calls: Sequence[CallEntry]) -> list[CallEntry]:
    """Return the lines that say which calls begin now; none while others are under way."""
    if any(call.state == "started" for call in open_calls):
        return []
    return [replace(call, state="started") for call in next_calls(open_calls)]


def repaired(open_calls: Sequence[CallEntry], arguments: Mapping[int, str]) -> list[CallEntry]:
    """Return new lines for the calls that a crash cut off (SPEC 13.3).

    Args:
        open_calls: Without a result.
        arguments: Of the calls, by number.
    """
    cut_off = [call for call in open_calls if call.state == "started"]
    return [
        ended(call, arguments[call.number], "unknown", UNKNOWN)
        if call.effect == "once"
        else replace(call, state="planned")
        for call in cut_off
    ]
