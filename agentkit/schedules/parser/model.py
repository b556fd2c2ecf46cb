"""A language model reads what the rules can't: ``instructor`` over any OpenAI-compatible endpoint.

The model answers with labels (``reply.py``), of which ``labels.py`` makes a plan. What is wrong with the labels goes
back to the model, twice at most.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, get_args

from agentkit.clock import Clock, Duration, SystemClock, duration_of
from agentkit.context import in_thread
from agentkit.errors import AgentKitError, ConfigurationError, ParseError
from agentkit.json_value import JsonValue
from agentkit.model_settings import ModelSettings, settings_for
from agentkit.prompts import load_prompt
from agentkit.retry import RetryPolicy
from agentkit.schedules.parser.endpoint import Endpoint, RequestRefused
from agentkit.schedules.parser.labels import Request, plan_of
from agentkit.schedules.parser.parsed import ParsedSchedule
from agentkit.schedules.parser.rules import LONGEST_TEXT
from agentkit.schedules.parser.tokens import FORBIDDEN
from agentkit.schedules.wall_clock import wall_at, zone_named

if TYPE_CHECKING:
    from agentkit.schedules.parser.reply import ScheduleReply

Mode = Literal["auto", "json_schema", "tools", "json", "markdown_json"]

#: How often the model is told what is wrong with its answer ("Natural language", 9.3 of the specification).
MOST_REASKS: Final = 2
_FALLBACKS: Final[tuple[Mode, ...]] = ("json_schema", "tools", "markdown_json")
_MOST_TOKENS: Final = 4000
_PATIENCE: Final = RetryPolicy(max_attempts=3, base_delay=0.5, max_delay=8)


class ScheduleModel(Protocol):
    """Whatever reads requests that the rules can't."""

    async def read(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
        """Return what a request means, with a ``question`` where it has to be asked about.

        Raises:
            ParseError: No usable answer came.
            ConfigurationError: None can come until something is set right.
        """


class InstructorModel:
    """A model behind an OpenAI-compatible endpoint, hosted or local.

    No connection is made before the first request, and none is kept. Requests are sent to the endpoint with the
    current time and zone, and nothing else.

    >>> InstructorModel("gpt-5-mini")                                          # doctest: +SKIP
    >>> InstructorModel("qwen2.5-7b", base_url="http://127.0.0.1:8080/v1")     # doctest: +SKIP
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        mode: Mode = "auto",
        timeout: Duration = 30,
        retry: RetryPolicy = _PATIENCE,
        options: Mapping[str, JsonValue] | None = None,
        clock: Clock | None = None,
        http_client: Any = None,
    ) -> None:
        """Choose a model; nothing is sent yet.

        Args:
            name: As the endpoint calls it; None is ``$AGENTKIT_MODEL``.
            base_url: None is ``$OPENAI_BASE_URL``, else OpenAI's own.
            api_key: None is ``$OPENAI_API_KEY``; an endpoint of one's own may need none.
            mode: How the answer is held to its schema; no way works on every server. ``auto`` takes strict JSON
                schema, and tools and then JSON in a code block where the server refuses that.
            timeout: Seconds or timedelta for each request.
            retry: How often a request is sent while the endpoint is busy or out of reach, and the waits where it names
                none with ``Retry-After``.
            options: Further fields of the request, such as ``{"temperature": 0}``; None leaves one out.
            clock: Waits.
            http_client: An ``httpx.AsyncClient`` to send requests with.

        Raises:
            ConfigurationError: No model is named, there is no key, the mode is unknown, or the libraries aren't
                installed.
        """
        absent = [library for library in ("instructor", "openai") if find_spec(library) is None]
        if absent:
            message = f"a model needs {' and '.join(absent)}; install with: pip install 'agentkit[model]'"
            raise ConfigurationError(message)
        if mode not in get_args(Mode):
            message = f"mode {mode!r} is unknown; use one of {', '.join(get_args(Mode))}"
            raise ConfigurationError(message)
        self._settings = settings_for(name, base_url=base_url, api_key=api_key)
        self._modes: Sequence[Mode] = _FALLBACKS if mode == "auto" else (mode,)
        self._timeout = duration_of(timeout, "timeout")
        self._retry = retry
        self._options = {**_usual_options(self._settings), **(options or {})}
        self._clock = clock or SystemClock()
        self._http_client = http_client

    async def read(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
        """Return what a request means; see ``ScheduleModel``."""
        if len(text) > LONGEST_TEXT or FORBIDDEN.search(text):
            message = f"a request has at most {LONGEST_TEXT:,} characters, none of them invisible ones"
            raise ParseError(message)
        request = Request(text=text, now=now, timezone=timezone)
        # Seconds on a cold machine.
        await in_thread(_import_libraries)
        endpoint = Endpoint(
            self._settings,
            timeout=self._timeout,
            retry=self._retry,
            clock=self._clock,
            http_client=self._http_client,
        )
        refusals: list[RequestRefused] = []
        async with endpoint:
            for mode in self._modes:
                try:
                    plan = await self._ask(request, endpoint, mode)
                except RequestRefused as refusal:
                    refusals.append(refusal)
                    if refusal.status >= 500:
                        endpoint.lose_patience()
                    continue
                self._modes = (mode,)
                return plan
        if refusals[0].status >= 500:
            raise ParseError(f"{refusals[0]}; try again later")
        raise ConfigurationError(str(refusals[0]))

    async def _ask(self, request: Request, endpoint: Endpoint, mode: Mode) -> ParsedSchedule:
        import instructor
        from instructor.core import IncompleteOutputException, InstructorRetryException

        async def complete(**arguments: Any) -> Any:
            return await endpoint.complete(**_held_to_schema(arguments))

        create: Any = instructor.patch(create=complete, mode=_instructor_mode(mode))
        options = {name: value for name, value in self._options.items() if value is not None}
        failure: BaseException | None
        token = _is_asking.set(True)
        try:
            reply: Any = await create(
                response_model=_checked_reply(request),
                max_retries=MOST_REASKS,
                # Types are taken as they come: "2" for 2 is no reason to ask again.
                strict=False,
                model=self._settings.name,
                messages=_messages(request),
                **options,
            )
        except InstructorRetryException as error:
            failure = error.__cause__
        except IncompleteOutputException as error:
            failure = error
        else:
            plan: ParsedSchedule = reply.plan
            return plan
        finally:
            _is_asking.reset(token)
        # Raised out here: instructor's error holds the whole conversation, and would be shown with ours.
        raise self._explained(failure)

    def _explained(self, failure: BaseException | None) -> Exception:
        from pydantic import ValidationError

        if isinstance(failure, AgentKitError | RequestRefused):
            return failure
        reason = "it didn't answer in the form it was asked for"
        if isinstance(failure, ValidationError):
            reason = _reason(failure)
        message = f"model {self._settings.name!r} gave no usable answer in {MOST_REASKS + 1} tries: {reason}"
        return ParseError(message)


def schedule_prompt(now: datetime, timezone: str) -> str:
    """Return the instructions that a model reads requests by.

    Args:
        now: The moment of the request, aware.
        timezone: IANA name of the user's zone.

    Raises:
        ScheduleError: If the zone is unknown or ``now`` is naive.
    """
    wall = wall_at(now, zone_named(timezone))
    offset = wall.isoformat()[-6:]
    shown = f"{wall:%A}, {wall:%Y-%m-%d}, {wall:%H:%M} by the user's clock in {timezone} (UTC{offset})"
    return load_prompt("parse_schedule").fill(now=shown)


def _messages(request: Request) -> list[dict[str, str]]:
    # A JSON string can't end early, whatever quotes or tags the text holds.
    quoted = json.dumps(request.text, ensure_ascii=False)
    return [
        {"role": "system", "content": schedule_prompt(request.now, request.timezone)},
        {"role": "user", "content": load_prompt("parse_schedule_request").fill(request=quoted)},
    ]


def _checked_reply(request: Request) -> type[ScheduleReply]:
    """Return the reply as a class that accepts only labels which make a good plan of this very request.

    A class for each request, because instructor would run the user's text through a template engine if it were
    handed to it as validation context.
    """
    from pydantic import PrivateAttr, model_validator

    from agentkit.schedules.parser.reply import ScheduleReply

    class CheckedReply(ScheduleReply):
        _plan: ParsedSchedule = PrivateAttr()

        @model_validator(mode="after")
        def _makes_a_plan(self) -> Self:
            self._plan = plan_of(self, request)
            return self

        @property
        def plan(self) -> ParsedSchedule:
            return self._plan

    # The name and the text that the endpoint sees.
    CheckedReply.__name__ = CheckedReply.__qualname__ = "ScheduleLabels"
    CheckedReply.__doc__ = ScheduleReply.__doc__
    return CheckedReply


def _held_to_schema(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the request with the flag that makes OpenAI hold the model to the schema; instructor has none for it."""
    arguments = dict(arguments)
    form = arguments.get("response_format")
    if isinstance(form, dict) and "json_schema" in form:
        arguments["response_format"] = {**form, "json_schema": {**form["json_schema"], "strict": True}}
    if "tools" in arguments:
        arguments["tools"] = [{**tool, "function": {**tool["function"], "strict": True}} for tool in arguments["tools"]]
    return arguments


def _usual_options(settings: ModelSettings) -> dict[str, JsonValue]:
    """Return the fields that servers of either kind accept: OpenAI's newer models know neither of the other's two."""
    if settings.base_url is None:
        return {"max_completion_tokens": _MOST_TOKENS}
    return {"max_tokens": _MOST_TOKENS, "temperature": 0}


def _instructor_mode(mode: Mode) -> Any:
    import instructor

    return {
        "json_schema": instructor.Mode.JSON_SCHEMA,
        "tools": instructor.Mode.TOOLS,
        "json": instructor.Mode.JSON,
        "markdown_json": instructor.Mode.MD_JSON,
    }[mode]


def _reason(error: Any) -> str:
    """Return what pydantic objected to, without the values, which repeat the user's words."""
    parts = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(step) for step in fault["loc"])
        text = fault["msg"].removeprefix("Value error, ")
        parts.append(f"{place}: {text}" if place else text)
    return "; ".join(parts)


# --- instructor's log

_is_asking: ContextVar[bool] = ContextVar("agentkit_is_asking", default=False)


class _DropOurs(logging.Filter):
    """Lets nothing through that instructor logs about our requests: its errors repeat what users wrote."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_asking.get()


@cache
def _import_libraries() -> None:
    import_module("openai")
    import_module("instructor")

    for name in ("instructor", "instructor.v2", "instructor.v2.retry"):
        logging.getLogger(name).addFilter(_DropOurs())
