"""Misspelt timing words: one letter too many, missing, doubled or swapped, in words long enough to be sure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Words of their own that are one slip away from a timing word.
_CORRECT_WORDS: Final = frozenset(
    {
        "early",
        "minus",
        "frida",
        "augusta",
        "coupe",
        "forth",
        "thirsty",
        "sundry",
        "sundae",
        "mourning",
        "fairday",
        "month",
        "mouths",
        "weekly",
        "bimonthly",
        "moths",
        "nighty",
    }
    | {"marches", "decemviri", "second", "heights", "hourly", "daily", "dally", "warning", "yearly"}
)
_SHORTEST: Final = 6


class Spelling:
    """Finds the word of a vocabulary that was meant.

    >>> Spelling(["thursday"]).correct("thurdsay")
    'thursday'
    """

    def __init__(self, words: Iterable[str], correct: Iterable[str] = ()) -> None:
        self._correct = _CORRECT_WORDS.union(correct)
        self._known = {word for word in words if len(word) >= _SHORTEST and word.isalpha()}
        self._shorter: dict[str, str] = {}
        for word in sorted(self._known):
            for place in range(len(word)):
                self._shorter.setdefault(word[:place] + word[place + 1 :], word)

    def correct(self, word: str) -> str | None:
        """Return the word meant, if it is one slip away and not a word of its own."""
        if len(word) > 14 or word in self._correct or not word.isalpha():
            return None
        meant = self._shorter.get(word)
        if meant is not None and len(word) >= _SHORTEST - 1 and meant[0] == word[0]:
            return meant
        if len(word) < _SHORTEST:
            return None
        for place in range(len(word)):
            shorter = word[:place] + word[place + 1 :]
            if shorter in self._known and shorter[0] == word[0]:
                return shorter
            meant = self._shorter.get(shorter)
            if meant is not None and meant != word and _is_swap(word, meant):
                return meant
        return None


def _is_swap(word: str, meant: str) -> bool:
    """Tell whether the words differ by neighbours swapped, or by one letter of a long word."""
    if len(word) != len(meant) or word[0] != meant[0]:
        return False
    places = [place for place in range(len(word)) if word[place] != meant[place]]
    if len(places) == 1:
        return len(word) >= 8
    if sorted(word) != sorted(meant):
        return len(places) == 2 and len(word) >= 8 and places[1] - places[0] == 1
    return places[-1] - places[0] <= 2
