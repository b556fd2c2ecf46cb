"""What a conversation with a model is made of. Values only: how they are stored is told in ``records``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentkit.errors import HarnessError
from agentkit.json_value import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls took.

    Attributes:
        input_tokens: Of the requests.
        output_tokens: Of the answers, thinking included.
        is_estimated: The server did not count at least one of them; it was taken from the length of the text.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            is_estimated=self.is_estimated or other.is_estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model asks for.

    Attributes:
        id: Pairs it with its result; unique within the conversation.
        name: Of the tool.
        arguments: JSON, as the model wrote it; it may be invalid.
        extra: What else the provider sent with it and wants back.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What the model is told."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What a model answered.

    Attributes:
        calls: Tools it asks for, each of which is followed by its result.
        source: The model's name; empty where the harness closed a turn in its place.
        extra: What else the provider sent and wants back, word for word (thinking, signatures).
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    source: str = ""
    extra: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The one result of a call."""

    call_id: str
    name: str
    text: str


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def check_history(messages: Sequence[Message]) -> None:
    """Make sure that every provider takes these messages (SPEC 13.3).

    Raises:
        HarnessError: A call has not exactly one result, in the order of the calls and right behind them.
    """
    open_calls: list[str] = []
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls.pop(0) != message.call_id:
                raise HarnessError(f"message {position} is a result that no call in front of it waits for")
        elif open_calls:
            raise HarnessError(f"message {position} stands where the result of call {open_calls[0]!r} belongs")
        elif isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]
    if open_calls:
        raise HarnessError(f"call {open_calls[0]!r} has no result")
