"""How an answer completes a request whose time was not clear."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentkit.schedules.chat_changes import Parse, is_pure
from agentkit.schedules.chat_memory import Pending

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_BEGINNINGS: Final = re.compile(
    r"(?:please |can you |could you )?(?:remind|tell|ping|notify|wake|set|add|schedule|create|let me know|don't forget)\b",
    re.IGNORECASE,
)


async def completed(pending: Pending, answer: str, parse: Parse) -> tuple[ParsedSchedule, str, str] | None:
    """Return the plan, its task and the request that an answer makes of an open one; None if it makes none.

    The answer is read together with the request first ("on Friday" and "at 5"), then by itself, for requests
    whose own timing only stands in the way ("soon").
    """
    request = pending.request
    for text in (f"{request} {answer}", f"{request} at {answer}"):
        plan = await parse(text)
        if is_complete(plan) and plan.description == pending.task:
            return plan, plan.description, text
    for text in (answer, f"at {answer}", f"in {answer}"):
        plan = await parse(text)
        if is_pure(plan):
            return plan, pending.task, text
    return None


def is_complete(plan: ParsedSchedule) -> bool:
    """Return whether a text says both what and when."""
    return plan.question is None and plan.when.type != "no-schedule" and not is_pure(plan)


def begins_a_request(text: str) -> bool:
    """Return whether a text opens as requests do, rather than answers."""
    return _BEGINNINGS.match(text.strip()) is not None
