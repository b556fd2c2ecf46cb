"""Words written as one text, for tables that are read more often than they are changed."""

from __future__ import annotations


def word_list(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return text.split()


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())
