"""The function that a user wants called when a sandbox has stopped: named, found again, called (SPEC 12.6)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from agentkit.context import current_agent, in_thread, is_coroutine_function
from agentkit.errors import ConfigurationError
from agentkit.host import DurableObject
from agentkit.sandbox.stops import Stopped

#: A method of the agent, its name, or a function; takes a ``Stopped``, or nothing.
OnStop: TypeAlias = Callable[..., Any] | str


class StopCallback:
    """Calls ``on_stop``. A method is kept by its name: the agent owns its sandbox, not the other way round."""

    def __init__(self, on_stop: OnStop) -> None:
        """Take a function or a method.

        Raises:
            ConfigurationError: It can't be called.
        """
        owner = getattr(on_stop, "__self__", None)
        if isinstance(owner, DurableObject):
            on_stop = getattr(on_stop, "__name__", "")
        if not isinstance(on_stop, str) and not callable(on_stop):
            raise ConfigurationError(f"on_stop is a method of the agent, its name, or a function, got {on_stop!r}")
        self._on_stop = on_stop

    def found(self) -> Callable[..., Any]:
        """Return what is to be called, with the agent whose code is running.

        Raises:
            ConfigurationError: The agent has no such method.
        """
        if not isinstance(self._on_stop, str):
            return self._on_stop
        host = current_agent()
        method: Callable[..., Any] | None = getattr(host, self._on_stop, None)
        if not callable(method):
            raise ConfigurationError(f"on_stop: {type(host).__name__} has no method {self._on_stop!r}")
        return method

    async def call(self, stopped: Stopped) -> None:
        """Call it, a plain function in a thread of its own."""
        function = self.found()
        arguments = (stopped,) if inspect.signature(function).parameters else ()
        if is_coroutine_function(function):
            await function(*arguments)
            return
        returned = await in_thread(function, *arguments)
        if inspect.isawaitable(returned):
            await returned
