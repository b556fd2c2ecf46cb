"""Third step: the text is cut into sentences, and each judged: a request, or talk that only mentions a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from agentkit.schedules.parser.grammar import Item, match_length
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.meanings import Until
from agentkit.schedules.parser.word_lists import word_set

_ENDS: Final = frozenset({".", "!", "?", "¶", "…", ";"})
_ABBREVIATIONS: Final = frozenset(
    {"dr", "mr", "mrs", "ms", "st", "no", "vs", "prof", "approx", "mt", "jr", "sr", "etc", "e.g", "i.e"}
)

_MOST_CLAUSES: Final = 8

Kind = Literal["request", "wish", "plain", "question", "statement", "command", "instruction", "empty"]


@dataclass(slots=True)
class Sentence:
    """Some items, what kind of talk they are, and where the task's own words begin; ``told`` is what led to it."""

    items: list[Item]
    kind: Kind
    task: int
    asked: bool = False
    told: Sentence | None = None


def split_sentences(items: list[Item], text: str) -> list[list[Item]]:
    """Return the items sentence by sentence, each with the mark that ends it."""
    sentences: list[list[Item]] = []
    current: list[Item] = []
    for place, item in enumerate(items):
        current.append(item)
        if item.word in _ENDS and _ends(items, place, text):
            sentences.append(current)
            current = []
    if current:
        sentences.append(current)
    return sentences


def _ends(items: list[Item], place: int, text: str) -> bool:
    item = items[place]
    if item.word != ".":
        return True
    if place + 1 < len(items) and items[place + 1].start == item.end and text[item.end].isalnum():
        return ord(text[item.end]) > 0x2E7F
    return not (place and items[place - 1].word in _ABBREVIATIONS)


def judge_clauses(items: list[Item], language: Language) -> list[Sentence]:
    """Return the sentence, or two where a request follows a statement: "the build broke at 3, remind me at 5"."""
    whole = judge(items, language)
    if whole.kind != "statement":
        return [whole]
    joiners = [
        place
        for place in range(1, len(items))
        if items[place - 1].word in language.intent.joiners or is_timing(items[place - 1])
    ]
    for place in joiners[:_MOST_CLAUSES]:
        following = judge(items[place:], language)
        if following.asked:
            following.told = judge(items[:place], language)
            return [following.told, following]
    return [whole]


def judge(items: list[Item], language: Language) -> Sentence:
    """Return the sentence with its kind, and the place after its framing."""
    words = [item for item in items if not is_timing(item)]
    if not any(item.word.isalnum() or item.word == "\\x00" or item.readings for item in items):
        return Sentence(items, "empty", len(items))
    beginnings = language.beginnings
    if any(item.word in language.intent.managing for item in items) and _is_managed(items, language):
        return Sentence(items, "command", 0)
    marked = any(item.word == "?" for item in items[-3:])
    place = _skip(words, 0, language, "courtesies")
    if any(match_length(words, start, beginnings["instructions"]) for start in {0, place} if start < len(words)):
        return Sentence(items, "instruction", 0)
    wished = False
    while place < len(words):
        asked = match_length(words, place, beginnings["asking"])
        # "Tell me a joke" asks for no reminder, "tell me a joke every morning at 9" does.
        if asked and not (_is_question(words, place, language, asked) and len(words) == len(items)):
            return _request(items, words, place + asked, language)
        wish = match_length(words, place, beginnings["wishing"])
        if not wish or _is_question(words, place, language, wish):
            break
        wished = True
        place = _skip(words, place + wish, language, "courtesies")
    if any(match_length(words, index, beginnings["instructions"]) for index in range(len(words))):
        return Sentence(items, "instruction", 0)
    kept = match_length(words, place, beginnings["keeping"]) if place < len(words) else 0
    if kept and not any(item.word in ("is", "was") for item in words[place + kept : place + kept + 1]):
        return Sentence(items, "request", _place_of(items, words, place), asked=True)
    task = _place_of(items, words, place)
    if any(item.word in language.intent.pleading for item in items):
        return Sentence(items, "request", task, asked=True)
    if wished:
        return Sentence(items, "wish", task)
    return Sentence(items, _plain_kind(items, words, place, language, marked=marked), task)


def _request(items: list[Item], words: list[Item], place: int, language: Language) -> Sentence:
    while place < len(words) and words[place].word in language.intent.links | {",", "-", "–", ":", "—"}:
        place += 1
    return Sentence(items, "request", _place_of(items, words, place), asked=True)


def _place_of(items: list[Item], words: list[Item], place: int) -> int:
    if place >= len(words):
        return len(items)
    start = words[place].start
    return next(index for index, item in enumerate(items) if item.start == start)


def _skip(words: list[Item], place: int, language: Language, name: str) -> int:
    level = language.beginnings[name]
    while place < len(words):
        length = 1 if "greeting" in words[place].readings else match_length(words, place, level)
        if not length:
            break
        place += length
    return place


def _is_question(words: list[Item], place: int, language: Language, wish: int) -> bool:
    return match_length(words, place, language.beginnings["questions"]) > wish


def _plain_kind(items: list[Item], words: list[Item], place: int, language: Language, *, marked: bool) -> Kind:
    beginnings = language.beginnings
    if place >= len(words):
        return "plain" if any(is_timing(item) for item in items) else "empty"
    leads = not is_timing(items[0])
    if match_length(words, place, beginnings["questions"]) or _asks_of(words, place, language):
        return "question"
    if match_length(words, place, beginnings["management"]) and _is_managed(items, language):
        return "command"
    if words[place].word in language.intent.moving and _names_new_time(items):
        return "command"
    if match_length(words, place, beginnings["statements"]) or _is_contraction(items, words[place]):
        return "statement"
    last = next((item.word for item in reversed(words) if item.word not in _ENDS), "")
    if _has_subject(words, place, language) or last in language.intent.past_closings:
        return "statement"
    early = words[place + 1 : place + 5] if leads else words[place + 1 : place + 3]
    if any(item.word in language.intent.past for item in early):
        return "statement"
    return "question" if marked else "plain"


def _asks_of(words: list[Item], place: int, language: Language) -> bool:
    """Tell whether "do", a subject and its verb lead: "do the trains run on Sunday", unlike "do the dishes"."""
    if words[place].word not in language.intent.asking_verbs:
        return False
    return any(item.word in language.intent.bare_verbs for item in words[place + 2 : place + 5])


def _names_new_time(items: list[Item]) -> bool:
    """Tell whether "to" leads to a time, as in "move the call to 5 pm"."""
    if any(isinstance(item.readings.get("said"), Until) for item in items):
        return True
    return any(item.word in ("to", "until", "till") and is_timing(after) for item, after in pairwise(items))


def _is_contraction(items: list[Item], first: Item) -> bool:
    """Tell whether "is" hides in the word before the time: "dinner's at 7"."""
    return first.word.endswith("'s") and any(item is first and is_timing(after) for item, after in pairwise(items))


def _has_subject(words: list[Item], place: int, language: Language) -> bool:
    """Tell whether a subject and its verb lead: "the train leaves", "my birthday is", "Anna gets up"."""
    intent = language.intent
    determined = words[place].word in intent.determiners
    following = words[place + 1 : place + (5 if determined else 2)]
    return any(item.word in intent.verbs or (determined and _is_past(item.word, language)) for item in following)


def _is_past(word: str, language: Language) -> bool:
    ending = language.intent.past_ending
    return bool(ending) and word.endswith(ending) and len(word) > 4 and word not in _NO_PAST


_NO_PAST: Final = frozenset({"speed", "hundred", "embed", "exceed", "proceed", "breed", "bleed", "indeed", "wicked"})


def _is_managed(items: list[Item], language: Language) -> bool:
    """Tell whether the sentence is about reminders themselves, not about an "alarm battery"."""
    for place, item in enumerate(items):
        if item.word in language.intent.managed:
            following = items[place + 1] if place + 1 < len(items) else None
            if following is None or following.word in language.intent.after_managed or is_timing(following):
                return True
            if not following.word[:1].isalpha() or following.word in language.intent.managed:
                return True
    return False


_TIMING_KINDS: Final = word_set(
    "said every rate bare_delay minute over moment day time times window weekday weekdaylist mondays daykind monthday "
    "monthdays months tonight zone duration vague phrase"
)


def is_timing(item: Item) -> bool:
    """Tell whether the grammar read some timing in this item."""
    return bool(item.readings) and not _TIMING_KINDS.isdisjoint(item.readings)
