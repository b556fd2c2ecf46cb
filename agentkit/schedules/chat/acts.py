"""What to do about "cancel …", "pause …" and "resume …"."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.clock import to_ms
from agentkit.schedules.chat import replies
from agentkit.schedules.chat.commands import Act
from agentkit.schedules.chat.memory import Action, Pending
from agentkit.schedules.chat.requests import requested
from agentkit.schedules.chat.targets import Entry, find
from agentkit.schedules.chat.timing import Parse, is_complete
from agentkit.schedules.chat.view import Apply, Decision, Say, View, asked, said


async def acted(command: Act, text: str, view: View, parse: Parse) -> Decision:
    """Return what to do: act, ask which schedule is meant, or take the message for a request after all."""
    action, target = command.action, command.target
    entries = _fitting(action, view.entries)
    if not target:
        return _one_of(action, entries, view)
    found = find(target, view.entries, view.memory.last, now=view.now)
    if found.is_all:
        if action != "cancel" or not view.entries:
            return applied(action, entries, view)
        return _ask_which(action, found.entries, view, is_all=True)
    if found.is_pointer and not found.entries:
        return said(nothing_pointed_at(view), view)
    if found.entries and found.is_sure:
        if found.is_named or len(found.entries) == 1:
            return applied(action, found.entries, view, found.missing)
        return _one_of(action, _fitting(action, found.entries) or found.entries, view)
    if found.entries and command.is_sure:
        return _ask_which(action, found.entries, view)
    # "Cancel the subscription tomorrow at 9" is something to do; nobody pauses a subscription.
    if not command.is_sure or (action == "cancel" and is_complete(await parse(text))):
        return await requested(text, view, parse)
    return said(replies.not_found(target, view.entries, view.now), view)


def _fitting(action: Action, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return those to which an action makes a difference."""
    if action == "cancel":
        return tuple(entries)
    return tuple(entry for entry in entries if entry.schedule.paused == (action == "resume"))


def _one_of(action: Action, entries: tuple[Entry, ...], view: View) -> Decision:
    if len(entries) == 1:
        return applied(action, entries, view)
    if not entries:
        return said(replies.nothing_to(action, is_any=bool(view.entries)), view)
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
        return asked(replies.whether(action, entries, view.now, is_all=is_all), pending, view)
    return asked(replies.which(action, entries, view.now), pending, view)


def applied(action: Action, entries: tuple[Entry, ...], view: View, missing: tuple[int, ...] = ()) -> Decision:
    """Act on those of the schedules to which it makes a difference."""
    fitting = _fitting(action, entries)
    if fitting:
        return Apply(action=action, entries=fitting, missing=missing)
    if len(entries) == 1:
        reply = replies.already(action, entries[0]) + replies.missing(missing)
        return said(reply, view, pending=None, last=entries[0].number)
    return said(replies.nothing_to(action, is_any=bool(view.entries)), view, pending=None)


def nothing_pointed_at(view: View) -> str:
    """Say that "it" means nothing that is scheduled."""
    if view.memory.last_task:
        return replies.over(view.memory.last_task)
    return replies.not_found("", view.entries, view.now)
