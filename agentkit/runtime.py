"""Hosts agents in a process: what a program calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import unicodedata
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from agentkit import events, telemetry
from agentkit.alarm_service import AlarmService
from agentkit.clock import Clock, Duration, SystemClock, duration_of
from agentkit.errors import AgentKitError, AgentNameError, ConfigurationError, RuntimeClosedError, StoreError
from agentkit.host import AgentContext, DurableObject, class_name
from agentkit.hosting import Hosting
from agentkit.ids import IdSource
from agentkit.jobs.queue import requeue
from agentkit.lifecycle import Lifecycle
from agentkit.memory_watch import MemoryWatch, resident_bytes
from agentkit.stop_signals import on_stop_signal
from agentkit.store.session import Session
from agentkit.store.store import AgentId, Store
from agentkit.stub import stub_class
from agentkit.tasks import TaskSet
from agentkit.wakeups import Wakeups

logger = logging.getLogger(__name__)
HostT = TypeVar("HostT", bound=DurableObject)

_LONGEST_NAME = 1_024
_CANCEL_GRACE = 5.0
_STRETCH = 256


class Runtime:
    """Serves the agents of some classes on one store; ``async with`` starts and drains it.

    >>> async with Runtime(ReminderBot, store="sqlite:///bots.db") as runtime:   # doctest: +SKIP
    ...     await runtime.get(ReminderBot, "ada").remind("in ten minutes: stretch")
    ...     await runtime.run()
    """

    def __init__(
        self,
        *agent_classes: type[DurableObject],
        store: str | Store | None = None,
        clock: Clock | None = None,
        idle_timeout: Duration = 70,
        memory_limit: int | None = None,
        shutdown_grace: Duration = 25,
        max_concurrent_agents: int = 1_000,
        deps: Any = None,
        durability: str = "full",
    ) -> None:
        """Put a runtime together; nothing is opened yet.

        Args:
            agent_classes: Subclasses of ``Agent`` or ``DurableObject``.
            store: A URL (``sqlite:///path``, ``sqlite:///:memory:``) or a ``Store``; None means
                ``$AGENTKIT_STORE``, else ``sqlite:///agentkit.db``.
            clock: The system's, if None.
            idle_timeout: Seconds after which an unused instance is dropped.
            memory_limit: Resident bytes; a process that holds more stores which jobs were under way, runs their
                memory-limit hooks and ends with status 137.
            shutdown_grace: Seconds that running jobs and calls get at shutdown.
            max_concurrent_agents: Agents woken from the store that may run at one time.
            deps: Whatever the agents need; they find it as ``self.deps``.
            durability: ``"full"`` survives power loss, ``"process"`` only the death of the process.
        """
        self._classes = _by_name(agent_classes)
        self._clock: Clock = clock or SystemClock()
        self._store = open_store(store, durability)
        self._idle_timeout = duration_of(idle_timeout, "idle_timeout")
        self._grace = duration_of(shutdown_grace, "shutdown_grace").total_seconds()
        self._max_concurrent = max_concurrent_agents
        self._memory_limit = memory_limit
        self._deps = deps
        self._stand_ins: dict[str, Any] = {}
        self.events = events.EventBus(events.everywhere())
        self._ids = IdSource(self._clock)
        self._hosting: Hosting | None = None
        self._tasks = TaskSet()
        self._start_task: asyncio.Task[None] | None = None
        self._close_task: asyncio.Task[None] | None = None

    @property
    def clock(self) -> Clock:
        """The clock that everything here goes by."""
        return self._clock

    @property
    def store(self) -> Store:
        """The store it serves."""
        return self._store

    # --- starting and stopping

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the store, take over what an earlier process left, and arm the timer.

        Raises:
            StoreInUseError: Another process has the store.
            StoreError: It can't be opened; the message says what to do.
        """
        if self._close_task is not None:
            await self.close()
        starting = self._start_task
        if starting is not None:
            await asyncio.shield(starting)
        elif self._hosting is None:
            starting = self._start_task = asyncio.ensure_future(self._start())
            starting.add_done_callback(self._start_ended)
            try:
                await asyncio.shield(starting)
            except asyncio.CancelledError:
                await asyncio.wait({starting})
                await self.close()
                raise

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        self._start_task = None
        if not task.cancelled():
            task.exception()  # seen: whoever started may have been cancelled

    async def _start(self) -> None:
        await self._store.open()
        try:
            await self._begin_to_serve()
        except BaseException:
            await self._store.close()
            raise

    async def _begin_to_serve(self) -> None:
        logger.info("serving %s", self._store.location)
        node = await self._store.join("")
        self._serving_since = self._clock.now()
        self._tasks = TaskSet()
        self._cut_short = asyncio.Event()
        self._wakeups = Wakeups(self._clock, idle_ms=self._idle_ms)
        self._hosting = Hosting(
            self._store, node, clock=self._clock, tasks=self._tasks, wakeups=self._wakeups, build=self._build
        )
        self._alarms = AlarmService(
            self._store,
            self._hosting,
            classes=list(self._classes),
            clock=self._clock,
            tasks=self._tasks,
            wakeups=self._wakeups,
            max_concurrent=self._max_concurrent,
        )
        self._wakeups.start(on_due=self._alarms.due, on_idle=self._fallen_idle, on_cold=self._alarms.cold_due)
        self._wakeups.cold(self._clock.now_ms())
        self._unobserve = telemetry.observe(self.events)
        self._set_back = self._clock.on_set_back(self._clock_set_back)
        await self._warn_of_unknown_classes()
        self._tasks.spawn(self._repair_alarms(self._hosting))
        if self._memory_limit is not None:
            watch = MemoryWatch(
                self._memory_limit, self._hosting, clock=self._clock, measure=resident_bytes, leave=os._exit
            )
            self._tasks.spawn(watch.run())

    async def close(self) -> None:
        """Stop taking work, let what runs finish within ``shutdown_grace``, cancel the rest, close the store."""
        if self._close_task is None:
            if self._hosting is None:
                return
            self._close_task = asyncio.ensure_future(self._close(self._hosting))
        closing, is_cancelled = self._close_task, False
        try:
            while not closing.done():
                try:
                    await asyncio.shield(closing)
                except asyncio.CancelledError:
                    # Closing goes on to its end, only without the grace.
                    is_cancelled = True
                    self._cut_short.set()
            closing.result()
        finally:
            if self._close_task is closing:
                self._close_task = None
        if is_cancelled:
            raise asyncio.CancelledError

    async def _close(self, hosting: Hosting) -> None:
        hosting.is_serving = False
        self._wakeups.close()
        self._set_back.cancel()
        try:
            await self._drain(hosting)
        finally:
            if self._unobserve is not None:
                self._unobserve()
            try:
                with contextlib.suppress(StoreError):
                    await self._store.leave(hosting.node)
                await self._store.close()
            finally:
                self._hosting = None

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM, then close; a second signal cuts the drain short."""
        stop = asyncio.Event()

        def stopped() -> None:
            if stop.is_set():
                self._cut_short.set()
            stop.set()

        with on_stop_signal(stopped):
            await stop.wait()
            logger.info("stopping: running jobs and calls get %g s", self._grace)
            await self.close()

    async def _drain(self, hosting: Hosting) -> None:
        """Wait for alarms and calls; cut off what is left, which spends no attempt."""
        for lifecycle in hosting.live.values():
            lifecycle.alarm.stop()
        await self._wait_for_rest(list(hosting.live.values()))
        reason = RuntimeClosedError("the runtime was closed while the call was under way")
        for lifecycle in list(hosting.live.values()):
            if lifecycle.alarm_task is not None:
                lifecycle.alarm_task.cancel()
            await lifecycle.end_calls(0, reason)
        for task in await self._tasks.cancel(_CANCEL_GRACE):
            logger.error("%s did not stop when it was cancelled; it can't write any more", task.get_name())
        for lifecycle in list(hosting.live.values()):
            await lifecycle.end_beside()
            with contextlib.suppress(AgentKitError):
                await lifecycle.session.settle()
            lifecycle.abandon("the runtime was closed")

    async def _wait_for_rest(self, lifecycles: list[Lifecycle]) -> None:
        busy = [lifecycle for lifecycle in lifecycles if not lifecycle.is_resting]
        if not busy:
            return
        rest = asyncio.ensure_future(_all_at_rest(busy))
        cut_short = asyncio.ensure_future(self._cut_short.wait())
        try:
            await asyncio.wait({rest, cut_short}, timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
            cut_short.cancel()

    async def _die(self) -> None:
        """End as ``kill -9`` would: nothing that isn't on its way to the disk is written (fault tests)."""
        hosting, self._hosting = self._hosting, None
        if hosting is None:
            return
        hosting.is_serving = False
        self._wakeups.close()
        self._set_back.cancel()
        self._store.kill(hosting.node)
        for lifecycle in hosting.live.values():
            lifecycle.abandon("the process crashed")
        await self._tasks.cancel(_CANCEL_GRACE)
        for lifecycle in hosting.live.values():
            await lifecycle.end_beside()

    # --- what users call

    def get(self, cls: type[HostT], name: str) -> HostT:
        """Return a stub of an agent, at once and without I/O; editors see it as the class.

        Raises:
            AgentNameError: No agent can have this name.
            ConfigurationError: The runtime was not given the class.
        """
        agent = self._agent(cls, name)
        return cast(HostT, stub_class(cast(Any, cls))(agent, self.invoke))

    async def activate(self, cls: type[DurableObject], name: str) -> None:
        """Run an agent's start-up now, if it isn't live."""
        await self._serving().activated(self._agent(cls, name))

    async def evict(self, cls: type[DurableObject], name: str) -> bool:
        """Drop an instance now; False if it isn't live. Its calls and jobs under way are waited for."""
        hosting = self._serving()
        lifecycle = hosting.live.get(self._agent(cls, name))
        if lifecycle is None:
            return False
        await lifecycle.until(lambda: lifecycle.session.gone is not None or lifecycle.is_resting)
        await hosting.evict(lifecycle)
        return True

    async def destroy(self, cls: type[DurableObject], name: str) -> None:
        """Push the job that destroys an agent, and return; see ``Agent.destroy``."""
        lifecycle = await self._serving().activated(self._agent(cls, name))
        await lifecycle.destroy()

    async def requeue(self, cls: type[DurableObject], name: str, run_id: str) -> None:
        """Bring the job of a failed or set-aside run back; see ``JobQueue.requeue``."""
        lifecycle = await self._serving().activated(self._agent(cls, name))
        await requeue(lifecycle.session, run_id, ids=self._ids, clock=self._clock)

    def invoke(
        self, agent: AgentId, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Call a method of an agent, activating it if need be."""
        if self._hosting is not None and self._hosting.takes_calls:
            lifecycle = self._hosting.live.get(agent)
            if lifecycle is not None and lifecycle.is_ready:
                return lifecycle.call(method, arguments, keywords, self._invoke_cold)
        return self._invoke_cold(agent, method, arguments, keywords)

    async def _invoke_cold(
        self, agent: AgentId, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        lifecycle = await self._serving().activated(agent)
        return await lifecycle.call(method, arguments, keywords, self._invoke_cold)

    # --- inside

    def _serving(self) -> Hosting:
        if self._hosting is None:
            raise RuntimeClosedError("this runtime is not serving; use it inside `async with Runtime(...)`")
        return self._hosting

    def _agent(self, cls: type[DurableObject], name: str) -> AgentId:
        if not is_agent_class(cls):
            raise ConfigurationError(f"give the class of the agent, as in get(ReminderBot, {str(name)!r}), not {cls!r}")
        stored = class_name(cls)
        if self._classes.get(stored) is not cls:
            given = ", ".join(sorted(self._classes)) or "no class"
            raise ConfigurationError(f"this runtime serves {given}; pass {cls.__name__} to Runtime(...) as well")
        return AgentId(stored, checked_name(name))

    def _build(self, session: Session) -> DurableObject:
        for row in session.table:
            self._ids.follow(row.run_id)
        given = AgentContext(
            name=session.agent.name,
            deps=self._deps,
            get=self.get,
            session=session,
            clock=self._clock,
            ids=self._ids,
            events=self.events,
            serving_since=self._serving_since,
            shutdown_grace=self._grace,
            stand_ins=self._stand_ins,
        )
        return self._classes[session.agent.class_name](given)

    def _fallen_idle(self, lifecycle: Lifecycle) -> None:
        if self._hosting is not None:
            self._hosting.evict_soon(lifecycle)

    async def _repair_alarms(self, hosting: Hosting) -> None:
        """Derive alarms from jobs once after start, a stretch at a time (SPEC 6.5)."""
        after: int | None = 0
        while after is not None and hosting.is_serving:
            after = await self._store.repair_alarms(after)
        self._alarms.cold_due()

    def _clock_set_back(self) -> None:
        if self._hosting is not None:
            logger.warning("the clock was set back to %s; schedules are looked at again", self._clock.now())
            self._tasks.spawn(self._look_again(self._hosting))

    async def _look_again(self, hosting: Hosting) -> None:
        """Let every agent that waits for an alarm derive its moments from the clock as it is now."""
        for lifecycle in list(hosting.live.values()):
            await lifecycle.clock_set_back()
        after = 0
        while hosting.is_serving:
            stretch = await self._store.waiting(list(self._classes), after, _STRETCH)
            if not stretch:
                return
            for _, agent in stretch:
                with contextlib.suppress(Exception):  # its start-up raised: that is logged at its alarm
                    lifecycle = await hosting.activated(agent)
                    await lifecycle.clock_set_back()
                    if lifecycle.is_idle:
                        await hosting.evict(lifecycle)
            after = stretch[-1][0]

    async def _warn_of_unknown_classes(self) -> None:
        for name in await self._store.classes_waiting():
            if name not in self._classes:
                logger.warning(
                    "the store has jobs for agents of class %s, which this runtime was not given; they wait", name
                )

    def _idle_ms(self, lifecycle: Lifecycle) -> int:
        own = lifecycle.options.idle_timeout
        timeout = self._idle_timeout if own is None else duration_of(own, "idle_timeout")
        return int(timeout.total_seconds() * 1000)


async def _all_at_rest(lifecycles: list[Lifecycle]) -> None:
    # Round again: work that is under way in one may have begun calls in another.
    while not all(lifecycle.is_resting for lifecycle in lifecycles):
        for lifecycle in lifecycles:
            await lifecycle.until_rest()


def open_store(store: str | Store | None, durability: str = "full") -> Store:
    """Return the store that a URL names."""
    if store is None:
        store = os.environ.get("AGENTKIT_STORE") or "sqlite:///agentkit.db"
    if not isinstance(store, str):
        return store
    scheme, separator, path = store.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        # Never the URL itself: it may hold a password.
        kind = store.partition("://")[0] if "://" in store else ""
        what = f"there is no store for {kind}:// URLs yet" if kind not in ("", "sqlite") else "that is no store URL"
        message = (
            f"{what}; write sqlite:///bots.db for a file in this folder (three slashes), sqlite:////var/bots.db for "
            "an absolute path (four), or sqlite:///:memory:"
        )
        raise ConfigurationError(message)
    from agentkit.store.sqlite import SqliteStore

    return SqliteStore(path, durability=cast(Any, durability))


def checked_name(name: object) -> str:
    """Return a name that an agent may have, or raise ``AgentNameError``."""
    if not name or not isinstance(name, str):
        raise AgentNameError(name, "is empty or not a text")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise AgentNameError(name, "can't be stored as UTF-8") from None
    if size > _LONGEST_NAME:
        raise AgentNameError(name, f"has {size:,} bytes")
    if not name.isprintable() and any(unicodedata.category(character) == "Cc" for character in name):
        raise AgentNameError(name, "has control characters")
    return name


def is_agent_class(value: object) -> bool:
    """Tell whether something is a class that a runtime can serve."""
    return isinstance(value, type) and issubclass(value, DurableObject)


def _by_name(classes: tuple[type[DurableObject], ...]) -> dict[str, type[DurableObject]]:
    named: dict[str, type[DurableObject]] = {}
    for cls in classes:
        if not is_agent_class(cls):
            raise ConfigurationError(f"{cls!r} is no agent class; subclass Agent or DurableObject")
        name = class_name(cls)
        if name in named:
            message = f"two classes are stored as {name!r}; give one options = AgentOptions(name=...)"
            raise ConfigurationError(message)
        named[name] = cls
    return named
