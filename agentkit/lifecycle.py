"""Runs one instance: start-up, guarded calls, alarms, eviction, teardown. Owns the capabilities."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from agentkit import context, events
from agentkit.capability import Capability, Scope, takes_jobs
from agentkit.context import Frame, Work
from agentkit.errors import AgentDestroyedError, AgentGoneError, CapabilityError
from agentkit.host import DurableObject
from agentkit.jobs.alarm import DESTROY, Alarm
from agentkit.jobs.breaker import MemoryLimitContext
from agentkit.jobs.dispatch import Dispatcher, Handler
from agentkit.jobs.job import HOST
from agentkit.options import AgentOptions
from agentkit.side_tasks import SideTasks
from agentkit.store.store import SQL_SCOPE, STATE_SCOPE, AgentId, Batch, JobRow
from agentkit.tracked_work import TrackedWork

logger = logging.getLogger(__name__)

T = TypeVar("T")
CapabilityT = TypeVar("CapabilityT", bound=Capability)
Elsewhere = Callable[[AgentId, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Lifecycle:
    """One agent instance from start-up to eviction. Built in a host's ``__init__``.

    Attributes:
        jobs: The host's jobs.
        storage: The host's values.
        options: The class's settings.
        clock: The runtime's clock.
        alarm: Runs what is due.
    """

    def __init__(self, host: DurableObject, *, options: AgentOptions | None = None) -> None:
        given = host.context
        self.host = host
        self.session = given.session
        self.session.host = host
        self.options = options or host.options
        self.clock = given.clock
        self.ids = given.ids
        self.last_used_ms = given.clock.now_ms()
        #: Its entries in the runtime's agendas: the next alarm, and the next look whether it is unused.
        self.armed: list[object] | None = None
        self.watched: list[object] | None = None
        self.alarm_task: asyncio.Task[None] | None = None
        self.alarm_work: Work | None = None
        self._events = given.events
        self._grace = given.shutdown_grace
        self._capabilities: dict[str, Capability] = {}
        self._is_started = False
        #: It is being evicted: no call begins on it any more.
        self.is_leaving = False
        self._is_destroying = False
        self._holds = 0
        self._calls: list[Frame] = []
        self._stirred: asyncio.Event | None = None
        self.tracked = TrackedWork()
        #: Called whenever a job, tracked work or a ``keep_alive`` begins.
        self.on_work: tuple[Callable[[], None], ...] = ()
        self._beside: SideTasks | None = None
        self._loop = asyncio.get_running_loop()
        scope = Scope(self, HOST)
        self.jobs = scope.jobs
        self.storage = scope.storage
        self._dispatcher = Dispatcher(
            self.session,
            clock=self.clock,
            options=self.options,
            emit=self.emit,
            handlers=self._handler,
            serving_since=given.serving_since,
            began=self._work_began,
        )
        self.alarm = Alarm(
            self.session,
            self._dispatcher,
            clock=self.clock,
            ids=self.ids,
            options=self.options,
            emit=self.emit,
            set_aside=self._set_aside,
            on_reset=self._after_reset,
            teardown=self.teardown,
        )

    # --- what a host may use

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.session.agent.name

    def use(self, capability: CapabilityT) -> CapabilityT:
        """Install a capability and return it.

        Raises:
            CapabilityError: After start-up, without an id, or with an id that is taken.
        """
        if self._is_started:
            raise CapabilityError(f"install {capability.id!r} in __init__; the agent has started already")
        if not capability.id or capability.id in (HOST, STATE_SCOPE, SQL_SCOPE):
            raise CapabilityError(f"{type(capability).__name__} needs an id of its own, got {capability.id!r}")
        if capability.id in self._capabilities:
            raise CapabilityError(f"two capabilities have the id {capability.id!r}; give one another id")
        self._capabilities[capability.id] = capability
        capability.lifecycle = Scope(self, capability.id)
        return capability

    def transaction(self) -> Any:
        """See ``Scope.transaction``."""
        return self.session.transaction()

    @asynccontextmanager
    async def keep_alive(self) -> AsyncIterator[None]:
        """Don't evict the instance while the block runs."""
        self._holds += 1
        self._work_began()
        try:
            yield
        finally:
            self._holds -= 1
            self.stir()

    def track_alarm_work(self, task: asyncio.Task[Any]) -> bool:
        """See ``Scope.track_alarm_work``."""
        work = self._work_under_way()
        if work is None:
            return False
        running = self.session.row.running
        self.tracked.add(task, self.session.table.get(running) if running else None, work, self)
        self._work_began()
        return True

    def spawn_work(self, coroutine: Coroutine[Any, Any, T], label: str) -> asyncio.Task[T]:
        """See ``Scope.spawn_work``."""
        work = Work(f"{label} of {self.session.agent}")

        async def run() -> T:
            with self._entered(work):
                return await coroutine

        task = self._loop.create_task(run(), name=work.label, context=context.outside())
        # One that is cancelled before its first turn has never come to the coroutine.
        task.add_done_callback(lambda _: coroutine.close())
        self.tracked.add(task, None, work, self)
        self._work_began()
        return task

    def spawn_beside(
        self, coroutine: Coroutine[Any, Any, None], label: str, *, keeps_awake: bool = False
    ) -> asyncio.Task[None]:
        """See ``Scope.spawn_beside``."""
        if self.session.gone is not None:
            coroutine.close()
            raise AgentGoneError(str(self.session.agent), self.session.gone)

        if self._beside is None:
            self._beside = SideTasks(self._entered, self.stir)
        return self._beside.spawn(coroutine, f"{label} of {self.session.agent}", keeps_awake=keeps_awake)

    async def end_beside(self) -> None:
        """End the tasks beside the instance, those that their clean-up starts included."""
        if self._beside is not None:
            await self._beside.end()

    def emit(self, channel: str, event_type: str, payload: dict[str, Any]) -> None:
        """See ``Scope.emit``."""
        events.emit(self._events, channel, event_type, self.session.agent, now=self.clock.now, payload=payload)

    async def destroy(self) -> None:
        """Push the job that tears the agent down, due now, and return (SPEC 11.1)."""
        now_ms, run_id = self.clock.now_ms(), self.ids.new()
        await self.session.put_job(JobRow(now_ms, run_id, DESTROY, HOST, DESTROY, "null", "", 1, now_ms))

    # --- start-up

    async def start(self) -> bool:
        """Run the start-up hooks; False if a teardown had to be finished instead, and the agent is gone."""
        self._is_started = True
        if self.session.row.destroying:
            await self.teardown()
            return False
        with self._entered():
            for capability in self._capabilities.values():
                if type(capability).on_start is not Capability.on_start:
                    await capability.on_start()
            await self.host.on_start()
        self.session.is_starting = False
        return True

    @property
    def is_ready(self) -> bool:
        """Start-up is over and nothing has ended the instance."""
        return self.session.gone is None and not self.session.is_starting

    # --- calls

    async def call(
        self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any], elsewhere: Elsewhere
    ) -> Any:
        """Run a method as a call: guarded, tracked, and answered only when what it has seen is durable.

        ``elsewhere`` takes the call when this instance has ended before the call began.
        """
        if self._is_destroying:
            raise AgentDestroyedError(str(self.session.agent))
        if self.session.gone is not None or self.is_leaving:
            return await elsewhere(self.session.agent, method, arguments, keywords)
        task = asyncio.current_task()
        frame = Frame(self.host, self._loop, None, None, context.current_frame(), task)
        self._calls.append(frame)
        token = context.push_frame(frame)
        try:
            result = await getattr(self.host, method)(*arguments, **keywords)
            seen = frame.seen
            if seen is not None and not seen.is_settled:
                await seen.wait()
            return result
        except asyncio.CancelledError:
            if frame.cut_off is not None and task is not None and task.uncancel() == 0:
                raise frame.cut_off from None
            raise
        finally:
            context.pop_frame(token)
            self._calls.remove(frame)
            self.stir()

    async def end_calls(self, grace: float, reason: Exception) -> None:
        """Let calls and tracked work go on for ``grace`` seconds, then cut them off."""
        own = asyncio.current_task()
        if self._is_quiet(own):
            return
        if grace > 0:
            waits = {asyncio.ensure_future(self.clock.sleep(grace)), asyncio.ensure_future(self._until_quiet(own))}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        for call in list(self._calls):
            if call.task is not None and call.task is not own:
                call.cut_off = reason
                call.task.cancel()
        for task in self.tracked:
            task.cancel()
        await asyncio.sleep(0)

    def _is_quiet(self, own: asyncio.Task[Any] | None) -> bool:
        return not self.tracked and all(call.task is own for call in self._calls)

    async def _until_quiet(self, own: asyncio.Task[Any] | None) -> None:
        await self.until(lambda: self._is_quiet(own))

    def stir(self) -> None:
        """Note that something of the agent has ended."""
        self.last_used_ms = self.clock.now_ms()
        if not self.is_watched:
            self.session.on_change(self.session)
        if self._stirred is not None:
            self._stirred.set()

    async def until(self, is_over: Callable[[], bool]) -> None:
        """Wait for a condition, looking again whenever something of the agent has ended."""
        while not is_over():
            self._stirred = self._stirred or asyncio.Event()
            self._stirred.clear()
            await self._stirred.wait()

    async def until_rest(self) -> None:
        """Wait until no alarm, call or tracked work is under way."""
        await self.until(lambda: self.is_resting)

    # --- idleness and eviction

    @property
    def is_watched(self) -> bool:
        """The runtime is to look whether it is unused."""
        return self.watched is not None and self.watched[2] is not None

    @property
    def is_idle(self) -> bool:
        """Nothing of the agent is under way, so it may be dropped."""
        is_awake = self._beside is not None and self._beside.awake > 0
        return not self._holds and not is_awake and self.is_resting

    @property
    def is_resting(self) -> bool:
        """Nothing is under way, though a ``keep_alive`` may hold it."""
        return self.alarm_task is None and not (self._calls or self.tracked)

    def is_working(self, *, besides: str = "") -> bool:
        """See ``Scope.is_working``."""
        if self.tracked or self._holds:
            return True
        running = self.session.row.running
        return self.alarm_task is not None and running is not None and running != besides

    def _work_began(self) -> None:
        for told in self.on_work:
            told()

    @property
    def is_unused(self) -> bool:
        """Nothing but the alarm is under way, and nothing has to be taken down first."""
        return not (self._calls or self._holds or self.tracked or self._beside)

    @property
    def has_evict_hooks(self) -> bool:
        """Some capability wants to know before the instance is dropped."""
        return any(type(capability).on_evict is not Capability.on_evict for capability in self._capabilities.values())

    @property
    def has_alarm_hook(self) -> bool:
        """The host wants to know of each alarm."""
        return type(self.host).on_alarm is not DurableObject.on_alarm

    async def clock_set_back(self) -> None:
        """Let the capabilities look at their moments again."""
        if self.session.gone is not None:
            return
        with self._entered():
            for capability in self._capabilities.values():
                await self._guarded("on_clock_set_back", capability.on_clock_set_back)

    async def leave(self) -> None:
        """Tell the capabilities and give the agent up."""
        with self._entered():
            for capability in self._capabilities.values():
                await self._guarded("on_evict", capability.on_evict)
        await self.end_beside()
        if self.session.gone is None:
            await self.session.commit(Batch(), release=True).wait()

    def take_apart(self) -> None:
        """Let go of what leads back here, so that an instance that has left is freed as soon as nobody uses it.

        The garbage collector would find it in the end, at ten times the price.
        """
        self.session.let_go()
        self._capabilities = {}
        del self.host, self.alarm

    def abandon(self, reason: str) -> None:
        """Take the right to write away, at once."""
        self.session.gone = reason
        for task in self.tracked:
            task.cancel()
        if self._beside is not None:
            self._beside.abandon()
        if self.alarm_task is not None and self.alarm_task is not asyncio.current_task():
            self.alarm_task.cancel()

    # --- alarms

    async def fire(self, *, release: bool) -> bool:
        """Run the alarm; see ``Alarm.fire``. With ``release`` an unused agent is given up in the last commit."""
        may_release = release and not self.has_evict_hooks and not self.has_alarm_hook
        work = self.alarm_work = Work(f"the alarm of {self.session.agent}")
        with self._entered(work):
            went_through = await self.alarm.fire(may_release=lambda: may_release and self.is_unused)
            if went_through and self.has_alarm_hook:
                await self._guarded("on_alarm", self.host.on_alarm)
        if went_through:
            await self._clear_strikes()
        return went_through

    async def _clear_strikes(self) -> None:
        """A clean alarm, the work it was handed included, ends the count (SPEC 7.2)."""
        if self.session.row.memory_strikes and not self.tracked and self.session.gone is None:
            self.session.row.memory_strikes = 0
            await self.session.commit(Batch()).wait()

    def work_ended(self) -> None:
        """See ``TrackedWork``."""
        self.stir()
        if self.session.row.memory_strikes and not self.tracked and self.session.gone is None:
            self.session.row.memory_strikes = 0
            self.session.commit(Batch())

    async def work_ran_out_of_memory(self, row: JobRow | None, error: BaseException) -> None:
        """See ``TrackedWork``."""
        await self.reset(row, error)

    async def reset(self, row: JobRow | None, error: BaseException, *, shared: bool = False) -> None:
        """Count a memory-limit reset, run the hooks and end the instance (SPEC 7.2, 7.3).

        Args:
            row: The job that was under way.
            error: What happened.
            shared: Other agents had jobs under way too: nobody is sealed for it.
        """
        if self.session.gone is None:
            with self._entered():
                await self.alarm.reset(row, error, self.clock.now_ms(), shared=shared)

    async def _after_reset(self, told: MemoryLimitContext) -> None:
        """Run the hooks of a memory-limit reset, then end the instance."""
        for capability in self._capabilities.values():
            await self._guarded("on_memory_limit", capability.on_memory_limit, told)
        await self._guarded("on_alarm_memory_limit", self.host.on_alarm_memory_limit, told)
        facts = {
            "sealed": told.sealed,
            "next_time": told.next_time,
            "job_id": told.executing.id if told.executing else None,
            "purged_recovery_loop_jobs": told.purged_recovery_loop_jobs,
        }
        self.emit("agents:lifecycle", "alarm:memory_limit_reset", facts)
        await self.session.settle()
        await self.session.commit(Batch(), release=True).wait()

    # --- teardown

    async def teardown(self) -> None:
        """Destroy the agent: marker, hooks, then every row; finished at the next start if cut off (SPEC 11)."""
        self._is_destroying = True
        session = self.session
        session.row.destroying = 1
        await session.commit(Batch()).wait()
        await self.end_calls(self._grace, AgentDestroyedError(str(session.agent)))
        with self._entered():
            for capability in self._capabilities.values():
                await self._destroy_capability(capability)
        await self.end_beside()
        await session.settle()
        await session.store.drop_sql(session.lease)
        session.table.apply({row.id: None for row in session.table})
        session.row.alarm_ms = session.row.running = None
        commit = session.commit_row(Batch(destroy=True))
        session.gone = "it was destroyed"
        await commit.wait()
        self.emit("agents:lifecycle", "destroy", {})

    async def _destroy_capability(self, capability: Capability) -> None:
        policy = self.options.retry
        for attempt in range(1, policy.attempts() + 1):
            try:
                await capability.on_destroy()
            except Exception as error:
                if self._dispatcher.is_platform(error):
                    raise
                logger.exception("on_destroy of %s raised (attempt %d)", capability.id, attempt)
                if attempt == policy.attempts():
                    facts = {"capability": capability.id, "error": type(error).__name__}
                    self.emit("agents:lifecycle", "destroy:leftover", facts)
                else:
                    await self.clock.sleep(policy.wait(attempt))
            else:
                return

    # --- inside

    def _entered(self, work: Work | None = None) -> Any:
        return context.entered(self.host, work=work)

    def _work_under_way(self) -> Work | None:
        for frame in context.frames():
            if frame.host is self.host and frame.work is not None:
                return frame.work
        return None

    def _handler(self, owner: str) -> Handler | None:
        handler: Any = self.host if owner == HOST else self._capabilities.get(owner)
        return handler if handler is not None and takes_jobs(handler) else None

    def _set_aside(self, row: JobRow) -> JobRow | None:
        keep = getattr(self._capabilities.get(row.owner), "on_set_aside", None)
        return None if keep is None else keep(row)

    async def _guarded(self, what: str, hook: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Call a hook that must not break what it is told about."""
        try:
            await hook(*arguments)
        except Exception as error:
            if self._dispatcher.is_platform(error):
                raise
            logger.exception("%s of %s raised", what, self.session.agent)
            if what == "on_alarm":
                await self._guarded("on_error", self.host.on_error, error)
