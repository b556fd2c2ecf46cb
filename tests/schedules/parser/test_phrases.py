"""Phrases and what they mean, one a line, so that a new rule can't change an old reading unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agentkit.schedules.parser import ParsedSchedule, parse_schedule
from agentkit.schedules.parser.parsed import Cron, Delayed, Interval, NoSchedule, Rrule, Scheduled

ZONE = ZoneInfo("America/Chicago")
NOW = datetime(2026, 2, 10, 13, 45, tzinfo=ZONE)
LINES = (Path(__file__).parent / "data" / "phrases.tsv").read_text(encoding="utf-8").splitlines()
CASES = [line.split("\t") for line in LINES if line and not line.startswith("#")]


def outcome(plan: ParsedSchedule) -> str:
    """Return a plan in one short line, times by the wall clock of the user."""
    if plan.question is not None:
        return "question"
    words = "nothing"
    match plan.when:
        case Scheduled(date=date):
            words = shown(date)
        case Delayed(delay_in_seconds=seconds):
            words = f"in {seconds} s"
        case Interval(interval_seconds=seconds):
            words = f"every {seconds} s"
        case Cron(cron=cron, timezone=name):
            words = cron if name == ZONE.key else f"{cron} {name}"
        case Rrule(rrule=rrule):
            words = rrule
        case NoSchedule():
            return words
    for name, bound in (("from", plan.starts_at), ("until", plan.until)):
        words += "" if bound is None else f" {name} {shown(bound)}"
    return words if plan.count is None else f"{words} {plan.count} times"


def shown(moment: datetime) -> str:
    return moment.astimezone(ZONE).strftime("%Y-%m-%d %H:%M")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    # One event loop for all: a loop for each of so many phrases would take longer than the phrases.
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize(("text", "expected", "task"), CASES, ids=[case[0] for case in CASES])
def test_phrase_means_what_it_meant(runner: asyncio.Runner, text: str, expected: str, task: str) -> None:
    """Every phrase of the table is read as written there."""
    plan = runner.run(parse_schedule(text, now=NOW, timezone=ZONE.key))

    assert outcome(plan) == expected
    if expected not in ("question", "nothing"):
        assert plan.description == task
