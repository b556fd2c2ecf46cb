"""The grammar's engine, and that every language's rules fit the functions they name."""

from __future__ import annotations

import inspect

import pytest

from agentkit.schedules.parser.grammar import Item, Rule, compile_level, reduce_items
from agentkit.schedules.parser.languages import (
    chinese,
    english,
    english_days,
    english_recurrences,
    french,
    german,
    japanese,
    spanish,
)
from agentkit.schedules.parser.spelling import Spelling

MODULES = (chinese, english, english_days, english_recurrences, french, german, japanese, spanish)
TABLES = [
    table
    for module in MODULES
    for table in vars(module).values()
    if isinstance(table, tuple) and table and isinstance(table[0], tuple) and len(table[0]) == 3
]
RULES: list[Rule] = list({rule: None for table in TABLES for rule in table})


def items_of(text: str, **readings: dict[str, object]) -> list[Item]:
    return [Item(word, readings.get(word, {}), place, place + 1) for place, word in enumerate(text.split())]


@pytest.mark.parametrize("rule", RULES, ids=[f"{kind}: {pattern}" for kind, pattern, _ in RULES])
def test_rule_fits_its_function(rule: Rule) -> None:
    """A rule hands its function one argument for every kind in its pattern."""
    _, pattern, build = rule
    kinds = [place for place in pattern.split() if place.startswith("<")]

    inspect.signature(build).bind(*kinds)


def test_longest_match_wins() -> None:
    """Of two rules that match, the longer one counts."""
    level = compile_level([("short", "half", lambda: 1), ("long", "half past", lambda: 2)])

    items = reduce_items(items_of("half past nine"), [level])

    assert [dict(item.readings) for item in items] == [{"long": 2}, {}]


def test_level_is_read_until_nothing_is_found() -> None:
    """A rule may need what the same level makes further right."""
    level = compile_level(
        [
            ("sum", "<number> units", lambda number: number),
            ("sum", "<sum> and <sum>", lambda left, right: left + right),
        ]
    )

    items = reduce_items(items_of("two units and three units", two={"number": 2}, three={"number": 3}), [level])

    assert [dict(item.readings) for item in items] == [{"sum": 5}]


def test_missing_place_is_none() -> None:
    """A place that may be missing hands over None."""
    level = compile_level([("date", "<month> <year>?", lambda month, year: (month, year))])

    items = reduce_items(items_of("may", may={"month": 5}), [level])

    assert items[0].readings["date"] == (5, None)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("thurdsay", "thursday"),
        ("tomorow", "tomorrow"),
        ("tomorrrow", "tomorrow"),
        ("mintues", "minutes"),
        ("early", None),
        ("frida", None),
        ("moment", None),
    ],
)
def test_slip_of_the_pen_is_read_as_meant(word: str, meant: str | None) -> None:
    """One slip is read as the timing word; words of their own are left alone."""
    assert Spelling(["thursday", "tomorrow", "minutes", "yearly", "friday", "months"]).correct(word) == meant
