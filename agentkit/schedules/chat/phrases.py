"""The phrases a chat knows, in lower case and without courtesies: which words are which command."""

from __future__ import annotations

import re
from typing import Final

from agentkit.schedules.chat.memory import Action

_THING: Final = (
    r"(?:reminders?|schedules?|alarms?|tasks?|jobs?|timers?|things?|ones|items|plans?|list|agenda|everything|all)"
)
_STATE: Final = r"(?:scheduled|planned|pending|active|set(?: up)?|coming(?: up)?)"
#: One schedule, told apart from the first words of a request.
IT: Final = r"(?:it|that|this|that one|this one|the last one|the last|#\d+|number \d+|no\.? ?\d+)"
_ONE: Final = rf"(?:{IT}|the .+? (?:one|reminder))"


def _any_of(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases))


LEADING: Final = re.compile(
    r"^(?:(?:please|pls|plz|hey|hi|hello|ok|okay|so|well|oh|now|then|and|just|bot)\b[\s,!.]*"
    r"|(?:can|could|would|will) (?:you|u)\b\s*|(?:i'd|i would) like (?:you )?to\s+|i want (?:you )?to\s+|let's\s+)+"
)
TRAILING: Final = re.compile(r"[\s,]+(?:please|pls|plz|now|thanks|thank you|for me|again|right away|any ?more)$")

# --- messages known as a whole

HELP: Final = _any_of(
    r"/?help(?: me)?|h|/\?|commands|usage|/start",
    r"what can (?:you|i) (?:do|say)|how (?:does this|do you) work|who are you|what are you|what is this",
)
GREETING: Final = _any_of(
    r"(?:hi|hello|hey|hiya|yo|good (?:morning|afternoon|evening|day)|servus|moin)(?: there| bot)?"
)
THANKS: Final = _any_of(
    r"(?:thanks|thank you|thx|ty|cheers|great|cool|perfect|nice|good|awesome)(?: (?:a lot|so much|very much|bot))?"
)
ZONE: Final = _any_of(
    r"(?:(?:what|which|show)(?:'s| is)? )?(?:my |the |your )?time ?zone(?: is (?:it|this)| do you use| am i in)?"
)
SET_ZONE: Final = _any_of(
    r"(?:(?:set|change|switch) (?:my |the )?time ?zone (?:to|=)|(?:use |my )?(?:the )?time ?zone(?: is|:| =)?)"
    r" (?P<name>[a-z][\w+\-/ ]*)",
    r"(?:use|i'm on|i am on|switch to) (?P<place>[a-z][\w+\-/ ]*?) time",
)
LIST: Final = _any_of(
    rf"(?:/?list|/?ls|show)(?: me)?(?: all)?(?: of)?(?: my| the| your| them)?(?: {_THING})?(?: there are| you have)?",
    rf"(?:all )?(?:my |the )?(?:schedules|reminders|agenda|status|(?:upcoming|pending)(?: {_THING})?)",
    rf"what(?:'s| is| else is|s)? (?:on (?:my |the )?(?:schedule|agenda|list|plan)|next|up(?: next)?|{_STATE})",
    rf"what (?:do (?:i|you|we) have|have (?:i|you|we)(?: got)?|did i)(?: {_THING})?"
    rf"(?: (?:{_STATE}|schedule|ask|for me))*",
    rf"(?:what|which)(?: are)?(?: my| the)? {_THING}(?: (?:do i have|are there|have i(?: got)?|are {_STATE}))?",
    rf"(?:do i have|are there|have i got) (?:any|some) {_THING}(?: {_STATE})?",
    rf"how many {_THING}(?: (?:do i have|are there|have i(?: got)?|are {_STATE}))?|anything {_STATE}",
)
YES: Final = _any_of(
    r"y|yes|yep|yeah|yup|sure|ok|okay|do (?:it|that)|go ahead|confirm(?:ed)?|correct|right|of course|definitely|fine",
    r"ja|oui|si|sí|all of them|yes,? all(?: of them)?",
)
NO: Final = _any_of(
    r"n|no|nope|nah|don't|do not|dont|never ?mind|forget (?:it|that|about it)|abort|none|neither|no thanks|nein|non",
    r"leave (?:it|them|that)(?: as (?:it is|they are))?|keep (?:it|them)(?: all)?",
)
UNDO: Final = _any_of(r"undo(?: (?:it|that|this))?|take (?:it|that) back|revert(?: (?:it|that))?")
WHEN: Final = _any_of(
    rf"(?:is|are) (?P<state_of>.+?) (?:still )?(?:paused|on|off|{_STATE})",
    r"(?:when(?:'s| is| does| do| will|s)?|show(?: me)?|what about|how about) (?P<target>.+?)"
    r"(?: (?:be )?(?:next|run|running|fire|due|go off|come|happen|scheduled|planned|set for|start))*",
)

# --- cancel, pause, resume

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
#: What is done, whether the verb alone tells, and the pattern.
ACTS: Final = (
    *((action, True, re.compile(rf"(?:{verbs})(?:\s+(?P<target>.+))?")) for action, verbs in _SURE),
    *((action, False, re.compile(rf"(?:{verbs})(?:\s+(?P<target>.+))?")) for action, verbs in _UNSURE),
    *((action, False, re.compile(rf"(?:{verbs})\s+(?P<target>{_NAMED})")) for action, verbs in _RARE),
)

# --- changes

MAKE: Final = re.compile(
    rf"(?:make|set|change|turn|switch|move|put|get)\s+(?P<target>{_ONE})\s+"
    r"(?:(?:to|into|for|be|run|on)\s+)?(?P<words>.+)"
)
MOVE: Final = re.compile(
    r"(?P<verb>move|reschedule|shift|change|set|switch|update|adjust|push|postpone|delay|snooze|bring|put off|edit)"
    r"\s+(?P<rest>.+)"
)
BETWEEN: Final = re.compile(
    r"\s+(?:(?P<way>back|forwards?|ahead|up|out)\s+)?(?P<preposition>to|until|till|for|by|at|on|into)\s+"
    r"|\s+(?P<bare_way>back|forwards?|ahead|up)\s+"
)
ADD: Final = re.compile(r"add (?P<words>.+?)(?: to (?:it|that))?")
CORRECTION: Final = re.compile(
    r"(?:(?:no|nope|sorry|wait|actually|rather|instead|better|i mean|i meant|make it)[\s,.:!–-]+)+"
    r"(?P<words>.+?)(?:[\s,]+instead)?"
)
INSTEAD: Final = re.compile(r"(?P<words>.+?)[\s,]+instead")
SHIFT: Final = re.compile(
    rf"(?:(?:make|move|do|run)\s+)?(?:(?P<target>{IT})\s+)?(?P<words>.+?)\s+(?P<way>later|earlier|sooner)"
)
SNOOZE: Final = re.compile(r"snooze(?:\s+(?P<rest>.+))?|(?:again|once more|remind me again)\s+(?P<again>.+)")
#: What follows "snooze": the schedule and the amount, or the moment.
SNOOZED: Final = (
    re.compile(r"(?:(?P<target>.+?)\s+)?(?P<words>(?:until|till|to)\s+.+)"),
    re.compile(r"(?P<target>.+?)\s+(?:for|in|by)\s+(?P<words>.+)"),
    re.compile(rf"(?:(?P<target>{IT}|\d+(?=\s+(?:\d|an?\b|half\b)))\s+)?(?:(?:for|in|by)\s+)?(?P<words>.+)"),
)
POINTER: Final = re.compile(IT)
A_NUMBER: Final = re.compile(r"(?:#|no\.? ?|number )?\d+")
SAY: Final = re.compile(
    rf"(?:rename\s+(?P<renamed>.+?)\s+(?:to|as|into)|(?:make|let|have)\s+(?P<said>{_ONE})\s+say"
    rf"|change\s+(?:the\s+)?(?:text|words|wording|message|task)(?:\s+of\s+(?P<worded>.+?))?\s+to)[\s:]+(?P<words>.+)",
    re.IGNORECASE,
)
