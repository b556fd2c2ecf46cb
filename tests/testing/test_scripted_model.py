"""A model that says what a test has written down."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.errors import ModelError
from agentkit.harness import ChatRequest, Delta, Reply, ToolCall, Usage, UserMessage
from agentkit.testing import ScriptedModel, tool_call


def request(answers: int = 0, **options: Any) -> ChatRequest:
    """Return a request in a conversation that has had so many answers."""
    return ChatRequest(instructions="", messages=(UserMessage(text="hi"),), answers=answers, **options)


async def reply_of(model: ScriptedModel, answers: int = 0, **options: Any) -> Reply:
    """Return the answer to a request."""
    *_, reply = [part async for part in model.reply(request(answers, **options))]
    assert isinstance(reply, Reply)
    return reply


async def test_text_comes_word_by_word() -> None:
    """Then the whole of it."""
    parts = [part async for part in ScriptedModel("Good day to you.").reply(request())]

    bits = [part.text for part in parts if isinstance(part, Delta)]
    assert bits == ["Good", " day", " to", " you."]
    assert parts[-1] == Reply(text="Good day to you.", usage=Usage(input_tokens=10, output_tokens=5))


async def test_calls() -> None:
    """One, or several at once; arguments may be called as they like."""
    model = ScriptedModel(tool_call("add", a=1, tool="hammer"), [tool_call("a"), tool_call("b")])

    first, second = await reply_of(model), await reply_of(model, 1)

    assert first.calls == (ToolCall(id="", name="add", arguments='{"a": 1, "tool": "hammer"}'),)
    assert [call.name for call in second.calls] == ["a", "b"]


async def test_conversation_tells_which_step_is_next() -> None:
    """An answer that was lost is given again, by the same object and by another one."""
    model = ScriptedModel("one", "two")

    answers = [(await reply_of(model, number)).text for number in (0, 0, 1, 1)]

    assert answers == ["one", "one", "two", "two"]


async def test_errors_are_raised_once_each() -> None:
    """In front of the answer that they stand before."""
    model = ScriptedModel("one", ModelError("busy"), ModelError("broken"), "two")

    said = []
    for number in (0, 1, 1, 1, 0):
        try:
            said.append((await reply_of(model, number)).text)
        except ModelError as error:
            said.append(str(error))

    assert said == ["one", "busy", "broken", "two", "one"]


async def test_functions() -> None:
    """They see the request, may wait, and may give an error, again and again."""

    async def later(asked: ChatRequest) -> str:
        return asked.messages[0].text * 2

    model = ScriptedModel(lambda asked: asked.messages[0].text, later, lambda _: ModelError("no"))

    assert (await reply_of(model)).text == "hi"
    assert (await reply_of(model, 1)).text == "hihi"
    for _ in range(2):
        with pytest.raises(ModelError, match="no"):
            await reply_of(model, 2)


async def test_script_that_is_over() -> None:
    """It says so, with how long it was."""
    with pytest.raises(ModelError, match="has 1 answers, and was asked for one more"):
        await reply_of(ScriptedModel("one"), 1)


async def test_summary_is_no_step() -> None:
    """A conversation that is shortened goes on where it was."""
    model = ScriptedModel("one", summary="All was said.")

    assert (await reply_of(model, 0, purpose="summary")).text == "All was said."
    assert (await reply_of(model)).text == "one"


async def test_what_it_was_asked_is_kept() -> None:
    """Every time."""
    model = ScriptedModel("one", usage=None)

    reply = await reply_of(model)
    await reply_of(model)

    assert [asked.answers for asked in model.requests] == [0, 0]
    assert reply.usage is None
