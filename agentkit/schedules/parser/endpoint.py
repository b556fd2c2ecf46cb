"""One request to an OpenAI-compatible endpoint: tried again where that may help, and with one clear error where not."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from agentkit.clock import Clock
from agentkit.errors import ConfigurationError, ParseError
from agentkit.model_settings import NO_KEY, ModelSettings
from agentkit.retry import RetryPolicy
from agentkit.retry_after import asked_wait, is_passing

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion

logger = logging.getLogger(__name__)

#: A server that asks for a longer wait than this is not waited for.
LONGEST_WAIT: Final = timedelta(minutes=1)
_LONGEST_REASON: Final = 300
#: Fields that some models refuse, and that a request can do without.
_DISPENSABLE: Final = frozenset({"temperature", "max_tokens", "max_completion_tokens"})


class RequestRefused(Exception):  # noqa: N818  # handled one step up, where another form of the request is tried
    """The endpoint can't work with this form of the request.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class Endpoint:
    """A client for the length of one ``async with``: it belongs to one event loop and leaves nothing open."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        timeout: timedelta,
        retry: RetryPolicy,
        clock: Clock,
        http_client: Any = None,
    ) -> None:
        """Put an endpoint together; nothing is opened yet.

        Args:
            settings: Which model, where, and the key.
            timeout: For each request.
            retry: How often a request is sent, and the waits in between where the server names none.
            clock: Waits.
            http_client: An ``httpx.AsyncClient`` to send requests with; it is not closed.
        """
        self._settings = settings
        self._timeout = timeout
        self._retry = retry
        self._clock = clock
        self._http_client = http_client
        self._client: AsyncOpenAI | None = None
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(
            api_key=self._settings.api_key or NO_KEY,
            base_url=self._settings.base_url,
            timeout=self._timeout.total_seconds(),
            # Waits go through our own clock.
            max_retries=0,
            http_client=self._http_client,
        )
        self._client = client if self._http_client is not None else await self._opened.enter_async_context(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client = None
        await self._opened.aclose()

    def lose_patience(self) -> None:
        """Send every further request only once."""
        self._retry = RetryPolicy(max_attempts=1)

    async def complete(self, **arguments: Any) -> ChatCompletion:
        """Return the answer to a chat completion request.

        Raises:
            ConfigurationError: The key, the model's name or the URL is wrong; trying again doesn't help.
            ParseError: The endpoint stayed out of reach or gave no answer that could be used.
            RequestRefused: This form of the request is not understood there.
        """
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        failures = 0
        while True:
            failures += 1
            reason, wait, status = "", self._retry.wait(failures), 0
            try:
                return await self._send(arguments)
            except APIStatusError as error:
                status = error.status_code
                reason = f"answered {status}"
                if status == 400 and error.param in _DISPENSABLE and arguments.pop(error.param, None) is not None:
                    failures -= 1
                    continue
                if not is_passing(error.status_code, error.code):
                    raise self._refusal(error) from None
                asked = asked_wait(error.response.headers, self._clock.now())
                if asked is not None and asked > LONGEST_WAIT:
                    message = f"{self._shown()} is busy and asks to wait {asked.total_seconds():.0f} s; try again then"
                    raise ParseError(message) from None
                wait = max(wait, asked or wait)
            except (TimeoutError, APITimeoutError):
                reason = "did not answer in time"
            except APIConnectionError:
                reason = "can't be reached"
            except _UnusableAnswer as error:
                reason = str(error)
            if failures >= self._retry.attempts():
                if status == 500:
                    # Some servers answer so to a form of request that they don't know.
                    raise RequestRefused(status, f"{self._shown()} {reason}")
                raise ParseError(f"{self._shown()} {reason}, {failures} times in a row; try again later")
            logger.info("%s %s; trying again in %.1f s", self._shown(), reason, wait.total_seconds())
            await self._clock.sleep(wait)

    async def _send(self, arguments: dict[str, Any]) -> ChatCompletion:
        assert self._client is not None, "use the endpoint inside of `async with`"
        # The client's own timeout starts again with every byte that comes.
        async with asyncio.timeout(self._timeout.total_seconds()):
            try:
                completion: Any = await self._client.chat.completions.create(**arguments)
            except ValueError as error:
                raise _UnusableAnswer("answered with broken JSON") from error
        return self._checked(completion)

    def _checked(self, completion: Any) -> ChatCompletion:
        """Return an answer that has a message in it; a page of HTML, for one, arrives here as a string."""
        choices = getattr(completion, "choices", None)
        if isinstance(completion, str) or choices is None:
            message = f"{self._shown()} didn't answer as a chat completion API does; check OPENAI_BASE_URL"
            raise ConfigurationError(message)
        if not choices or choices[0].message is None:
            raise _UnusableAnswer("gave an empty answer")
        if choices[0].finish_reason == "length":
            raise ParseError(f"{self._shown()} was cut short before its answer was complete")
        if choices[0].message.refusal or choices[0].finish_reason == "content_filter":
            raise ParseError(f"{self._shown()} refused to read the request")
        answer: ChatCompletion = completion
        return answer

    def _refusal(self, error: APIStatusError) -> Exception:
        """Return what to raise for an answer that another try won't change; the key is never part of it."""
        settings = self._settings
        match error.status_code:
            case 401 | 403:
                return ConfigurationError(
                    f"{settings.place} refused the key for {settings.name!r}; check OPENAI_API_KEY"
                )
            case 404:
                return ConfigurationError(
                    f"{settings.place} knows no model {settings.name!r}, or isn't an API; check both"
                )
            case 429:
                return ConfigurationError(f"the account at {settings.place} has no quota left; check its billing")
        reason = " ".join(str(error.message).split())[:_LONGEST_REASON]
        if settings.api_key:
            reason = reason.replace(settings.api_key, "…")
        return RequestRefused(error.status_code, f"{self._shown()} refused the request: {reason}")

    def _shown(self) -> str:
        return f"model {self._settings.name!r} at {self._settings.place}"


class _UnusableAnswer(Exception):  # noqa: N818  # never leaves this module
    """An answer of the kind that another try may mend."""
