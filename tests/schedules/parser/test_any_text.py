"""Whatever the text, the rules answer: they never raise, and what they answer can be scheduled."""

from __future__ import annotations

import asyncio
from datetime import datetime

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

# An ordinary day, both clock changes, a leap day, the end of a year and of a month, the first minutes of a day.
NOWS = [
    datetime.fromisoformat(text)
    for text in (
        "2026-02-10T13:45:00+00:00",
        "2026-03-08T07:59:30+00:00",
        "2026-10-25T00:30:00+00:00",
        "2028-02-29T23:59:59+00:00",
        "2026-12-31T23:30:00+00:00",
        "2026-04-30T22:15:00+00:00",
        "2027-01-03T00:01:00+00:00",
    )
]
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


def read(text: str, zone: str, now: datetime = NOWS[0]) -> ParsedSchedule:
    return asyncio.run(parse_schedule(text, now=now, timezone=zone))


@settings(max_examples=400, derandomize=True, deadline=None)
@given(text=st.text(max_size=200), zone=st.sampled_from(ZONES))
def test_any_text_has_an_answer(text: str, zone: str) -> None:
    """No text raises."""
    plan = read(text, zone)

    assert plan.source == "rules"


@settings(max_examples=1000, derandomize=True, deadline=None)
@given(words=st.lists(ENGLISH, max_size=12), zone=st.sampled_from(ZONES), now=st.sampled_from(NOWS))
def test_timing_words_in_any_order_make_a_sound_plan(words: list[str], zone: str, now: datetime) -> None:
    """Timing words thrown together never raise, and a plan without a question passes every check."""
    plan = read(" ".join(words), zone, now)

    assert plan.question or fault_of(plan, now) is None


@settings(max_examples=600, derandomize=True, deadline=None)
@given(data=st.data(), language=st.sampled_from(sorted(OTHERS)))
def test_other_languages_make_a_sound_plan(data: st.DataObject, language: str) -> None:
    """The same for the other languages."""
    words = data.draw(st.lists(OTHERS[language], min_size=1, max_size=10))
    joint = "" if language.endswith(("chinese", "japanese")) else " "

    now = data.draw(st.sampled_from(NOWS))
    plan = read(joint.join(words), "Europe/Berlin", now)

    assert plan.question or fault_of(plan, now) is None
