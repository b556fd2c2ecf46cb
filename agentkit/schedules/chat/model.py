"""Where a model takes part in a conversation: it reads requests that the rules would have to ask about."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from agentkit.clock import to_ms
from agentkit.errors import ConfigurationError, ParseError
from agentkit.plain_text import one_line
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.view import Decision, Make, Say, View, asked

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule, ScheduleParser

logger = logging.getLogger(__name__)

Read: TypeAlias = "Callable[[str, View], Awaitable[ParsedSchedule | None]]"


class ModelReader:
    """Asks a model about a text once, for the length of one message.

    What it said is kept, so that deciding anew inside of a transaction waits for no network.
    """

    def __init__(self, parser: ScheduleParser | None) -> None:
        self._parser = parser
        self._read: dict[str, ParsedSchedule | None] = {}

    async def read(self, text: str, view: View) -> ParsedSchedule | None:
        """Return the model's reading; None if there is none, or the rules needed no help."""
        if text not in self._read and self._parser is not None:
            self._read[text] = await self._ask(self._parser, text, view)
        return self._read.get(text)

    async def recall(self, text: str, view: View) -> ParsedSchedule | None:
        """Return what ``read`` returned for that text, asking nobody."""
        return self._read.get(text)

    async def _ask(self, parser: ScheduleParser, text: str, view: View) -> ParsedSchedule | None:
        try:
            plan = await parser.parse(text, now=view.now, timezone=view.timezone)
        except (ParseError, ConfigurationError) as error:
            # The message may hold words of the user.
            logger.warning(
                "the model gave no answer (%s), so the rules answer; `agentkit parse --model` shows why",
                type(error).__name__,
            )
            return None
        return plan if plan.source == "model" else None


async def assisted(decision: Decision, text: str, view: View, read: Read) -> Decision:
    """Return the decision, or a better one if a model can read what the rules could not.

    Args:
        decision: What the rules came to.
        text: The message.
        view: What that was decided on.
        read: Returns a model's reading of a request.
    """
    request = _unread(decision, text, view)
    plan = await read(request, view) if request is not None else None
    if request is None or plan is None or not isinstance(decision, Say):
        return decision
    pending = decision.memory.pending
    before = view.memory.open_question(view.now)
    task = one_line(plan.description) or (before.task if before is not None else "")
    if plan.question:
        given_up = pending is None and before is not None
        return (
            decision if given_up else _asked(plan.question, request, task, view, tries=pending.tries if pending else 0)
        )
    if plan.when.type == "no-schedule":
        return decision
    if not task:
        what = Pending(kind="what", asked_at_ms=to_ms(view.now), request=request)
        return asked(replies.WHAT, what, view)
    return Make(plan=plan, task=task)


def _asked(question: str, request: str, task: str, view: View, *, tries: int) -> Say:
    question = one_line(question)
    pending = Pending(
        kind="when", asked_at_ms=to_ms(view.now), request=request, task=task, question=question, tries=tries
    )
    return asked(question, pending, view)


def _unread(decision: Decision, text: str, view: View) -> str | None:
    """Return the request that the rules could not read, together with the answer to their question; None if none."""
    if not isinstance(decision, Say) or decision.reply == replies.WHAT_AND_WHEN:
        return None
    pending, before = decision.memory.pending, view.memory.open_question(view.now)
    is_answer = before is not None and before.kind == "when" and bool(before.question)
    if pending is not None and pending.kind == "when":
        is_answer = is_answer and before is not None and pending.request == before.request
        return f"{pending.request}\n{text}" if is_answer else pending.request
    if decision.reply != replies.NOT_UNDERSTOOD:
        return None
    return f"{before.request}\n{text}" if before is not None and is_answer else text
