"""Between rules and model: which requests a model is asked about, and what becomes of two readings of one request."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from agentkit.errors import ScheduleError
from agentkit.schedules.parser.detect import detect_language
from agentkit.schedules.parser.grammar import reduce_items
from agentkit.schedules.parser.language import look_up
from agentkit.schedules.parser.parsed import NoSchedule, ParsedSchedule
from agentkit.schedules.parser.rules import LONGEST_TEXT
from agentkit.schedules.parser.sentences import judge, split_sentences
from agentkit.schedules.parser.tokens import FORBIDDEN, same_width, split_text
from agentkit.schedules.parser.upcoming import next_runs
from agentkit.schedules.parser.validate import fault_of

_RUNS_COMPARED: Final = 50
# Shorter talk that the rules don't know is "hello" and the like, in any language.
_FEWEST_CHARACTERS: Final = 6


def checked(plan: ParsedSchedule, now: datetime) -> ParsedSchedule:
    """Return the plan, with a question if it can't be scheduled: no reading is trusted."""
    if plan.question is not None or isinstance(plan.when, NoSchedule):
        return plan
    fault = fault_of(plan, now)
    if fault is None:
        return plan
    return replace(plan, question=f"That can't be scheduled: {fault}. When should it be?")


def needs_model(plan: ParsedSchedule, text: str) -> bool:
    """Tell whether the rules leave something for a model to read.

    Not what they fully understood: a plan without a question, and talk that they know to be no request. Nor a text that
    is too long, or has invisible characters: no one reads that.
    """
    if len(text) > LONGEST_TEXT or FORBIDDEN.search(text):
        return False
    if plan.question is not None:
        return True
    return isinstance(plan.when, NoSchedule) and not _is_known_talk(text)


def _is_known_talk(text: str) -> bool:
    """Tell whether the rules see a question, a statement, a command or an instruction, and not just unknown words."""
    plain = same_width(text)
    if len(plain.strip()) < _FEWEST_CHARACTERS:
        return True
    items = split_text(plain, month_first=False)
    language = detect_language(items)
    items = reduce_items(look_up(items, language), language.levels)
    kinds = {judge(part, language).kind for part in split_sentences(items, plain)}
    return bool(kinds & {"question", "statement", "command", "instruction"}) or kinds <= {"empty"}


def settled(by_rules: ParsedSchedule, by_model: ParsedSchedule, now: datetime) -> ParsedSchedule:
    """Return the model's reading, unless the rules have a guess that it contradicts: then their question stays.

    Args:
        by_rules: What the rules asked about, perhaps with a guess in ``when``.
        by_model: What the model made of the same request.
        now: The moment of the request, aware.
    """
    if isinstance(by_rules.when, NoSchedule) or have_same_runs(by_rules, by_model, now):
        return by_model
    return by_rules


def have_same_runs(first: ParsedSchedule, second: ParsedSchedule, now: datetime) -> bool:
    """Tell whether two plans run at the same moments, however they are written."""
    if first.count != second.count or (first.until is None) != (second.until is None):
        return False
    try:
        return next_runs(first, now, _RUNS_COMPARED) == next_runs(second, now, _RUNS_COMPARED)
    except ScheduleError:
        return False
