"""A conversation about schedules, by rules first: what ``agentkit chat`` and bots answer with.

A message goes through ``commands`` (what kind it is) and ``decisions`` (what to do about it); here that is
carried out, together with what is remembered, in one transaction.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentkit.errors import QuotaError, ScheduleError, TransactionConflictError
from agentkit.plain_text import one_line, several_lines
from agentkit.schedules.callbacks import Callback
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.decisions import decide
from agentkit.schedules.chat.memory import Memory, memory_from_json
from agentkit.schedules.chat.model import ModelReader, assisted
from agentkit.schedules.chat.schedules import is_same, request_of, runs_too_often, with_moment
from agentkit.schedules.chat.targets import Entry
from agentkit.schedules.chat.view import Alter, Apply, Decision, Make, Say, UseZone, View
from agentkit.schedules.chat.zones import known_name
from agentkit.schedules.record import read_record
from agentkit.schedules.schedule import Schedule
from agentkit.schedules.wall_clock import zone_named

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule, ScheduleModel, ScheduleParser

_TRIES: Final = 5


class SchedulingAgent(Protocol):
    """What a chat needs of its agent; every ``Agent`` has it."""

    @property
    def storage(self) -> Any:
        """Durable key-value storage."""

    @property
    def scheduler(self) -> Any:
        """The scheduler behind the methods below."""

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commit the changes of a block together."""

    async def parse_schedule(self, text: str, timezone: str | None = None) -> ParsedSchedule:
        """Read a sentence."""


class Refused(Exception):  # noqa: N818  # leaves a transaction, never the chat
    """Nothing has been stored; the message says why."""


class SchedulingChat:
    """Answers messages such as "every weekday at 9 send the report", "list", "cancel 2", "make that 10 instead".

    Build it in the agent's ``__init__``, or whenever a message comes: what it asked last, and which schedule "it"
    means, is in the agent's storage. The callback gets ``{"text": task}``. The chat sees only schedules made through
    it. Commands are English; requests may be in any language the parser reads.

    >>> class Bot(Agent):                                              # doctest: +SKIP
    ...     async def say(self, text: str) -> str:
    ...         return await SchedulingChat(self, self.remind).reply(text)
    """

    def __init__(
        self,
        agent: SchedulingAgent,
        callback: str | Callback,
        timezone: str | None = None,
        *,
        max_schedules: int = 50,
        min_interval: int = 60,
        max_characters: int = 10_000,
        model: ScheduleModel | str | None = None,
    ) -> None:
        """Put a chat together; nothing is read or written yet.

        Args:
            agent: Whose schedules they are; the agent itself, no stub.
            callback: A method of it, or its name.
            timezone: IANA name times are read in; None means the agent's, which "use Europe/Berlin time" then sets.
            max_schedules: How many there may be at a time.
            min_interval: Seconds between the runs of a recurring one, at least.
            max_characters: Longest message that is read.
            model: Reads requests that the rules would have to ask about; as for ``ScheduleParser``. While it can't be
                reached, the chat works by rules alone.

        Raises:
            ScheduleError: The zone is unknown.
            ConfigurationError: A model is named that has no key, or its libraries aren't installed.
        """
        if timezone is not None:
            zone_named(timezone)
        self._agent = agent
        self._callback = callback
        self._timezone = timezone
        self._max_schedules = max_schedules
        self._min_interval = timedelta(seconds=min_interval)
        self._max_characters = max_characters
        self._parser = None if model is None else _parser_with(model)
        name = callback if isinstance(callback, str) else callback.__name__
        self._prefix = f"chat:{name}:"
        self._memory_key = f"agentkit.chat.{name}"

    async def reply(self, text: str) -> str:
        """Do what a message asks for and say so; what the reply says is on disk when it returns.

        No message raises. The reply has no control sequences; it may have several lines.

        Raises:
            PayloadError: The callback's annotation refuses ``{"text": …}``.
        """
        if len(text) > self._max_characters:
            return replies.too_long(len(text), self._max_characters)
        words = several_lines(text).strip()
        if not words:
            return replies.EMPTY
        reader = ModelReader(self._parser)
        for _ in range(_TRIES):
            try:
                return await self._answer(words, reader)
            except TransactionConflictError:
                continue  # a reminder fired meanwhile
            except Refused as refusal:
                return str(refusal)
        return replies.BUSY

    async def _answer(self, words: str, reader: ModelReader) -> str:
        # Decided outside of the transaction, which others of the agent wait for.
        view = await self._look()
        decision = await assisted(await decide(words, view, self._parse), words, view, reader.read)
        async with self._agent.transaction():
            seen = await self._look()
            if replace(seen, now=view.now) != view:
                view = seen
                decision = await assisted(await decide(words, view, self._parse), words, view, reader.recall)
            return await self._carry_out(decision, view)

    async def _look(self) -> View:
        memory = memory_from_json(await self._agent.storage.get(self._memory_key))
        schedules = await self._agent.scheduler.list(callback=self._callback)
        return View(
            memory=memory,
            entries=tuple(
                self._entry(schedule)
                for schedule in schedules
                if schedule.key is not None
                and schedule.key.startswith(self._prefix)
                and schedule.key.removeprefix(self._prefix).isdecimal()
            ),
            now=self._agent.scheduler.lifecycle.clock.now(),
            timezone=self._timezone or await self._agent.scheduler.timezone(),
        )

    def _entry(self, schedule: Schedule) -> Entry:
        payload = schedule.payload
        task = payload.get("text", "") if isinstance(payload, dict) else ""
        number = (schedule.key or "").removeprefix(self._prefix)
        return Entry(number=int(number), task=one_line(str(task)), schedule=self._with_moment(schedule))

    def _with_moment(self, schedule: Schedule) -> Schedule:
        lifecycle = self._agent.scheduler.lifecycle
        row = lifecycle.jobs.row(schedule.id)
        return schedule if row is None else with_moment(schedule, read_record(row), lifecycle.clock.now())

    async def _parse(self, text: str) -> ParsedSchedule:
        return await self._agent.parse_schedule(text, timezone=self._timezone)

    # --- carrying out

    async def _carry_out(self, decision: Decision, view: View) -> str:
        match decision:
            case Say(reply=reply, memory=memory):
                await self._remember(memory, view)
                return reply
            case Make(plan=plan, task=task):
                return await self._make(plan, one_line(task), view)
            case Apply():
                return await self._apply(decision, view)
            case Alter():
                return await self._alter(decision, view)
            case UseZone(name=name):
                return await self._use_zone(name, view)

    async def _remember(self, memory: Memory, view: View) -> None:
        if memory != view.memory:
            await self._agent.storage.put(self._memory_key, memory.to_json())

    async def _make(self, plan: ParsedSchedule, task: str, view: View) -> str:
        same = next((entry for entry in view.entries if is_same(entry, plan, task)), None)
        if same is not None:
            raise Refused(replies.exists(same))
        if len(view.entries) >= self._max_schedules:
            raise Refused(replies.too_many(self._max_schedules))
        # Numbers begin anew when there is nothing left that they could be confused with.
        count = max([view.memory.count, *(entry.number for entry in view.entries)]) if view.entries else 0
        entry = await self._set(plan, task, count + 1, view)
        await self._remember(Memory(count=count + 1, last=entry.number, last_task=task), view)
        return replies.made(entry, await self._runs(entry, replies.NEXT_RUNS))

    async def _apply(self, decision: Apply, view: View) -> str:
        change = getattr(self._agent.scheduler, decision.action)
        for entry in decision.entries:
            await change(entry.schedule.id)
        last = decision.entries[-1]
        memory = replace(view.memory, last=last.number, last_task=last.task, pending=None)
        await self._remember(memory, view)
        said = replies.done(decision.action, decision.entries)
        if decision.action == "resume" and len(decision.entries) == 1:
            runs = await self._runs(last, 1)
            said += replies.next_run(last, runs[0]) if runs else ""
        return said + replies.missing(decision.missing)

    async def _alter(self, decision: Alter, view: View) -> str:
        old = decision.entry
        task = one_line(decision.task) or old.task
        entry = await self._set(decision.plan or old.schedule, task, old.number, view)
        await self._remember(replace(view.memory, last=old.number, last_task=task, pending=None), view)
        return replies.made(entry, await self._runs(entry, replies.NEXT_RUNS), "Changed")

    async def _use_zone(self, name: str, view: View) -> str:
        if self._timezone is not None:
            return replies.zone(self._timezone, view.now)
        found = known_name(name)
        try:
            await self._agent.scheduler.set_timezone(found)
        except ScheduleError as error:
            raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
        return replies.zone(found, view.now)

    async def _set(self, plan: ParsedSchedule | Schedule, task: str, number: int, view: View) -> Entry:
        """Make or replace the schedule of a number.

        Raises:
            Refused: It would run too often, or the scheduler refuses it; nothing has been stored.
        """
        if not isinstance(plan, Schedule) and runs_too_often(plan, view.now, self._min_interval):
            raise Refused(replies.too_often(int(self._min_interval.total_seconds())))
        request = request_of(plan)
        if request is None:
            raise Refused(replies.PAUSED)
        when, bounds = request
        try:
            schedule = await self._agent.scheduler.set(
                when,
                self._callback,
                {"text": task},
                timezone=plan.timezone if isinstance(plan, Schedule) else self._timezone,
                key=f"{self._prefix}{number}",
                **bounds,
            )
        except (ScheduleError, QuotaError) as error:
            raise Refused(replies.impossible(one_line(str(error)))) from error
        return self._entry(schedule)

    async def _runs(self, entry: Entry, count: int) -> list[datetime]:
        runs: list[datetime] = await self._agent.scheduler.next_runs(entry.schedule.id, count)
        return runs


def _parser_with(model: ScheduleModel | str) -> ScheduleParser:
    from agentkit.schedules.parser import ScheduleParser

    return ScheduleParser(model)
