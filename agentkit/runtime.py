"""Hosts agents in a process: activation, calls, alarms, eviction, drain."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import unicodedata
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from agentkit import events
from agentkit.clock import Clock, Duration, SystemClock, duration_of
from agentkit.errors import (
    AgentKitError,
    AgentNameError,
    ConfigurationError,
    RuntimeClosedError,
    StoreError,
)
from agentkit.host import AgentContext, DurableObject, class_name
from agentkit.ids import IdSource
from agentkit.jobs.breaker import Isolation
from agentkit.jobs.queue import requeue
from agentkit.lifecycle import Lifecycle
from agentkit.store.session import Session
from agentkit.store.store import Activated, AgentId, Batch, Owner, Store
from agentkit.stub import stub_class
from agentkit.wakeups import Wakeups

logger = logging.getLogger(__name__)
HostT = TypeVar("HostT", bound=DurableObject)

_WAVE = 256
_FIRST_FALLBACK_MS = 30_000
_LONGEST_FALLBACK_MS = 300_000
_LONGEST_NAME = 1_024
_CANCEL_GRACE = 5.0


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
            memory_limit: Bytes; see SPEC 7.
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
        self.events = events.EventBus(events.everywhere())
        self._ids = IdSource(self._clock)
        self._node: str | None = None
        self._is_serving = False
        self._reset()

    def _reset(self) -> None:
        """Forget every live agent; start and crash begin from here."""
        self._live: dict[AgentId, Lifecycle] = {}
        self._starting: dict[AgentId, asyncio.Future[Lifecycle | None]] = {}
        self._leaving: dict[AgentId, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._isolation = Isolation()
        self._is_claiming = False
        self._slot_free = asyncio.Event()
        #: Tasks that wait for others of the runtime.
        self._waiting: set[asyncio.Task[Any]] = set()
        self._woken = 0
        self._warned: set[str] = set()
        self._wakeups = Wakeups(
            self._clock,
            on_due=self._due,
            on_idle=lambda lifecycle: self._spawn(self._evict(lifecycle)),
            on_cold=self._cold_due,
            idle_ms=self._idle_ms,
        )

    @property
    def clock(self) -> Clock:
        """The clock that everything here goes by."""
        return self._clock

    @property
    def store(self) -> Store:
        """The store it serves."""
        return self._store

    # --- starting and stopping

    async def __aenter__(self) -> Runtime:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the store, take over what an earlier process left, and arm the timer.

        Raises:
            StoreInUseError: Another process has the store.
            StoreError: It can't be opened; the message says what to do.
        """
        if self._is_serving:
            return
        await self._store.open()
        logger.info("serving %s", self._store.location)
        self._node = await self._store.join("")
        self._serving_since = self._clock.now()
        self._reset()
        self._is_serving = True
        self._wakeups.cold(self._clock.now_ms())
        await self._warn_of_unknown_classes()
        self._spawn(self._repair_alarms())

    async def close(self) -> None:
        """Stop taking work, let what runs finish within ``shutdown_grace``, cancel the rest, close the store."""
        if not self._is_serving:
            return
        self._is_serving = False
        self._wakeups.close()
        await self._drain()
        if self._node is not None:
            with contextlib.suppress(StoreError):
                await self._store.leave(self._node)
        await self._store.close()
        self._node = None

    async def _die(self) -> None:
        """End as ``kill -9`` would: nothing that isn't on its way to the disk is written (fault tests)."""
        self._is_serving = False
        self._wakeups.close()
        if self._node is not None:
            self._store.kill(self._node)
        for lifecycle in self._live.values():
            lifecycle.abandon("the process crashed")
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_GRACE)

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM; a second signal cuts the drain short."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def stopped() -> None:
            if stop.is_set():
                self._grace = 0.0
            stop.set()

        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, stopped)
        try:
            await stop.wait()
            logger.info("stopping: running jobs and calls get %g s", self._grace)
            await self.close()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def _drain(self) -> None:
        """Wait for alarms and calls; cut off what is left, which spends no attempt."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace
        while loop.time() < deadline and not self._is_quiet():
            await asyncio.sleep(0.005)
        reason = RuntimeClosedError("the runtime was closed while the call was under way")
        alarms = [life.alarm_task for life in self._live.values() if life.alarm_task and not life.alarm_task.done()]
        for task in alarms:
            task.cancel()
        for lifecycle in list(self._live.values()):
            await lifecycle.end_calls(0, reason)
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        stopping = {*alarms, *others}
        if stopping:
            _, stuck = await asyncio.wait(stopping, timeout=_CANCEL_GRACE)
            for task in stuck:
                logger.error("%s did not stop when it was cancelled; it can't write any more", task.get_name())
        for lifecycle in self._live.values():
            with contextlib.suppress(AgentKitError):
                await lifecycle.session.settle()
            lifecycle.abandon("the runtime was closed")

    def _is_quiet(self) -> bool:
        return all(lifecycle.is_idle or lifecycle.is_only_held for lifecycle in self._live.values())

    # --- what users call

    def get(self, cls: type[HostT], name: str) -> HostT:
        """Return a stub of an agent, at once and without I/O; editors see it as the class.

        Raises:
            AgentNameError: No agent can have this name.
            ConfigurationError: The runtime was not given the class.
        """
        agent = AgentId(self._known(cls), checked_name(name))
        return cast(HostT, stub_class(cls)(agent, self.invoke))

    async def activate(self, cls: type[DurableObject], name: str) -> None:
        """Run an agent's start-up now, if it isn't live."""
        await self._activated(AgentId(self._known(cls), checked_name(name)))

    async def evict(self, cls: type[DurableObject], name: str) -> bool:
        """Drop an instance now; False if it isn't live. Its calls and jobs under way are waited for."""
        lifecycle = self._live.get(AgentId(self._known(cls), checked_name(name)))
        if lifecycle is None:
            return False
        while not lifecycle.is_idle and lifecycle.session.gone is None:
            await asyncio.sleep(0.001)
        if lifecycle.session.gone is None:
            await self._evict(lifecycle)
        return True

    async def destroy(self, cls: type[DurableObject], name: str) -> None:
        """Push the job that destroys an agent, and return; see ``Agent.destroy``."""
        lifecycle = await self._activated(AgentId(self._known(cls), checked_name(name)))
        await lifecycle.destroy()

    async def requeue(self, cls: type[DurableObject], name: str, run_id: str) -> None:
        """Bring the job of a failed or set-aside run back; see ``JobQueue.requeue``."""
        lifecycle = await self._activated(AgentId(self._known(cls), checked_name(name)))
        await requeue(lifecycle.session, run_id, ids=self._ids, clock=self._clock)

    def invoke(
        self, agent: AgentId, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Call a method of an agent, activating it if need be."""
        lifecycle = self._live.get(agent)
        if lifecycle is not None and lifecycle.is_ready and self._is_serving:
            return lifecycle.call(method, arguments, keywords, self._invoke_cold)
        return self._invoke_cold(agent, method, arguments, keywords)

    async def _invoke_cold(
        self, agent: AgentId, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        lifecycle = await self._activated(agent)
        return await lifecycle.call(method, arguments, keywords, self._invoke_cold)

    def _known(self, cls: type[DurableObject]) -> str:
        name = class_name(cls)
        known = self._classes.get(name)
        if known is not cls:
            given = ", ".join(sorted(self._classes)) or "no class"
            raise ConfigurationError(f"this runtime serves {given}; pass {cls.__name__} to Runtime(...) as well")
        return name

    # --- activation

    async def _activated(self, agent: AgentId) -> Lifecycle:
        """Return the live instance of an agent, starting it up if need be."""
        while True:
            if not self._is_serving:
                raise RuntimeClosedError("this runtime is not serving; use it inside `async with Runtime(...)`")
            lifecycle = self._live.get(agent)
            if lifecycle is not None and lifecycle.is_ready:
                return lifecycle
            starting = self._starting.get(agent)
            if starting is None:
                starting = self._begin(agent)
                self._spawn(self._start_up(agent, None, starting))
            lifecycle = await asyncio.shield(starting)
            if lifecycle is not None and lifecycle.is_ready:
                return lifecycle

    def _begin(self, agent: AgentId) -> asyncio.Future[Lifecycle | None]:
        future: asyncio.Future[Lifecycle | None] = asyncio.get_running_loop().create_future()
        self._starting[agent] = future
        return future

    async def _start_up(
        self, agent: AgentId, activated: Activated | None, starting: asyncio.Future[Lifecycle | None]
    ) -> Lifecycle | None:
        """Build an instance and run its start-up; tells ``starting`` how it went."""
        lifecycle: Lifecycle | None = None
        is_woken = activated is not None
        try:
            leaving = self._leaving.get(agent)
            if leaving is not None:
                await leaving
            if activated is None:
                claimed = await self._store.activate(self._node or "", agent)
                if isinstance(claimed, Owner):
                    raise StoreError(f"{agent} is live in another process ({claimed.address})")
                activated = claimed
            lifecycle = await self._built(activated, is_woken=is_woken)
        except BaseException as error:
            if self._starting.get(agent) is starting:
                del self._starting[agent]
            if not starting.done():
                if isinstance(error, asyncio.CancelledError):
                    starting.set_exception(RuntimeClosedError("the runtime was closed during start-up"))
                else:
                    starting.set_exception(error)
                starting.exception()  # seen: nobody may be waiting
            raise
        if self._starting.get(agent) is starting:
            del self._starting[agent]
        if not starting.done():
            starting.set_result(lifecycle)
        return lifecycle

    async def _built(self, activated: Activated, *, is_woken: bool) -> Lifecycle | None:
        agent = activated.lease.agent
        session = Session(self._store, activated)
        given = AgentContext(
            name=agent.name,
            deps=self._deps,
            get=self.get,
            session=session,
            clock=self._clock,
            ids=self._ids,
            events=self.events,
            serving_since=self._serving_since,
            shutdown_grace=self._grace,
        )
        try:
            host = self._classes[agent.class_name](given)
            lifecycle = host.lifecycle
            if not await lifecycle.start():
                return None
        except BaseException as error:
            await self._fall_back(session, error)
            raise
        session.on_change = functools.partial(self._changed, lifecycle)
        session.on_lost = functools.partial(self._lost, lifecycle)
        self._live[agent] = lifecycle
        session.row.failed_starts = 0
        if not is_woken:
            self._settle_in(lifecycle)
        return lifecycle

    def _changed(self, lifecycle: Lifecycle) -> None:
        if lifecycle.alarm_task is None:  # which looks again at its end
            self._wakeups.arm(lifecycle)

    def _settle_in(self, lifecycle: Lifecycle) -> None:
        """Wait for a live agent's next alarm, and for it to fall idle.

        An agent woken from a backlog may be released before; the timer never hears of it then.
        """
        lifecycle.alarm_task = None
        self._wakeups.arm(lifecycle)
        self._wakeups.watch_idle(lifecycle)

    async def _fall_back(self, session: Session, error: BaseException) -> None:
        """Give an agent whose start-up raised up again, with a later alarm so that its jobs keep a wake (SPEC 6.1)."""
        if session.gone is not None or isinstance(error, asyncio.CancelledError):
            session.gone = session.gone or "its start-up was cancelled"
            return
        row = session.row
        row.failed_starts += 1
        row.running = None
        alarm_ms = session.table.alarm_ms()
        wait = min(_FIRST_FALLBACK_MS << min(row.failed_starts - 1, 8), _LONGEST_FALLBACK_MS)
        row.alarm_ms = None if alarm_ms is None else max(alarm_ms, self._clock.now_ms() + wait)
        try:
            await session.commit_row(Batch(), release=True).wait()
        except AgentKitError:
            self._spawn(self._revive(session.agent))
        self._wakeups.cold(row.alarm_ms)

    async def _evict(self, lifecycle: Lifecycle) -> None:
        """Drop an instance; a call that arrives meanwhile waits and starts a new one."""
        agent = lifecycle.session.agent
        if self._live.get(agent) is not lifecycle:
            return
        del self._live[agent]
        leaving = self._leaving[agent] = asyncio.get_running_loop().create_future()
        try:
            await lifecycle.evict()
        except AgentKitError:
            logger.exception("%s could not be given up", agent)
        finally:
            del self._leaving[agent]
            leaving.set_result(None)
            self._wakeups.cold(lifecycle.session.row.alarm_ms)

    def _forget(self, lifecycle: Lifecycle) -> None:
        """Drop an instance that has given its agent up already."""
        agent = lifecycle.session.agent
        if self._live.get(agent) is lifecycle:
            del self._live[agent]
        self._wakeups.cold(lifecycle.session.row.alarm_ms)

    def _lost(self, lifecycle: Lifecycle) -> None:
        """A commit failed: what is in memory is not what is on disk, so the instance ends and is loaded again."""
        logger.error("%s is dropped: %s", lifecycle.session.agent, lifecycle.session.gone)
        self._forget(lifecycle)
        if self._is_serving:
            self._spawn(self._revive(lifecycle.session.agent))

    async def _revive(self, agent: AgentId) -> None:
        """Bring an agent back whose jobs may be due, once the store works again."""
        wait = 1.0
        while self._is_serving:
            await self._clock.sleep(wait)
            try:
                await self._activated(agent)
            except StoreError:
                wait = min(wait * 2, 30.0)
            except Exception:
                return  # its start-up raised: the fallback alarm is stored
            else:
                return

    # --- alarms

    def _due(self, lifecycle: Lifecycle) -> None:
        """Start a live agent's alarm, unless one is under way (which looks again at its end)."""
        if self._is_serving and (lifecycle.alarm_task is None or lifecycle.alarm_task.done()):
            lifecycle.alarm_task = self._spawn(self._serve_alarms(lifecycle, release=False))

    async def _serve_alarms(self, lifecycle: Lifecycle, *, release: bool) -> None:
        """Fire until nothing is due."""
        try:
            while lifecycle.session.gone is None and self._is_serving:
                async with self._isolation.turn(alone=lifecycle.alarm.is_suspect):
                    went_through = await lifecycle.fire(release=release)
                alarm_ms = lifecycle.session.row.alarm_ms
                if not went_through or alarm_ms is None or alarm_ms > self._clock.now_ms():
                    break
        except AgentKitError as error:
            if self._is_serving and lifecycle.session.gone is None:
                logger.exception("the alarm of %s failed", lifecycle.session.agent)
                lifecycle.session.gone = f"its alarm failed ({error})"
                self._lost(lifecycle)
        finally:
            if lifecycle.session.gone is not None:
                self._forget(lifecycle)
            else:
                lifecycle.armed_ms = None
                self._settle_in(lifecycle)

    def _cold_due(self) -> None:
        if self._is_serving and not self._is_claiming:
            self._is_claiming = True
            self._spawn(self._claim())

    async def _claim(self) -> None:
        """Wake agents that are due and not live, in waves."""
        wait = 0.0
        try:
            while self._is_serving:
                room = min(_WAVE, self._max_concurrent - self._woken)
                if room < min(_WAVE, self._max_concurrent) // 2:
                    await self._wait_for_slot()
                    continue
                try:
                    claimed = await self._store.claim_due(
                        self._node or "", list(self._classes), self._clock.now_ms(), room
                    )
                except StoreError:
                    wait = min(max(wait * 2, 1.0), 30.0)
                    logger.exception("due agents could not be claimed; trying again in %g s", wait)
                    await self._clock.sleep(wait)
                    continue
                wait = 0.0
                is_backlog = len(claimed.agents) == room
                for activated in claimed.agents:
                    self._woken += 1
                    starting = self._begin(activated.lease.agent)
                    self._spawn(self._wake(activated, starting, release=is_backlog))
                if not is_backlog:
                    self._wakeups.cold(claimed.next_due_ms)
                    return
        finally:
            self._is_claiming = False

    async def _wait_for_slot(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        self._slot_free.clear()
        try:
            await self._slot_free.wait()
        finally:
            self._waiting.discard(task)

    async def _wake(
        self, activated: Activated, starting: asyncio.Future[Lifecycle | None], *, release: bool
    ) -> None:
        """Start a claimed agent up and serve its alarm."""
        try:
            try:
                lifecycle = await self._start_up(activated.lease.agent, activated, starting)
            except StoreError:
                raise
            except Exception:
                logger.exception("start-up of %s raised; its jobs wait", activated.lease.agent)
                return
            if lifecycle is not None and lifecycle.alarm_task is None:
                lifecycle.alarm_task = asyncio.current_task()
                await self._serve_alarms(lifecycle, release=release)
        finally:
            self._woken -= 1
            self._slot_free.set()

    async def _repair_alarms(self) -> None:
        """Derive alarms from jobs once after start, a stretch at a time (SPEC 6.5)."""
        after: int | None = 0
        while after is not None and self._is_serving:
            after = await self._store.repair_alarms(after)
        self._cold_due()

    async def _warn_of_unknown_classes(self) -> None:
        for name in await self._store.classes_waiting():
            if name not in self._classes and name not in self._warned:
                self._warned.add(name)
                logger.warning(
                    "the store has jobs for agents of class %s, which this runtime was not given; they wait", name
                )

    def _idle_ms(self, lifecycle: Lifecycle) -> int:
        own = lifecycle.options.idle_timeout
        timeout = self._idle_timeout if own is None else duration_of(own, "idle_timeout")
        return int(timeout.total_seconds() * 1000)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that this runtime ends when it closes."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._is_serving:
            logger.error("a task of the runtime failed", exc_info=error)


def open_store(store: str | Store | None, durability: str = "full") -> Store:
    """Return the store that a URL names."""
    if store is None:
        store = os.environ.get("AGENTKIT_STORE") or "sqlite:///agentkit.db"
    if not isinstance(store, str):
        return store
    scheme, separator, path = store.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        message = f"store {store!r} is not a URL agentkit knows; use sqlite:///path/to/file.db or sqlite:///:memory:"
        raise ConfigurationError(message)
    from agentkit.store.sqlite import SqliteStore

    return SqliteStore(path, durability=cast(Any, durability))


def checked_name(name: object) -> str:
    """Return a name that an agent may have, or raise ``AgentNameError``."""
    if not isinstance(name, str) or not name:
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


def _by_name(classes: tuple[type[DurableObject], ...]) -> dict[str, type[DurableObject]]:
    named: dict[str, type[DurableObject]] = {}
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, DurableObject)):
            raise ConfigurationError(f"{cls!r} is no agent class; subclass Agent or DurableObject")
        name = class_name(cls)
        if name in named:
            message = f"two classes are stored as {name!r}; give one options = AgentOptions(name=...)"
            raise ConfigurationError(message)
        named[name] = cls
    return named
