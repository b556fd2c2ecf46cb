"""Second step of a chat: what to do about a message, given what is scheduled and what was asked. Changes nothing."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.chat import replies
from agentkit.schedules.chat.acts import acted
from agentkit.schedules.chat.answers import answered
from agentkit.schedules.chat.changes import changing
from agentkit.schedules.chat.commands import Act, Answer, Change, Command, Request, SetZone, Show, Talk, read_command
from agentkit.schedules.chat.requests import requested
from agentkit.schedules.chat.targets import find
from agentkit.schedules.chat.timing import Parse, is_complete
from agentkit.schedules.chat.view import Decision, Make, UseZone, View, said


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
        decision = await answered(pending, command, text, view, parse)
        if decision is not None:
            return decision
        view = replace(view, memory=replace(view.memory, pending=None))
    return await _commanded(command, text, view, parse)


async def _commanded(command: Command, text: str, view: View, parse: Parse) -> Decision:
    match command:
        case Talk():
            return said(_talk(command, view), view)
        case Show(target=target):
            return await _shown(target, text, view, parse)
        case Answer(is_yes=is_yes):
            return said(replies.ALL_RIGHT if is_yes else replies.NOTHING_OPEN, view)
        case SetZone(name=name):
            return UseZone(name=name)
        case Act():
            return await acted(command, text, view, parse)
        case Change(readings=readings):
            return await changing(readings, text, view, parse)
        case Request():
            return await requested(text, view, parse)


def _talk(command: Talk, view: View) -> str:
    if command.about == "zone":
        return replies.zone(view.timezone, view.now)
    return {"help": replies.HELP, "greeting": replies.HELLO, "thanks": replies.WELCOME, "undo": replies.NO_UNDO}[
        command.about
    ]


async def _shown(target: str, text: str, view: View, parse: Parse) -> Decision:
    if not target:
        return said(replies.listed(view.entries, view.now), view)
    found = find(target, view.entries, view.memory.last, now=view.now)
    if found.entries and found.is_sure:
        last = found.entries[0].number if len(found.entries) == 1 else view.memory.last
        return said(replies.listed(found.entries, view.now), view, last=last)
    plan = await parse(text)
    if is_complete(plan):
        return Make(plan=plan, task=plan.description)
    return said(replies.not_found(target, view.entries, view.now), view)
