"""A language model in a loop: a message in, tools run, a reply out, and every step of it durable.

    class Helper(Agent):
        def __init__(self, context):
            super().__init__(context)
            self.harness = self.lifecycle.use(Harness(model="gpt-5-mini", tools=[self.search, self.send_mail]))

        @tool(effect="read")                        # may run again after a crash
        async def search(self, query: str) -> list[str]: ...

        @tool(effect="once", approve=True)          # never twice, and a person decides first
        async def send_mail(self, to: str, text: str, context: ToolContext) -> str:
            await post(to, text, key=context.idempotency_key)

        @callable_method
        async def say(self, text: str) -> str:
            return await self.harness.ask(text)     # or output=Model: an object of it

A run is accepted durably when ``run = await harness.submit(message, key=None)`` returns. ``await run.wait()`` gives its
``Outcome``: ``status`` (``completed``, ``stopped``, ``failed``, ``cancelled``), ``reason``, ``text``, ``value``,
``usage``, ``turns``. ``async for event in run.stream()`` gives ``TextDelta``, ``TextDiscarded``, ``CallStarted``,
``CallEnded`` and ``RunEnded``. ``await run.cancel()``; ``harness.get(run_id)`` finds it again. ``harness.pending()``
names the calls that wait for ``harness.decide(call_id, approved, by)``; ``harness.log()`` is the whole transcript.

``tools=`` are typed functions, methods, ready ``Tool`` values, and ``ToolServer(url_or_command)``, which speaks the
Model Context Protocol. ``model=`` is a name at an OpenAI-compatible endpoint, or any ``ChatModel``:
``OpenAIModel(...)``, ``ReplayModel(file)``, and in tests ``agentkit.testing.ScriptedModel``. What a run may take is
``Limits(turns=40, tokens=..., seconds=...)``.

Events on ``agents:harness``: ``harness:start``, ``harness:step``, ``harness:call``, ``harness:approval``,
``harness:postpone``, ``harness:compact``, ``harness:interrupted``, ``harness:end``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agentkit.harness.harness import Harness
from agentkit.harness.limits import Limits
from agentkit.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from agentkit.harness.model import ChatModel, ChatRequest, Delta, OutputSpec, Reply, ToolSpec
from agentkit.harness.outcome import Outcome
from agentkit.harness.reasons import InvalidArguments
from agentkit.harness.records import AnswerEntry, CallEntry, Entry, UserEntry
from agentkit.harness.run import (
    CallEnded,
    CallStarted,
    PendingCall,
    Run,
    RunEnded,
    StreamEvent,
    TextDelta,
    TextDiscarded,
)
from agentkit.harness.tools import Tool, ToolContext, ToolSource, tool

if TYPE_CHECKING:
    from agentkit.harness.mcp_tools import ToolServer
    from agentkit.harness.openai_model import OpenAIModel
    from agentkit.harness.recording import RecordingModel
    from agentkit.harness.replay import ReplayModel

__all__ = [
    "AnswerEntry",
    "AssistantMessage",
    "CallEnded",
    "CallEntry",
    "CallStarted",
    "ChatModel",
    "ChatRequest",
    "Delta",
    "Entry",
    "Harness",
    "InvalidArguments",
    "Limits",
    "Message",
    "OpenAIModel",
    "Outcome",
    "OutputSpec",
    "PendingCall",
    "RecordingModel",
    "ReplayModel",
    "Reply",
    "Run",
    "RunEnded",
    "StreamEvent",
    "TextDelta",
    "TextDiscarded",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolMessage",
    "ToolServer",
    "ToolSource",
    "ToolSpec",
    "Usage",
    "UserEntry",
    "UserMessage",
    "tool",
]

#: Modules that are loaded when a name of theirs is first used.
_LATER = {
    "OpenAIModel": "openai_model",
    "RecordingModel": "recording",
    "ReplayModel": "replay",
    "ToolServer": "mcp_tools",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        message = f"module 'agentkit.harness' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"agentkit.harness.{_LATER[name]}"), name)
