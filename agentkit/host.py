"""The plain host of a durable object: what ``Agent`` builds on, and what users may build on instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from agentkit.clock import Clock
from agentkit.errors import ConfigurationError
from agentkit.events import EventBus
from agentkit.ids import IdSource
from agentkit.options import AgentOptions
from agentkit.store.session import Session

if TYPE_CHECKING:
    from typing import Self

    from agentkit.jobs.breaker import MemoryLimitContext
    from agentkit.lifecycle import Lifecycle

HostT = TypeVar("HostT", bound="DurableObject")
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentContext:
    """What a runtime hands to the agent it builds; pass it on to ``super().__init__``.

    Attributes:
        name: The agent's name.
        deps: The object given as ``Runtime(deps=…)``.
        get: Returns a stub of another agent.
        session: The door to the agent's rows.
        clock: The runtime's clock.
        ids: Source of ids.
        events: The runtime's events.
        serving_since: Since when runtimes have served the store without a gap.
        shutdown_grace: How long teardown waits for calls under way, in seconds.
        stand_ins: What a test has put in place of what capabilities were given, by kind (``"model"``, ``"engine"``).
    """

    name: str
    deps: Any
    get: Callable[[Any, str], Any]
    session: Session
    clock: Clock
    ids: IdSource
    events: EventBus
    serving_since: datetime
    shutdown_grace: float
    stand_ins: Mapping[str, Any] = field(default_factory=dict)


class DurableObject:
    """Something addressed by (class, name) with storage, jobs and an alarm of its own.

    Subclasses build ``self.lifecycle = Lifecycle(self)`` in ``__init__(self, context)``. A host that takes jobs of
    its own defines ``async def on_job(self, context)``; as a plain function it runs in a daemon thread, which can't
    be cancelled and beside which other code of the agent may run.
    """

    options: ClassVar[AgentOptions] = AgentOptions()
    context: AgentContext
    lifecycle: Lifecycle

    def __new__(cls, context: AgentContext | None = None, *arguments: Any, **keywords: Any) -> Self:
        """Keep the context, so that ``Lifecycle(self)`` finds it."""
        if not isinstance(context, AgentContext):
            message = f"a runtime builds its agents itself; to reach one, call runtime.get({cls.__name__}, name)"
            raise ConfigurationError(message)
        host = super().__new__(cls)
        host.context = context
        return host

    def __init__(self, context: AgentContext) -> None:
        """Build the instance; nothing may be read or written before ``on_start``."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.context.name

    @property
    def deps(self) -> Any:
        """The object given as ``Runtime(deps=…)``."""
        return self.context.deps

    def get(self, cls: type[HostT], name: str) -> HostT:
        """Return a stub of another agent, without I/O."""
        stub: HostT = self.context.get(cls, name)
        return stub

    async def on_start(self) -> None:
        """Run once per activation, before anything else."""

    async def on_alarm(self) -> None:
        """Run after the due jobs of each alarm."""

    async def on_alarm_memory_limit(self, context: MemoryLimitContext) -> None:
        """Run after a memory-limit reset, once the queue has been changed."""

    async def on_error(self, error: Exception) -> None:
        """Run when ``on_alarm``, a request or a message raised."""


def callable_method(method: Method) -> Method:
    """Let a coroutine method be called from outside the process: over HTTP, and by other machines.

    >>> class Counter(Agent):                          # doctest: +SKIP
    ...     @callable_method
    ...     async def add(self, amount: int) -> int: ...
    """
    method.__agentkit_callable__ = True  # type: ignore[attr-defined]  # a mark read by the server
    return method


def class_name(cls: type[DurableObject]) -> str:
    """Return the name under which a class's agents are stored."""
    return cls.options.name or cls.__name__
