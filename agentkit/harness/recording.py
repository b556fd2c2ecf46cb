"""Writes what a model answers into a file that ``ReplayModel`` plays back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agentkit.clock import Clock, SystemClock
from agentkit.errors import ConfigurationError
from agentkit.harness.messages import ToolCall, Usage
from agentkit.harness.model import ChatModel, ChatRequest, Delta, Reply
from agentkit.harness.replay import digest_of


class RecordingModel:
    """A ``ChatModel`` that passes everything on to another one, and writes its answers into a file for ``ReplayModel``.

    Played back, each step insists on the request that was recorded. Take its ``request`` out of the file where requests
    differ from run to run, and ``take`` from results what later steps need.
    """

    def __init__(
        self, model: ChatModel, path: str | Path, *, name: str | None = None, clock: Clock | None = None
    ) -> None:
        """Say what is recorded and where; a recording that is there is gone on with.

        Args:
            model: Answers.
            path: A ``.json`` file, written anew after each answer.
            name: Of the replay; by default the file's.
            clock: Says when it was recorded.

        Raises:
            ConfigurationError: The file is no recording, or its folder isn't there.
        """
        self._model = model
        self._path = Path(path)
        self._replay_name = name or self._path.stem
        self._clock = clock or SystemClock()
        self._steps: list[dict[str, Any]] = []
        self._summary: str | None = None
        if self._path.exists():
            recording = _load(self._path)
            self._steps, self._summary = recording["steps"], recording.get("summary")
        elif not self._path.parent.is_dir():
            raise ConfigurationError(f"there is no folder {self._path.parent} to record a conversation in")

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self._model.name

    async def __aenter__(self) -> RecordingModel:
        if hasattr(self._model, "__aenter__"):
            await self._model.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if hasattr(self._model, "__aexit__"):
            await self._model.__aexit__(*error)

    async def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        """See ``ChatModel``."""
        async for part in self._model.reply(request):
            if isinstance(part, Reply) and request.purpose == "summary":
                self._summary = part.text  # written with the next answer
            elif isinstance(part, Reply):
                self._record(request, part)
            yield part

    def _record(self, request: ChatRequest, reply: Reply) -> None:
        usage = reply.usage or Usage()
        step = {
            "request": digest_of(request),
            "text": reply.text,
            "calls": [{"tool": call.name, "arguments": _arguments(call)} for call in reply.calls],
            "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        }
        # One whose answer was lost in a crash is given anew.
        self._steps = [*self._steps[: request.answers], step]
        file = {
            "name": self._replay_name,
            "made": "recorded",
            "at": self._clock.now().isoformat(),
            "model": self._model.name,
            **({} if self._summary is None else {"summary": self._summary}),
            "steps": self._steps,
        }
        written = self._path.with_name(f"{self._path.name}.new")
        written.write_text(json.dumps(file, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.replace(self._path)


def _load(path: Path) -> dict[str, Any]:
    try:
        recording = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigurationError(f"{path} can't be read as a recording: {error}") from error
    if not isinstance(recording, dict) or not isinstance(recording.get("steps"), list):
        raise ConfigurationError(f"{path} is no recording; give another file, or delete it")
    return recording


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; those that were no JSON object are lost, as the call never ran."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}
