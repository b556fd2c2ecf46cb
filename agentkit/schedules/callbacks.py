"""Callbacks by name: how they are found, what payload they take, and how they are called."""

from __future__ import annotations

import functools
import inspect
import typing
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentkit.context import in_thread, is_coroutine_function
from agentkit.errors import PayloadError, ScheduleError
from agentkit.host import DurableObject
from agentkit.json_value import JsonValue, canonical, plain
from agentkit.stub import Stub

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a callback takes: nothing, the payload, or the payload and the schedule.

    Attributes:
        takes: 0, 1 or 2.
        adapter: Validates the payload; None where it isn't annotated.
    """

    takes: int
    adapter: TypeAdapter[Any] | None


class Callbacks:
    """The callbacks of one Scheduler: a mapping of names, or the methods of a host."""

    __slots__ = ("_host_reference", "_named")

    def __init__(self, named: Mapping[str, Callback] | None = None, host: object | None = None) -> None:
        self._named = named or {}
        # Weak: the host owns its Scheduler, and the two must not keep each other alive.
        self._host_reference = None if host is None else weakref.ref(host)

    @property
    def _host(self) -> object | None:
        return None if self._host_reference is None else self._host_reference()

    @property
    def on_error(self) -> Callback | None:
        """The host's own hook for errors."""
        return getattr(self._host, "on_error", None)

    def get(self, name: str) -> Callback | None:
        """Return a callback, or None if it is gone."""
        if name in self._named:
            return self._named[name]
        if self._host is None or name.startswith("__"):
            return None
        if not any(inspect.isfunction(vars(cls).get(name)) for cls in type(self._host).__mro__):
            return None
        found: Callback = getattr(self._host, name)
        return found

    def name_of(self, callback: str | Callback) -> str:
        """Return the name under which a callback is stored.

        Raises:
            ScheduleError: There is none: an unknown name, a lambda, a partial, another object's method.
        """
        if isinstance(callback, str):
            if self.get(callback) is None:
                raise ScheduleError(f"there is no callback {callback!r}; {self._known()}")
            return callback
        for name, known in self._named.items():
            if known == callback:
                return name
        if inspect.iscoroutine(callback):
            callback.close()
            raise ScheduleError("the callback was called instead of passed; leave the parentheses out, as in self.ping")
        owner = getattr(callback, "__self__", None)
        name = getattr(callback, "__name__", "")
        if isinstance(owner, Stub) and self._is_stub_of_host(owner) and self.get(name) is not None:
            return str(name)
        if owner is not None and owner is self._host and self.get(name) == callback:
            return name
        what = "another object's method" if owner is not None else "not a method of this agent"
        message = (
            f"callback {callback!r} is {what}; pass a bound method such as self.send_reminder, "
            f"or its name: only the name is stored. {self._known()}"
        )
        raise ScheduleError(message)

    def _is_stub_of_host(self, stub: Stub) -> bool:
        host = self._host
        return isinstance(host, DurableObject) and stub.is_of(host.context.session.agent)

    def _known(self) -> str:
        if self._host is not None:
            return f"callbacks are the methods of {type(self._host).__name__}"
        return f"callbacks are {', '.join(sorted(self._named)) or 'none'}"

    def checked(self, name: str, payload: object) -> JsonValue:
        """Return a payload as it is to be stored: through the callback's annotation and JSON.

        Raises:
            PayloadError: The annotation refuses it, or JSON can't carry it.
        """
        stored = plain(payload, "payload")
        callback = self.get(name)
        adapter = None if callback is None else signature(callback).adapter
        if adapter is None:
            return stored
        return _dumped(adapter, _validated(adapter, stored))

    def prepare(self, name: str, payload: JsonValue, schedule: object) -> tuple[Callback, tuple[object, ...]]:
        """Return a callback and what to call it with.

        Raises:
            LookupError: It is gone.
            PayloadError: Its annotation refuses the stored payload.
        """
        callback = self.get(name)
        if callback is None:
            raise LookupError(f"there is no callback {name!r} any more; {self._known()}")
        takes = signature(callback)
        value = payload if takes.adapter is None else _validated(takes.adapter, payload)
        return callback, (value, schedule)[: takes.takes]


async def call(callback: Callback, arguments: tuple[object, ...]) -> None:
    """Call a callback, a plain function in a thread of its own."""
    if is_coroutine_function(callback):
        await callback(*arguments)
        return
    returned = await in_thread(callback, *arguments)
    if inspect.isawaitable(returned):
        await returned


def signature(callback: Callback) -> Signature:
    """Return what a callback takes; looked at once a function."""
    function = getattr(callback, "__func__", callback)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ScheduleError(
            f"callback {function.__qualname__} is a generator, which would never run; write a coroutine"
        )
    return _signature(function, hasattr(callback, "__self__"))


@functools.lru_cache(maxsize=4096)
def _signature(function: Callback, is_bound: bool) -> Signature:  # noqa: FBT001  # a cache key
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    if is_bound and parameters and parameters[0].kind in kinds:
        parameters = parameters[1:]  # self
    positional = [parameter for parameter in parameters if parameter.kind in kinds]
    required = [parameter for parameter in positional if parameter.default is inspect.Parameter.empty]
    if len(required) > 2:
        raise ScheduleError(
            f"callback {function.__qualname__} takes {len(required)} arguments; it may take (payload, schedule), "
            "(payload) or none"
        )
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty:
            raise ScheduleError(
                f"callback {function.__qualname__} needs {parameter.name}= by name; it may take (payload, schedule), "
                "(payload) or none"
            )
    takes = min(len(positional), 2)
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        takes = 2
    return Signature(takes, _adapter(function, positional[0].name) if positional else None)


def _adapter(function: Callback, parameter: str) -> TypeAdapter[Any] | None:
    try:
        annotation = typing.get_type_hints(function).get(parameter, Any)
    except NameError as error:
        message = (
            f"the annotation of {function.__qualname__}({parameter}) can't be resolved: {error}; "
            "import the name at run time, not only under TYPE_CHECKING"
        )
        raise ScheduleError(message) from error
    if annotation in (Any, object):
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(annotation)


def _validated(adapter: TypeAdapter[Any], payload: JsonValue) -> Any:
    """Read a payload as the JSON it is: strict models take text for a date from there only."""
    from pydantic import ValidationError

    try:
        return adapter.validate_json(canonical(payload))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(["payload", *(str(part) for part in first["loc"])])
        raise PayloadError(path, f"the callback's annotation refuses it: {first['msg']}") from error


def _dumped(adapter: TypeAdapter[Any], value: Any) -> JsonValue:
    """Return a value as JSON, provided that reading it back gives the same (SPEC 8.5)."""
    dumped = plain(adapter.dump_python(value, mode="json", round_trip=True, by_alias=True), "payload")
    try:
        is_same = _validated(adapter, dumped) == value
    except PayloadError:
        is_same = False
    if not is_same:
        reason = (
            f"is a {type(value).__name__} whose JSON form loses data (a secret, an excluded field); "
            "keep the secret elsewhere and store a reference"
        )
        raise PayloadError("payload", reason)
    return dumped
