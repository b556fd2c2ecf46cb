"""What an open request and the answer to its question say together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.timing import Parse, is_complete, is_pure, is_recurring

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_AMOUNT: Final = re.compile(
    r"(?:about )?(?:\d+|an?|one|two|three|five|ten|half an?|a few) ?(?:s|m|h|sec|min|hour|hr|day|week|month)",
    re.IGNORECASE,
)
_REPEATED: Final = re.compile(
    r"\b(?:every|each|daily|hourly|weekly|monthly|yearly|annually|sometimes|regularly|often|(?:mon|tues|wednes|thurs|fri|satur|sun)days)\b",
    re.IGNORECASE,
)
_DATE: Final = (
    r"(?:(?:in|on|the|next|this|early|mid|late) )*"
    r"(?:\d{4}-\d\d-\d\d|\d{1,2}(?:st|nd|rd|th)?(?: of)? [a-z]{3,9}|[a-z]+(?: \d{1,2}(?:st|nd|rd|th)?\b)?)"
    r"(?:,? \d{4}\b)?"
)
_START: Final = re.compile(rf"\b(?:from|starting|beginning|as of|since)(?: with| from)? {_DATE}", re.IGNORECASE)
_END: Final = re.compile(rf"\b(?:until|till|through|ending) {_DATE}", re.IGNORECASE)
_CLOCK: Final = re.compile(
    r"\bat (?:\d{1,2}(?:[:.]\d{2})?(?: ?[ap]\.?m\b\.?)?|noon|midnight)|\b\d{1,2}(?::\d{2})? ?[ap]m\b|\b\d{1,2}:\d{2}\b",
    re.IGNORECASE,
)


async def completed(pending: Pending, answer: str, parse: Parse) -> tuple[ParsedSchedule, str, str] | None:
    """Return the plan, its task and the request that an answer makes of an open one; None if it makes none.

    The answer is read together with the request first ("on Friday" and "at 5"), then in the place of the request's
    words of the same kind ("from January" and "starting January 8"), then by itself, for requests whose own timing only
    stands in the way ("soon"). What was to run again and again never becomes something that runs once.
    """
    request = pending.request
    placed = f"in {answer}" if _AMOUNT.match(answer) else f"at {answer}"
    for text in (f"{request} {answer}", f"{request} {placed}"):
        plan = await parse(text)
        if is_complete(plan) and plan.description == pending.task:
            return plan, plan.description, text
    is_repeated = is_recurring(await parse(request)) or _REPEATED.search(request) is not None
    for text in _replaced(request, answer) if is_repeated else ():
        plan = await parse(text)
        if is_complete(plan) and is_recurring(plan) and plan.description in pending.task:
            return plan, plan.description, text
    for text in (answer, placed):
        plan = await parse(text)
        if is_pure(plan) and (is_recurring(plan) or not is_repeated):
            return plan, pending.task, text
    return None


def _replaced(request: str, answer: str) -> list[str]:
    """Return the request with its start, its end or its time of day exchanged for an answer of that kind."""
    answer = answer.strip(" ,.!")
    texts = []
    for words in (_START, _END, _CLOCK):
        if words.match(answer) and words.search(request):
            texts.append(words.sub("", request, count=1) + f" {answer}")
            texts.append(words.sub(lambda _: answer, request, count=1))
    return texts
