"""From a model's labels to a plan: dates, seconds and cron come from the rules' own code, never from the model."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Final

from agentkit.errors import ParseError, ScheduleError
from agentkit.schedules.parser.label_timing import delay_timing, once_timing, repeat_timing, shown, timing_of
from agentkit.schedules.parser.meanings import Problem, Zone
from agentkit.schedules.parser.once import once
from agentkit.schedules.parser.parsed import NoSchedule, ParsedSchedule
from agentkit.schedules.parser.repeat import repeated
from agentkit.schedules.parser.tokens import FORBIDDEN
from agentkit.schedules.parser.validate import fault_of, too_often
from agentkit.schedules.parser.zones import ZONE_VOCABULARY, iana_zone, known_zone
from agentkit.schedules.wall_clock import zone_named

if TYPE_CHECKING:
    from agentkit.schedules.parser.reply import ScheduleReply

_LONGEST_QUESTION: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked to label.

    Attributes:
        text: The user's words.
        now: When they were said, aware.
        timezone: IANA name of the user's zone.
    """

    text: str
    now: datetime
    timezone: str


def plan_of(reply: ScheduleReply, request: Request) -> ParsedSchedule:
    """Return the plan that the labels mean, checked as every plan is.

    Raises:
        ParseError: If they contradict each other or the request, or make no schedule; the message tells a model why.
    """
    match reply.type:
        case "none":
            return ParsedSchedule(description=request.text.strip(), when=NoSchedule(), source="model")
        case "question":
            return _question(reply, request)
    if stray := reply.stray_labels():
        raise ParseError(f"type {reply.type} doesn't go with {', '.join(stray)}")
    task = _task(reply, request)
    zone_name, zone = _zone(reply, request)
    plan = _scheduled(reply, request.now, zone, zone_name)
    plan = replace(plan, description=task)
    fault = fault_of(plan, request.now) or too_often(plan, request.now)
    if fault is not None:
        raise ParseError(f"{fault}. If the request really says so, answer with a question")
    return plan


def _question(reply: ScheduleReply, request: Request) -> ParsedSchedule:
    question = " ".join(FORBIDDEN.sub("", reply.question or "").split())
    if not question:
        raise ParseError("type question needs the question to ask")
    if len(question) > _LONGEST_QUESTION:
        raise ParseError(f"the question has more than {_LONGEST_QUESTION} characters")
    return ParsedSchedule(description=_task(reply, request), when=NoSchedule(), question=question, source="model")


def _task(reply: ScheduleReply, request: Request) -> str:
    """Return the task, once it is certain that the model took it from the request."""
    task = " ".join(FORBIDDEN.sub("", reply.task).split())
    said = _folded(request.text)
    for word in re.findall(r"\w+", _folded(task)):
        if word not in said and (word.isascii() or not set(word) <= set(said)):
            raise ParseError("the task has words that aren't in the request; copy it from there, without the timing")
    return task


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _scheduled(reply: ScheduleReply, now: datetime, zone: tzinfo, zone_name: str) -> ParsedSchedule:
    if reply.type == "repeat":
        found = repeated(repeat_timing(reply), now, zone, zone_name)
        if isinstance(found, Problem):
            raise _asked_back(found)
        return ParsedSchedule(
            description="",
            when=found.when,
            until=found.until,
            count=found.count,
            starts_at=found.starts_at,
            source="model",
        )
    timing = delay_timing(reply) if reply.type == "delay" else once_timing(reply)
    when = once(timing, now, zone)
    if isinstance(when, Problem):
        raise _asked_back(when)
    return ParsedSchedule(description="", when=when, source="model")


def _asked_back(problem: Problem) -> ParseError:
    return ParseError(f"with these labels one would have to ask: {problem.question} Correct them, or ask that")


def _zone(reply: ScheduleReply, request: Request) -> tuple[str, tzinfo]:
    """Return the zone that the request itself names, else the user's."""
    own = request.timezone, zone_named(request.timezone)
    if reply.zone_words is None:
        if reply.zone in (None, request.timezone):
            return own
        raise ParseError("zone is only for a request that names one; copy its words into zone_words")
    if _folded(reply.zone_words) not in _folded(request.text):
        raise ParseError("zone_words must be copied from the request")
    zone = _zone_of_words(reply.zone_words) or (iana_zone(reply.zone) if reply.zone else None)
    if zone is None:
        raise ParseError(f"zone {shown(reply.zone or '')} is no IANA name such as Europe/Berlin")
    if zone.name:
        named = known_zone(zone.name)
        if named is None:
            raise ParseError(f"zone {shown(zone.name)} is unknown")
        return zone.name, named
    if zone.minutes is None:
        return own
    if reply.type == "repeat":
        raise ParseError("a repeated time needs a city's time zone; ask which one it should follow")
    return request.timezone, timezone(timedelta(minutes=zone.minutes))


@cache
def _zones() -> dict[str, Zone]:
    words = {**ZONE_VOCABULARY["city"], **ZONE_VOCABULARY["abbreviation"]}
    return {word: zone for word, zone in words.items() if isinstance(zone, Zone)}


def _zone_of_words(words: str) -> Zone | None:
    """Return the zone that the rules read in such words; it is surer than what a model says of them."""
    plain = re.sub(r"\b(?:in|time|zone|timezone)\b", " ", words.lower())
    found = _zones().get(" ".join(plain.split()))
    if found is not None:
        return found
    try:
        return timing_of(f"at 09:00 {words}", "zone_words").zone
    except ScheduleError:
        return None
