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
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from agentkit.clock import from_ms
from agentkit.errors import ConfigurationError, ContextOverflowError, ModelError
from agentkit.harness.answering import Answering, Postponed
from agentkit.harness.calling import ToolRunner
from agentkit.harness.compacting import Compacting, longest_view, size_of
from agentkit.harness.forms import WrongForm, read_answer
from agentkit.harness.messages import Usage
from agentkit.harness.model import ChatModel, Reply
from agentkit.harness.output import LONGEST_SHOWN, clipped, fitting
from agentkit.harness.parts import Parts
from agentkit.harness.planning import UNKNOWN, ended, intents, plan_calls, repaired
from agentkit.harness.records import (
    AnswerEntry,
    CallEntry,
    Entry,
    RunRecord,
    RunStatus,
    UserEntry,
    entry_key,
    full_key,
    run_key,
    to_entry,
    usage_key,
)
from agentkit.harness.repetition import STOP_AT
from agentkit.harness.signals import Stop
from agentkit.harness.tools import Tool
from agentkit.harness.transcript import HEAD, SUMMARY, Transcript
from agentkit.prompts import load_prompt

logger = logging.getLogger(__name__)

CHANNEL: Final = "agents:harness"
CANCELLED: Final = "cancelled"
#: A run that was taken up so often without getting any further is given up: it may be what ends the process.
MOST_STARTS: Final = 5
#: So often a conversation is shortened that turns out to be too long for the model.
MOST_OVERFLOWS: Final = 4
#: So often an answer that has not the form is sent back.
MOST_CORRECTIONS: Final = 2
_MILLISECOND: Final = timedelta(milliseconds=1)


def cancel_key(run: str) -> str:
    """Return the key of the mark that a run is to be cancelled."""
    return f"cancel:{run}"


class RunDriver:
    """Drives one run until it is over, waits for a person, or is to be taken up later."""

    def __init__(self, parts: Parts, run: RunRecord, transcript: Transcript, stop: Stop) -> None:
        self.run = run
        self.stop = stop
        self._parts = parts
        self._transcript = transcript
        self._scope = parts.lifecycle
        self._tools = ToolRunner(parts.lifecycle, clock=self._scope.clock, stop=stop)
        self._answering = Answering(parts, run, transcript, stop)
        self._compacting = Compacting(parts, run, transcript, self._answering)
        self._overflows = 0
        self._usage: list[Usage] = []
        self._spent_ms = run.spent_ms
        self._began_ms = self._scope.clock.now_ms()
        self._is_left = False

    async def drive(self) -> None:
        """Go on from what is stored to the next point of rest."""
        deadline = self._arm()
        try:
            await self._take_up()
            while not self._is_left:
                await self._step()
        finally:
            deadline.cancel()

    def _arm(self) -> Any:
        limit = self._parts.limits.milliseconds
        left_ms = 10**12 if limit is None else max(limit - self.run.spent_ms, 0)
        return self._scope.clock.call_at(self._began_ms + left_ms, lambda: self.stop.ask("seconds"))

    # --- beginning

    async def _take_up(self) -> None:
        """Begin a run, or go on with one: what a crash cut off gets its result or its turn (SPEC 13.3)."""
        run = self.run
        if await self._scope.storage.get(cancel_key(run.id)):
            self.stop.ask(CANCELLED)
        if run.status == "queued":
            number = self._transcript.next_number
            entry = UserEntry(number=number, run=run.id, text=run.message)
            run.status, run.first, run.message = "running", number, ""
            await self._commit(entry)
            self._tell("harness:start")
            return
        was_cut_off = run.status == "running" and run.retry_at_ms is None
        run.status, run.retry_at_ms, run.awaiting = "running", None, []
        open_calls = self._transcript.open_calls()
        mended = repaired(open_calls, {call.number: self._arguments(call) for call in open_calls})
        if was_cut_off:
            run.starts += 1
            self._tell("harness:interrupted", calls=len(mended), starts=run.starts)
        if run.starts > MOST_STARTS:
            await self.give_up(f"it was cut off {run.starts} times in a row without getting any further")
        else:
            await self._commit(*self._with_intents(mended))

    async def give_up(self, reason: str) -> None:
        """End the run without going on with it."""
        await self._finish("failed", reason)

    # --- one step

    async def _step(self) -> None:
        open_calls = self._transcript.open_calls()
        ending = self._ending(is_turn_over=not open_calls)
        if ending is not None:
            await self._finish(*ending)
            return
        started = [call for call in open_calls if call.state == "started"]
        if started:
            await self._run_calls(started)
        elif open_calls and (begun := intents(open_calls)):
            await self._commit(*begun)
        elif open_calls:
            await self._park()
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
            await self._finish("failed", str(error))
        except Postponed as postponed:
            await self._postpone(postponed)

    async def _ask_model(self, model: ChatModel) -> None:
        if self._compacting.is_due:
            await self._compact(model, longest_view(self._parts))
        tools = await self._parts.opened.tools()
        try:
            reply = await self._answering.answer(model, tools, self._usage)
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
            tokens=self._usage[-1].tokens,
        )
        self.run.turns += 1
        self.run.starts = self.run.failures = self._overflows = 0
        if calls:
            await self._commit(answer, *self._with_intents(lines))
            self._tell("harness:step", calls=len(calls), tokens=answer.tokens)
        else:
            await self._conclude(reply, answer)

    async def _compact(self, model: ChatModel, longest: int) -> None:
        """Let a summary stand in for the earlier part of the conversation, in one commit."""
        compacted = await self._compacting.compact(model, self._usage, longest=longest)
        if compacted is None:
            return
        full = {full_key(number): self._kept(text) for number, text in compacted.full.items()}
        changes = {HEAD: compacted.head, SUMMARY: compacted.summary, **full}
        await self._commit(*compacted.entries, more=changes)
        self._transcript.cut(compacted.head, compacted.summary)
        self._tell("harness:compact", start=compacted.head.start)

    async def _conclude(self, reply: Reply, answer: AnswerEntry) -> None:
        """End the run with an answer, or ask for another one if it has not the form."""
        if reply.finish == "length":
            await self._finish("stopped", "length", answer)
            return
        form = self.run.output
        if form is None:
            await self._finish("completed", "", answer)
            return
        try:
            self.run.value = read_answer(reply.text, form)
        except WrongForm as error:
            await self._correct(answer, str(error))
            return
        await self._finish("completed", "", answer)

    async def _correct(self, answer: AnswerEntry, reason: str) -> None:
        self.run.corrections += 1
        if self.run.corrections > MOST_CORRECTIONS:
            await self._finish("failed", f"the answer has not the form that was asked for: {reason}", answer)
            return
        text = load_prompt("harness_correction").fill(reason=reason)
        await self._commit(answer, UserEntry(number=answer.number + 1, run=self.run.id, text=text, by="harness"))

    # --- tools

    async def _run_calls(self, calls: Sequence[CallEntry]) -> None:
        """Run calls side by side; each result is committed as it comes."""
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(self._run_call(call))

    async def _run_call(self, call: CallEntry) -> None:
        tools = await self._parts.opened.tools()
        self._tell("harness:call", tool=call.name, number=call.number)
        result = await self._tools.run(tools.get(call.name), call, self._arguments(call))
        self.run.starts = 0
        entry = ended(call, self._arguments(call), result.ending, clipped(result.text))
        is_clipped = len(result.text) > LONGEST_SHOWN
        full = {full_key(call.number): self._kept(result.text)} if is_clipped else {}
        await self._commit(*self._with_intents([replace(entry, is_clipped=is_clipped)]), more=full)

    def _kept(self, text: str) -> str:
        return fitting(text, self._scope.storage.max_value_bytes)

    def _arguments(self, call: CallEntry) -> str:
        return self._transcript.call_of(call).arguments

    def _with_intents(self, lines: Sequence[CallEntry]) -> list[CallEntry]:
        """Return new lines of calls, with the intents of what begins once they are committed."""
        known = {call.number: call for call in self._transcript.open_calls()}
        known.update({line.number: line for line in lines})
        if self.stop.is_asked:
            return list(lines)
        begun = intents([known[number] for number in sorted(known) if known[number].state != "done"])
        return list({line.number: line for line in (*lines, *begun)}.values())

    # --- points of rest

    async def _park(self) -> None:
        """Wait for a person, for days if need be: nothing runs, nothing beats (SPEC 13.8)."""
        awaiting = [call for call in self._transcript.open_calls() if call.state == "awaiting"]
        async with self._scope.transaction():
            for call in awaiting:
                stored = to_entry(await self._scope.storage.get(entry_key(call.number)))
                if stored != call:  # decided meanwhile
                    self._transcript.take([stored])
                    return
            if await self._scope.storage.get(cancel_key(self.run.id)):
                return
            self.run.status, self.run.awaiting = "parked", [call.number for call in awaiting]
            await self._scope.storage.put_many(self._changes([]))
            await self._parts.queue.park()
        self._is_left = True
        self._parts.live.rest()
        for call in awaiting:
            self._tell("harness:approval", tool=call.name, call_id=call.call_id)

    async def _postpone(self, postponed: Postponed) -> None:
        """Free the agent until a server wants to be asked again (SPEC 13.5)."""
        moment = from_ms(postponed.until_ms)
        self.run.retry_at_ms = postponed.until_ms
        async with self._scope.transaction():
            await self._scope.storage.put_many(self._changes([]))
            await self._parts.queue.beat_at(moment)
        self._is_left = True
        self._tell("harness:postpone", until=moment)

    async def _finish(self, status: RunStatus, reason: str, answer: AnswerEntry | None = None) -> None:
        """End the run: every call gets its result, the turn is closed, and the next run may begin, in one commit."""
        run = self.run
        lines: list[Entry] = [self._closed(call, reason or status) for call in self._transcript.open_calls()]
        closing = answer or self._closing(status, reason)
        run.status, run.reason, run.retry_at_ms, run.awaiting = status, reason, None, []
        run.text = closing.text if answer is not None else self._latest_text()
        run.ended_ms = self._scope.clock.now_ms()
        lines += [closing]
        async with self._scope.transaction():
            await self._scope.storage.put_many(self._changes(lines))
            await self._scope.storage.delete(cancel_key(run.id))
            await self._parts.queue.remove(run.id)
        self._transcript.take(lines)
        self._is_left = True
        self._parts.live.reset()
        self._parts.live.rest()
        self._tell("harness:end", status=status, reason=reason if status == "stopped" else "", turns=run.turns)

    def _closed(self, call: CallEntry, reason: str) -> CallEntry:
        if call.state == "started" and call.effect != "read":
            return ended(call, self._arguments(call), "unknown", UNKNOWN)
        return ended(call, self._arguments(call), "cancelled", f"Not run: the run was ended ({reason}).")

    def _closing(self, status: str, reason: str) -> AnswerEntry:
        """Return what stands in for the model's last word: what had come of it, and why no more did."""
        why = {"stopped": f"stopped by its limit: {reason}", "failed": "given up after an error"}.get(status, status)
        text = f"{self._parts.live.text}\n[This run was {why}.]".strip()
        return AnswerEntry(number=self._transcript.next_number, run=self.run.id, text=text)

    def _latest_text(self) -> str:
        """Return what the run has to say for itself: what was coming in, else its latest words."""
        if self._parts.live.text:
            return self._parts.live.text
        for entry in reversed(self._transcript.entries):
            if isinstance(entry, AnswerEntry) and entry.run == self.run.id and entry.text:
                return entry.text
        return ""

    # --- commits

    def _changes(self, lines: Sequence[Entry]) -> dict[str, Any]:
        """Return what is stored with these lines: the run, and what its model calls took since the last commit."""
        run = self.run
        run.spent_ms = self._spent_ms + self._scope.clock.now_ms() - self._began_ms
        changes = self._transcript.changes(lines)
        while self._usage:
            used = self._usage.pop(0)
            changes[usage_key(run.id, run.requests)] = used
            run.requests += 1
            run.usage += used
        changes[run_key(run.id)] = run
        return changes

    async def _commit(self, *lines: Entry, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Store lines and the run together; who follows the run is told."""
        await self._scope.storage.put_many({**self._changes(lines), **more})
        self._transcript.take(lines)
        if any(isinstance(line, AnswerEntry) for line in lines):
            self._parts.live.reset()
        self._parts.live.signal.notify()

    def _tell(self, event: str, **facts: Any) -> None:
        self._scope.emit(CHANNEL, event, {"run_id": self.run.id, **facts})
