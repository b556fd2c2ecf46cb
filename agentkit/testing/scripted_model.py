"""A language model that says what a test has written down."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from agentkit.errors import ModelError
from agentkit.harness.messages import ToolCall, Usage
from agentkit.harness.model import ChatRequest, Delta, Reply

Answer: TypeAlias = str | ToolCall | Sequence[ToolCall] | Reply | Exception
Step: TypeAlias = Answer | Callable[[ChatRequest], Answer | Awaitable[Answer]]

_BITS: Final = re.compile(r"\s*\S+|\s+$")
_USAGE: Final = Usage(input_tokens=10, output_tokens=5)


def tool_call(tool: str, /, **arguments: Any) -> ToolCall:
    """Return a call for a script.

    >>> tool_call("add", a=1, b=2).arguments
    '{"a": 1, "b": 2}'
    """
    return ToolCall(id="", name=tool, arguments=json.dumps(arguments))


class ScriptedModel:
    """A ``ChatModel`` that gives its steps one after another; see ``ManualRuntime(model=…)``.

    A step is a text, a call or several (``tool_call``), a ``Reply``, an error to raise, or a function of the request,
    plain or not, that returns one of these. Which step is next is told by the conversation: one whose answer was lost
    in a crash is given again, and errors are raised once each.

    >>> model = ScriptedModel(tool_call("add", a=1, b=2), "It is 3.")

    Attributes:
        requests: What it was asked, every time.
        name: What the transcript calls it.
        summary: What it answers where a conversation is to be shortened.
    """

    def __init__(
        self, *steps: Step, name: str = "scripted", summary: str = "Much was said.", usage: Usage | None = _USAGE
    ) -> None:
        """Write a script.

        Args:
            steps: The answers, in order.
            name: What the transcript calls it.
            summary: What it answers where a conversation is to be shortened.
            usage: What each answer takes; None if nobody counts.
        """
        self._usage = usage
        self.requests: list[ChatRequest] = []
        self.name = name
        self.summary = summary
        self._answers: list[Step] = [step for step in steps if not isinstance(step, Exception)]
        self._errors = _errors_before(steps)

    async def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        """Give the next step, text word by word."""
        self.requests.append(request)
        answer = self.summary if request.purpose == "summary" else await self._next(request)
        reply = self._to_reply(answer)
        for bit in _BITS.findall(reply.text):
            yield Delta(text=bit)
        yield reply

    async def _next(self, request: ChatRequest) -> Answer:
        errors = self._errors.get(request.answers, [])
        if errors:
            raise errors.pop(0)
        if request.answers >= len(self._answers):
            raise ModelError(f"the script has {len(self._answers)} answers, and was asked for one more")
        step = self._answers[request.answers]
        if isinstance(step, str | ToolCall | Reply | Sequence | Exception):
            return step
        answer = step(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _to_reply(self, answer: Answer) -> Reply:
        match answer:
            case Reply():
                return answer
            case str():
                return Reply(text=answer, usage=self._usage)
            case ToolCall():
                return Reply(calls=(answer,), usage=self._usage)
            case Exception():
                raise answer
            case _:
                return Reply(calls=tuple(answer), usage=self._usage)


def _errors_before(steps: Sequence[Step]) -> dict[int, list[Exception]]:
    """Return the errors by the number of the answer that they stand before."""
    errors: dict[int, list[Exception]] = {}
    answers = 0
    for step in steps:
        if isinstance(step, Exception):
            errors.setdefault(answers, []).append(step)
        else:
            answers += 1
    return errors
