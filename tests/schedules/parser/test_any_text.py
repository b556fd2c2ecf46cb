"""Whatever the text, the rules answer: they never raise, and what they answer can be scheduled."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.schedules.parser import ParsedSchedule, parse_schedule
from agentkit.schedules.parser.languages import (
    chinese,
    english_words,
    french_words,
    german_words,
    japanese,
    spanish_words,
)
from agentkit.schedules.parser.validate import fault_of

NOW = datetime(2026, 2, 10, 13, 45, tzinfo=UTC)
ZONES = ("America/Chicago", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")


def words_of(vocabulary: dict[str, dict[str, object]]) -> list[str]:
    return sorted({word for phrases in vocabulary.values() for word in phrases})


GLUE = [
    "in",
    "at",
    "on",
    "every",
    "each",
    "other",
    "from",
    "to",
    "until",
    "for",
    "and",
    "or",
    "the",
    "a",
    "an",
    "of",
    "next",
    "this",
    "last",
    "remind",
    "me",
    "call",
    ",",
    ".",
    "-",
    ":",
    "?",
    "!",
    "9",
    "15",
    "31",
]
GLUE += ["17:30", "5pm", "2026-03-01", "3/4", "-5", "0", "2.5", "25:00", "99999", "half", "past", "times", "between"]
ENGLISH = st.sampled_from(words_of(english_words.VOCABULARY) + GLUE * 6)
OTHERS = {
    module.__name__: st.sampled_from(words_of(module.VOCABULARY) + GLUE)
    for module in (german_words, spanish_words, french_words, chinese, japanese)
}


def read(text: str, zone: str) -> ParsedSchedule:
    return asyncio.run(parse_schedule(text, now=NOW, timezone=zone))


@settings(max_examples=400, derandomize=True, deadline=None)
@given(text=st.text(max_size=200), zone=st.sampled_from(ZONES))
def test_any_text_has_an_answer(text: str, zone: str) -> None:
    """No text raises."""
    plan = read(text, zone)

    assert plan.source == "rules"


@settings(max_examples=1500, derandomize=True, deadline=None)
@given(words=st.lists(ENGLISH, max_size=12), zone=st.sampled_from(ZONES))
def test_timing_words_in_any_order_make_a_sound_plan(words: list[str], zone: str) -> None:
    """Timing words thrown together never raise, and a plan without a question passes every check."""
    plan = read(" ".join(words), zone)

    assert plan.question or fault_of(plan, NOW) is None


@settings(max_examples=800, derandomize=True, deadline=None)
@given(data=st.data(), language=st.sampled_from(sorted(OTHERS)))
def test_other_languages_make_a_sound_plan(data: st.DataObject, language: str) -> None:
    """The same for the other languages."""
    words = data.draw(st.lists(OTHERS[language], min_size=1, max_size=10))
    joint = "" if language.endswith(("chinese", "japanese")) else " "

    plan = read(joint.join(words), "Europe/Berlin")

    assert plan.question or fault_of(plan, NOW) is None
