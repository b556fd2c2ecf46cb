"""Messages in, replies out (SPEC 13.1, 13.4)."""

from __future__ import annotations

from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start


async def test_answer(manual_runtime: Start) -> None:
    """A message is answered after the tools that the model asked for have run."""
    model = ScriptedModel(tool_call("send", to="bob", text="hi"), "Done: it is sent.")
    office = Office()
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    answer = await runtime.get(Clerk, "ada").ask("write to bob")

    assert answer == "Done: it is sent."
    assert [text for text, _ in office.sent] == ["bob: hi"]
    assert [type(message).__name__ for message in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
