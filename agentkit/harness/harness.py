"""The Harness: takes messages in durably, has its runs driven one after another, and tells how they end (SPEC 13)."""

from __future__ import annotations

import builtins
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, overload

from agentkit.capability import Capability
from agentkit.clock import from_ms
from agentkit.errors import ConfigurationError, HarnessError, PayloadError, RunEndedError
from agentkit.harness.driving import Driving
from agentkit.harness.following import Follower
from agentkit.harness.forms import FormT, form_of, to_form
from agentkit.harness.given import check_given
from agentkit.harness.limits import Limits
from agentkit.harness.messages import Usage
from agentkit.harness.model import ChatModel
from agentkit.harness.opening import Opening
from agentkit.harness.outcome import Outcome, outcome_of
from agentkit.harness.parts import Parts
from agentkit.harness.planning import ended
from agentkit.harness.queue import HEARTBEAT, RunQueue
from agentkit.harness.records import CallEntry, Entry, RunRecord, entry_key, full_key, run_key, to_entry
from agentkit.harness.resting import cancel_key
from agentkit.harness.run import PendingCall, Run, StreamEvent
from agentkit.harness.signals import Live
from agentkit.harness.tools import Tool, ToolSource, tools_by_name
from agentkit.harness.waiting import Place
from agentkit.jobs.failures import storable
from agentkit.jobs.job import JobContext, check_word
from agentkit.jobs.outcome import RescheduleAt
from agentkit.prompts import load_prompt

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agentkit.jobs.breaker import MemoryLimitContext

#: Of the number of a line of the log.
_MOST_DIGITS: Final = 10
_WAKE_UPS: Final = "wake_ups"
_DAY_MS: Final = 86_400_000


class Harness(Capability):
    """A language model in a loop: a message in, tools run, a reply out, every step durable.

    One harness is one conversation. Its runs go one after another, in submit order; what is behind a run that waits for
    a person waits too. After a crash a run goes on where it was: no finished call is run again, and one that was under
    way only if its tool says that it may be.

    >>> class Researcher(Agent):                                       # doctest: +SKIP
    ...     def __init__(self, context):
    ...         super().__init__(context)
    ...         self.harness = self.lifecycle.use(Harness(model="gpt-5-mini", tools=[self.search]))
    """

    def __init__(
        self,
        *,
        model: ChatModel | str | None = None,
        instructions: str = "",
        tools: Iterable[Tool | ToolSource | Callable[..., Any]] = (),
        limits: Limits | None = None,
        context_tokens: int = 128_000,
        max_tokens: int = 8_192,
        max_queued: int = 1_000,
        id: str = "harness",
    ) -> None:
        """Put a harness together; nothing is opened or read yet.

        Args:
            model: A ``ChatModel``, or the name of one at an OpenAI-compatible endpoint (``OPENAI_BASE_URL``,
                ``OPENAI_API_KEY``); None is the one that ``AGENTKIT_MODEL`` names.
            instructions: What the model is told before everything else.
            tools: Typed functions and methods, marked with ``@tool`` or not, ready ``Tool`` values, and servers of
                tools (``ToolServer``).
            limits: What one run may take.
            context_tokens: How much the model takes at a time; a longer history is compacted.
            max_tokens: Longest answer.
            max_queued: How many runs may wait.
            id: Tells several harnesses of one agent apart.

        Raises:
            ConfigurationError: A tool can't be called by a model, or two have one name; something else is of a wrong
                type or size.
        """
        check_given(
            model=model,
            instructions=instructions,
            limits=limits,
            context_tokens=context_tokens,
            max_tokens=max_tokens,
            max_queued=max_queued,
        )
        self.id = id
        self._given_model = model
        self._instructions = instructions
        given = list(tools)
        self._sources: list[ToolSource] = [each for each in given if hasattr(each, "open")]
        self._named_tools = tools_by_name(each for each in given if not hasattr(each, "open"))
        self._limits = limits or Limits()
        self._context_tokens = context_tokens
        self._max_tokens = max_tokens
        self._max_queued = max_queued
        self._made_driving: Driving | None = None

    # --- messages in

    async def submit(self, message: str, *, key: str | None = None, output: type[BaseModel] | None = None) -> Run:
        """Take a message in; accepted durably when this returns, in a ``transaction()`` when that is left.

        Args:
            message: What the model is told.
            key: A stable name: a message under a key that is known is not taken again, its run is returned.
            output: A pydantic model that the answer is to be a JSON object of.

        Raises:
            ConfigurationError: No model is named, or it has no key.
            QuotaError: So many runs wait already, or the message takes more than ``options.max_value_bytes``.
            PayloadError: The message or the key is blank, or no text.
        """
        if not isinstance(message, str):
            raise PayloadError("message", f"is a {type(message).__name__}, not text")
        if not message.strip():
            raise PayloadError("message", "is blank")
        run = self._new_run(message)
        run.output = None if output is None else form_of(output)
        return await self._accept(run, key)

    async def wake_up(self, text: str, *, key: str | None = None) -> Run:
        """Take in what the model itself had scheduled, from the callback of ``scheduling_tools``.

        The text is marked as data for the model. Such runs count against ``Limits.wake_ups``: one too many ends at
        once, as ``stopped("wake_ups")``.

        Args:
            text: What the schedule carries.
            key: See ``submit``; ``schedule.run_id`` is a good one.

        Raises:
            ConfigurationError, QuotaError, PayloadError: See ``submit``.
        """
        message = load_prompt("harness_wake_up").fill(text=json.dumps(text, ensure_ascii=False))
        return await self._accept(self._new_run(message), key, is_wake_up=True)

    def _new_run(self, message: str) -> RunRecord:
        self._driving.opening.check()
        now_ms = self.lifecycle.clock.now_ms()
        return RunRecord(id=self.lifecycle.new_id(), message=storable(message), created_ms=now_ms)

    async def _accept(self, run: RunRecord, key: str | None, *, is_wake_up: bool = False) -> Run:
        """Store a run, unless its key is known, and have it driven."""
        name = None if key is None else f"key:{check_word(key, 'key', longest=1_000)}"
        async with self.lifecycle.transaction():
            known = None if name is None else await self.lifecycle.storage.get(name)
            if known is None and is_wake_up and await self._is_awake_too_often(run):
                await self.lifecycle.storage.put(run_key(run.id), run)
            elif known is None:
                await self._queue.add(run)
            if name is not None:
                await self.lifecycle.storage.put(name, known or run.id)
        await self.lifecycle.once_committed(self._driving.wake)
        return Run(self, known or run.id)

    async def _is_awake_too_often(self, run: RunRecord) -> bool:
        """Count a wake-up; end the run if that is one too many for its day."""
        limit, day = self._limits.wake_ups, run.created_ms // _DAY_MS
        counted = await self.lifecycle.storage.get(_WAKE_UPS, {"day": day, "count": 0})
        count = counted["count"] if counted["day"] == day else 0
        if limit is not None and count >= limit:
            run.status, run.reason, run.ended_ms = "stopped", "wake_ups", run.created_ms
            return True
        await self.lifecycle.storage.put(_WAKE_UPS, {"day": day, "count": count + 1})
        return False

    @overload
    async def ask(self, message: str, *, key: str | None = None) -> str: ...

    @overload
    async def ask(self, message: str, *, output: type[FormT], key: str | None = None) -> FormT: ...

    async def ask(self, message: str, *, output: type[FormT] | None = None, key: str | None = None) -> str | FormT:
        """Submit a message, wait for the end, and return the answer: text, or an object of ``output``.

        Raises:
            RunEndedError: The run ended without an answer; it holds the outcome.
            HarnessError: See ``Run.wait``; or the run of a known ``key`` was asked for another form.
            AgentGoneError: See ``Run.wait``.
            ConfigurationError, QuotaError, PayloadError: See ``submit``.
        """
        self._refuse_to_wait()
        run = await self.submit(message, key=key, output=output)
        outcome = await run.wait()
        if not outcome.is_completed:
            raise RunEndedError(outcome)
        return outcome.text if output is None else to_form(outcome.value, output)

    # --- looking

    async def get(self, id: str) -> Run | None:
        """Return a run, whatever has become of it; None if there is none."""
        return None if await self._queue.get(id) is None else Run(self, id)

    async def outcome_of(self, id: str) -> Outcome | None:
        """See ``Run.outcome``."""
        return outcome_of(await self._stored_run(id))

    async def usage_of(self, id: str) -> builtins.list[Usage]:
        """See ``Run.usage``."""
        return [Usage(**used) for used in (await self.lifecycle.storage.list(prefix=f"usage:{id}:")).values()]

    async def log(self, *, start: int = 0, limit: int = 100) -> builtins.list[Entry]:
        """Return lines of the whole log, from a number on: nothing is ever taken out of it."""
        stored = await self.lifecycle.storage.list(prefix="msg:", start=entry_key(start), limit=limit)
        return [to_entry(line) for line in stored.values()]

    async def full_result(self, call_id: str) -> str | None:
        """Return the result of a call as long as it was, or as much of it as could be stored; None if there is none."""
        entry = await self._call_named(call_id)
        if entry is None or entry.state != "done":
            return None
        text: str = await self.lifecycle.storage.get(full_key(entry.number), entry.text)
        return text

    async def pending(self) -> builtins.list[PendingCall]:
        """Return the calls that wait for a decision."""
        if not await self._queue.open_ids():
            return []
        transcript = await self._driving.loaded()
        return [
            PendingCall(
                call_id=call.call_id, run_id=call.run, tool=call.name, arguments=transcript.call_of(call).arguments
            )
            for call in transcript.open_calls()
            if call.state == "awaiting"
        ]

    # --- waiting and following

    async def wait_for(self, id: str) -> Outcome:
        """See ``Run.wait``."""
        self._refuse_to_wait()
        with self._place.waited_for():
            while True:
                changed = self._driving.live.over.next()
                outcome = await self.outcome_of(id)
                if outcome is not None:
                    return outcome
                self._driving.check_here()
                await changed.wait()

    async def follow(self, id: str) -> AsyncIterator[StreamEvent]:
        """See ``Run.stream``."""
        self._refuse_to_wait()
        with self._place.waited_for():
            async for event in Follower(self._driving, id).follow():
                yield event

    def _refuse_to_wait(self) -> None:
        place = self._place
        if self.lifecycle.is_in_transaction:
            raise HarnessError("a run begins when the transaction is left; wait for it outside of the block")
        place.check()

    # --- changing

    async def cancel(self, id: str) -> bool:
        """See ``Run.cancel``."""
        async with self.lifecycle.transaction():
            waiting = await self._queue.open_ids()
            if id not in waiting:
                return False
            if id == waiting[0]:
                await self.lifecycle.storage.put(cancel_key(id), True)
                await self._queue.unpark()
                await self._queue.beat()  # it may have been put off for long
            else:
                run = await self._stored_run(id)
                run.status, run.ended_ms = "cancelled", self.lifecycle.clock.now_ms()
                await self.lifecycle.storage.put(run_key(id), run)
                await self._queue.remove(id)

        async def follow() -> None:
            await self._driving.stop(id)

        await self.lifecycle.once_committed(follow)
        return True

    async def decide(self, call_id: str, approved: bool, by: str) -> bool:  # noqa: FBT001  # SPEC 13.8
        """Let a call run that waits for a person, or decline it; durable on return.

        Args:
            call_id: From ``pending()`` or the event ``harness:approval``.
            approved: Whether it runs; the model is told of a call that was declined.
            by: Who decided, for the log.

        Returns:
            False, and nothing is changed, if no such call waits: it was decided about, or its run has ended.
        """
        async with self.lifecycle.transaction():
            entry = await self._call_named(call_id)
            if entry is None or entry.state != "awaiting":
                return False
            if approved:
                decided = replace(entry, state="approved", by=by)
            else:
                decided = replace(ended(entry, "", "denied", "A person declined this call."), by=by, digest="")
            await self.lifecycle.storage.put(entry_key(entry.number), decided)
            await self._queue.unpark()

        async def follow() -> None:
            await self._driving.decided(decided)

        await self.lifecycle.once_committed(follow)
        return True

    async def _call_named(self, call_id: str) -> CallEntry | None:
        number = str(call_id).rpartition("-")[2]
        if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
            return None
        stored = await self.lifecycle.storage.get(entry_key(int(number)))
        entry = None if stored is None else to_entry(stored)
        return entry if isinstance(entry, CallEntry) and entry.call_id == call_id else None

    # --- what the lifecycle tells it

    async def on_job(self, context: JobContext) -> RescheduleAt | None:
        """Take up runs that a crash cut off or a server postponed; while one is driven, only look (SPEC 13.4)."""
        run = await self._queue.first()
        if run is None:
            return None
        if run.retry_at_ms is not None and await self._driving.is_postponed(run):
            return RescheduleAt(from_ms(run.retry_at_ms))
        await self._driving.wake()
        return RescheduleAt(self.lifecycle.clock.now() + HEARTBEAT)

    async def on_evict(self) -> None:
        """Let whoever waits know."""
        self._driving.leave()

    async def on_memory_limit(self, context: MemoryLimitContext) -> None:
        """End the run that exhausts the memory again and again; those behind it get their turn (SPEC 7.2)."""
        if context.sealed:
            await self._driving.give_up("it exhausted the memory again and again")

    # --- inside

    async def _stored_run(self, id: str) -> RunRecord:
        run = await self._queue.get(id)
        if run is None:
            raise HarnessError(f"there is no run {id!r}")
        return run

    @property
    def _driving(self) -> Driving:
        if self._made_driving is None:
            if not hasattr(self, "lifecycle"):
                raise ConfigurationError("install the harness first: self.lifecycle.use(Harness(...))")
            opening = Opening(self.lifecycle, self._given_model, tools=self._named_tools, sources=self._sources)
            parts = Parts(
                lifecycle=self.lifecycle,
                queue=RunQueue(self.lifecycle, self.id, longest=self._max_queued),
                live=Live(),
                place=Place(),
                opened=opening,
                instructions=self._instructions,
                limits=self._limits,
                context_tokens=self._context_tokens,
                max_tokens=self._max_tokens,
            )
            self._made_driving = Driving(parts, opening)
        return self._made_driving

    @property
    def _place(self) -> Place:
        return self._driving.parts.place

    @property
    def _queue(self) -> RunQueue:
        return self._driving.parts.queue
