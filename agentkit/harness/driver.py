"""Drives one run: asks the model, runs the tools it calls, and commits each step before the next (SPEC 13.3).

Everything is decided from what is stored, so it doesn't matter whether a step follows another or a crash. A step is two
commits: the answer together with the intents of the calls that begin, and each result together with the intents of what
follows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agentkit.errors import (
    AgentDestroyedError,
    AgentGoneError,
    AgentKitError,
    ConfigurationError,
    ContextOverflowError,
    HarnessError,
    ModelError,
    RuntimeClosedError,
    StoreError,
    TransactionConflictError,
)
from agentkit.harness.answering import Answering, Postponed
from agentkit.harness.calling import ToolRunner
from agentkit.harness.compacting import Compacting, longest_view, size_of
from agentkit.harness.forms import read_answer
from agentkit.harness.model import ChatModel, Reply
from agentkit.harness.output import clipped
from agentkit.harness.parts import Parts
from agentkit.harness.planning import ended, intents, plan_calls, repaired
from agentkit.harness.reasons import InvalidArguments
from agentkit.harness.records import AnswerEntry, CallEntry, RunRecord, RunStatus, UserEntry, full_key
from agentkit.harness.repetition import STOP_AT
from agentkit.harness.resting import CANCELLED, Resting, cancel_key
from agentkit.harness.run_log import RunLog
from agentkit.harness.signals import Stop
from agentkit.harness.tools import Tool
from agentkit.harness.transcript import HEAD, SUMMARY, Transcript
from agentkit.jobs.failures import chain, is_memory_limit, storable
from agentkit.prompts import load_prompt

logger = logging.getLogger(__name__)

#: A run that was taken up so often without getting any further is given up: it may be what ends the process.
MOST_STARTS: Final = 5
#: So often a conversation is shortened that turns out to be too long for the model.
MOST_OVERFLOWS: Final = 4
#: So often an answer that has not the form is sent back.
MOST_CORRECTIONS: Final = 2
#: Where there is no limit, a timer far enough away.
_NEVER_MS: Final = 10**12


#: What says that there is nothing to store an end in.
_OF_THE_PLATFORM: Final = (
    AgentDestroyedError,
    AgentGoneError,
    RuntimeClosedError,
    StoreError,
    TransactionConflictError,
)


class RunDriver:
    """Drives one run until it is over, waits for a person, or is to be taken up later."""

    def __init__(self, parts: Parts, run: RunRecord, transcript: Transcript, stop: Stop) -> None:
        self.run = run
        self.stop = stop
        self._parts = parts
        self._transcript = transcript
        self._log = RunLog(parts, run, transcript)
        self._rest = Resting(parts, self._log, stop)
        self._tools = ToolRunner(parts.place, clock=parts.lifecycle.clock, stop=stop)
        self._answering = Answering(parts, self._log, stop)
        self._compacting = Compacting(parts, self._log, self._answering)
        self._overflows = 0
        #: No call begins twice in one life, whatever its effect.
        self._begun: set[int] = set()

    async def drive(self) -> None:
        """Go on from what is stored to the next point of rest.

        An error that nobody has foreseen ends the run. One of the platform, or memory that ran out, leaves it to the
        heart, as a crash does.
        """
        try:
            await self._drive()
        except Exception as error:
            if is_memory_limit(error) or any(isinstance(link, _OF_THE_PLATFORM) for link in chain(error)):
                raise
            logger.exception("a run of %s failed", self._parts.lifecycle.agent)
            await self.give_up(_told(error))

    async def _drive(self) -> None:
        deadline = self._arm()
        try:
            await self._take_up()
            while not self._rest.is_reached:
                await self._step()
        finally:
            deadline.cancel()

    def _arm(self) -> Any:
        clock, limit = self._parts.lifecycle.clock, self._parts.limits.milliseconds
        left_ms = _NEVER_MS if limit is None else max(limit - self.run.spent_ms, 0)
        return clock.call_at(clock.now_ms() + left_ms, lambda: self.stop.ask("seconds"))

    # --- beginning

    async def _take_up(self) -> None:
        """Begin a run, or go on with one: what a crash cut off gets its result or its turn (SPEC 13.3)."""
        run = self.run
        if await self._parts.lifecycle.storage.get(cancel_key(run.id)):
            self.stop.ask(CANCELLED)
        if run.status == "queued":
            number = self._transcript.next_number
            entry = UserEntry(number=number, run=run.id, text=run.message)
            run.status, run.first, run.message = "running", number, ""
            await self._log.commit(entry)
            self._log.tell("harness:start")
            return
        was_cut_off = run.status == "running" and run.retry_at_ms is None
        run.status, run.retry_at_ms, run.awaiting = "running", None, []
        open_calls = self._transcript.open_calls()
        mended = repaired(open_calls, {call.number: self._log.arguments(call) for call in open_calls})
        if was_cut_off:
            run.starts += 1
            self._log.tell("harness:interrupted", calls=len(mended), starts=run.starts)
        if run.starts > MOST_STARTS:
            await self.give_up(f"it was cut off {run.starts} times in a row without getting any further")
        else:
            await self._log.commit(*self._with_intents(mended))

    async def give_up(self, reason: str) -> None:
        """End the run without going on with it."""
        await self._rest.finish("failed", reason)

    # --- one step

    async def _step(self) -> None:
        open_calls = self._transcript.open_calls()
        ending = self._ending(is_turn_over=not open_calls)
        if ending is not None:
            await self._rest.finish(*ending)
            return
        started = [call for call in open_calls if call.state == "started"]
        if started:
            await self._run_calls(started)
        elif open_calls and (begun := intents(open_calls)):
            await self._log.commit(*begun)
        elif open_calls:
            await self._rest.park()
        else:
            await self._ask()

    def _ending(self, *, is_turn_over: bool) -> tuple[RunStatus, str] | None:
        """Return why the run is to end, if it is; limits are looked at between turns."""
        run, limits = self.run, self._parts.limits
        if self.stop.is_asked:
            return ("cancelled", "") if self.stop.reason == CANCELLED else ("stopped", self.stop.reason)
        if not is_turn_over:
            return None
        if run.turns >= limits.turns:
            return "stopped", "turns"
        if limits.tokens is not None and run.usage.tokens >= limits.tokens:
            return "stopped", "tokens"
        if self._transcript.repetitions >= STOP_AT:
            return "stopped", "loop"
        return None

    # --- the model

    async def _ask(self) -> None:
        """Ask the model, and commit its answer before anything of it runs."""
        try:
            await self._ask_model(await self._parts.opened.model())
        except (ConfigurationError, ModelError) as error:
            await self._rest.finish("failed", str(error))
        except Postponed as postponed:
            await self._rest.postpone(postponed.until_ms)

    async def _ask_model(self, model: ChatModel) -> None:
        if self._compacting.is_due:
            await self._compact(model, longest_view(self._parts))
        tools = await self._parts.opened.tools()
        try:
            reply = await self._answering.answer(model, tools)
        except ContextOverflowError:
            # Whatever we thought of its length.
            self._overflows += 1
            if self._overflows > MOST_OVERFLOWS:
                raise
            longest = size_of(self._transcript, self._parts.instructions) // 2
            await self._compact(model, min(longest, longest_view(self._parts)))
            return
        if reply is not None:  # else the run is to end
            await self._take(reply, model.name, tools)

    async def _take(self, reply: Reply, source: str, tools: Mapping[str, Tool]) -> None:
        number = self._transcript.next_number
        calls, lines = plan_calls(reply, number=number, run=self.run.id, tools=tools, taken=self._transcript.call_ids())
        answer = AnswerEntry(
            number=number,
            run=self.run.id,
            text=reply.text,
            calls=calls,
            source=source,
            extra=reply.extra,
            tokens=self._log.latest.tokens,
        )
        self.run.turns += 1
        self.run.starts = self.run.failures = self._overflows = 0
        if calls:
            await self._log.commit(answer, *self._with_intents(lines))
            self._log.tell("harness:step", calls=len(calls), tokens=answer.tokens)
        else:
            await self._conclude(reply, answer)

    async def _compact(self, model: ChatModel, longest: int) -> None:
        """Let a summary stand in for the earlier part of the conversation, in one commit."""
        compacted = await self._compacting.compact(model, longest=longest)
        if compacted is None:
            return
        full = {full_key(number): self._log.full(text) for number, text in compacted.full.items()}
        summary = self._log.full(compacted.summary)
        await self._log.commit(*compacted.entries, more={HEAD: compacted.head, SUMMARY: summary, **full})
        self._transcript.cut(compacted.head, summary)
        self._log.tell("harness:compact", start=compacted.head.start)

    async def _conclude(self, reply: Reply, answer: AnswerEntry) -> None:
        """End the run with an answer, or ask for another one if it has not the form."""
        if reply.finish == "length":
            await self._rest.finish("stopped", "length", answer)
            return
        form = self.run.output
        if form is None:
            await self._rest.finish("completed", "", answer)
            return
        try:
            self.run.value = read_answer(reply.text, form, longest=self._log.room)
        except InvalidArguments as error:
            await self._correct(answer, str(error))
            return
        await self._rest.finish("completed", "", answer)

    async def _correct(self, answer: AnswerEntry, reason: str) -> None:
        self.run.corrections += 1
        if self.run.corrections > MOST_CORRECTIONS:
            await self._rest.finish("failed", f"the answer has not the form that was asked for: {reason}", answer)
            return
        text = load_prompt("harness_correction").fill(reason=reason)
        await self._log.commit(answer, UserEntry(number=answer.number + 1, run=self.run.id, text=text, by="harness"))

    # --- tools

    async def _run_calls(self, calls: Sequence[CallEntry]) -> None:
        """Run calls side by side; each result is committed as it comes."""
        async with asyncio.TaskGroup() as group:
            for call in calls:
                if call.number in self._begun:
                    raise HarnessError(f"call {call.call_id} of {call.name!r} was left without a result")
                self._begun.add(call.number)
                group.create_task(self._run_call(call))

    async def _run_call(self, call: CallEntry) -> None:
        tools = await self._parts.opened.tools()
        self._log.tell("harness:call", tool=call.name, number=call.number)
        result = await self._tools.run(tools.get(call.name), call, self._log.arguments(call))
        self.run.starts = 0
        shown = self._log.fitting(clipped(result.text))
        entry = ended(call, self._log.arguments(call), result.ending, shown)
        is_clipped = shown != storable(result.text)
        full = {full_key(call.number): self._log.full(result.text)} if is_clipped else {}
        await self._log.commit(*self._with_intents([replace(entry, is_clipped=is_clipped)]), more=full)

    def _with_intents(self, lines: Sequence[CallEntry]) -> list[CallEntry]:
        """Return new lines of calls, with the intents of what begins once they are committed."""
        known = {call.number: call for call in self._transcript.open_calls()}
        known.update({line.number: line for line in lines})
        if self.stop.is_asked:
            return list(lines)
        begun = intents([known[number] for number in sorted(known) if known[number].state != "done"])
        return list({line.number: line for line in (*lines, *begun)}.values())


def _told(error: BaseException) -> str:
    """Return what is told of an error: all of one of ours, of others only the kind."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, AgentKitError) else f"it failed with {type(error).__name__}"
