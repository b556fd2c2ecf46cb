"""Second step: words become terms. A language is a vocabulary and the rules of its grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentkit.schedules.parser.grammar import Item, Level, Rule, compile_level, pattern_words
from agentkit.schedules.parser.spelling import Spelling

Vocabulary = Mapping[str, Mapping[str, object]]
"""What a kind's phrases mean: ``{"weekday": {"monday": frozenset({0})}}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The words by which a language tells a request from other talk.

    Attributes:
        asking: Patterns of beginnings that ask to be reminded, which are no part of the task: "remind me".
        wishing: Patterns of beginnings that lead a request only if it has a time: "I need to", "can you".
        courtesies: Patterns of words around a request that mean nothing: "please".
        closings: Patterns of words at its end that mean nothing: "thanks".
        keeping: Patterns of tasks that ask by themselves: "wake me".
        links: Words between a beginning and its task: "to", "about".
        questions: Patterns that start questions.
        statements: Patterns that start statements.
        past: Words that tell of the past, with the place from the sentence's start up to which they count.
        verbs: Finite verbs that make a sentence with a subject before them a statement: "is", "starts".
        management: Patterns that start commands on existing schedules.
        pleading: Words that make a sentence a request wherever they stand: "リマインドして".
        managing: Words that make one about reminders a command wherever they stand: "削除して".
        asking_verbs: First words that ask when a subject and one of ``bare_verbs`` follow: "do the trains run".
        bare_verbs: Verbs after such a subject.
        managed: What such commands are about: "reminders".
        after_managed: Words that may follow those: "for", "about".
        moving: First words of commands that give something a new time: "move the call to 5 pm".
        occasions: Patterns that start a request for a time no rule knows: "on my birthday".
        instructions: Patterns of someone who tries to instruct the parser, anywhere in a sentence.
        determiners: Words that make a following time part of a noun phrase: "the", "my".
        joiners: Words that lead to a further request: "and", "then".
        waiting: Words that make a bare duration a delay: "timer", "snooze".
        conditions: Words of a time that only an event can tell: "when", "once".
        bounds: Words that begin an exception or a bound; not understood, they make the parser ask.
        recurring: Words that begin a recurrence: "every".
        until_is_by: Whether the word for "until" also says "by", as German "bis" does.
        titles: Words after which a title follows: "called".
        works: Words before the name of a work: "the song Manic Monday".
        partitives: Words before a recurrence that make it part of something else: "of".
        zone_words: Words after the name of a city whose time is meant: "time".
        limits: Words that may go on a recurrence with what limits it: "after", "if".
        places: Words that go on either with a time or with a place: "in", "at".
        choices: Words between alternatives: "or".
        clock_words: Words before a time of day: "at".
        glue: Words after a time that show it to be no adjective: "at", "to".
        counted: Words after a number that show it counts nothing: "to".
        leading: Words dropped at the start of a task without framing: "to".
        dangling: Words dropped at its end: "at".
        elisions: Links that are written together with the task's first word: "d'".
        past_closings: Last words of a sentence that make it a statement about the past: "ました".
        past_ending: Ending of verbs in the past: "ed".
        fillers: Words that may stand between two timing phrases.
    """

    asking: tuple[str, ...] = ()
    wishing: tuple[str, ...] = ()
    courtesies: tuple[str, ...] = ()
    closings: tuple[str, ...] = ()
    keeping: tuple[str, ...] = ()
    links: frozenset[str] = frozenset()
    questions: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    past: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    management: tuple[str, ...] = ()
    pleading: frozenset[str] = frozenset()
    managing: frozenset[str] = frozenset()
    asking_verbs: frozenset[str] = frozenset()
    bare_verbs: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    after_managed: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()
    occasions: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    determiners: frozenset[str] = frozenset()
    joiners: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    bounds: frozenset[str] = frozenset()
    recurring: frozenset[str] = frozenset()
    until_is_by: bool = False
    titles: frozenset[str] = frozenset()
    works: frozenset[str] = frozenset()
    glue: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()
    zone_words: frozenset[str] = frozenset()
    partitives: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    choices: frozenset[str] = frozenset()
    clock_words: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()
    dangling: frozenset[str] = frozenset()
    elisions: tuple[str, ...] = ()
    past_closings: frozenset[str] = frozenset()
    past_ending: str = ""
    fillers: frozenset[str] = frozenset({",", "-", "–", "—", "(", ")"})


@dataclass(frozen=True, slots=True)
class Language:
    """A language, ready to read with."""

    code: str
    singles: Mapping[str, Mapping[str, object]]
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], Mapping[str, object]], ...]]
    levels: tuple[Level, ...]
    intent: Intent
    beginnings: Mapping[str, Level]
    spelling: Spelling
    aliases: Mapping[str, str]
    spaced: bool


_PATTERN_FIELDS = (
    "asking",
    "wishing",
    "courtesies",
    "closings",
    "keeping",
    "questions",
    "statements",
    "management",
    "instructions",
    "occasions",
)
_SET_FIELDS = (
    "past",
    "past_closings",
    "pleading",
    "managing",
    "managed",
    "joiners",
    "waiting",
    "conditions",
    "bounds",
    "recurring",
    "fillers",
    "links",
)


def make_language(
    code: str,
    vocabulary: Vocabulary,
    rules: Iterable[Iterable[Rule]],
    intent: Intent,
    *,
    aliases: Mapping[str, str] | None = None,
    spaced: bool = True,
) -> Language:
    """Return a language made ready: phrases indexed, rules compiled.

    Args:
        code: ISO 639-1.
        vocabulary: Phrases by kind.
        rules: Levels of rules, lowest first.
        intent: Words that tell a request from other talk.
        aliases: Other spellings of words, with the word meant.
        spaced: False where words are written without spaces; then the rules' own words are found in the text too.
    """
    levels = [list(level) for level in rules]
    entries: dict[tuple[str, ...], dict[str, object]] = {}
    for kind, meanings in vocabulary.items():
        for phrase, meaning in meanings.items():
            words = _words(phrase, spaced=spaced)
            entries.setdefault(words, {})[kind] = meaning
    if not spaced:
        for word in _own_words(levels, intent):
            entries.setdefault(_words(word, spaced=False), {})
    singles = {words[0]: readings for words, readings in entries.items() if len(words) == 1}
    phrases: dict[str, list[tuple[tuple[str, ...], Mapping[str, object]]]] = {}
    for words, readings in entries.items():
        if len(words) > 1:
            phrases.setdefault(words[0], []).append((words, readings))
    ordered = {first: tuple(sorted(found, key=lambda entry: -len(entry[0]))) for first, found in phrases.items()}
    compiled = tuple(compile_level(level) for level in levels)
    beginnings = {
        name: compile_level((name, pattern, _matched) for pattern in getattr(intent, name)) for name in _PATTERN_FIELDS
    }
    return Language(
        code,
        singles,
        ordered,
        compiled,
        intent,
        beginnings,
        Spelling(singles, _own_words(levels, intent)),
        aliases or {},
        spaced,
    )


def _own_words(levels: Iterable[Iterable[Rule]], intent: Intent) -> set[str]:
    """Return the words that rules and intent look for, to be found in a text without spaces."""
    words: set[str] = set()
    for level in levels:
        words |= pattern_words(level)
    for name in _PATTERN_FIELDS:
        words |= pattern_words((name, pattern, _matched) for pattern in getattr(intent, name))
    for name in _SET_FIELDS:
        words |= getattr(intent, name)
    return words


def _matched(*_: object) -> bool:
    return True


def look_up(items: list[Item], language: Language) -> list[Item]:
    """Return the items with the readings their words have, phrases joined, misspellings read as meant."""
    aliases = language.aliases
    if not aliases.keys().isdisjoint(item.word for item in items):
        items = [Item(aliases.get(item.word, item.word), item.readings, item.start, item.end) for item in items]
    found: list[Item] = []
    index = 0
    phrases = language.phrases
    while index < len(items):
        word = items[index].word
        phrase = _phrase_at(items, index, phrases[word], language) if word in phrases else None
        if phrase is None:
            found.append(_term(items[index], language))
            index += 1
        else:
            length, item = phrase
            found.append(item)
            index += length
    return found


def _term(item: Item, language: Language) -> Item:
    word = item.word
    readings = language.singles.get(word)
    if readings is None and not item.readings and len(word) > 4:
        meant = language.spelling.correct(word)
        if meant is not None:
            word, readings = meant, language.singles[meant]
    if not readings:
        return item
    return Item(word, {**item.readings, **readings}, item.start, item.end)


def _phrase_at(
    items: list[Item],
    index: int,
    entries: tuple[tuple[tuple[str, ...], Mapping[str, object]], ...],
    language: Language,
) -> tuple[int, Item] | None:
    for words, readings in entries:
        length = len(words)
        if index + length > len(items):
            continue
        if all(items[index + offset].word == words[offset] for offset in range(1, length)):
            word = (" " if language.spaced else "").join(words)
            return length, Item(word, readings, items[index].start, items[index + length - 1].end)
    return None


def _words(phrase: str, *, spaced: bool) -> tuple[str, ...]:
    if spaced:
        return tuple(phrase.split())
    return tuple(phrase)
