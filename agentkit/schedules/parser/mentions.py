"""Fourth step: which of the times a sentence mentions are its timing, and which belong to the task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from agentkit.schedules.parser import amounts, days, phrases, recurrences
from agentkit.schedules.parser.grammar import Item
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.meanings import (
    DAY_TYPES,
    After,
    At,
    Clock,
    DayOffset,
    Every,
    On,
    Part,
    Period,
    Problem,
    Several,
)
from agentkit.schedules.parser.sentences import Sentence, is_timing

STRONG: Final = 3
PLAIN: Final = 2
WEAK: Final = 1


@dataclass(slots=True)
class Mention:
    """A part of the timing at a place of the sentence."""

    place: int
    part: Part
    strength: int


def find_mentions(sentence: Sentence, language: Language) -> list[Mention]:
    """Return what the sentence says about time, noun phrases such as "the 9 o'clock news" left out."""
    items = sentence.items
    found: list[Mention] = []
    for place, item in enumerate(items):
        if not item.readings:
            continue
        if not language.spaced and "part" in item.readings:
            continue
        mention = _mention(items, place, item, found)
        if mention is None:
            continue
        if "bare_delay" in item.readings and place + 1 < len(items):
            following = items[place + 1]
            if following.word.endswith("s"):
                continue
            # "in 10 to 15", but not "in 10 to call".
            after = items[place + 2] if following.word in ("to", "-") and place + 2 < len(items) else following
            if following.word in ("and", "or", "point") or not {"number", "duration"}.isdisjoint(after.readings):
                mention = Mention(place, HOW_LONG, STRONG)
        if _names_unknown_zone(items, place):
            mention = Mention(place, UNKNOWN_ZONE, STRONG)
        if mention.strength < STRONG and "duration" not in item.readings and _is_modifier(items, place, language):
            continue
        found.append(mention)
    kept = [mention for mention in found if _stands(mention, found, sentence, language)]
    for mention in list(kept):
        for number in (_number_after(mention, sentence, language), _dotted_before(mention, items)):
            if number is not None:
                kept.append(number)
    return sorted(kept, key=lambda mention: mention.place)


def _names_unknown_zone(items: list[Item], place: int) -> bool:
    """Tell whether a word of the form "Area/City" follows a time, which no rule knew as a zone."""
    following = [item for item in items[place + 1 : place + 5] if item.word != "in"][:3]
    if (
        len(following) < 3
        or following[1].word != "/"
        or not {"said", "time", "day"}.intersection(items[place].readings)
    ):
        return False
    touching = following[0].end == following[1].start and following[1].end == following[2].start
    return touching and all(_is_word(item) and len(item.word) > 3 for item in (following[0], following[2]))


HOW_LONG: Final = Problem("How long from now exactly?")
UNKNOWN_ZONE: Final = Problem("I don't know that time zone. Which one do you mean?")


def _mention(items: list[Item], place: int, item: Item, found: list[Mention]) -> Mention | None:
    readings = item.readings
    for kind, strength in _KINDS:
        if kind not in readings:
            continue
        part = readings[kind]
        if kind in ("every", "rate") and item.word and place + 1 < len(items) and _is_word(items[place + 1]):
            # "daily standup": an adverb before a noun may as well describe it, "the notes of daily standup" does.
            strength = WEAK if place and _is_word(items[place - 1]) else PLAIN
        meaning = _as_part(kind, part)
        return None if meaning is None else Mention(place, meaning, strength)
    follows_time = bool(found) and found[-1].place == place - 1
    if follows_time and ("abbreviation" in readings or "city" in readings):
        kind = "abbreviation" if "abbreviation" in readings else "city"
        return Mention(place, readings[kind], STRONG)  # type: ignore[arg-type]  # the vocabulary holds Zones
    return None


_KINDS: Final = (
    ("said", STRONG),
    ("every", STRONG),
    ("rate", STRONG),
    ("bare_delay", STRONG),
    ("minute", STRONG),
    ("over", STRONG),
    ("moment", STRONG),
    ("tonight", PLAIN),
    ("day", PLAIN),
    ("times", PLAIN),
    ("time", PLAIN),
    ("window", PLAIN),
    ("zone", STRONG),
    ("weekdaylist", PLAIN),
    ("mondays", PLAIN),
    ("weekday", WEAK),
    ("daykind", WEAK),
    ("monthday", WEAK),
    ("slashed", WEAK),
    ("months", WEAK),
    ("phrase", WEAK),
    ("dayparts", WEAK),
    ("part", WEAK),
    ("duration", WEAK),
    ("vague", WEAK),
)


def _as_part(kind: str, meaning: object) -> Part | None:
    match kind:
        case "tonight":
            return Several((DayOffset(0), meaning))  # type: ignore[arg-type]  # a DayPart, by the vocabulary
        case "daykind" if meaning == frozenset({5, 6}):
            return On(Period("weekend", 0))
        case "weekdaylist" | "mondays" | "daykind":
            return recurrences.every_weekday(meaning)  # type: ignore[arg-type]  # a set of weekdays
        case "dayparts":
            return recurrences.every_part(meaning)  # type: ignore[arg-type]  # a DayPart
        case "weekday":
            return days.coming(meaning)  # type: ignore[arg-type]  # a set of weekdays
        case "time":
            return amounts.at_one(meaning)  # type: ignore[arg-type]  # a Clock or a Problem
        case "duration":
            return phrases.after(meaning)  # type: ignore[arg-type]  # a Duration or a Problem
        case _:
            return meaning  # type: ignore[return-value]  # the rules make only parts of these kinds


def _is_word(item: Item) -> bool:
    return item.word[:1].isalpha() and not is_timing(item)


def _is_modifier(items: list[Item], place: int, language: Language) -> bool:
    """Tell whether it stands between a determiner and a noun: "the Monday report", "my 3 pm call"."""
    if place == 0 or items[place - 1].word not in language.intent.determiners | language.intent.titles:
        return False
    if items[place - 1].word in language.intent.titles:
        return True
    return place + 1 < len(items) and _is_word(items[place + 1]) and items[place + 1].word not in language.intent.glue


def _stands(mention: Mention, found: list[Mention], sentence: Sentence, language: Language) -> bool:
    """Tell whether a mention without a preposition is timing by its place: at an end, or beside other timing."""
    items = sentence.items
    item = items[mention.place]
    before = items[mention.place - 1] if mention.place else None
    if before is not None and (
        ("weekday" in item.readings and before.word in language.intent.determiners)
        or (
            before.readings.keys() & {"number", "dotted"} == {"number"}
            and ("dayparts" in item.readings or "mondays" in item.readings)
        )
    ):
        return False
    if mention.strength > WEAK:
        return True
    if _ends_title(items, mention.place, language):
        return False
    beside = any(other is not mention and _near(items, mention.place, other.place, language) for other in found)
    if "duration" in item.readings:
        return _waits(mention, sentence, language, beside=beside)
    if "vague" in item.readings or "every" in item.readings or "rate" in item.readings:
        return True
    if "part" in item.readings or "slashed" in item.readings or "months" in item.readings:
        strong = [other for other in found if other is not mention and "duration" not in items[other.place].readings]
        return any(_near(items, mention.place, other.place, language) for other in strong)
    if beside or mention.place < sentence.task:
        return True
    rest = [other for other in items[mention.place + 1 :] if _is_word(other)]
    return not rest or (rest[0].word in language.intent.links and rest[0] is items[mention.place + 1])


def _ends_title(items: list[Item], place: int, language: Language) -> bool:
    """Tell whether a bare word may end the name of a work: "play the song Manic Monday"."""
    named = items[max(0, place - 4) : place]
    works = [index for index, item in enumerate(named) if item.word in language.intent.works]
    return bool(works) and works[-1] < len(named) - 1 and all(_is_word(item) for item in named[works[-1] :])


def _waits(mention: Mention, sentence: Sentence, language: Language, *, beside: bool) -> bool:
    """Tell whether a bare duration is a delay: "a timer, ten minutes", "remind me 5 min"."""
    items = sentence.items
    waiting = any(item.word in language.intent.waiting for item in items)
    return waiting or (sentence.asked and mention.place < sentence.task and not beside)


def _near(items: list[Item], first: int, second: int, language: Language) -> bool:
    low, high = sorted((first, second))
    return all(items[place].word in language.intent.fillers for place in range(low + 1, high))


def near(sentence: Sentence, first: Mention, second: Mention, language: Language) -> bool:
    """Tell whether only fillers stand between two mentions."""
    return _near(sentence.items, first.place, second.place, language)


def _dotted_before(mention: Mention, items: list[Item]) -> Mention | None:
    """Return the time of "9.45 weekdays"."""
    place = mention.place - 1
    dotted = items[place].readings.get("dotted") if place >= 0 else None
    is_day = isinstance(mention.part, (*DAY_TYPES, On, Every))
    return Mention(place, At((dotted,)), PLAIN) if isinstance(dotted, Clock) and is_day else None


def _number_after(mention: Mention, sentence: Sentence, language: Language) -> Mention | None:
    """Return the hour of "tomorrow 9", where nothing follows that the number could count."""
    items = sentence.items
    place = mention.place + 1
    if place >= len(items) or not isinstance(mention.part, (*DAY_TYPES, On)) or isinstance(mention.part, After):
        return None
    dotted = items[place].readings.get("dotted")
    if isinstance(dotted, Clock):
        return Mention(place, At((dotted,)), PLAIN)
    following = items[place + 1] if place + 1 < len(items) else None
    counts = following is not None and _is_word(following) and following.word not in language.intent.counted
    counted = counts and following is not None and following.word.endswith("s")
    military = items[place].readings.get("military")
    if isinstance(military, Clock) and len(items[place].word) == 4 and not (counted and military.hour > 9):
        return Mention(place, At((replace(military, exact=True),)), PLAIN)
    number = items[place].readings.get("number")
    if not isinstance(number, int) or not 0 < number < 24 or counted or (counts and number > 12):
        return None
    part = amounts.at_one(number)
    return None if part is None else Mention(place, part, PLAIN)
