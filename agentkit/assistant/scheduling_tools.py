"""Tools by which a model makes, lists and cancels schedules in plain words, read by the parser (SPEC 13.7).

A model never names the callback, and sees only schedules made this way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from agentkit.errors import QuotaError, ScheduleError, TransactionConflictError
from agentkit.harness.tools import Tool, ToolContext, tool, tool_of
from agentkit.plain_text import one_line
from agentkit.schedules.callbacks import Callback
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.conversation import SchedulingAgent
from agentkit.schedules.chat.schedules import runs_too_often
from agentkit.schedules.chat.targets import Entry, find

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_TRIES: Final = 5
_MOST_REPLIES: Final = 50
_LONGEST_REQUEST: Final = 10_000
_NO_TASK: Final = "Nothing was scheduled: the request says when, but not what. Ask again with both in one sentence."
_NO_TIME: Final = "Nothing was scheduled: no time was found in that. Say what and when in one sentence."

#: Does something, given what is remembered, and says what.
Act = Callable[[dict[str, Any]], Awaitable[str]]


def scheduling_tools(
    agent: SchedulingAgent, callback: str | Callback, max_schedules: int = 50, min_interval: int = 60
) -> list[Tool]:
    """Return the tools ``schedule_task``, ``list_schedules`` and ``cancel_schedule`` for a harness of this agent.

    What they do happens once, however often a crash has them run again.

    Args:
        agent: The agent itself, no stub.
        callback: A method of it, or its name; it is called with ``{"text": what was asked for}``. That text is a
            model's: hand it to ``harness.wake_up``, which marks it as data and keeps to ``Limits.wake_ups``, or to
            people.
        max_schedules: How many there may be at a time.
        min_interval: Seconds between the runs of a recurring one, at least.
    """
    tools = SchedulingTools(agent, callback, max_schedules=max_schedules, min_interval=min_interval)
    return [tool_of(each) for each in (tools.schedule_task, tools.list_schedules, tools.cancel_schedule)]


class SchedulingTools:
    """See ``scheduling_tools``."""

    def __init__(
        self, agent: SchedulingAgent, callback: str | Callback, *, max_schedules: int, min_interval: int
    ) -> None:
        self._agent = agent
        self._callback = callback
        self._max_schedules = max_schedules
        self._min_interval = min_interval
        name = callback if isinstance(callback, str) else callback.__name__
        self._prefix = f"model:{name}:"
        self._memory_key = f"agentkit.assistant.{name}"

    @tool(effect="idempotent")
    async def schedule_task(self, request: str, context: ToolContext) -> str:
        """Schedule something to be done later, once or again and again.

        Pass what the user asked for in their own words: dates and times are worked out for you, in the user's time
        zone. The answer says how it was understood; if it is a question, ask the user.

        Args:
            request: What and when, as in "every weekday at 9 send the report" or "in two hours remind me to stretch".
        """
        if len(request) > _LONGEST_REQUEST:
            raise QuotaError("max_characters", _LONGEST_REQUEST, f"the request has {len(request):,} characters")
        plan = await self._agent.parse_schedule(one_line(request))
        if plan.question:
            return f"Nothing was scheduled yet. Ask: {plan.question}"
        if plan.when.type == "no-schedule":
            return _NO_TIME
        if not plan.description.strip():
            return _NO_TASK
        if runs_too_often(plan, self._now(), timedelta(seconds=self._min_interval)):
            raise QuotaError("min_interval", self._min_interval, "that repeats too often, in seconds")
        return await self._once(context, lambda memory: self._make(plan, memory))

    @tool(effect="read")
    async def list_schedules(self) -> str:
        """List what is scheduled, with numbers and next runs."""
        return replies.listed(await self._entries(), self._now())

    @tool(effect="idempotent")
    async def cancel_schedule(self, which: str, context: ToolContext) -> str:
        """Cancel something that is scheduled.

        Args:
            which: Its number from list_schedules, as in "2", or words of its task, as in "the report".
        """
        return await self._once(context, lambda _: self._cancel(one_line(which)))

    # --- what they do, in a transaction

    async def _make(self, plan: ParsedSchedule, memory: dict[str, Any]) -> str:
        entries = await self._entries()
        if len(entries) >= self._max_schedules:
            raise QuotaError("max_schedules", self._max_schedules, f"there are {len(entries)} schedules already")
        memory["count"] = number = max([memory["count"], *(entry.number for entry in entries)]) + 1
        task = one_line(plan.description)
        try:
            schedule = await self._agent.scheduler.set(
                plan, self._callback, {"text": task}, key=f"{self._prefix}{number}"
            )
        except ScheduleError as error:
            return replies.impossible(one_line(str(error)))
        runs = await self._agent.scheduler.next_runs(schedule.id, replies.NEXT_RUNS)
        return replies.made(Entry(number=number, task=task, schedule=schedule), runs)

    async def _cancel(self, which: str) -> str:
        entries = await self._entries()
        found = find(which.lower(), entries, None, now=self._now())
        if not found.entries or not found.is_sure:
            return replies.not_found(which, entries, self._now()) + replies.missing(found.missing)
        if len(found.entries) > 1 and not (found.is_named or found.is_all):
            return replies.which("cancel", found.entries, self._now())
        for entry in found.entries:
            await self._agent.scheduler.cancel(entry.schedule.id)
        return replies.done("cancel", found.entries) + replies.missing(found.missing)

    async def _once(self, context: ToolContext, act: Act) -> str:
        """Act once for a call, however often it runs; again if a reminder has fired meanwhile."""
        for _ in range(_TRIES - 1):
            with suppress(TransactionConflictError):
                return await self._acted(context, act)
        return await self._acted(context, act)

    async def _acted(self, context: ToolContext, act: Act) -> str:
        """Act and note the reply under the call's key, in one commit; a call that runs again gets that reply."""
        async with self._agent.transaction():
            memory = await self._agent.storage.get(self._memory_key, {"count": 0, "replies": []})
            told = dict(memory["replies"]).get(context.idempotency_key)
            if told is not None:
                return str(told)
            reply = await act(memory)
            memory["replies"] = [*memory["replies"], [context.idempotency_key, reply]][-_MOST_REPLIES:]
            await self._agent.storage.put(self._memory_key, memory)
        return reply

    # --- looking

    async def _entries(self) -> list[Entry]:
        """Return the schedules made this way, the next to run first."""
        entries = []
        for schedule in await self._agent.scheduler.list(callback=self._callback):
            number = (schedule.key or "").removeprefix(self._prefix)
            if schedule.key == f"{self._prefix}{number}" and number.isdecimal():
                payload = schedule.payload
                task = payload.get("text", "") if isinstance(payload, dict) else ""
                entries.append(Entry(number=int(number), task=one_line(str(task)), schedule=schedule))
        return entries

    def _now(self) -> datetime:
        now: datetime = self._agent.scheduler.lifecycle.clock.now()
        return now
