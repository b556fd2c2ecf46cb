"""Second step of a chat: what to do about a message, given what is scheduled and what was asked. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from agentkit.clock import to_ms
from agentkit.schedules import chat_replies as replies
from agentkit.schedules.chat_answers import begins_a_request, completed, is_complete
from agentkit.schedules.chat_changes import Parse, changed, is_pure, shifted
from agentkit.schedules.chat_commands import (
    Act,
    Answer,
    Change,
    Command,
    Request,
    SetZone,
    Show,
    Split,
    Talk,
    read_command,
)
from agentkit.schedules.chat_memory import Action, Memory, Pending
from agentkit.schedules.chat_targets import Entry, find

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_MOST_TRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a decision goes by.

    Attributes:
        entries: All schedules made by this chat, the next to run first.
        now: Aware.
        timezone: IANA name of the person's zone.
    """

    memory: Memory
    entries: tuple[Entry, ...]
    now: datetime
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Answer, and remember."""

    reply: str
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """Make a schedule."""

    plan: ParsedSchedule
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Cancel, pause or resume."""

    action: Action
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """Give a schedule another time (None: the same) and another task."""

    entry: Entry
    plan: ParsedSchedule | None
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseZone:
    """Read times in another zone from now on."""

    name: str


Decision: TypeAlias = Say | Make | Apply | Alter | UseZone


async def decide(text: str, view: View, parse: Parse) -> Decision:
    """Return what to do about a message.

    Args:
        text: The message, without control sequences, not blank.
        view: What is scheduled and what was asked.
        parse: Reads a text as a request.
    """
    command = read_command(text)
    pending = view.memory.open_question(view.now)
    if pending is not None and not isinstance(command, Talk | Show):
        decision = await _answered(pending, command, text, view, parse)
        if decision is not None:
            return decision
        view = replace(view, memory=replace(view.memory, pending=None))
    return await _commanded(command, text, view, parse)


async def _commanded(command: Command, text: str, view: View, parse: Parse) -> Decision:
    match command:
        case Talk():
            return _said(_talk(command, view), view)
        case Show(target=target):
            return await _shown(target, text, view, parse)
        case Answer(is_yes=is_yes):
            return _said(replies.ALL_RIGHT if is_yes else replies.NOTHING_OPEN, view)
        case SetZone(name=name):
            return UseZone(name=name)
        case Act():
            return await _acted(command, text, view, parse)
        case Change(readings=readings):
            return await _changing(readings, text, view, parse)
        case Request():
            return await _requested(text, view, parse)


def _said(reply: str, view: View, **remembered: object) -> Say:
    return Say(reply=reply, memory=replace(view.memory, **remembered))  # type: ignore[arg-type]  # fields of Memory


def _asked(question: str, pending: Pending, view: View) -> Say:
    return _said(question, view, pending=pending)


def _talk(command: Talk, view: View) -> str:
    if command.about == "zone":
        return replies.zone(view.timezone, view.now)
    return {"help": replies.HELP, "greeting": replies.HELLO, "thanks": replies.WELCOME}[command.about]


async def _shown(target: str, text: str, view: View, parse: Parse) -> Decision:
    if not target:
        return _said(replies.listed(view.entries, view.now), view)
    found = find(target, view.entries, view.memory.last, now=view.now)
    if found.entries and found.is_sure:
        last = found.entries[0].number if len(found.entries) == 1 else view.memory.last
        return _said(replies.listed(found.entries, view.now), view, last=last)
    plan = await parse(text)
    if is_complete(plan):
        return Make(plan=plan, task=plan.description)
    return _said(replies.not_found(target, view.entries, view.now), view)


# --- requests


async def _requested(text: str, view: View, parse: Parse) -> Decision:
    """Schedule what is clear, ask about what is not."""
    plan = await parse(text)
    asked_at_ms = to_ms(view.now)
    if plan.question:
        pending = Pending(
            kind="when", asked_at_ms=asked_at_ms, request=text, task=plan.description, question=plan.question
        )
        return _asked(plan.question, pending, view)
    if plan.when.type == "no-schedule":
        open_end = Pending(kind="when", asked_at_ms=asked_at_ms, request=text, task=plan.description)
        return _said(replies.NOT_UNDERSTOOD, view, pending=None if text.endswith("?") else open_end)
    if is_pure(plan):
        return _asked(replies.WHAT, Pending(kind="what", asked_at_ms=asked_at_ms, request=text), view)
    return Make(plan=plan, task=plan.description)


# --- answers to what was asked


async def _answered(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    """Return what an answer leads to; None if the message is none."""
    match pending.kind:
        case "which":
            return await _chosen(pending, command, text, view, parse)
        case "when":
            return await _timed(pending, command, text, view, parse)
        case "what":
            return await _named(pending, command, text, view, parse)


async def _chosen(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    candidates = tuple(entry for entry in view.entries if entry.number in pending.numbers)
    if isinstance(command, Answer):
        if not command.is_yes:
            return _said(replies.LEFT_ALONE, view, pending=None)
        if pending.is_all or len(candidates) == 1:
            return _applied(pending.action, candidates, view)
        return _said(replies.which(pending.action, candidates, view.now), view)
    if not isinstance(command, Request) or is_complete(await parse(text)):
        return None
    found = find(text.lower(), candidates, None, now=view.now)
    if found.is_all or found.is_named or (found.is_sure and len(found.entries) == 1):
        return _applied(pending.action, found.entries, view)
    return None


async def _timed(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    match command:
        case Answer(is_yes=False) | Act(action="cancel", target="" | "it" | "that" | "this"):
            return _said(replies.DROPPED, view, pending=None) if pending.question else None
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
            return _asked(replies.WHAT, what, view)
    if not pending.question or await _is_new(text, parse):
        return None
    if pending.tries + 1 >= _MOST_TRIES:
        return _said(replies.NOT_UNDERSTOOD, view, pending=None)
    return _asked(replies.asked_again(pending.question), replace(pending, tries=pending.tries + 1), view)


async def _is_new(text: str, parse: Parse) -> bool:
    plan = await parse(text)
    return is_complete(plan) or (plan.question is not None and begins_a_request(text))


async def _named(pending: Pending, command: Command, text: str, view: View, parse: Parse) -> Decision | None:
    match command:
        case Answer(is_yes=False) | Act(action="cancel", target="" | "it" | "that" | "this"):
            return _said(replies.DROPPED, view, pending=None)
        case Answer():
            return _asked(replies.WHAT, pending, view)
        case Act(is_sure=True, target=target):
            found = find(target, view.entries, view.memory.last, now=view.now)
            if found.entries:
                return None
    if is_complete(await parse(text)):
        return None
    plan = await parse(pending.request)
    if plan.question or plan.when.type == "no-schedule":
        return await _requested(f"{text} {pending.request}", view, parse)
    return Make(plan=plan, task=_task_of(text, await parse(text)))


def _task_of(text: str, plan: ParsedSchedule) -> str:
    """Return the task in "to stretch" or "remind me to stretch"."""
    task = plan.description or text
    return task[3:] if task.lower().startswith("to ") else task


# --- cancel, pause, resume


async def _acted(command: Act, text: str, view: View, parse: Parse) -> Decision:
    action, target = command.action, command.target
    entries = _fitting(action, view.entries)
    if not target:
        return _one_of(action, entries, view)
    found = find(target, view.entries, view.memory.last, now=view.now)
    if found.is_all:
        if action != "cancel" or not view.entries:
            return _applied(action, entries, view)
        return _ask_which(action, found.entries, view, is_all=True)
    if found.is_pointer and not found.entries:
        return _said(_nothing_pointed_at(view), view)
    if found.entries and found.is_sure:
        if found.is_named or len(found.entries) == 1:
            return _applied(action, found.entries, view)
        return _one_of(action, _fitting(action, found.entries) or found.entries, view)
    if found.entries and command.is_sure:
        return _ask_which(action, found.entries, view)
    if not command.is_sure or is_complete(await parse(text)):
        return await _requested(text, view, parse)
    return _said(replies.not_found(target, view.entries, view.now), view)


def _fitting(action: Action, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return those to which an action makes a difference."""
    if action == "cancel":
        return tuple(entries)
    return tuple(entry for entry in entries if entry.schedule.paused == (action == "resume"))


def _one_of(action: Action, entries: tuple[Entry, ...], view: View) -> Decision:
    if len(entries) == 1:
        return _applied(action, entries, view)
    if not entries:
        return _said(replies.nothing_to(action, is_any=bool(view.entries)), view)
    return _ask_which(action, entries, view)


def _ask_which(action: Action, entries: tuple[Entry, ...], view: View, *, is_all: bool = False) -> Say:
    pending = Pending(
        kind="which",
        asked_at_ms=to_ms(view.now),
        action=action,
        numbers=tuple(entry.number for entry in entries),
        is_all=is_all,
    )
    if is_all or len(entries) == 1:
        return _asked(replies.whether(action, entries, view.now, is_all=is_all), pending, view)
    return _asked(replies.which(action, entries, view.now), pending, view)


def _applied(action: Action, entries: tuple[Entry, ...], view: View) -> Decision:
    fitting = _fitting(action, entries)
    if fitting:
        return Apply(action=action, entries=fitting)
    if len(entries) == 1:
        return _said(replies.already(action, entries[0]), view, pending=None, last=entries[0].number)
    return _said(replies.nothing_to(action, is_any=bool(view.entries)), view, pending=None)


def _nothing_pointed_at(view: View) -> str:
    if view.memory.last_task:
        return replies.over(view.memory.last_task)
    return replies.not_found("", view.entries, view.now)


# --- changes


async def _changing(readings: tuple[Split, ...], text: str, view: View, parse: Parse) -> Decision:
    meant: list[tuple[Split, tuple[Entry, ...]]] = []
    for reading in readings:
        found = find(reading.target, view.entries, view.memory.last, now=view.now)
        if not found.is_sure or found.is_all:
            continue
        if found.entries or found.is_pointer:
            meant.append((reading, found.entries))
        if len(found.entries) == 1:
            decision = await _altered(reading, found.entries[0], view, parse)
            if decision is not None:
                return decision
    plan = await parse(text)
    if is_complete(plan) and not any(reading.is_sure for reading, _ in meant):
        return Make(plan=plan, task=plan.description)
    if not meant:
        return await _requested(text, view, parse)
    reading, entries = meant[0]
    if not entries:
        return await _again(reading, view, parse)
    if len(entries) > 1:
        return _said(replies.several(entries, view.now), view)
    return _said(replies.not_changed(entries[0], reading.words), view, last=entries[0].number)


async def _altered(reading: Split, entry: Entry, view: View, parse: Parse) -> Alter | None:
    schedule = entry.schedule
    match reading.how:
        case "say":
            return Alter(entry=entry, plan=None, task=reading.words.strip(" \"'“”"))
        case "later" | "earlier":
            plan = await shifted(schedule, reading.words, parse, way=reading.how, now=view.now)
        case "to":
            plan = await changed(schedule, reading.words, parse, now=view.now)
    return None if plan is None else Alter(entry=entry, plan=plan, task=entry.task)


async def _again(reading: Split, view: View, parse: Parse) -> Decision:
    """Make a schedule that has run once more, if that is what the words ask for."""
    plan = await parse(reading.words)
    if reading.is_sure and view.memory.last_task and is_pure(plan):
        return Make(plan=plan, task=view.memory.last_task)
    return _said(_nothing_pointed_at(view), view)
