"""Language models at any OpenAI-compatible endpoint, by streamed chat completions: the one door to ``openai``.

Waiting and trying again is left to the harness: here each request is sent once, and what went wrong is told apart.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from agentkit.clock import Clock, SystemClock
from agentkit.errors import ConfigurationError, ContextOverflowError, ModelError
from agentkit.harness.completion import Completion
from agentkit.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from agentkit.harness.model import ChatRequest, Delta, Reply
from agentkit.jobs.failures import is_memory_limit
from agentkit.json_value import JsonValue
from agentkit.model_settings import NO_KEY, settings_for
from agentkit.retry_after import asked_wait, is_passing

if TYPE_CHECKING:
    from openai import APIError, APIStatusError, AsyncOpenAI

logger = logging.getLogger(__name__)

_CONNECT: Final = 10.0
#: The harness leaves a silent stream before this; it is for those who use the model without one.
_READ: Final = 180.0
_LONGEST_REASON: Final = 300
#: Servers name a request that is too long in many ways.
_OVERFLOW: Final = ("context_length_exceeded", "context length", "context window", "context size", "too many tokens")


class OpenAIModel:
    """A ``ChatModel`` at an OpenAI-compatible endpoint.

    It learns what its server refuses: ``max_tokens`` becomes ``max_completion_tokens``, and a form of the answer or a
    count of tokens that can't be asked for is left out from then on.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, JsonValue] | None = None,
        http_client: Any = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Say which model; nothing is opened yet.

        Args:
            name: As the endpoint calls it; None is ``AGENTKIT_MODEL``.
            base_url: Its API; None is ``OPENAI_BASE_URL``, else OpenAI's own.
            api_key: None is ``OPENAI_API_KEY``; it is never shown.
            options: Further fields of each request, such as ``{"temperature": 0}``.
            http_client: An ``httpx.AsyncClient`` to send requests with; it is not closed.
            clock: What a server's dates are compared with.
            environment: Where what isn't given is looked up.

        Raises:
            ConfigurationError: No model is named, or OpenAI's own endpoint has no key.
        """
        self._settings = settings_for(name, base_url=base_url, api_key=api_key, environment=environment)
        self._options = dict(options or {})
        self._http_client = http_client
        self._clock = clock or SystemClock()
        self._refused: set[str] = set()
        self._client: AsyncOpenAI | None = None
        self._users = 0

    @property
    def name(self) -> str:
        """The model and where it is."""
        return f"{self._settings.name} at {self._settings.place}"

    async def __aenter__(self) -> Self:
        """Open a client, or share the one that is open: several harnesses may use one model."""
        if self._client is None:
            self._client = self._open()
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if self._users == 0 and self._client is not None:
            client, self._client = self._client, None
            if self._http_client is None:
                await client.close()

    def _open(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, Timeout
        except ImportError as error:
            message = "models are reached through the package openai; pip install 'agentkit[model]'"
            raise ConfigurationError(message) from error
        return AsyncOpenAI(
            api_key=self._settings.api_key or NO_KEY,
            base_url=self._settings.base_url,
            timeout=Timeout(_READ, connect=_CONNECT),
            max_retries=0,
            http_client=self._http_client,
        )

    async def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        """See ``ChatModel``."""
        async with self:
            stream = await self._send(request)
            completion = Completion(self.name)
            try:
                async for delta in self._parts(stream, completion):
                    yield delta
            finally:
                await stream.close()
        yield completion.reply()

    # --- sending

    async def _send(self, request: ChatRequest) -> Any:
        """Return the stream of an answer, having left out what the server refuses."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        assert self._client is not None
        while True:
            body = self._body(request)
            try:
                return await self._client.chat.completions.create(**body)
            except APIStatusError as error:
                if not self._learned(error, body):
                    raise self._status_error(error) from None
            except APITimeoutError:
                raise ModelError(f"{self.name} did not answer in time", is_passing=True) from None
            except APIConnectionError:
                raise ModelError(f"{self.name} can't be reached", is_passing=True) from None

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        settings, refused = self._settings, self._refused
        body: dict[str, Any] = {
            "model": settings.name,
            "messages": [*_instructions(request), *(_to_wire(message, self.name) for message in request.messages)],
            "stream": True,
        }
        if "stream_options" not in refused:
            body["stream_options"] = {"include_usage": True}
        if "max_tokens" not in refused:
            body["max_tokens"] = request.max_tokens
        elif "max_completion_tokens" not in refused:
            body["max_completion_tokens"] = request.max_tokens
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
                }
                for tool in request.tools
            ]
        if request.output is not None and "response_format" not in refused:
            schema = {"name": request.output.name, "schema": request.output.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {**body, **self._options}

    def _learned(self, error: APIStatusError, body: dict[str, Any]) -> bool:
        """Note what of the request the server refuses, if it is something that can be left out."""
        if error.status_code not in (400, 422, 500):
            return False
        about = f"{error.param or ''} {error.message}"
        for field in ("max_completion_tokens", "max_tokens", "stream_options", "response_format"):
            if field in body and field not in self._options and field in about:
                self._refused.add(field)
                return True
        return False

    # --- reading

    async def _parts(self, stream: Any, completion: Completion) -> AsyncIterator[Delta]:
        """Read chunks; a server that doesn't stream has answered as a whole."""
        from openai import APIError

        try:
            kind = stream.response.headers.get("content-type", "")
            if kind.startswith("application/json"):
                completion.take_whole(json.loads(await stream.response.aread()))
                yield Delta(text=completion.text)
                return
            if kind.startswith("text/html"):
                message = f"{self.name} didn't answer as a chat completion API does; check OPENAI_BASE_URL"
                raise ConfigurationError(message)
            async for chunk in stream:
                yield Delta(text=completion.take(chunk.model_dump(exclude_unset=True, warnings=False)))
        except APIError as error:
            raise self._stream_error(error) from None
        except (ModelError, ConfigurationError, GeneratorExit):
            raise
        except Exception as error:
            # The transport's own errors come through as they are, and those of what can't be read.
            if is_memory_limit(error):
                raise
            reason = f"the answer of {self.name} broke off ({type(error).__name__})"
            raise ModelError(reason, is_passing=True) from error

    # --- errors

    def _stream_error(self, error: APIError) -> ModelError:
        """Return what to raise for an error that the server told of in the middle of its answer."""
        if _is_overflow(str(error.code), error.message):
            return ContextOverflowError(f"the conversation is longer than {self.name} takes")
        return ModelError(f"{self.name} failed while it answered: {self._shown(error.message)}", is_passing=True)

    def _status_error(self, error: APIStatusError) -> Exception:
        """Return what to raise for an answer with an error's status; the key is never part of it."""
        settings, status = self._settings, error.status_code
        match status:
            case 401 | 403:
                return ConfigurationError(
                    f"{settings.place} refused the key for {settings.name!r}; check OPENAI_API_KEY"
                )
            case 404:
                return ConfigurationError(
                    f"{settings.place} knows no model {settings.name!r}, or isn't an API; check both"
                )
        if _is_overflow(str(error.code), error.message) or status == 413:
            return ContextOverflowError(f"the conversation is longer than {self.name} takes")
        if status == 429 and not is_passing(status, error.code):
            return ConfigurationError(f"the account at {settings.place} has no quota left; check its billing")
        wait = asked_wait(error.response.headers, self._clock.now())
        return ModelError(
            f"{self.name} answered {status}: {self._shown(error.message)}",
            is_passing=is_passing(status, error.code),
            wait=wait,
        )

    def _shown(self, reason: str) -> str:
        """Return what a server says, in a line; replaced first and cut then, so that no part of the key stays."""
        shown = reason.replace(self._settings.api_key, "…") if self._settings.api_key else reason
        return " ".join(shown.split())[:_LONGEST_REASON]


def _is_overflow(code: str, message: str) -> bool:
    about = f"{code} {message}".lower()
    return any(words in about for words in _OVERFLOW)


def _instructions(request: ChatRequest) -> list[dict[str, Any]]:
    return [{"role": "system", "content": request.instructions}] if request.instructions else []


def _to_wire(message: Message, model: str) -> dict[str, Any]:
    """Return a message as it is sent; what a provider added to an answer goes back to that provider only."""
    match message:
        case UserMessage(text=text):
            return {"role": "user", "content": text}
        case ToolMessage(call_id=call_id, text=text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case AssistantMessage(text=text, calls=calls, source=source, extra=extra):
            is_own = source == model
            # Some servers fail at content that is null beside calls.
            wire: dict[str, Any] = {"role": "assistant", "content": text, **(extra if is_own else {})}
            if calls:
                wire["tool_calls"] = [_call_to_wire(call, is_own=is_own) for call in calls]
            return wire


def _call_to_wire(call: ToolCall, *, is_own: bool) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function, **(call.extra if is_own else {})}
