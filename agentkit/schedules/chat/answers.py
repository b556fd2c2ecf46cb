"""What to do about a message that may answer the open question."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agentkit.clock import to_ms
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.acts import applied
from agentkit.schedules.chat.changes import changing
from agentkit.schedules.chat.combined import completed
from agentkit.schedules.chat.commands import Act, Answer, Change, Command, Request, SetZone, Split
from agentkit.schedules.chat.memory import Pending
from agentkit.schedules.chat.requests import requested
from agentkit.schedules.chat.targets import Entry, find
from agentkit.schedules.chat.timing import (
    Parse,
    changed,
    is_amount,
    is_complete,
    is_named_apart,
    is_pure,
    is_recurring,
    retimed_by,
)
from agentkit.schedules.chat.view import Alter, Decision, Make, View, asked, said

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_MOST_TRIES: Final = 2
_AMOUNT_ONLY: Final = re.compile(r"^(?:for|in|by)\s+", re.IGNORECASE)
_NEW: Final = re.compile(
    r"(?:(?:please |no,? )?(?:make|add|create|set up) )?(?:an? |the )?(?:new|another|second|separate)"
    r"(?: (?:one|reminder|schedule|task))?|add(?: it)?|both|keep both",
    re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"(?:yes,? |please )?(?:change|replace|update|move|alter)(?: (?:it|that|this|that one|this one|the old one))?"
    r"|(?:the )?(?:old|existing|first|present|same) one|existing|this one|that one",
    re.IGNORECASE,
)
_BEGINNINGS: Final = re.compile(
    r"(?:please |can you |could you )?"
    r"(?:remind|tell|ping|notify|wake|set|add|schedule|create|let me know|don't forget)\b",
    re.IGNORECASE,
)


async def answered(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    """Return what an answer leads to; None if the message is none.

    Commands that name a schedule, and requests that say what and when, are none: they mean what they say.
    """
    if _names_a_schedule(command, view):
        return None
    match pending.kind:
        case "which":
            return await _chosen(pending, command, text, view, parse)
        case "when":
            return await _timed(pending, command, text, view, parse)
        case "change_or_new":
            return await _changed_or_made(pending, command, text, view, parse)
        case "how_long":
            return await _snoozed(pending, command, text, view, parse)
        case "what":
            return await _named(pending, command, text, view, parse)


def _names_a_schedule(command: Command, view: View) -> bool:
    """Return whether a command is one for sure, by its words or by what they name."""
    match command:
        case Act(target=target):
            targets = [target]
        case Change(readings=readings):
            if any(reading.is_sure for reading in readings):
                return True
            targets = [reading.target for reading in readings]
        case _:
            return False
    found = [find(target, view.entries, view.memory.last, now=view.now) for target in targets]
    return any(one.entries and one.is_sure and not one.is_pointer for one in found)


async def _chosen(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    candidates = tuple(entry for entry in view.entries if entry.number in pending.numbers)
    if isinstance(command, Answer):
        if not command.is_yes:
            return said(replies.LEFT_ALONE, view, pending=None)
        if pending.is_all or len(candidates) == 1:
            return applied(pending.action, candidates, view)
        return said(replies.which(pending.action, candidates, view.now), view)
    if not isinstance(command, Request) or is_complete(await parse(text)):
        return None
    found = find(text.lower(), candidates, None, now=view.now)
    if found.is_named and not found.entries:
        question = replies.which(pending.action, candidates, view.now)
        return said(replies.asked_again(question), view)
    if found.is_all or found.is_named or (found.is_sure and len(found.entries) == 1):
        return applied(pending.action, found.entries, view, found.missing)
    return None


async def _timed(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    match command:
        case Answer(is_yes=False) | Act(action="cancel", target="" | "it" | "that" | "this"):
            return said(replies.DROPPED, view, pending=None) if pending.question else None
        case Act(is_sure=True) | SetZone():
            return None
        case Change(readings=readings):
            answers = [text, *(reading.words for reading in readings)]
        case _:
            answers = [text]
    for answer in answers:
        found = await completed(pending, answer, parse)
        if found is not None:
            plan, task, request = found
            if task:
                return Make(plan=plan, task=task)
            what = Pending(kind="what", asked_at_ms=to_ms(view.now), request=request)
            return asked(replies.WHAT, what, view)
    if not pending.question or await _is_new(text, parse):
        return None
    if not pending.task:
        return await requested(f"{pending.request} {text}", view, parse)
    if pending.tries + 1 >= _MOST_TRIES:
        return said(replies.NOT_UNDERSTOOD, view, pending=None)
    return asked(replies.asked_again(pending.question), replace(pending, tries=pending.tries + 1), view)


async def _retimed(request: str, plan: ParsedSchedule, entry: Entry, view: View, parse: Parse) -> Decision:
    """Change a schedule to the time that a request says: "5pm" of "make tea 5pm" leaves its days as they are."""
    words = request.lower().strip(" .!").partition(entry.task.lower())[2].strip()
    new = await changed(entry.schedule, words, parse, now=view.now) if words else None
    if new is None and (is_recurring(plan) or not entry.schedule.is_recurring):
        new = retimed_by(entry.schedule, plan, view.now)
    if new is None:
        return said(replies.not_changed(entry, words or request), view, pending=None, last=entry.number)
    return Alter(entry=entry, plan=new, task=entry.task)


async def _snoozed(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    if isinstance(command, Answer):
        if not command.is_yes:
            return said(replies.LEFT_ALONE, view, pending=None)
        return said(replies.how_long(pending.task, pending.numbers), view)
    words = _AMOUNT_ONLY.sub("", text.strip(" .!"))
    target = str(pending.numbers[0]) if pending.numbers else "it"
    view = replace(view, memory=replace(view.memory, pending=None))
    if is_amount(await parse(f"in {words}")):
        return await changing((Split(target, "snooze", words, is_sure=True),), text, view, parse)
    if is_pure(await parse(text)):
        return await changing((Split(target, "to", text.lower(), is_sure=True),), text, view, parse)
    return None


async def _changed_or_made(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    candidates = tuple(entry for entry in view.entries if entry.number in pending.numbers)
    if isinstance(command, Answer) and not command.is_yes:
        return said(replies.LEFT_ALONE, view, pending=None)
    plain = text.strip(" .!")
    plan = await parse(pending.request)
    if _NEW.fullmatch(plain):
        return Make(plan=plan, task=plan.description)
    named = find(plain.lower(), candidates, None, now=view.now)
    is_change = _CHANGE.fullmatch(plain) is not None
    if isinstance(command, Request) and named.entries and named.is_sure and not await _is_new(text, parse):
        candidates, is_change = named.entries, True
    if is_change and len(candidates) == 1:
        return await _retimed(pending.request, plan, candidates[0], view, parse)
    if is_change or isinstance(command, Answer):
        return said(replies.change_or_new(candidates, plan.description, view.now), view) if candidates else None
    return None


async def _is_new(text: str, parse: Parse) -> bool:
    """Return whether a text is a request of its own: it says what, and when or nearly so."""
    plan = await parse(text)
    if plan.question is None:
        return is_complete(plan)
    return begins_a_request(text) or is_named_apart(plan, text)


async def _named(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    match command:
        case Answer(is_yes=False) | Act(action="cancel", target="" | "it" | "that" | "this"):
            return said(replies.DROPPED, view, pending=None)
        case SetZone():
            return None
        case Answer():
            return asked(replies.WHAT, pending, view)
        case Act(is_sure=True, target=target):
            found = find(target, view.entries, view.memory.last, now=view.now)
            if found.entries:
                return None
    if await _is_new(text, parse):
        return None
    plan = await parse(pending.request)
    if plan.question or plan.when.type == "no-schedule":
        return await requested(f"{text} {pending.request}", view, parse)
    return Make(plan=plan, task=_task_of(text, await parse(text)))


def _task_of(text: str, plan: ParsedSchedule) -> str:
    """Return the task in "to stretch" or "remind me to stretch"."""
    task = plan.description or text
    return task[3:] if task.lower().startswith("to ") else task


def begins_a_request(text: str) -> bool:
    """Return whether a text opens as requests do, rather than answers."""
    return _BEGINNINGS.match(text.strip()) is not None
