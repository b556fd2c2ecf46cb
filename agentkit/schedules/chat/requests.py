"""What to do about a request: schedule what is clear, ask about what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from agentkit.clock import to_ms
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.targets import Entry
from agentkit.schedules.chat.timing import Parse, is_pure
from agentkit.schedules.chat.view import Decision, Make, View, asked, said

#: A request that names nothing yet.
_BARE: Final = re.compile(
    r"(?:please )?(?:remind|tell|ping|notify|alert|message) (?:me|us)"
    r"|(?:set|add|make|create|schedule)(?: (?:a|an|the))?(?: new)?(?: (?:reminder|alarm|schedule|timer|task))?"
    r"|remind|reminder|schedule",
    re.IGNORECASE,
)


#: "Make tea every 3 hours" is a new task, or the new time of the task "tea".
_TO_CHANGE: Final = re.compile(
    r"(?:make|set|change|switch|turn|put|get|move|run|do|update|reschedule)\s+(?:(?:the|my)\s+)?(?P<name>.+)",
    re.IGNORECASE,
)


def _named_as_if_to_change(task: str, view: View) -> tuple[Entry, ...]:
    """Return the schedules whose whole task follows a verb of changing; none if the task itself is scheduled."""
    found = _TO_CHANGE.fullmatch(task)
    if not found or any(_plain(entry.task) == _plain(task) for entry in view.entries):
        return ()
    return tuple(entry for entry in view.entries if _plain(entry.task) == _plain(found["name"]))


def _plain(task: str) -> str:
    return re.sub(r"^(?:the|my) ", "", " ".join(task.casefold().split()).strip(" .,!"))


async def requested(text: str, view: View, parse: Parse) -> Decision:
    """Return what to do about a request."""
    plan = await parse(text)
    if _BARE.fullmatch(text.strip(" .,!")):
        plan = replace(plan, description="", question=replies.WHAT_AND_WHEN)
    asked_at_ms = to_ms(view.now)
    if plan.question:
        pending = Pending(
            kind="when", asked_at_ms=asked_at_ms, request=text, task=plan.description, question=plan.question
        )
        return asked(plan.question, pending, view)
    if plan.when.type == "no-schedule":
        # A time that comes next completes "send the report", but neither a question nor a single word.
        is_task = not text.endswith("?") and len(text.split()) > 1
        open_end = Pending(kind="when", asked_at_ms=asked_at_ms, request=text, task=plan.description)
        return said(replies.NOT_UNDERSTOOD, view, pending=open_end if is_task else None)
    if is_pure(plan):
        return asked(replies.WHAT, Pending(kind="what", asked_at_ms=asked_at_ms, request=text), view)
    named = _named_as_if_to_change(plan.description, view)
    if named:
        numbers = tuple(entry.number for entry in named)
        either = Pending(kind="change_or_new", asked_at_ms=asked_at_ms, request=text, numbers=numbers)
        return asked(replies.change_or_new(named, plan.description, view.now), either, view)
    return Make(plan=plan, task=plan.description)
