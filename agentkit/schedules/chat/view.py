"""What a chat decides on, and what it may decide: the values between its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from agentkit.schedules.chat.memory import Action, Memory, Pending
from agentkit.schedules.chat.targets import Entry

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule


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
    """Cancel, pause or resume.

    Attributes:
        missing: Numbers that were named as well and that no schedule has.
    """

    action: Action
    entries: tuple[Entry, ...]
    missing: tuple[int, ...] = ()


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


def said(reply: str, view: View, **remembered: object) -> Say:
    """Answer, and remember these fields of the memory."""
    return Say(reply=reply, memory=replace(view.memory, **remembered))  # type: ignore[arg-type]  # fields of Memory


def asked(question: str, pending: Pending, view: View) -> Say:
    """Ask, and remember what was asked."""
    return said(question, view, pending=pending)
