"""What users subclass: a durable object with storage, typed state, jobs and schedules."""

from __future__ import annotations

import typing
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from agentkit.clock import Duration
from agentkit.host import AgentContext, DurableObject
from agentkit.lifecycle import Lifecycle
from agentkit.retry import RetryPolicy
from agentkit.schedules.callbacks import Callback
from agentkit.schedules.history import ScheduleRun
from agentkit.schedules.request import When
from agentkit.schedules.schedule import CatchUp, Schedule, ScheduleType
from agentkit.schedules.scheduler import Scheduler
from agentkit.state import State
from agentkit.storage import Storage

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

StateT = TypeVar("StateT", default=None)


class Agent(DurableObject, Generic[StateT]):
    """A durable agent, addressed by (class, name): subclass it and write coroutine methods.

    ``Agent[Model]`` gives it a typed ``state``. A subclass with parts of its own writes ``def __init__(self, context):
    super().__init__(context)``. Optional hooks, all coroutines: ``on_start``, ``on_alarm``, ``on_job(context)``,
    ``on_alarm_memory_limit(context)``, ``on_state_changed(state, source)``, ``on_error(error)``,
    ``on_request(request)``, ``on_connect(connection)``, ``on_message(connection, message)``,
    ``on_close(connection, code, reason)``.

    Attributes:
        initial_state: The state until one is stored.
        scheduler: What the ``schedule`` methods go through.
    """

    initial_state: ClassVar[Any] = None
    _state_model: ClassVar[Any] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Find the model in ``Agent[Model]``."""
        super().__init_subclass__(**keywords)
        for base in getattr(cls, "__orig_bases__", ()):
            origin = typing.get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Agent):
                (model,) = typing.get_args(base)
                if not isinstance(model, TypeVar):
                    cls._state_model = model

    def __init__(self, context: AgentContext) -> None:
        """Build the instance; nothing may be read or written before ``on_start``."""
        super().__init__(context)
        self.lifecycle = Lifecycle(self)
        self.scheduler = self.lifecycle.use(Scheduler(host=self, options=self.options))
        self._state = State(
            context.session,
            model=self._state_model,
            initial=self.initial_state,
            migrate=getattr(self, "migrate_state", None),
            max_value_bytes=self.options.max_value_bytes,
        )

    # --- storage and state

    @property
    def storage(self) -> Storage:
        """Durable key-value storage."""
        return self.lifecycle.storage

    @property
    def state(self) -> StateT:
        """The typed state; change it with ``set_state``.

        Raises:
            StateError: What is stored no longer fits the model, and there is no ``migrate_state(raw)``.
        """
        state: StateT = self._state.get()
        return state

    async def set_state(self, new: StateT, *, source: Any = None) -> None:
        """Validate and store the state, then call ``on_state_changed(state, source)``; durable on return.

        Inside ``transaction()`` both happen when the block is left.
        """
        state = await self._state.set(new)
        await self.lifecycle.session.once_committed(lambda: self.on_state_changed(state, source))

    async def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Run a statement on the agent's own private SQLite database, made on first use, removed with the agent.

        Every statement commits on its own, outside of ``transaction()``; errors are those of ``sqlite3``. The files
        are in a folder beside the store (``bots.db.agents``), which moves and is backed up with it.

        >>> rows = await self.sql("SELECT name FROM orders WHERE id = ?", 7)         # doctest: +SKIP
        """
        return await self.lifecycle.session.sql(statement, parameters)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commit storage, state and job changes made in the block together, or none of them.

        Raises:
            TransactionConflictError: On leaving, if what the block has read was changed by other code.
        """
        return self.lifecycle.session.transaction()

    def keep_alive(self) -> AbstractAsyncContextManager[None]:
        """Don't evict the instance while the block runs."""
        return self.lifecycle.keep_alive()

    # --- schedules

    async def schedule(
        self,
        when: When,
        callback: str | Callback,
        payload: Any = None,
        *,
        retry: RetryPolicy | None = None,
        idempotent: bool | None = None,
        timezone: str | None = None,
        key: str | None = None,
        catch_up: CatchUp = "once",
        starts_at: datetime | None = None,
        until: datetime | None = None,
        count: int | None = None,
        timeout: Duration | None = None,
    ) -> Schedule:
        """Call a method of this agent later, once or again and again; see ``Scheduler.set``."""
        return await self.scheduler.set(
            when,
            callback,
            payload,
            retry=retry,
            idempotent=idempotent,
            timezone=timezone,
            key=key,
            catch_up=catch_up,
            starts_at=starts_at,
            until=until,
            count=count,
            timeout=timeout,
        )

    async def schedule_every(
        self, interval: Duration, callback: str | Callback, payload: Any = None, **options: Any
    ) -> Schedule:
        """Call a method every interval of elapsed time; see ``Scheduler.every``."""
        return await self.scheduler.every(interval, callback, payload, **options)

    async def get_schedule(self, id: str) -> Schedule | None:
        """Return a schedule, or None."""
        return await self.scheduler.get(id)

    async def list_schedules(
        self,
        *,
        id: str | None = None,
        type: ScheduleType | None = None,
        callback: str | Callback | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> list[Schedule]:
        """Return schedules by next run; see ``Scheduler.list``."""
        return await self.scheduler.list(id=id, type=type, callback=callback, start=start, end=end)

    async def cancel_schedule(self, id: str) -> bool:
        """Delete a schedule; False if there is none."""
        return await self.scheduler.cancel(id)

    async def pause_schedule(self, id: str) -> bool:
        """Keep a schedule from running until it is resumed; False if there is none."""
        return await self.scheduler.pause(id)

    async def resume_schedule(self, id: str) -> bool:
        """Let a paused schedule run again, never at once; False if there is none."""
        return await self.scheduler.resume(id)

    async def run_schedule_now(self, id: str) -> bool:
        """Run a schedule once at the next alarm; False if there is none."""
        return await self.scheduler.run_now(id)

    async def next_runs(self, id: str, n: int = 5) -> list[datetime]:
        """Return the next ``n`` moments at which a schedule will run."""
        return await self.scheduler.next_runs(id, n)

    async def history(self, limit: int = 100) -> list[ScheduleRun]:
        """Return the latest runs of schedules, newest first."""
        return await self.scheduler.history(limit)

    async def parse_schedule(self, text: str, timezone: str | None = None) -> ParsedSchedule:
        """Read a sentence in the agent's zone, by its clock; see ``agentkit.schedules.parser``."""
        from agentkit.schedules.parser import parse_schedule

        zone = timezone or await self.scheduler.timezone()
        return await parse_schedule(text, now=self.lifecycle.clock.now(), timezone=zone)

    async def set_timezone(self, name: str) -> None:
        """Store the zone for sentences and cron expressions that name none (IANA)."""
        await self.scheduler.set_timezone(name)

    # --- the end

    async def destroy(self) -> None:
        """Have the agent torn down: jobs stop, capabilities clean up, every row goes.

        Returns at once, so it is safe inside a callback, a tool or a request; for later,
        ``schedule(when, self.destroy)``.
        """
        await self.lifecycle.destroy()

    # --- hooks

    async def on_state_changed(self, state: StateT, source: Any) -> None:
        """Run after ``set_state``; ``source`` is the connection it came from, or None."""

    async def on_request(self, request: Any) -> Any:
        """Answer an HTTP request."""

    async def on_connect(self, connection: Any) -> None:
        """Run when a WebSocket has been opened."""

    async def on_message(self, connection: Any, message: Any) -> None:
        """Run for each message of a WebSocket."""

    async def on_close(self, connection: Any, code: int, reason: str) -> None:
        """Run when a WebSocket has been closed."""
