"""What ``runtime.get`` returns: looks like the agent, and turns method calls into calls to the live instance."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from agentkit.errors import AgentCallError
from agentkit.host import DurableObject
from agentkit.store.store import AgentId

Invoke = Callable[..., Awaitable[Any]]


class Stub:
    """A name for an agent that may not be live; making one costs nothing."""

    __slots__ = ("_agent", "_cls", "_invoke")

    def __init__(self, cls: type[DurableObject], agent: AgentId, invoke: Invoke) -> None:
        self._cls = cls
        self._agent = agent
        self._invoke = invoke

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        check_callable(self._cls, name)
        return functools.partial(self._invoke, self._agent, name)

    def __repr__(self) -> str:
        return f"<stub of {self._agent}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stub) and self._agent == other._agent

    def __hash__(self) -> int:
        return hash(self._agent)


@functools.lru_cache(maxsize=4096)
def check_callable(cls: type[DurableObject], name: str) -> None:
    """Raise unless ``name`` is a public coroutine method of the class.

    Raises:
        AgentCallError: It is something else; the message says what.
        AttributeError: There is no such thing, or it is private.
    """
    if name.startswith("_"):
        raise AttributeError(f"{name!r} of {cls.__name__} is private; a stub reaches public coroutine methods only")
    attribute = inspect.getattr_static(cls, name, None)
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    if inspect.iscoroutinefunction(attribute):
        return
    if inspect.isasyncgenfunction(attribute):
        what = "an async generator; collect its items in a coroutine method"
    elif inspect.isfunction(attribute):
        what = f"not a coroutine; write `async def {name}`"
    elif attribute is not None or name in getattr(cls, "__annotations__", {}):
        what = "an attribute; write a coroutine method that returns it"
    else:
        message = f"{cls.__name__} has no method {name!r} (attributes set in __init__ can't be reached through a stub)"
        raise AttributeError(message)
    raise AgentCallError(f"{cls.__name__}.{name} can't be called through a stub: it is {what}")
