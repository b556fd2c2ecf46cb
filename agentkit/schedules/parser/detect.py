"""Which language a request is in, by its script and its small words."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Final

from agentkit.schedules.parser.grammar import Item
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.languages.chinese import chinese
from agentkit.schedules.parser.languages.english import english
from agentkit.schedules.parser.languages.english_words import VOCABULARY as ENGLISH
from agentkit.schedules.parser.languages.french import french
from agentkit.schedules.parser.languages.french_words import VOCABULARY as FRENCH
from agentkit.schedules.parser.languages.german import german
from agentkit.schedules.parser.languages.german_words import VOCABULARY as GERMAN
from agentkit.schedules.parser.languages.japanese import japanese
from agentkit.schedules.parser.languages.spanish import spanish
from agentkit.schedules.parser.languages.spanish_words import VOCABULARY as SPANISH
from agentkit.schedules.parser.word_lists import word_set

# Small words that are frequent in requests, besides what the vocabularies know.
_SMALL_WORDS: Final[dict[str, str]] = {
    "de": (
        "uhr um den dem das der die einer und ich mich mir bitte jeden jede jeder jedes alle erinnere erinner nächste "
        "nächsten nächster kommenden diesen bis zum zur für auf vom nach vor nicht muss kannst weck wecke stell "
        "stelle halbe halben viertelstunde anderthalb eineinhalb ist sind wann wie warum wer jeweils außer nicht"
    ),
    "es": (
        "las los el la por todos todas cada en dentro recuérdame recuerdame recordar avísame despiértame para con "
        "del y que próximo próxima viene hasta desde durante favor tengo qué cuándo cómo llamar pagar comprar de "
        "media pon ponme mi cancela muéstrame"
    ),
    "fr": (
        "à dans tous toutes les chaque rappelle rappelez moi de le la du des et pour prochain prochaine jusqu'à "
        "jusqu'au pendant demi demie ce cette au aux réveille n'oublie quel quelle quand il je j'ai est dois qui que "
        "quoi mon ma mes appeler temps mets annule tu peux maman"
    ),
}
_ENGLISH_WORDS: Final = word_set(
    "the to at on every for my and of remind is with by call send buy please from this next it you your what when who "
    "how check an set in call i he she they was were are do does did"
)
_TELLING_KINDS: Final = (
    "number",
    "ordinal",
    "unit",
    "weekday",
    "mondays",
    "daykind",
    "month",
    "part",
    "day",
    "every",
    "time",
    "tonight",
    "vague",
    "over",
)


@cache
def _weights() -> tuple[tuple[Callable[[], Language], dict[str, int]], ...]:
    """Return how much each word speaks for a language: 2, or 1 where it is short and may be any."""
    tables = (
        (english, ENGLISH, _ENGLISH_WORDS),
        (german, GERMAN, frozenset(_SMALL_WORDS["de"].split())),
        (spanish, SPANISH, frozenset(_SMALL_WORDS["es"].split())),
        (french, FRENCH, frozenset(_SMALL_WORDS["fr"].split())),
    )
    telling = [{word for kind in _TELLING_KINDS for word in table.get(kind, {})} for _, table, _ in tables]
    known = [{word for phrases in table.values() for word in phrases} for _, table, _ in tables]
    found = []
    for place, (load, _, small) in enumerate(tables):
        others = set().union(*(words for other, words in enumerate(known) if other != place))
        weights = dict.fromkeys(telling[place] - others, 2)
        found.append(
            (
                load,
                {
                    **{
                        word: 1 if len(word) < 3 and word.isascii() and word not in ("um", "ce") else 2
                        for word in small
                    },
                    **weights,
                },
            )
        )
    return tuple(found)


def detect_language(items: list[Item]) -> Language:
    """Return the language whose words the request uses most; English unless another clearly wins."""
    words = {item.word for item in items[:200]}
    if any("\u3040" <= word[:1] <= "\u30ff" for word in words):
        return japanese()
    han = [word for word in words if "\u4e00" <= word[:1] <= "\u9fff"]
    if han:
        return japanese() if not _JAPANESE.isdisjoint(han) and _CHINESE.isdisjoint(han) else chinese()
    best: Callable[[], Language] = english
    most = 1
    if any(first.word == "am" and "number" in second.readings for first, second in pairwise(items[:200])):
        # "am 31. November", where English has the number first.
        best = german
    letters = {sign for word in words for sign in word}
    for load, weights in _weights():
        weight = sum(weights.get(word, 0) for word in words)
        weight += load in _LETTERS and not _LETTERS[load].isdisjoint(letters)
        if weight > most:
            best, most = load, weight
    return best()


# Letters with marks that English words seldom have.
_LETTERS: Final[dict[Callable[[], Language], frozenset[str]]] = {
    german: frozenset("äöüß"),
    spanish: frozenset("áéíóúñ¿¡"),
    french: frozenset("éèêàâçùûœ"),
}
# Signs that only one of the two languages uses in requests written without kana.
_JAPANESE: Final = frozenset("毎曜")
_CHINESE: Final = frozenset("每点點这這们們后个個")
