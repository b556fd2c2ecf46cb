"""The grammar's engine: rules over items, applied level by level until phrases have become meanings.

A rule is a line such as ``("time", "half past <number>", half_past)``: the kind it makes, a pattern of words
and kinds, and a plain function from the kinds' meanings to the new one (None refuses the match). ``a|b`` are
alternatives, ``<a|b>`` alternative kinds, ``x?`` may be missing. Within a level, items are read from the left and
the longest match wins; a level is read again while it finds something. A part that can't be (a ``Problem``) makes
the whole one of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from agentkit.schedules.parser.meanings import Problem

Build = Callable[..., object]
Rule = tuple[str, str, Build]
_MOST_PASSES = 4


@dataclass(slots=True)
class Item:
    """A stretch of the text and what it may mean, by kind."""

    word: str
    readings: Mapping[str, object]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Step:
    """One place in a pattern: words or kinds that fit it."""

    words: frozenset[str]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A rule with its optional places decided; ``slots`` has an argument's place or None where it is missing."""

    kind: str
    steps: tuple[Step, ...]
    slots: tuple[int | None, ...]
    build: Build


@dataclass(frozen=True, slots=True)
class Level:
    """Rules applied together, found by what their first place fits."""

    by_word: Mapping[str, tuple[Line, ...]]
    by_kind: Mapping[str, tuple[Line, ...]]


def compile_level(rules: Iterable[Rule]) -> Level:
    """Return the rules of one level, indexed by their first place."""
    by_word: dict[str, list[Line]] = {}
    by_kind: dict[str, list[Line]] = {}
    for rule in rules:
        for line in _lines(rule):
            for word in line.steps[0].words:
                by_word.setdefault(word, []).append(line)
            for kind in line.steps[0].kinds:
                by_kind.setdefault(kind, []).append(line)
    return Level(
        {word: tuple(lines) for word, lines in by_word.items()},
        {kind: tuple(lines) for kind, lines in by_kind.items()},
    )


def pattern_words(rules: Iterable[Rule]) -> set[str]:
    """Return every literal word that the rules' patterns mention."""
    words: set[str] = set()
    for _, pattern, _ in rules:
        for place in pattern.split():
            words |= _step(place.rstrip("?")).words
    return words


def reduce_items(items: list[Item], levels: Iterable[Level]) -> list[Item]:
    """Apply the levels in order, in place, and return the items that are left."""
    for level in levels:
        # A pass may make what an earlier place was waiting for: "two hours and ten minutes".
        for _ in range(_MOST_PASSES):
            if not _pass(items, level):
                break
    return items


def _pass(items: list[Item], level: Level) -> bool:
    by_word, by_kind = level.by_word, level.by_kind
    changed = False
    index = 0
    while index < len(items):
        item = items[index]
        lines: tuple[Line, ...] = by_word.get(item.word, ())
        for kind in item.readings:
            if kind in by_kind:
                lines += by_kind[kind]
        if lines and _reduce_at(items, index, lines):
            changed = True
        else:
            index += 1
    return changed


def match_length(items: list[Item], index: int, level: Level) -> int:
    """Return how many items the longest pattern of the level takes at a place, 0 for none."""
    item = items[index]
    longest = 0
    room = len(items) - index
    for line in level.by_word.get(item.word, ()):
        length = len(line.steps)
        if longest < length <= room and _fits(items, index, line):
            longest = length
    return longest


def _reduce_at(items: list[Item], index: int, lines: tuple[Line, ...]) -> bool:
    longest = 0
    readings: dict[str, object] = {}
    room = len(items) - index
    first = items[index]
    for line in lines:
        length = len(line.steps)
        if length < longest or length > room or not _fits(items, index, line):
            continue
        if length == 1 and line.kind in first.readings:
            continue
        arguments = _arguments(items, index, line)
        meaning: object = next((part for part in arguments if isinstance(part, Problem)), None)
        if meaning is None:
            meaning = line.build(*arguments)
        if meaning is None:
            continue
        if length > longest:
            longest = length
            readings = {}
        readings.setdefault(line.kind, meaning)
    if not longest:
        return False
    last = items[index + longest - 1]
    if longest == 1:
        readings = {**first.readings, **readings}
    word = first.word if longest == 1 else ""
    items[index : index + longest] = [Item(word, readings, first.start, last.end)]
    return True


def _fits(items: list[Item], index: int, line: Line) -> bool:
    for offset, step in enumerate(line.steps):
        item = items[index + offset]
        if item.word in step.words:
            continue
        readings = item.readings
        for kind in step.kinds:
            if kind in readings:
                break
        else:
            return False
    return True


def _arguments(items: list[Item], index: int, line: Line) -> list[object]:
    arguments: list[object] = []
    for slot in line.slots:
        if slot is None:
            arguments.append(None)
            continue
        readings = items[index + slot].readings
        for kind in line.steps[slot].kinds:
            if kind in readings:
                arguments.append(readings[kind])
                break
    return arguments


def _step(place: str) -> Step:
    if place.startswith("<"):
        return Step(frozenset(), tuple(place.strip("<>").split("|")))
    return Step(frozenset(place.split("|")), ())


def _lines(rule: Rule) -> list[Line]:
    kind, pattern, build = rule
    places = pattern.split()
    choices = [(True, False) if place.endswith("?") else (True,) for place in places]
    lines = []
    for taken in product(*choices):
        steps: list[Step] = []
        slots: list[int | None] = []
        for place, is_taken in zip(places, taken, strict=True):
            step = _step(place.rstrip("?"))
            if step.kinds:
                slots.append(len(steps) if is_taken else None)
            if is_taken:
                steps.append(step)
        if steps:
            lines.append(Line(kind, tuple(steps), tuple(slots), build))
    return lines
