"""Last step for the words: what is left of the text without timing and framing is the task."""

from __future__ import annotations

import re
from typing import Final

from agentkit.schedules.parser.grammar import Item, match_length
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.sentences import Sentence

_EDGES: Final = " \t\n,;:.!?-–—&|>*•…，、。；：！？"
_EMPTY: Final = re.compile(r"[(\[]\s*[)\]]")


def describe(sentence: Sentence, places: set[int], text: str, language: Language) -> str:
    """Return the task's own words, in the user's spelling, without the timing at ``places``."""
    items = sentence.items
    last = without_closings(items, language)
    pieces: list[str] = []
    run: list[Item] = []
    for place in range(sentence.task, last):
        if place in places:
            # "on 1 March and 1 June": the "and" between is no part of the task.
            joins = bool(run) and all(item.word in language.intent.fillers for item in run)
            if not (joins and place - len(run) - 1 in places):
                _add(pieces, run, text)
            run = []
        else:
            run.append(items[place])
    _add(pieces, run, text)
    task = _EMPTY.sub("", (" " if language.spaced else "").join(pieces))
    return _trimmed(task, sentence, language)


def _add(pieces: list[str], run: list[Item], text: str) -> None:
    if run:
        piece = text[run[0].start : run[-1].end].strip()
        if pieces:
            piece = piece.lstrip(_EDGES)
        if piece:
            pieces.append(piece)


def without_closings(items: list[Item], language: Language) -> int:
    """Return the place at which thanks and other closing words begin."""
    last = len(items)
    closings = language.beginnings["closings"]
    moved = True
    while moved and last:
        moved = False
        for length in range(6, 0, -1):
            if last >= length and match_length(items[:last], last - length, closings) == length:
                last -= length
                moved = True
                break
    return last


def _trimmed(task: str, sentence: Sentence, language: Language) -> str:
    task = task.strip(_EDGES)
    words = task.split()
    dropped = language.intent.links if sentence.asked else language.intent.leading
    if language.spaced:
        while len(words) > 1 and words[0].strip(_EDGES).lower() in dropped - {"on", "with", "i", "we"}:
            words.pop(0)
        for elision in language.intent.elisions if sentence.asked and words else ():
            words[0] = words[0].removeprefix(elision).removeprefix(elision.replace("'", "’"))
        while len(words) > 1 and words[-1].lower() in language.intent.dangling:
            words.pop()
    return " ".join(words).strip(_EDGES)
