"""What to do about "make that 10 instead", "move the report to 5pm" and "rename it to …"."""

from __future__ import annotations

from typing import assert_never

from agentkit.clock import to_ms
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.acts import nothing_pointed_at
from agentkit.schedules.chat.commands import Split
from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.requests import requested
from agentkit.schedules.chat.targets import Entry, find
from agentkit.schedules.chat.timing import Parse, changed, is_complete, is_pure, is_recurring, shifted
from agentkit.schedules.chat.view import Alter, Decision, Make, View, asked, said


async def changing(readings: tuple[Split, ...], text: str, view: View, parse: Parse) -> Decision:
    """Return what to do: change a schedule, or take the message for a request after all."""
    meant: list[tuple[Split, tuple[Entry, ...]]] = []
    for reading in readings:
        found = find(reading.target, view.entries, view.memory.last, now=view.now)
        if not found.is_sure or found.is_all:
            continue
        if found.entries and found.missing:
            return said(replies.not_found(reading.target, view.entries, view.now), view)
        if found.entries or found.is_pointer:
            meant.append((reading, found.entries))
        if len(found.entries) == 1:
            decision = await _altered(reading, found.entries[0], view, parse)
            if decision is not None:
                return decision
    is_change = any([reading.is_sure or is_pure(await parse(reading.words)) for reading, _ in meant])
    if not meant or (not is_change and is_complete(await parse(text))):
        return await requested(text, view, parse)
    reading, entries = meant[0]
    if not entries:
        return await _again(reading, view, parse)
    if len(entries) > 1:
        return said(replies.several(entries, view.now), view)
    return said(replies.not_changed(entries[0], reading.words), view, last=entries[0].number)


async def _altered(reading: Split, entry: Entry, view: View, parse: Parse) -> Decision | None:
    schedule = entry.schedule
    match reading.how:
        case "snooze":
            return await _snoozed(reading.words, entry, view, parse)
        case "say":
            return Alter(entry=entry, plan=None, task=reading.words.strip(" \"'“”"))
        case "later" | "earlier":
            plan = await shifted(schedule, reading.words, parse, way=reading.how, now=view.now)
        case "to":
            plan = await changed(schedule, reading.words, parse, now=view.now)
        case _:
            assert_never(reading.how)
    return None if plan is None else Alter(entry=entry, plan=plan, task=entry.task)


async def _snoozed(words: str, entry: Entry, view: View, parse: Parse) -> Decision | None:
    """Put a one-shot off, never to an earlier moment; remind of a recurring one once more beside its rhythm."""
    if not words:
        return _ask_how_long(entry.task, (entry.number,), view)
    moment = _moment_of(words)
    if entry.schedule.is_recurring:
        once_more = await parse(moment)
        return Make(plan=once_more, task=entry.task) if is_pure(once_more) and not is_recurring(once_more) else None
    if not moment.startswith("in "):
        plan = await changed(entry.schedule, moment, parse, now=view.now)
    else:
        plan = await shifted(entry.schedule, words, parse, way="later", now=view.now)
    return None if plan is None else Alter(entry=entry, plan=plan, task=entry.task)


def _moment_of(words: str) -> str:
    """Return the words of the moment that something is snoozed to: "until 5pm" or "10 minutes"."""
    first, _, rest = words.partition(" ")
    return rest if first in ("until", "till", "to") else f"in {words}"


def _ask_how_long(task: str, numbers: tuple[int, ...], view: View) -> Decision:
    pending = Pending(kind="how_long", asked_at_ms=to_ms(view.now), task=task, numbers=numbers)
    return asked(replies.how_long(task, numbers), pending, view)


async def _again(reading: Split, view: View, parse: Parse) -> Decision:
    """Make a schedule that has run once more, if that is what the words ask for."""
    if reading.how == "snooze" and not reading.words and view.memory.last_task:
        return _ask_how_long(view.memory.last_task, (), view)
    plan = await parse(_moment_of(reading.words) if reading.how == "snooze" else reading.words)
    if reading.is_sure and view.memory.last_task and is_pure(plan):
        return Make(plan=plan, task=view.memory.last_task)
    return said(nothing_pointed_at(view), view)
