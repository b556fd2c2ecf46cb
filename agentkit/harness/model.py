"""The protocol that language models are reached through: a request goes in, text comes out bit by bit, then a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentkit.harness.messages import Message, ToolCall, Usage
from agentkit.json_value import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it.

    Attributes:
        schema: JSON schema of its arguments, an object.
    """

    name: str
    description: str
    schema: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The form that an answer is to have.

    Attributes:
        name: Of the form.
        schema: JSON schema.
    """

    name: str
    schema: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a model is asked.

    Attributes:
        instructions: What it is and does; empty if nobody said.
        messages: The conversation; every call in it has exactly one result.
        tools: What it may call.
        output: The form of the answer, if it is to have one. A model that can't keep to it may ignore it: answers are
            validated, and the instructions name the form too.
        max_tokens: Longest answer.
        answers: How many answers of models the conversation has had, those that were compacted included.
        purpose: ``summary`` where the conversation itself is to be shortened.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    max_tokens: int = 8_192
    answers: int = 0
    purpose: Literal["answer", "summary"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Something has come: a bit of the answer's text, or none of it while the model thinks or writes arguments."""

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer, the last thing that comes.

    Attributes:
        text: All of it.
        calls: Tools to run. One without an id gets one.
        finish: Why it ended. ``length`` means that it was cut off: its calls are not run. ``refused`` means that the
            provider held the rest back.
        usage: None where the server did not count.
        extra: What the provider wants back in later requests.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "length", "refused"] = "stop"
    usage: Usage | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


class ChatModel(Protocol):
    """A language model.

    One that is also an async context manager is entered before its first reply and left when no run is under way.
    """

    @property
    def name(self) -> str:
        """Names the model and its provider; what the transcript says who answered."""

    def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        """Answer: deltas as they come, then one ``Reply``.

        Raises:
            ModelError: There is no answer; says whether trying again may help. Waiting and trying again are the
                harness's business, not the model's.
        """
