"""Sixth step: words that may belong to the timing and that no rule read. A request with such words is asked about."""

from __future__ import annotations

from itertools import pairwise

from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.meanings import At, Clock, Problem
from agentkit.schedules.parser.selection import HOW_OFTEN, MORE_THAN_ONE, Selection, select, unread_recurrence
from agentkit.schedules.parser.sentences import Sentence
from agentkit.schedules.parser.timing import names_days

_CLOCKS = frozenset({"time", "said"})


def left_over(timed: list[tuple[Sentence, Selection]], language: Language) -> Problem | None:
    """Return the question about a recurrence, a bound or an exception that no rule understood."""
    for sentence, selection in timed:
        if _has_unread_clock(sentence, selection, language):
            return Problem("At what time exactly?")
        if unread_recurrence(sentence, selection.places, language) or _is_counted_in(sentence, selection, language):
            return HOW_OFTEN
        if _has_number_within(sentence, selection, language):
            return MORE_THAN_ONE
        if sentence.told is not None and _lacks_day_told(selection, sentence.told, language):
            return Problem("On which day should that be?")
        if _has_other_clock(sentence, selection, language):
            return Problem("I read a time of day that I can't place. At what time exactly?")
        if selection.timing.every is None:
            continue
        if _goes_on(sentence, selection, language):
            return Problem("I understood how often, but not the rest. Can you say it with dates or times?")
        for place, item in enumerate(sentence.items):
            if place not in selection.places and item.word in language.intent.bounds:
                return Problem(
                    f"I don't understand the part from “{item.word}” on. Can you say it with dates or times?"
                )
    return None


def _has_unread_clock(sentence: Sentence, selection: Selection, language: Language) -> bool:
    """Tell whether "at" and a number follow the timing without being a time of day: "tomorrow at 9.5"."""
    items = sentence.items
    return any(
        place - 1 in selection.places
        and place not in selection.places
        and items[place].word in language.intent.clock_words
        and "number" in items[place + 1].readings
        for place in range(1, len(items) - 1)
    )


def _lacks_day_told(selection: Selection, told: Sentence, language: Language) -> bool:
    """Tell whether the day was told before the request, which names none: "the exam is on Friday, remind me at 8"."""
    timing, every = selection.timing, selection.timing.every
    if timing.day is not None or timing.after is not None or (every is not None and names_days(every)):
        return False
    is_over = any(item.word in language.intent.past for item in told.items)
    return not is_over and select(told, language).timing.day is not None


def _has_other_clock(sentence: Sentence, selection: Selection, language: Language) -> bool:
    """Tell whether a time of day stays with the task, and the timing names none: "every last Friday at 4 drinks"."""
    timing = selection.timing
    if timing.clocks or timing.after is not None or timing.window is not None:
        return False
    if timing.every is not None and timing.every.unit in ("second", "minute", "hour"):
        return False
    for place, item in enumerate(sentence.items):
        if place in selection.places or _is_named_by(sentence, place, language):
            continue
        if sentence.asked and item.word in language.intent.leading:
            # "Remind me tomorrow to book a table for Friday at 8": the rest is the task.
            return False
        if isinstance(item.readings.get("said"), At) or isinstance(item.readings.get("time"), Clock):
            return True
    return False


def _is_named_by(sentence: Sentence, place: int, language: Language) -> bool:
    """Tell whether a determiner leads to a time: "the 6 pm news"."""
    return bool(place) and sentence.items[place - 1].word in language.intent.determiners


def _goes_on(sentence: Sentence, selection: Selection, language: Language) -> bool:
    """Tell whether an unread phrase follows the recurrence that may restrict it: "every day after lunch"."""
    intent = language.intent
    has_time = bool(selection.timing.clocks) or selection.timing.part is not None
    for place, item in enumerate(sentence.items):
        if place in selection.places or place - 1 not in selection.places:
            continue
        if item.word in intent.limits or "vague" in item.readings or (item.word in intent.places and not has_time):
            return True
    return False


def _is_counted_in(sentence: Sentence, selection: Selection, language: Language) -> bool:
    """Tell whether the recurrence belongs to words before it that no rule knew: "the 15 minute mark of every hour"."""
    return any(
        "every" in item.readings and place in selection.places and before.word in language.intent.partitives
        for place, (before, item) in enumerate(pairwise(sentence.items), start=1)
        if place - 1 not in selection.places and place - 2 not in selection.places
    )


def _has_number_within(sentence: Sentence, selection: Selection, language: Language) -> bool:
    """Tell whether a number stands unread amid the timing: "at 9 on weekdays and 11 on weekends"."""
    places, items = selection.places, sentence.items
    if any(
        place not in places and _CLOCKS.intersection(items[place].readings) and items[place - 1].word == "/"
        for place in range(2, len(items))
        if place - 2 in places
    ):
        # "at 9 am PST / 12 pm EST"
        return True
    return any(
        place not in places
        and place + 1 in places
        and "number" in items[place].readings
        and (place - 1 in places or (place - 2 in places and items[place - 1].word in language.intent.joiners))
        for place in range(2, len(items) - 1)
    )
