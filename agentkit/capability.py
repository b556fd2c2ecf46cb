"""A reusable part of an agent, and the scoped view of the lifecycle that it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit import context
from agentkit.clock import Clock
from agentkit.jobs.queue import JobQueue
from agentkit.storage import Storage

if TYPE_CHECKING:
    from agentkit.jobs.breaker import MemoryLimitContext
    from agentkit.lifecycle import Lifecycle
    from agentkit.store.store import HistoryRow

T = TypeVar("T")


class Scope:
    """What one owner, the host or a capability, may reach of its agent.

    Attributes:
        jobs: The owner's jobs.
        storage: Values of its own; a capability's are spared by the host's ``delete_all()``.
    """

    __slots__ = ("_lifecycle", "jobs", "storage")

    def __init__(self, lifecycle: Lifecycle, owner: str) -> None:
        self._lifecycle = lifecycle
        session, options = lifecycle.session, lifecycle.options
        self.jobs = JobQueue(
            session,
            owner,
            clock=lifecycle.clock,
            ids=lifecycle.ids,
            max_payload_bytes=options.max_payload_bytes,
        )
        self.storage = Storage(session, owner, max_value_bytes=options.max_value_bytes)

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._lifecycle.session.agent.name

    @property
    def agent(self) -> str:
        """The agent as ``Class/name``."""
        return str(self._lifecycle.session.agent)

    @property
    def store_id(self) -> str:
        """What tells the agent's store from every other."""
        return self._lifecycle.session.store.id

    def stand_in(self, kind: str) -> Any:
        """Return what a test has put in place of what the capability was given, or None.

        Args:
            kind: ``"model"`` or ``"engine"``.
        """
        return self._lifecycle.host.context.stand_ins.get(kind)

    def new_id(self) -> str:
        """Return an id that is unique for ever, and later than every other this runtime has made."""
        return self._lifecycle.ids.new()

    @property
    def clock(self) -> Clock:
        """The runtime's clock."""
        return self._lifecycle.clock

    @property
    def is_starting(self) -> bool:
        """Start-up is under way."""
        return self._lifecycle.session.is_starting

    @property
    def is_gone(self) -> bool:
        """The instance was evicted, destroyed or lost: it can't write any more."""
        return self._lifecycle.session.gone is not None

    @property
    def is_in_transaction(self) -> bool:
        """The running code belongs to an open ``transaction()`` of the agent."""
        return self._lifecycle.session.is_in_transaction

    async def once_committed(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Call a function: in a ``transaction()`` once that is committed, else now."""
        await self._lifecycle.session.once_committed(follow)

    async def history(self, limit: int) -> list[HistoryRow]:
        """Return the latest recorded runs of the agent, newest first."""
        session = self._lifecycle.session
        await session.settle()
        return await session.store.history(session.agent, min(limit, self._lifecycle.options.keep_history))

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commit what the block changes together, or nothing of it.

        Code in the block, and tasks it starts and awaits, reads the changes; other code sees them after the
        commit. Blocks of one agent exclude each other, a nested one joins the outer.

        Raises:
            TransactionConflictError: On leaving, if what the block has read was changed by other code.
        """
        return self._lifecycle.session.transaction()

    def track_alarm_work(self, task: asyncio.Task[Any]) -> bool:
        """Hand background work to the current alarm; False, and nothing tracked, outside of one."""
        return self._lifecycle.track_alarm_work(task)

    def spawn_work(self, coroutine: Coroutine[Any, Any, T], label: str) -> asyncio.Task[T]:
        """Start work of the agent's own, which belongs to no call, job or transaction under way.

        Until it ends the instance isn't evicted, and shutdown waits for it, then cancels it.

        Args:
            coroutine: What runs.
            label: What it is, for people.
        """
        return self._lifecycle.spawn_work(coroutine, label)

    def spawn_beside(
        self, coroutine: Coroutine[Any, Any, None], label: str, *, keeps_awake: bool = False
    ) -> asyncio.Task[None]:
        """Start a task that lives beside the instance: it is no work of the agent's, and nobody waits for its end.

        It is cancelled, and its clean-up awaited, before the instance is evicted or closed; then it may still write.

        Args:
            coroutine: What runs.
            label: What it is, for people.
            keeps_awake: Don't evict the instance while it runs.

        Raises:
            AgentGoneError: The instance has ended.
        """
        return self._lifecycle.spawn_beside(coroutine, label, keeps_awake=keeps_awake)

    async def apart(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await what must be durable at once, whatever becomes of a ``transaction()`` around it."""
        if not self.is_in_transaction:
            return await coroutine
        return await asyncio.get_running_loop().create_task(coroutine, context=context.apart())

    def on_work(self, told: Callable[[], None]) -> None:
        """Have a function called whenever a job, tracked work or a ``keep_alive`` of the agent begins."""
        self._lifecycle.on_work = (*self._lifecycle.on_work, told)

    def is_working(self, *, besides: str = "") -> bool:
        """Tell whether a job, tracked work or a ``keep_alive`` of the agent is under way.

        Args:
            besides: Id of a job that doesn't count.
        """
        return self._lifecycle.is_working(besides=besides)

    def emit(self, channel: str, event_type: str, payload: dict[str, Any]) -> None:
        """Tell whoever listens; see ``agentkit.events``."""
        self._lifecycle.emit(channel, event_type, payload)


class Capability:
    """A part that is installed with ``lifecycle.use(capability)``; override the hooks you need.

    A capability that takes jobs defines ``on_job(context)``; it may also define ``on_job_error(context, error)``,
    whose return is the outcome of a job that failed for good, and ``on_job_skipped(context)`` likewise for a
    single-flight job that was left out.

    Attributes:
        id: Names it within the agent; owner of its jobs and storage.
        lifecycle: Set when it is installed.
    """

    id: str = ""
    lifecycle: Scope

    async def on_start(self) -> None:
        """Run at every activation, before the host's ``on_start`` and before any call or job."""

    async def on_memory_limit(self, context: MemoryLimitContext) -> None:
        """Run after a memory-limit reset."""

    async def on_clock_set_back(self) -> None:
        """Run when the wall clock was set back: moments that were derived from it may lie too far ahead."""

    async def on_evict(self) -> None:
        """Run before the instance is dropped."""

    async def on_destroy(self) -> None:
        """Run before the agent's rows go; raise to be called again, by the retry policy."""


def takes_jobs(owner: object) -> bool:
    """Tell whether an owner defines ``on_job``."""
    return callable(getattr(owner, "on_job", None))
