"""The live agents of a runtime: how one comes to life, is found, and leaves again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from agentkit import context
from agentkit.clock import Clock
from agentkit.errors import (
    AgentCallError,
    AgentError,
    AgentGoneError,
    AgentKitError,
    ConfigurationError,
    RuntimeClosedError,
    StoreError,
)
from agentkit.host import DurableObject
from agentkit.lifecycle import Lifecycle
from agentkit.store.session import EVICTED, Session
from agentkit.store.store import Activated, AgentId, Batch, Owner, Store
from agentkit.tasks import TaskSet

logger = logging.getLogger(__name__)

_FIRST_FALLBACK_MS = 30_000
_LONGEST_FALLBACK_MS = 300_000
_FIRST_REVIVAL = 1.0
_LONGEST_REVIVAL = 30.0
#: Real seconds that the runs of a lost instance get to end.
_CANCEL_GRACE = 5.0
#: An agent that held on for so long after a loss starts anew.
_FORGIVEN_MS = 60_000

Starting = asyncio.Future[Lifecycle | None]


class Timekeeper(Protocol):
    """What hosting tells about alarms; see ``Wakeups``."""

    def arm(self, lifecycle: Lifecycle) -> None:
        """A live agent's alarm may have changed."""

    def watch_idle(self, lifecycle: Lifecycle) -> None:
        """A live agent may fall idle."""

    def forget(self, lifecycle: Lifecycle) -> None:
        """An agent is no longer live."""

    def cold(self, next_due_ms: int | None) -> None:
        """An agent that isn't live is due then."""


class Hosting:
    """One live instance an agent, at most.

    Attributes:
        live: Lifecycles by agent, once start-up is over.
        is_serving: Agents may be started.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        *,
        clock: Clock,
        tasks: TaskSet,
        wakeups: Timekeeper,
        build: Callable[[Session], DurableObject],
    ) -> None:
        self.live: dict[AgentId, Lifecycle] = {}
        self.is_serving = True
        self.node = node
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._wakeups = wakeups
        self._build = build
        self._starting: dict[AgentId, Starting] = {}
        self._leaving: dict[AgentId, asyncio.Future[None]] = {}
        # Agents whose start-up waits for another's.
        self._awaited: dict[AgentId, AgentId] = {}
        # Claims under way, and agents that were claimed and are being started.
        self._claims = 0
        self._claim_ended = asyncio.Event()
        self._claimed: set[AgentId] = set()
        # Agents whose instance was lost and that are being brought back; how often, and when last.
        self._reviving: set[AgentId] = set()
        self._losses: dict[AgentId, tuple[int, int]] = {}
        # Bound once, for all sessions.
        self._on_change = self._changed
        self._on_lost = self._lost

    @property
    def takes_calls(self) -> bool:
        """It serves; while it drains, work that is under way may still call other agents."""
        return self.is_serving or context.current_frame() is not None

    # --- coming to life

    async def activated(self, agent: AgentId) -> Lifecycle:
        """Return the live instance of an agent, starting it up if need be.

        Raises:
            RuntimeClosedError: The runtime doesn't serve.
            Exception: Whatever start-up raised; the next call tries again.
        """
        while True:
            if not self.takes_calls:
                raise RuntimeClosedError("this runtime is closing; it takes no more calls")
            lifecycle = self.live.get(agent)
            if lifecycle is None or not lifecycle.is_ready:
                self._refuse_circles(agent)
                starting = self._starting.get(agent)
                if starting is None:
                    starting = self.begin(agent)
                    self._tasks.spawn(self._start_for_call(agent, starting))
                lifecycle = await self._wait_for(agent, starting)
            if lifecycle is not None and lifecycle.is_ready:
                return lifecycle

    async def _wait_for(self, agent: AgentId, starting: Starting) -> Lifecycle | None:
        waiting = self._starting_here()
        if waiting is None:
            return await asyncio.shield(starting)
        self._awaited[waiting] = agent
        try:
            return await asyncio.shield(starting)
        finally:
            self._awaited.pop(waiting, None)

    def _starting_here(self) -> AgentId | None:
        """Return the agent whose start-up the running task carries out."""
        task = asyncio.current_task()
        sessions = (frame.host.context.session for frame in context.frames())
        return next((session.agent for session in sessions if session.is_starting and session.starter is task), None)

    def _refuse_circles(self, agent: AgentId) -> None:
        """Raise when a start-up would wait for itself, also by way of others' start-ups."""
        waiting = self._starting_here()
        link: AgentId | None = agent
        while waiting is not None and link is not None:
            if link == waiting:
                raise AgentCallError(f"start-up of {waiting} would wait for itself by calling {agent}; call it later")
            link = self._awaited.get(link)

    def begin(self, agent: AgentId, *, is_claimed: bool = False) -> Starting:
        """Note that an agent is about to be started, so that others wait for it.

        One that was claimed for its alarm takes over from a call that is just asking the store for it.
        """
        starting = self._starting.get(agent)
        if starting is None:
            starting = self._starting[agent] = asyncio.get_running_loop().create_future()
        if is_claimed:
            self._claimed.add(agent)
        return starting

    @contextlib.contextmanager
    def claiming(self) -> Iterator[None]:
        """Note that agents are being claimed for their alarms; leave once each has begun."""
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            self._claim_ended.set()

    async def _start_for_call(self, agent: AgentId, starting: Starting) -> None:
        with contextlib.suppress(Exception):  # it reaches the caller through ``starting``
            await self.start(agent, None, starting)

    async def start(self, agent: AgentId, claimed: Activated | None, starting: Starting) -> Lifecycle | None:
        """Build an instance and run its start-up; tells ``starting`` how it went.

        Returns:
            The instance; None if a teardown had to be finished instead, or if another task starts it.
        """
        try:
            leaving = self._leaving.get(agent)
            if leaving is not None:
                with self._tasks.waits():
                    await asyncio.shield(leaving)
            activated = claimed or await self._claim(agent)
            if activated is not None:
                lifecycle = await self._started(activated, is_woken=claimed is not None)
            elif agent in self._claimed:
                return None  # whoever claimed it tells ``starting``
            else:
                lifecycle = self.live.get(agent)
        except BaseException as error:
            self._end_start(agent, starting)
            if not starting.done():
                is_cancelled = isinstance(error, asyncio.CancelledError)
                starting.set_exception(RuntimeClosedError("the runtime was closed") if is_cancelled else error)
                starting.exception()  # seen: nobody may be waiting
            raise
        self._end_start(agent, starting)
        if not starting.done():
            starting.set_result(lifecycle)
        return lifecycle

    def _end_start(self, agent: AgentId, starting: Starting) -> None:
        if self._starting.get(agent) is starting:
            del self._starting[agent]
            self._claimed.discard(agent)

    async def _claim(self, agent: AgentId) -> Activated | None:
        """Claim an agent for a call; None if it has just been claimed for its alarm, which then starts it."""
        claimed = await self._store.activate(self.node, agent)
        while isinstance(claimed, Owner):
            if claimed.node != self.node:
                raise StoreError(f"{agent} is live in another process ({claimed.address})")
            if agent in self._claimed or (agent in self.live and self.live[agent].is_ready):
                return None
            if self._claims:
                self._claim_ended.clear()
                with self._tasks.waits():
                    await self._claim_ended.wait()
                continue
            # Ours, but with no instance: one was lost when a commit failed.
            claimed = await self._store.activate(self.node, agent, again=True)
        return claimed

    async def _started(self, activated: Activated, *, is_woken: bool) -> Lifecycle | None:
        session = Session(self._store, activated)
        try:
            host = self._build(session)
            lifecycle: Lifecycle | None = getattr(host, "lifecycle", None)
            if lifecycle is None:
                raise ConfigurationError(f"{type(host).__name__}.__init__ must build self.lifecycle = Lifecycle(self)")
            if not await self._run_start_up(lifecycle):
                return None
        except BaseException as error:
            await self._fall_back(session, error)
            raise
        session.row.failed_starts = 0
        session.on_change, session.on_lost = self._on_change, self._on_lost
        self.live[activated.lease.agent] = lifecycle
        if not is_woken:
            self.settle_in(lifecycle)
        return lifecycle

    async def _run_start_up(self, lifecycle: Lifecycle) -> bool:
        session = lifecycle.session
        session.starter = asyncio.current_task()
        try:
            is_alive = await lifecycle.start()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise AgentError(f"start-up of {session.agent} awaited something that was cancelled") from error
        finally:
            session.starter = None
        if is_alive and session.gone is not None:
            raise AgentGoneError(str(session.agent), session.gone)
        return is_alive

    def settle_in(self, lifecycle: Lifecycle) -> None:
        """Let a live agent wait for its next alarm, or for being unused.

        One woken from a backlog may be released before; the timer never hears of it then.
        """
        lifecycle.alarm_task = None
        self._wakeups.arm(lifecycle)
        self._wakeups.watch_idle(lifecycle)

    def _changed(self, session: Session) -> None:
        lifecycle = self.live.get(session.agent)
        if lifecycle is not None and lifecycle.alarm_task is None:  # which looks again at its end
            self._wakeups.arm(lifecycle)
            self._wakeups.watch_idle(lifecycle)

    # --- failing

    async def _fall_back(self, session: Session, error: BaseException) -> None:
        """Give an agent whose start-up raised up again, with a later alarm so that its jobs keep a wake (SPEC 6.1)."""
        if isinstance(error, asyncio.CancelledError):
            session.gone = session.gone or "its start-up was cancelled"
            return
        if session.gone is not None:  # a commit of its start-up failed
            self._revive_later(session.agent)
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
            self._revive_later(session.agent)
        self._wakeups.cold(row.alarm_ms)

    def _lost(self, session: Session) -> None:
        """A commit failed: what is in memory is not what is on disk, so the instance ends and is loaded again."""
        logger.error("%s is dropped: %s", session.agent, session.gone)
        lifecycle = self.live.get(session.agent)
        if lifecycle is not None and lifecycle.session is session:
            self._leaving[session.agent] = asyncio.get_running_loop().create_future()
            self.forget(lifecycle)
            self._tasks.spawn(self._end_lost(lifecycle))
        self._revive_later(session.agent)

    async def _end_lost(self, lifecycle: Lifecycle) -> None:
        """End what an instance still does, before another one is loaded."""
        running = {task for task in (lifecycle.alarm_task, *lifecycle.tracked) if task is not None}
        lifecycle.abandon(lifecycle.session.gone or "it was lost")
        try:
            if running:
                await asyncio.wait(running, timeout=_CANCEL_GRACE)
        finally:
            self._leaving.pop(lifecycle.session.agent).set_result(None)

    def lose(self, lifecycle: Lifecycle, reason: str) -> None:
        """End an instance that can't go on, and load it again."""
        if lifecycle.session.gone is None:
            lifecycle.session.gone = reason
            self._lost(lifecycle.session)

    def _revive_later(self, agent: AgentId) -> None:
        if self.is_serving and agent not in self._reviving:
            self._reviving.add(agent)
            self._tasks.spawn(self._revive(agent))

    async def _revive(self, agent: AgentId) -> None:
        """Bring an agent back whose jobs may be due, once the store works again; slower if it is lost repeatedly."""
        now_ms = self._clock.now_ms()
        losses, last_ms = self._losses.get(agent, (0, now_ms))
        losses = losses + 1 if now_ms - last_ms < _FORGIVEN_MS else 1
        self._losses[agent] = (losses, now_ms)
        wait = min(_FIRST_REVIVAL * 2 ** min(losses - 1, 8), _LONGEST_REVIVAL)
        try:
            while self.is_serving:
                await self._clock.sleep(wait)
                try:
                    await self.activated(agent)
                except StoreError:
                    wait = min(wait * 2, _LONGEST_REVIVAL)
                except Exception:
                    return  # its start-up raised: the fallback alarm is stored
                else:
                    return
        finally:
            self._reviving.discard(agent)

    # --- leaving

    async def evict(self, lifecycle: Lifecycle) -> None:
        """Drop an instance; a call that arrives meanwhile waits and starts a new one."""
        if self._take_out(lifecycle):
            await self._let_go(lifecycle)

    def evict_soon(self, lifecycle: Lifecycle) -> None:
        """Drop an instance as ``evict`` does; from now on no call reaches it."""
        if self._take_out(lifecycle):
            self._tasks.spawn(self._let_go(lifecycle))

    def _take_out(self, lifecycle: Lifecycle) -> bool:
        agent = lifecycle.session.agent
        if self.live.get(agent) is not lifecycle:
            return False
        del self.live[agent]
        lifecycle.is_leaving = True
        self._leaving[agent] = asyncio.get_running_loop().create_future()
        return True

    async def _let_go(self, lifecycle: Lifecycle) -> None:
        agent = lifecycle.session.agent
        try:
            await lifecycle.leave()
        except AgentKitError:
            logger.exception("%s could not be given up", agent)
        finally:
            self._leaving.pop(agent).set_result(None)
            self._wakeups.forget(lifecycle)
            self._wakeups.cold(lifecycle.session.row.alarm_ms)

    def forget(self, lifecycle: Lifecycle) -> None:
        """Drop an instance that has given its agent up already."""
        agent = lifecycle.session.agent
        if self.live.get(agent) is lifecycle:
            del self.live[agent]
        self._wakeups.forget(lifecycle)
        self._wakeups.cold(lifecycle.session.row.alarm_ms)
        lifecycle.stir()
        if lifecycle.session.gone == EVICTED and lifecycle.is_idle:
            lifecycle.take_apart()
