"""What ``runtime.get`` returns: looks like the agent, and turns method calls into calls to the live instance."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, cast

from agentkit.errors import AgentCallError
from agentkit.host import DurableObject
from agentkit.store.store import AgentId

Invoke = Callable[[AgentId, str, tuple[Any, ...], dict[str, Any]], Coroutine[Any, Any, Any]]


class Stub:
    """A name for an agent that may not be live; making one costs nothing.

    Each agent class has a subclass of its own that holds its public coroutine methods.
    """

    __slots__ = ("_agent", "_invoke")
    _cls: type[DurableObject]

    def __init__(self, agent: AgentId, invoke: Invoke) -> None:
        self._agent = agent
        self._invoke = invoke

    def __getattr__(self, name: str) -> Any:
        raise refusal(self._cls, name)

    def is_of(self, agent: AgentId) -> bool:
        """Tell whether this is a stub of an agent."""
        return self._agent == agent

    def __repr__(self) -> str:
        return f"<stub of {self._agent}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stub) and self._agent == other._agent

    def __hash__(self) -> int:
        return hash(self._agent)


@functools.cache
def stub_class(cls: Hashable) -> type[Stub]:
    """Return the stub class of an agent class: a forwarding method for each public coroutine method."""
    assert isinstance(cls, type)
    methods: dict[str, Any] = {"__slots__": (), "_cls": cls}
    for name in dir(cls):
        if not name.startswith("_") and inspect.iscoroutinefunction(_function(cls, name)):
            methods[name] = _forward(name, f"{cls.__name__}.{name}")
    return type(f"{cls.__name__}Stub", (Stub,), methods)


def _forward(name: str, shown: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    def call(self: Any, *arguments: Any, **keywords: Any) -> Coroutine[Any, Any, Any]:
        running = self._invoke(self._agent, name, arguments, keywords)
        running.__qualname__ = shown  # what Python warns of when an await is forgotten
        return cast(Coroutine[Any, Any, Any], running)

    call.__name__ = name
    return call


def _function(cls: type[DurableObject], name: str) -> object:
    attribute = inspect.getattr_static(cls, name, None)
    return attribute.__func__ if isinstance(attribute, staticmethod | classmethod) else attribute


def refusal(cls: type[DurableObject], name: str) -> Exception:
    """Return the error for a name that a stub doesn't carry: what it is, and what to do."""
    if name.startswith("_"):
        return AttributeError(f"{name!r} of {cls.__name__} is private; a stub reaches public coroutine methods only")
    attribute = _function(cls, name)
    if inspect.isasyncgenfunction(attribute):
        what = "an async generator; collect its items in a coroutine method"
    elif inspect.isfunction(attribute):
        what = f"not a coroutine; write `async def {name}`"
    elif attribute is not None or any(name in vars(base).get("__annotations__", {}) for base in cls.__mro__):
        what = "an attribute; write a coroutine method that returns it"
    else:
        return AttributeError(
            f"{cls.__name__} has no method {name!r} (what __init__ sets can't be reached through a stub)"
        )
    return AgentCallError(f"{cls.__name__}.{name} can't be called through a stub: it is {what}")
