"""The rules, step by step: text, items, terms, phrases, sentences, timing, schedule. Never raises for any text."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final

from agentkit.schedules.parser import recurrences
from agentkit.schedules.parser.describe import describe, without_closings
from agentkit.schedules.parser.detect import detect_language
from agentkit.schedules.parser.grammar import Item, match_length, reduce_items
from agentkit.schedules.parser.language import Language, look_up
from agentkit.schedules.parser.left_over import left_over
from agentkit.schedules.parser.meanings import DayOffset, DayPart, Problem
from agentkit.schedules.parser.once import once
from agentkit.schedules.parser.parsed import NoSchedule, ParsedSchedule, Scheduled, When
from agentkit.schedules.parser.repeat import repeated
from agentkit.schedules.parser.selection import (
    HOW_OFTEN,
    MORE_THAN_ONE,
    Selection,
    select,
    unread_recurrence,
)
from agentkit.schedules.parser.sentences import Sentence, is_timing, judge_clauses, split_sentences
from agentkit.schedules.parser.timing import Timing, fill
from agentkit.schedules.parser.tokens import FORBIDDEN, same_width, split_text
from agentkit.schedules.parser.upcoming import next_runs
from agentkit.schedules.parser.word_lists import word_set
from agentkit.schedules.parser.zones import known_zone, name_cities

LONGEST_TEXT: Final = 10_000
_MOST_TERMS: Final = 400
_MOST_TIMES: Final = 30
_DANGLING: Final = frozenset({"for", "at", "on", "to", "about", "in", "by", ".", ",", ":", "!"})
_MONTH_FIRST: Final = word_set(
    "America/New_York America/Chicago America/Denver America/Los_Angeles America/Phoenix America/Detroit "
    "America/Anchorage America/Boise America/Adak Pacific/Honolulu Pacific/Guam America/Puerto_Rico "
    "America/Indiana/Indianapolis America/Kentucky/Louisville Asia/Manila US/Eastern US/Central US/Mountain "
    "US/Pacific"
)


def read_request(text: str, *, now: datetime, zone_name: str, zone: tzinfo) -> ParsedSchedule:
    """Return what the rules make of a request, with a question for what they can't fully read.

    Args:
        text: The request.
        now: Its moment, aware.
        zone_name: IANA name of the user's zone.
        zone: That zone.
    """
    if len(text) > LONGEST_TEXT:
        shown = f"A request has at most {LONGEST_TEXT:,} characters, this one {len(text):,}. Can you say it shorter?"
        return _asks("", shown)
    if FORBIDDEN.search(text):
        plain = FORBIDDEN.sub("", text).strip()
        return _asks(plain, "The request contains invisible control characters. Can you type it again?")
    plain = same_width(text)
    items = split_text(plain, month_first=zone_name in _MONTH_FIRST)
    language = detect_language(items)
    items = look_up(items, language)
    if sum(1 for item in items if item.readings) > _MOST_TERMS:
        return _asks(text[:200], MORE_THAN_ONE.question)
    items = name_cities(reduce_items(items, language.levels), plain, language)
    sentences = [clause for part in split_sentences(items, plain) for clause in judge_clauses(part, language)]
    if sum(1 for item in items if is_timing(item)) > _MOST_TIMES:
        return _asks(text[:200], MORE_THAN_ONE.question)
    return _read_sentences(sentences, text, language, now=now, zone_name=zone_name, zone=zone)


def _read_sentences(
    sentences: list[Sentence], text: str, language: Language, *, now: datetime, zone_name: str, zone: tzinfo
) -> ParsedSchedule:
    open_ones = [sentence for sentence in sentences if sentence.kind in ("request", "wish", "plain")]
    read = [(sentence, select(sentence, language)) for sentence in open_ones]
    timed = [(sentence, selection) for sentence, selection in read if selection.timing.has_moment]
    if not timed:
        return _without_time(sentences, read, text, language)
    main, selection = timed[0]
    timing = selection.timing
    for _, other in timed[1:]:
        filled = _add_timing(timing, other)
        if filled is None:
            timing = replace(timing, problem=MORE_THAN_ONE)
            break
        timing = filled
    timing = _hinted(timing, main, selection.places)
    description = _description(main, read, text, language)
    problem = left_over(timed, language)
    return _answer(timing, description, problem, now=now, zone_name=zone_name, zone=zone)


def _hinted(timing: Timing, main: Sentence, places: set[int]) -> Timing:
    """Return the timing with the part of the day that the task's first word names: "wake me at 6"."""
    first = next((item for place, item in enumerate(main.items) if place >= main.task and place not in places), None)
    part = None if first is None else first.readings.get("hint")
    said = timing.part or (timing.every.part if timing.every is not None else None)
    open_half = timing.clocks and all(not clock.exact and clock.hour < 12 for clock in timing.clocks)
    return replace(timing, part=part) if isinstance(part, DayPart) and said is None and open_half else timing


def _add_timing(timing: Timing, other: Selection) -> Timing | None:
    """Return the timing of two sentences as one, if the second only adds to the first."""
    more = other.timing
    if more.every or more.after or more.problem:
        return None
    filled: Timing | None = timing
    if more.day is not None and filled is not None:
        filled = fill(filled, more.day)
    for clock in more.clocks:
        filled = fill(filled, clock) if filled is not None else None
    if more.part is not None and filled is not None:
        filled = fill(filled, more.part)
    return filled


def _description(main: Sentence, read: list[tuple[Sentence, Selection]], text: str, language: Language) -> str:
    task = describe(main, _places(main, read), text, language)
    is_named = any(sign.isalnum() for sign in task)
    after = False
    more = []
    for sentence, selection in read:
        if sentence is main:
            after = True
            continue
        if after or not is_named:
            words = describe(sentence, selection.places, text, language)
            if words:
                more.append(words)
    parts = [words for words in ([task, *more] if is_named else [*more, task]) if words]
    if parts:
        return ". ".join(parts)
    return _framing(main, _places(main, read), text, language)


def _places(main: Sentence, read: list[tuple[Sentence, Selection]]) -> set[int]:
    return next(selection.places for sentence, selection in read if sentence is main)


def _framing(sentence: Sentence, places: set[int], text: str, language: Language) -> str:
    """Return the framing itself, for a request that names no task: "set an alarm"."""
    last = without_closings(sentence.items, language)
    kept: list[Item] = [item for place, item in enumerate(sentence.items[:last]) if place not in places]
    while len(kept) > 1 and kept[-1].word in _DANGLING:
        kept.pop()
    return " ".join(text[item.start : item.end] for item in kept).strip(" ,.!?:;-–")


def _without_time(
    sentences: list[Sentence], read: list[tuple[Sentence, Selection]], text: str, language: Language
) -> ParsedSchedule:
    for sentence, selection in read:
        words = describe(sentence, selection.places, text, language)
        timing = selection.timing
        first = sentence.items[sentence.task].word if sentence.task < len(sentence.items) else ""
        if timing.past is not None and sentence.asked:
            return _asks(words, "That time is over already. When should it be?")
        if unread_recurrence(sentence, selection.places, language):
            return _asks(words, HOW_OFTEN.question)
        if timing.vague is not None:
            return _asks(words, timing.vague.question or "When exactly should that be?")
        if sentence.asked:
            return _asks(words or text.strip(), "When should that be?")
        begins = sentence.items[sentence.task :]
        is_occasion = bool(begins) and match_length(begins, 0, language.beginnings["occasions"]) > 0
        if (first in language.intent.conditions or is_occasion) and sentence.kind != "empty":
            return _asks(words, "I can't see when that happens. At what time should it be?")
    return ParsedSchedule(description=text.strip()[:LONGEST_TEXT], when=NoSchedule())


def _answer(
    timing: Timing, description: str, problem: Problem | None, *, now: datetime, zone_name: str, zone: tzinfo
) -> ParsedSchedule:
    problem = timing.problem or problem
    if timing.past is not None and problem is None:
        problem = Problem("That time is over already. When should it be?")
    said = timing.zone
    if said is not None:
        if said.name:
            zone_name = said.name
            named = known_zone(zone_name)
            if named is None:
                return _asks(description, f"I don't know the time zone {zone_name}. Which one do you mean?")
            timing, zone = _by_users_calendar(timing, now, zone, named), named
        elif said.minutes is not None:
            zone = timezone(timedelta(minutes=said.minutes))
            if timing.every is not None:
                return _asks(description, "Which city's time zone should the repeated time follow?")
    if timing.problem is not None:
        return _asks(description, timing.problem.question)
    if timing.every is None and timing.rate is not None:
        timing = _rated(timing)
    if timing.every is None:
        single = Problem("At which times should it run?") if timing.rate else once(timing, now, zone)
        if isinstance(single, Problem):
            return _asks(description, single.question)
        return _checked(ParsedSchedule(description=description, when=single), problem)
    found = repeated(timing, now, zone, zone_name)
    if isinstance(found, Problem):
        return _asks(description, found.question)
    plan = ParsedSchedule(
        description=description,
        when=found.when,
        until=found.until,
        count=found.count,
        starts_at=found.starts_at,
    )
    if plan.until is not None and not next_runs(plan, now, 1):
        problem = problem or Problem("It would be over before its first run. Until when should it run?")
    return _checked(plan, problem)


def _by_users_calendar(timing: Timing, now: datetime, zone: tzinfo, named: tzinfo) -> Timing:
    """Return the timing with "tomorrow" moved to the user's own tomorrow, where the named zone is a day apart."""
    day = timing.day
    apart = (now.astimezone(zone).date() - now.astimezone(named).date()).days
    if not isinstance(day, DayOffset) or not apart:
        return timing
    meant = now.astimezone(zone).date() + timedelta(days=day.days)
    for moved in (timing, replace(timing, day=DayOffset(day.days + apart))):
        found = once(moved, now, named)
        if isinstance(found, Scheduled) and found.date.astimezone(zone).date() == meant:
            return moved
    return timing


def _rated(timing: Timing) -> Timing:
    """Return "three times a day, at 8, 14 and 22:00" as every day, once the times are named."""
    assert timing.rate is not None
    if timing.rate.unit.name == "day" and len(timing.clocks) == timing.rate.count and timing.day is None:
        return replace(timing, every=recurrences.every_unit(timing.rate.unit))
    return timing


def _checked(plan: ParsedSchedule, problem: Problem | None) -> ParsedSchedule:
    return plan if problem is None else replace(plan, question=problem.question)


def _asks(description: str, question: str, when: When | None = None) -> ParsedSchedule:
    return ParsedSchedule(description=description, when=when or NoSchedule(), question=question)
