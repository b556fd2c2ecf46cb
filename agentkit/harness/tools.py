"""From a typed function to something a model can call: its schema, and its arguments validated."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, overload

from agentkit.clock import Clock, Duration, duration_of
from agentkit.context import in_thread, is_coroutine_function
from agentkit.errors import ConfigurationError
from agentkit.harness.docstrings import Doc, read_doc
from agentkit.harness.model import ToolSpec
from agentkit.json_value import JsonValue

Effect: TypeAlias = Literal["read", "idempotent", "once"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

#: A tool that takes longer has hung, unless its author knows better.
DEFAULT_TIMEOUT: Final = timedelta(minutes=10)
_MARK: Final = "__agentkit_tool__"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_REASONS: Final = 5
#: Keeps arguments such as ``json`` or ``copy`` apart from what a pydantic model has of that name.
_FIELD: Final = "argument_"


class InvalidArguments(Exception):  # noqa: N818  # control flow: the reason goes back to the model
    """A model called a tool with arguments that it doesn't take."""


class Cancellation(Protocol):
    """Tells whether a run is to end."""

    @property
    def is_asked(self) -> bool:
        """It is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know of its call: give it a parameter that is annotated so.

    Attributes:
        agent: The agent that the harness belongs to.
        idempotency_key: Names this call for ever: the same when it runs again after a crash, never another's. Hand it
            to whatever makes an effect happen once.
        run_id: The run it is part of.
    """

    agent: Any
    idempotency_key: str
    run_id: str
    cancellation: Cancellation = field(repr=False)

    @property
    def cancelled(self) -> bool:
        """The run is being ended: a coroutine gets a ``CancelledError`` as well, a plain function must look here."""
        return self.cancellation.is_asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model may call.

    Attributes:
        name: As the model knows it.
        effect: What becomes of a call that a crash cut off: ``read`` and ``idempotent`` run again, ``once`` does not.
        approve: A person decides about each call before it runs.
        timeout: After this long it is cancelled; None for never.
        read: Turns arguments, as JSON, into what ``call`` takes; raises ``InvalidArguments`` with the reason.
        call: Runs it.
    """

    name: str
    description: str
    schema: dict[str, JsonValue]
    read: Callable[[str], Any]
    call: Callable[[Any, ToolContext], Awaitable[Any]]
    effect: Effect = "once"
    approve: bool = False
    timeout: timedelta | None = DEFAULT_TIMEOUT

    @property
    def spec(self) -> ToolSpec:
        """As the model is told of it."""
        return ToolSpec(name=self.name, description=self.description, schema=self.schema)


class OpenTools(Protocol):
    """Tools from elsewhere, while they are at hand."""

    async def tools(self) -> Sequence[Tool]:
        """Return them, as far as they can be reached; never raises for one that can't."""

    async def close(self) -> None:
        """Let go of what they need."""


class ToolSource(Protocol):
    """Where a harness may get further tools from, such as ``ToolServer``."""

    def open(self, clock: Clock) -> OpenTools:
        """Make them ready; nothing is connected yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    effect: Effect = "once"
    approve: bool = False
    timeout: timedelta | None = DEFAULT_TIMEOUT
    name: str | None = None


@overload
def tool(function: FunctionT, /) -> FunctionT: ...


@overload
def tool(
    *,
    effect: Effect = "once",
    approve: bool = False,
    timeout: Duration | None = DEFAULT_TIMEOUT,
    name: str | None = None,
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: Any = None,
    /,
    *,
    effect: Effect = "once",
    approve: bool = False,
    timeout: Duration | None = DEFAULT_TIMEOUT,
    name: str | None = None,
) -> Any:
    """Say how a function or method is to be called by a model.

    Its schema comes from the annotations, its description from the docstring, that of the arguments from the section
    ``Args:`` there. A plain function runs in a thread. What it returns, or the error it raises, is told to the model.

    Args:
        function: With the defaults, the decorator needs no parentheses.
        effect: ``"read"`` changes nothing; ``"idempotent"`` may run again after a crash, with the same
            ``ToolContext.idempotency_key``; ``"once"`` is never run twice: when a crash cuts it off, the model is told
            that its outcome is unknown.
        approve: Wait for ``harness.decide(call_id, approved, by)`` before each call.
        timeout: Seconds or a ``timedelta``, after which it is cancelled; None for never.
        name: What the model calls it; by default the function's name.

    >>> @tool(effect="read")
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    """
    if effect not in typing.get_args(Effect):
        message = f"effect must be one of {', '.join(typing.get_args(Effect))}, got {effect!r}"
        raise ConfigurationError(message)
    limit = None if timeout is None else duration_of(timeout, "timeout")
    if limit is not None and limit <= timedelta(0):
        message = f"timeout must be more than 0, got {timeout!r}; None is for never"
        raise ConfigurationError(message)
    options = _Options(effect=effect, approve=approve, timeout=limit, name=name)

    def mark(marked: FunctionT) -> FunctionT:
        setattr(marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


def tool_of(given: Tool | Callable[..., Any]) -> Tool:
    """Return a function, a bound method or a ready ``Tool`` as a tool.

    Raises:
        ConfigurationError: It can't be called by a model: an argument without annotation, ``*args``, a bad name.
    """
    if isinstance(given, Tool):
        return _checked(given)
    if not callable(given):
        message = f"{given!r} is no tool; give functions, methods, or what a tool server was made into"
        raise ConfigurationError(message)
    function = getattr(given, "__func__", given)
    options: _Options = getattr(function, _MARK, _Options())
    name = options.name or str(getattr(function, "__name__", ""))
    signature = _signature(function, is_bound=hasattr(given, "__self__"))
    return _checked(
        Tool(
            name=name,
            description=signature.doc.text,
            schema=signature.schema,
            read=signature.read,
            call=functools.partial(_call, given, signature),
            effect=options.effect,
            approve=options.approve,
            timeout=options.timeout,
        )
    )


def tools_by_name(given: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Return tools by name, in order.

    Raises:
        ConfigurationError: See ``tool_of``; or two have one name.
    """
    named: dict[str, Tool] = {}
    for one in given:
        made = tool_of(one)
        if made.name in named:
            message = f"two tools are called {made.name!r}; give one another name, as in @tool(name=...)"
            raise ConfigurationError(message)
        named[made.name] = made
    return named


def _checked(made: Tool) -> Tool:
    if not _NAME.fullmatch(made.name):
        message = f"a tool can't be called {made.name!r}: models take 1 to 64 letters, digits, _ and -"
        raise ConfigurationError(message)
    return made


async def _call(
    given: Callable[..., Any], signature: _Signature, arguments: dict[str, Any], context: ToolContext
) -> Any:
    if signature.context is not None:
        arguments = {**arguments, signature.context: context}
    if is_coroutine_function(given):
        return await given(**arguments)
    returned = await in_thread(functools.partial(given, **arguments))
    return await returned if inspect.isawaitable(returned) else returned


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """What a function takes: a pydantic model of its arguments, and where the context goes."""

    doc: Doc
    model: Any
    context: str | None

    @property
    def schema(self) -> dict[str, JsonValue]:
        schema: dict[str, JsonValue] = without_titles(self.model.model_json_schema())
        schema.setdefault("properties", {})
        schema.pop("description", None)
        return schema

    def read(self, arguments: str) -> dict[str, Any]:
        """See ``Tool``."""
        from pydantic import ValidationError

        try:
            read = self.model.model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            raise InvalidArguments(_reason(error)) from None
        return {name.removeprefix(_FIELD): getattr(read, name) for name in self.model.model_fields}


@functools.lru_cache(maxsize=4096)
def _signature(function: Callable[..., Any], *, is_bound: bool) -> _Signature:
    from pydantic import ConfigDict, Field, create_model

    shown = getattr(function, "__qualname__", repr(function))
    doc = read_doc(inspect.getdoc(function) or "")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        message = f"an annotation of tool {shown} can't be resolved: {error}; import the name at run time"
        raise ConfigurationError(message) from error
    context, fields = None, {}
    for parameter in list(inspect.signature(function).parameters.values())[int(is_bound) :]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = f"tool {shown} takes {parameter}; a model passes arguments by name only"
            raise ConfigurationError(message)
        annotation = hints.get(parameter.name)
        if annotation is None:
            message = (
                f"argument {parameter.name!r} of tool {shown} needs an annotation: it tells the model what to pass"
            )
            raise ConfigurationError(message)
        if annotation is ToolContext:
            context = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # Left out where there is none, so that one in the annotation counts.
        said: dict[str, Any] = {}
        if parameter.name in doc.arguments:
            said["description"] = doc.arguments[parameter.name]
        fields[_FIELD + parameter.name] = (annotation, Field(default, alias=parameter.name, **said))
    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)  # type: ignore[call-overload]  # made of data
    return _Signature(doc=doc, model=model, context=context)


def without_titles(schema: Any) -> Any:
    """Return a JSON schema without the titles that pydantic adds: they only repeat the names."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(item) for name, item in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _reason(error: Any) -> str:
    """Say what is wrong, without repeating what was sent."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    reasons = [": ".join(filter(None, [".".join(map(str, each["loc"])), each["msg"]])) for each in found]
    more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return "; ".join(reasons[:_MOST_REASONS]) + more
