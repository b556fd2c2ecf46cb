"""What to do about a request: schedule what is clear, ask about what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from agentkit.clock import to_ms
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.timing import Parse, is_pure
from agentkit.schedules.chat.view import Decision, Make, View, asked, said

#: A request that names nothing yet.
_BARE: Final = re.compile(
    r"(?:please )?(?:remind|tell|ping|notify|alert|message) (?:me|us)"
    r"|(?:set|add|make|create|schedule)(?: (?:a|an|the))?(?: new)?(?: (?:reminder|alarm|schedule|timer|task))?"
    r"|remind|reminder|schedule",
    re.IGNORECASE,
)


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
    return Make(plan=plan, task=plan.description)
