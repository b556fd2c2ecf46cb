"""A conversation played back in place of a model, from a file that was recorded or that people wrote.

Only the model's words are from the file: tools run, and later steps may use what their results said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from agentkit.errors import ReplayMismatchError
from agentkit.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from agentkit.harness.model import ChatRequest, Delta, Reply
from agentkit.harness.replay_file import ReplayFile, Step, read_replay

_BITS: Final = re.compile(r"\s*\S+|\s+$")
_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_SHOWN: Final = 200


class ReplayModel:
    """A ``ChatModel`` that says what stands in a file, and refuses to answer anything else than it was made for.

    Which step is next is told by the conversation, so a run that a crash cut off goes on where it was.
    """

    def __init__(self, source: str | Path | Mapping[str, Any]) -> None:
        """Read a replay.

        Args:
            source: A ``.toml`` or ``.json`` file, or what would stand in one; see ``replay_file``.

        Raises:
            ConfigurationError: It can't be read as a replay; says where.
        """
        self._file: ReplayFile = read_replay(source)

    @property
    def name(self) -> str:
        """``replay:NAME``."""
        return f"replay:{self._file.name}"

    @property
    def description(self) -> str:
        """A line for people: that no model was called, and where the words come from."""
        file = self._file
        words = "its words were written by hand"
        if file.made == "recorded":
            words = f"its words were recorded from {file.model or 'a model'}"
        on = f" on {file.at:%Y-%m-%d}" if file.at is not None else ""
        return f"{self.name}: no model was called; {words}{on}"

    async def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        """Give the next step.

        Raises:
            ReplayMismatchError: The request is none that this step was made for, or there is no step left.
        """
        answer = self._summary() if request.purpose == "summary" else self._answer(request)
        for bit in _BITS.findall(answer.text):
            yield Delta(text=bit)
        yield answer

    def _summary(self) -> Reply:
        if self._file.summary is None:
            raise ReplayMismatchError(f"{self.name} has no summary, and the conversation is to be shortened")
        return Reply(text=self._file.summary, usage=Usage())

    def _answer(self, request: ChatRequest) -> Reply:
        steps, number = self._file.steps, request.answers
        if number >= len(steps):
            raise ReplayMismatchError(f"{self.name} has {len(steps)} steps, and was asked for one more")
        step = steps[number]
        problem = _objection(step, request)
        if problem is not None:
            raise ReplayMismatchError(f"{self.name}, step {number + 1}: {problem}")
        values = self._values(request)
        calls = tuple(
            ToolCall(id="", name=call.tool, arguments=json.dumps(_filled(call.arguments, values)))
            for call in step.calls
        )
        return Reply(text=_filled(step.text, values), calls=calls, usage=step.usage.to_usage())

    def _values(self, request: ChatRequest) -> dict[str, str]:
        """Return what the steps up to this one take from results; what each sees is the conversation before it.

        Raises:
            ReplayMismatchError: This step takes something that isn't there.
        """
        steps, messages = self._file.steps, request.messages
        values: dict[str, str] = {}
        for number, place in _places(request):
            for name, take in steps[number].take.items():
                found = _search(take.pattern, _texts(messages[:place], take.tool))
                if found is None and take.default is None and number == request.answers:
                    where = f"a result of {take.tool!r}" if take.tool else "the latest message"
                    problem = f"{take.pattern!r}, which is {{{{{name}}}}}, is not in {where}"
                    raise ReplayMismatchError(f"{self.name}, step {number + 1}: {problem}")
                values[name] = found if found is not None else take.default or ""
        return values


def _places(request: ChatRequest) -> Iterator[tuple[int, int]]:
    """Yield the number of each answer that the request shows, and of the one to come, with its place."""
    places = [
        place
        for place, message in enumerate(request.messages)
        if isinstance(message, AssistantMessage) and message.source
    ]
    first = request.answers - len(places)
    yield from enumerate([*places, len(request.messages)], start=max(first, 0))


def _objection(step: Step, request: ChatRequest) -> str | None:
    """Return why a request is none that a step was made for."""
    if step.request is not None and step.request != digest_of(request):
        return "the request differs from the recorded one"
    last = request.messages[-1]
    if step.after is not None and step.after != _kind(last):
        return f"it comes after {step.after!r}, and this comes after {_kind(last)!r}"
    if step.match is not None and re.search(step.match, last.text, re.MULTILINE) is None:
        return f"{step.match!r} is not in what came before it: {last.text[:_SHOWN]!r}"
    offered = {tool.name for tool in request.tools}
    missing = [call.tool for call in step.calls if call.tool not in offered]
    return f"it calls {missing[0]!r}, and there is no such tool" if missing else None


def _kind(message: Message) -> str:
    """Return what a step may come after: ``user``, or a tool."""
    return message.name if isinstance(message, ToolMessage) else "user"


def _texts(messages: Sequence[Message], tool: str | None) -> list[str]:
    """Return where a value may be found: results of a tool, the latest first, or the latest message."""
    if tool is None:
        return [messages[-1].text]
    return [message.text for message in reversed(messages) if isinstance(message, ToolMessage) and message.name == tool]


def _search(pattern: str, texts: Sequence[str]) -> str | None:
    for text in texts:
        found = re.search(pattern, text, re.MULTILINE)
        if found is not None:
            return str(found[1] if found.re.groups else found[0])
    return None


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return a value with its places filled, however deep they are."""
    match value:
        case str():
            return _PLACE.sub(lambda place: values.get(place[1], place[0]), value)
        case list():
            return [_filled(item, values) for item in value]
        case dict():
            return {key: _filled(item, values) for key, item in value.items()}
        case _:
            return value


def digest_of(request: ChatRequest) -> str:
    """Return what is equal for equal requests; the ids of calls don't count."""
    told: list[Any] = [request.instructions, [asdict(tool) for tool in request.tools]]
    for message in request.messages:
        match message:
            case UserMessage(text=text):
                told.append(["user", text])
            case AssistantMessage(text=text, calls=calls):
                told.append(["assistant", text, [[call.name, call.arguments] for call in calls]])
            case ToolMessage(name=name, text=text):
                told.append(["tool", name, text])
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
