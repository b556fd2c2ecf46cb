"""What a model can call: functions that are marked with ``@tool``, ready ``Tool`` values, and what a call is told."""

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
from agentkit.harness.model import ToolSpec
from agentkit.harness.signature import Signature, signature_of
from agentkit.json_value import JsonValue

Effect: TypeAlias = Literal["read", "idempotent", "once"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

#: A tool that takes longer has hung, unless its author knows better.
DEFAULT_TIMEOUT: Final = timedelta(minutes=10)
_MARK: Final = "__agentkit_tool__"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


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
    if not inspect.isroutine(function):
        message = f"{given!r} is no function or method; write one that calls it"
        raise ConfigurationError(message)
    options: _Options = getattr(function, _MARK, _Options())
    name = options.name or str(getattr(function, "__name__", ""))
    signature = signature_of(function, ToolContext, is_bound=hasattr(given, "__self__"))
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
    given: Callable[..., Any], signature: Signature, arguments: dict[str, Any], context: ToolContext
) -> Any:
    if signature.context is not None:
        arguments = {**arguments, signature.context: context}
    if is_coroutine_function(given):
        return await given(**arguments)
    returned = await in_thread(functools.partial(given, **arguments))
    return await returned if inspect.isawaitable(returned) else returned
