"""Puts an answer together from the chunks of a chat completion, whatever of the form a server gets wrong."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from agentkit.errors import ModelError
from agentkit.harness.messages import ToolCall, Usage
from agentkit.harness.model import Reply
from agentkit.json_value import JsonValue

#: What we understand ourselves; the rest is the provider's, and goes back to it.
_KNOWN: Final = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "audio", "annotations"})
_KNOWN_OF_CALL: Final = frozenset({"index", "id", "type", "function"})
_NO_ARGUMENTS: Final[tuple[JsonValue, ...]] = (None, {}, [])
_REFUSED: Final = ("content_filter",)


class _Call:
    """A call, as far as it has come."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, JsonValue] = {}

    def take(self, part: dict[str, Any]) -> None:
        """Add a part. Names come whole, some servers send them with every part."""
        function = part.get("function") or {}
        self.id = self.id or part.get("id") or ""
        self.name = self.name or function.get("name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            self.arguments.append(arguments)
        elif arguments not in _NO_ARGUMENTS:
            # Some servers send the object itself. Whatever else it is must not be run as if it were nothing.
            self.arguments.append(json.dumps(arguments))
        _merge(self.extra, {key: value for key, value in part.items() if key not in _KNOWN_OF_CALL})


class Completion:
    """An answer, as far as it has come.

    Attributes:
        text: Of the answer.
    """

    def __init__(self, model: str) -> None:
        self.text = ""
        self._model = model
        self._finish: str | None = None
        self._refusal = ""
        self._calls: list[_Call] = []
        self._latest: dict[Any, _Call] = {}
        self._usage: Usage | None = None
        self._extra: dict[str, JsonValue] = {}

    def take(self, chunk: dict[str, Any]) -> str:
        """Add a chunk and return the text in it."""
        self._usage = usage_of(chunk.get("usage")) or self._usage
        choices = chunk.get("choices") or []
        if not choices:
            return ""
        self._finish = choices[0].get("finish_reason") or self._finish
        return self._add(choices[0].get("delta") or {})

    def take_whole(self, answer: Any) -> None:
        """Add an answer that came as a whole.

        Raises:
            ModelError: It is no chat completion.
        """
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not choices:
            raise ModelError(f"{self._model} gave no answer", is_passing=True)
        self._usage = usage_of(answer.get("usage"))
        self._finish = choices[0].get("finish_reason")
        self._add(choices[0].get("message") or {})

    def _add(self, delta: dict[str, Any]) -> str:
        text = _text_of(delta.get("content"))
        self.text += text
        self._refusal += delta.get("refusal") or ""
        for position, part in enumerate(delta.get("tool_calls") or []):
            index = part.get("index")
            self._call_at(position if index is None else index, part).take(part)
        _merge(self._extra, {key: value for key, value in delta.items() if key not in _KNOWN})
        return text

    def _call_at(self, index: Any, part: dict[str, Any]) -> _Call:
        """Return the call that a part belongs to: the latest of its number, unless its id says otherwise.

        Servers that give all calls one number, or none, tell them apart by their ids, some in the first part only.
        """
        id, call = part.get("id"), self._latest.get(index)
        if call is not None and id and call.id and id != call.id:
            call = next((known for known in self._calls if known.id == id), None)
        if call is None:
            call = _Call()
            self._calls.append(call)
        self._latest[index] = call
        return call

    def reply(self) -> Reply:
        """Return the answer.

        Raises:
            ModelError: It has no end: the connection was lost without anybody saying so.
        """
        if self._finish is None:
            raise ModelError(f"the answer of {self._model} broke off without an end", is_passing=True)
        calls = tuple(
            ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments) or "{}", extra=call.extra)
            for call in self._calls
        )
        return Reply(
            text=self.text or self._refusal,
            calls=calls,
            finish=_finish(self._finish, is_refused=bool(self._refusal) and not self.text),
            usage=self._usage,
            extra=self._extra,
        )


def _text_of(content: Any) -> str:
    """Return the text of a content, which some servers send in parts, with the model's thinking among them."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if part.get("type") == "text")
    return str(content or "")


def _finish(reason: str, *, is_refused: bool) -> Literal["stop", "length", "refused"]:
    if reason == "length":
        return "length"
    return "refused" if reason in _REFUSED or is_refused else "stop"


def usage_of(counted: Any) -> Usage | None:
    """Return what a server counted, if it did."""
    if not isinstance(counted, dict):
        return None
    sent, answered = counted.get("prompt_tokens"), counted.get("completion_tokens")
    if not isinstance(sent, int) or not isinstance(answered, int):
        return None
    return Usage(input_tokens=sent, output_tokens=answered)


def _merge(known: dict[str, JsonValue], more: dict[str, Any]) -> None:
    """Add what has come to what is there: text to text, items to lists."""
    for key, value in more.items():
        there = known.get(key)
        if value is None:
            continue
        if (isinstance(there, str) and isinstance(value, str)) or (isinstance(there, list) and isinstance(value, list)):
            known[key] = there + value  # type: ignore[operator]  # both are of one kind
        else:
            known[key] = value
