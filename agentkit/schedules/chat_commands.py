"""First step of a chat: what kind of message it is, by its words alone. Anything unknown is a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentkit.schedules.chat_memory import Action


@dataclass(frozen=True, slots=True)
class Talk:
    """Something that is answered with words alone."""

    about: Literal["help", "greeting", "thanks", "zone"]


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
        how: ``to`` a new time, ``later`` or ``earlier`` by an amount, or ``say`` for another text.
        is_sure: The words can only be a change; no request begins so.
    """

    target: str
    how: Literal["to", "later", "earlier", "say"]
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

_THING: Final = (
    r"(?:reminders?|schedules?|alarms?|tasks?|jobs?|timers?|things?|ones|items|plans?|list|agenda|everything|all)"
)
_LEADING: Final = re.compile(
    r"^(?:(?:please|pls|plz|hey|hi|hello|ok|okay|so|well|oh|now|then|and|just|bot)\b[\s,!.]*"
    r"|(?:can|could|would|will) (?:you|u)\b\s*|(?:i'd|i would) like (?:you )?to\s+|i want (?:you )?to\s+|let's\s+)+"
)
_TRAILING: Final = re.compile(r"[\s,]+(?:please|pls|plz|now|thanks|thank you|for me|again|right away)$")

_HELP: Final = re.compile(
    r"(?:/?help(?: me)?|h|/\?|commands|usage|/start|what can (?:you|i) (?:do|say)|how (?:does this|do you) work"
    r"|who are you|what are you|what is this)"
)
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|hiya|yo|good (?:morning|afternoon|evening|day)|servus|moin)(?: there| bot)?"
)
_THANKS: Final = re.compile(
    r"(?:thanks|thank you|thx|ty|cheers|great|cool|perfect|nice|good|awesome)(?: (?:a lot|so much|very much|bot))?"
)
_ZONE: Final = re.compile(
    r"(?:what(?:'s| is)?|which|show)?\s*(?:my |the |your )?time ?zone(?: is (?:it|this)| do you use| am i in)?\??"
)
_SET_ZONE: Final = re.compile(
    r"(?:(?:set|change|switch) (?:my |the )?time ?zone (?:to|=)|(?:my )?time ?zone(?: is|:| =)?|use (?:the )?time ?zone) "
    r"(?P<name>[a-z][\w+\-/ ]*)"
    r"|(?:use|i'm on|i am on|switch to) (?P<place>[a-z][\w+\-/ ]*?) time"
)
_LIST: Final = re.compile(
    rf"(?:(?:/?list|/?ls|show)(?: me)?(?: all)?(?: of)?(?: my| the| your| them| it)?(?: {_THING})?(?: there are| you have)?"
    rf"|(?:all )?(?:my |the )?(?:schedules|reminders|agenda|upcoming(?: {_THING})?|status|pending(?: {_THING})?)"
    rf"|what(?:'s| is| else is|s)? (?:on (?:my |the )?(?:schedule|agenda|list|plan)|scheduled|planned|pending|coming(?: up)?|next|up(?: next)?|set|active)"
    rf"|what (?:do (?:i|you|we) have|have (?:i|you|we)(?: got)?|did i)(?: {_THING})?(?: (?:scheduled|planned|coming up|set(?: up)?|schedule|ask|for me))*"
    rf"|(?:what|which)(?: are)?(?: my| the)? {_THING}(?: (?:do i have|are there|have i(?: got)?|are (?:set|active|scheduled|planned|pending)))?"
    rf"|(?:do i have|are there|have i got) (?:any|some) {_THING}(?: (?:scheduled|planned|set))?)"
)
_WHEN: Final = re.compile(
    r"(?:when(?:'s| is| does| do| will|s)?|show(?: me)?|what about|how about) (?P<target>.+?)"
    r"(?: (?:be )?(?:next|run|running|fire|due|go off|come|happen|scheduled|planned|set for|start))*"
)
_YES: Final = re.compile(
    r"(?:y|yes|yep|yeah|yup|sure|ok|okay|do it|do that|go ahead|confirm|confirmed|correct|right|of course|definitely|fine|ja|oui|si|sí"
    r"|all of them|yes,? all(?: of them)?)"
)
_NO: Final = re.compile(
    r"(?:n|no|nope|nah|don't|do not|dont|never ?mind|forget (?:it|that|about it)|cancel that question|abort|none|neither|no thanks|nein|non"
    r"|leave (?:it|them|that)(?: as (?:it is|they are))?|keep (?:it|them)(?: all)?)"
)

_NAMED: Final = (
    r"it|that|this|all|everything|(?:the )?last one|#?\d+|number \d+"
    r"|.*\b(?:reminder|schedule|alarm|one|timer|task|job|all)s?(?:\s.*)?"
)
_SURE: Final[tuple[tuple[Action, str], ...]] = (
    (
        "cancel",
        r"cancel|delete|remove|unschedule|erase|get rid of|/cancel|rm|del|no more"
        r"|(?:stop|quit) (?:reminding|telling|pinging|notifying|messaging) me(?: (?:to|about|of|that))?"
        r"|(?:don't|dont|do not) (?:remind|tell|ping|notify) me(?: (?:to|about|of|that))?(?: any ?more)?",
    ),
    ("pause", r"pause|suspend|/pause"),
    ("resume", r"resume|unpause|un-pause|reactivate|unmute|/resume"),
)
# These begin requests too ("stop the oven in ten minutes"), those of the second table nearly always.
_UNSURE: Final[tuple[tuple[Action, str], ...]] = (
    ("cancel", r"stop|scrap|kill"),
    ("pause", r"mute|halt|disable|put on hold"),
    ("resume", r"enable|continue"),
)
_RARE: Final[tuple[tuple[Action, str], ...]] = (
    ("cancel", r"drop|clear|end|turn off|switch off|forget(?: about)?|i don't (?:need|want)"),
    ("pause", r"hold"),
    ("resume", r"turn on|switch on|restart|start|carry on with"),
)
_ACTS: Final = (
    *((action, True, re.compile(rf"(?:{verbs})(?:\s+(?P<target>.+))?")) for action, verbs in _SURE),
    *((action, False, re.compile(rf"(?:{verbs})(?:\s+(?P<target>.+))?")) for action, verbs in _UNSURE),
    *((action, False, re.compile(rf"(?:{verbs})\s+(?P<target>{_NAMED})")) for action, verbs in _RARE),
)

_IT: Final = r"(?:it|that|this|that one|this one|the last one|the last|#\d+|number \d+|no\.? ?\d+)"
_MAKE: Final = re.compile(
    rf"(?:make|set|change|turn|switch|move|put|get)\s+(?P<target>{_IT}|the .+? (?:one|reminder))\s+(?:(?:to|into|for|be|run|on)\s+)?(?P<words>.+)"
)
_MOVE: Final = re.compile(
    r"(?P<verb>move|reschedule|shift|change|set|switch|update|adjust|push|postpone|delay|snooze|bring|put off|edit)\s+(?P<rest>.+)"
)
_BETWEEN: Final = re.compile(
    r"\s+(?:(?P<way>back|forward|forwards|ahead|up|out)\s+)?(?P<preposition>to|until|till|for|by|at|on|into)\s+"
)
_CORRECTION: Final = re.compile(
    r"(?:(?:no|nope|sorry|wait|actually|rather|instead|better|i mean|i meant|make it)[\s,.:!–-]+)+(?P<words>.+?)(?:[\s,]+instead)?"
)
_INSTEAD: Final = re.compile(r"(?P<words>.+?)[\s,]+instead")
_SHIFT: Final = re.compile(
    rf"(?:(?:make|move|do|run)\s+)?(?:(?P<target>{_IT})\s+)?(?P<words>.+?)\s+(?P<way>later|earlier|sooner)"
)
_SNOOZE: Final = re.compile(
    rf"(?:snooze|again|once more|remind me again)(?:\s+{_IT})?(?:\s+(?:for|in|by))?\s+(?P<words>.+)"
)
_SAY: Final = re.compile(
    rf"(?:rename\s+(?P<renamed>.+?)\s+(?:to|as|into)"
    rf"|(?:make|let|have)\s+(?P<said>{_IT}|the .+? (?:one|reminder))\s+say"
    rf"|change\s+(?:the\s+)?(?:text|words|wording|message|task)(?:\s+of\s+(?P<worded>.+?))?\s+to)[\s:]+(?P<words>.+)",
    re.IGNORECASE,
)


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
    words = _LEADING.sub("", words)
    while (shorter := _TRAILING.sub("", words)) != words:
        words = shorter
    return words.strip()


def _known(words: str) -> Command | None:
    """Return messages that are known as a whole."""
    if _HELP.fullmatch(words):
        return Talk("help")
    if _YES.fullmatch(words):
        return Answer(is_yes=True)
    if _NO.fullmatch(words):
        return Answer(is_yes=False)
    if _LIST.fullmatch(words):
        return Show()
    if _GREETING.fullmatch(words):
        return Talk("greeting")
    if _THANKS.fullmatch(words):
        return Talk("thanks")
    if _ZONE.fullmatch(words):
        return Talk("zone")
    zone = _SET_ZONE.fullmatch(words)
    return SetZone(zone["name"] or zone["place"]) if zone else None


def _acting(words: str) -> Act | None:
    for action, is_sure, pattern in _ACTS:
        found = pattern.fullmatch(words)
        if found:
            return Act(action, found["target"] or "", is_sure)
    return None


def _showing(words: str) -> Show | None:
    found = _WHEN.fullmatch(words)
    return Show(found["target"]) if found else None


def _changing(words: str, plain: str) -> Change | None:
    said = _SAY.fullmatch(_without_leading(plain))
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
    found = _LEADING.match(plain.lower())
    return plain[found.end() :] if found else plain


def _snoozing(words: str) -> list[Split]:
    found = _SNOOZE.fullmatch(words)
    return [Split("it", "to", f"in {found['words']}", is_sure=True)] if found else []


def _shifting(words: str) -> list[Split]:
    found = _SHIFT.fullmatch(words)
    if not found:
        return []
    return [Split(found["target"] or "it", "later" if found["way"] == "later" else "earlier", found["words"])]


def _correcting(words: str) -> list[Split]:
    found = _CORRECTION.fullmatch(words) or _INSTEAD.fullmatch(words)
    return [Split("it", "to", found["words"])] if found else []


def _making(words: str) -> list[Split]:
    found = _MAKE.fullmatch(words.removesuffix(" instead"))
    return [Split(found["target"], "to", found["words"])] if found else []


def _moving(words: str) -> list[Split]:
    found = _MOVE.fullmatch(words.removesuffix(" instead"))
    if not found:
        return []
    verb, rest = found["verb"], found["rest"]
    readings = []
    for between in _BETWEEN.finditer(rest):
        target, after = rest[: between.start()], rest[between.end() :]
        by = between["preposition"] == "by" or (verb in ("delay", "postpone") and between["preposition"] == "for")
        if not by:
            readings.append(Split(target, "to", after))
            continue
        is_earlier = verb == "bring" or between["way"] in ("forward", "forwards", "ahead", "up")
        readings.append(Split(target, "earlier" if is_earlier else "later", after))
    return readings
