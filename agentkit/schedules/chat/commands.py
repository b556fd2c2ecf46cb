"""First step of a chat: what kind of message it is, by its words alone. Anything unknown is a request."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

from agentkit.schedules.chat import phrases as phrases
from agentkit.schedules.chat.memory import Action

#: "Move it to the left to the top to …" is no change of a schedule.
_MOST_READINGS: Final = 8


@dataclass(frozen=True, slots=True)
class Talk:
    """Something that is answered with words alone."""

    about: Literal["help", "greeting", "thanks", "zone", "undo"]


@dataclass(frozen=True, slots=True)
class Show:
    """Show schedules: those that ``target`` names, all of them if it is empty."""

    target: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A bare yes or no."""

    is_yes: bool


@dataclass(frozen=True, slots=True)
class Act:
    """Cancel, pause or resume what ``target`` names.

    Attributes:
        is_sure: The verb alone tells; others ("stop", "clear") begin requests as well.
    """

    action: Action
    target: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Split:
    """One way to read a change: which schedule, and what its new time is.

    Attributes:
        how: ``to`` a new time, ``later`` or ``earlier`` by an amount, ``snooze`` for an amount (empty: not said), or
            ``say`` for another text.
        is_sure: The words can only be a change; no request begins so.
    """

    target: str
    how: Literal["to", "later", "earlier", "snooze", "say"]
    words: str
    is_sure: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Change a schedule; the first reading that makes sense counts."""

    readings: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class SetZone:
    """Use another time zone from now on."""

    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """Anything else: something to schedule, or the answer to a question."""


Command: TypeAlias = Talk | Show | Answer | Act | Change | SetZone | Request


def read_command(text: str) -> Command:
    """Return what kind of message this is.

    >>> read_command("Please cancel the report one.")
    Act(action='cancel', target='the report one', is_sure=True)
    """
    plain = text.strip().strip("\"'“”").rstrip(" .!?…")
    if text.strip() == "?":
        return Talk("help")
    words = " ".join(plain.lower().replace("’", "'").split())
    bare = _without_courtesies(words)
    for candidate in dict.fromkeys((words, bare)):
        found = _known(candidate)
        if found is not None:
            return found
    return _acting(bare) or _changing(bare, plain) or _showing(bare) or Request()


def _without_courtesies(words: str) -> str:
    words = phrases.LEADING.sub("", words)
    while (shorter := phrases.TRAILING.sub("", words)) != words:
        words = shorter
    return words.strip()


def _known(words: str) -> Command | None:
    """Return messages that are known as a whole."""
    if phrases.HELP.fullmatch(words):
        return Talk("help")
    if phrases.YES.fullmatch(words):
        return Answer(is_yes=True)
    if phrases.NO.fullmatch(words):
        return Answer(is_yes=False)
    if phrases.LIST.fullmatch(words):
        return Show()
    if phrases.GREETING.fullmatch(words):
        return Talk("greeting")
    if phrases.THANKS.fullmatch(words):
        return Talk("thanks")
    if phrases.UNDO.fullmatch(words):
        return Talk("undo")
    if phrases.ZONE.fullmatch(words):
        return Talk("zone")
    zone = phrases.SET_ZONE.fullmatch(words)
    return SetZone(zone["name"] or zone["place"]) if zone else None


def _acting(words: str) -> Act | None:
    for action, is_sure, pattern in phrases.ACTS:
        found = pattern.fullmatch(words)
        if found:
            return Act(action, found["target"] or "", is_sure)
    return None


def _showing(words: str) -> Show | None:
    found = phrases.WHEN.fullmatch(words)
    return Show(found["target"] or found["state_of"]) if found else None


def _changing(words: str, plain: str) -> Change | None:
    said = phrases.SAY.fullmatch(_without_leading(plain))
    if said:
        target = said["renamed"] or said["said"] or said["worded"] or "it"
        return Change((Split(target.lower(), "say", said["words"], is_sure=True),))
    readings = [
        *_snoozing(words),
        *_shifting(words),
        *_correcting(words),
        *_making(words),
        *_moving(words),
    ]
    return Change(tuple(readings)) if readings else None


def _without_leading(plain: str) -> str:
    found = phrases.LEADING.match(plain.lower())
    return plain[found.end() :] if found else plain


def _snoozing(words: str) -> list[Split]:
    found = phrases.SNOOZE.fullmatch(words)
    if not found:
        return []
    rest = found["rest"] or found["again"] or "it"
    bare = Split(rest, "snooze", "", is_sure=True)
    amounts = [
        Split(amount["target"] or "it", "snooze", amount["words"], is_sure=True)
        for pattern in phrases.SNOOZED
        if (amount := pattern.fullmatch(rest))
    ]
    # "Snooze 4" is about the schedule of that number, if there is one.
    return [bare, *amounts] if phrases.A_NUMBER.fullmatch(rest) or phrases.POINTER.fullmatch(rest) else [*amounts, bare]


def _shifting(words: str) -> list[Split]:
    added = phrases.ADD.fullmatch(words)
    if added:
        return [Split("it", "later", added["words"])]
    found = phrases.SHIFT.fullmatch(words)
    if not found:
        return []
    return [Split(found["target"] or "it", "later" if found["way"] == "later" else "earlier", found["words"])]


def _correcting(words: str) -> list[Split]:
    found = phrases.CORRECTION.fullmatch(words) or phrases.INSTEAD.fullmatch(words)
    return [Split("it", "to", found["words"])] if found else []


def _making(words: str) -> list[Split]:
    found = phrases.MAKE.fullmatch(words.removesuffix(" instead"))
    return [Split(found["target"], "to", found["words"])] if found else []


def _moving(words: str) -> list[Split]:
    found = phrases.MOVE.fullmatch(words.removesuffix(" instead"))
    if not found or found["verb"] == "snooze":
        return []
    verb, rest = found["verb"], found["rest"]
    readings = []
    for between in islice(phrases.BETWEEN.finditer(rest), _MOST_READINGS):
        target, after = rest[: between.start()], rest[between.end() :]
        way = between["way"] or between["bare_way"]
        is_amount = between["preposition"] in (None, "by") or (
            verb in ("delay", "postpone") and between["preposition"] == "for"
        )
        if not is_amount:
            readings.append(Split(target, "to", after))
            continue
        is_earlier = verb == "bring" or way in ("forward", "forwards", "ahead", "up")
        readings.append(Split(target, "earlier" if is_earlier else "later", after))
    return readings
