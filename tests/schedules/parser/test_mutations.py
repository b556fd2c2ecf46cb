"""Requests said otherwise: politeness, word order, case, typos, numbers and zones change nothing about the reading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random

import pytest

from agentkit.cli.parse import record_of
from agentkit.schedules.parser import parse_schedule
from tests.schedules.parser.scoring import Row, is_right, keeps_task, load_rows

KEPT = 0.9
NOW = "2026-02-10T13:45:00-06:00"
ENGLISH = [row for row in load_rows() if row["lang"] == "en"]
TASKS = [row for row in ENGLISH if row["expect"]["type"] not in ("no-schedule", "clarify", "invalid")]
ZONES = {
    "London time": "Europe/London",
    "JST": "Asia/Tokyo",
    "New York time": "America/New_York",
    "UTC": "UTC",
    "PT": "America/Los_Angeles",
    "Australia/Sydney": "Australia/Sydney",
}
MISSPELT = {
    "tomorrow": "tommorow",
    "Wednesday": "Wendesday",
    "Thursday": "Thrusday",
    "Saturday": "Saterday",
    "minutes": "minuets",
    "October": "Ocotber",
    "Monday": "Mondday",
    "Friday": "Firday",
    "evening": "evenning",
    "weekday": "weekeday",
    "every": "evry",
    "morning": "mornign",
    "Tuesday": "Tuesdya",
}


async def share_right(rows: list[Row]) -> tuple[float, list[str]]:
    wrong = []
    for row in rows:
        plan = await parse_schedule(row["text"], now=datetime.fromisoformat(row["now"]), timezone=row["tz"])
        record = record_of(plan, row["tz"])
        if not (is_right(row, record) and keeps_task(row, record)):
            wrong.append(f"{row['text']} -> {record}")
    return 1 - len(wrong) / len(rows), wrong


def retold(rows: list[Row], change: Callable[[str], str]) -> list[Row]:
    return [{**row, "text": change(row["text"])} for row in rows]


def timing_last(row: Row) -> str | None:
    """Return the request with its timing moved behind the task, where it is one phrase at the start."""
    timing = next(iter(row.get("description_excludes", ())), "")
    if not timing or not row["text"].startswith(timing) or row["text"][len(timing) :].startswith((":", ".")):
        return None
    return f"{row['text'][len(timing) :].lstrip(' ,')} {timing}"


def misspelt(text: str) -> str:
    for word, slip in MISSPELT.items():
        text = text.replace(word, slip)
    return text


@pytest.mark.parametrize(
    "change",
    [
        lambda text: f"please {text}",
        lambda text: f"Hey, {text}, thanks!",
        lambda text: f"{text} please",
        lambda text: f"ok {text}. Thank you so much",
        str.upper,
        str.lower,
        lambda text: text.replace(" ", "  "),
        lambda text: f"  {text}\n",
        misspelt,
    ],
    ids=["please", "hey-thanks", "please-last", "thank-you", "upper", "lower", "spaces", "edges", "misspelt"],
)
async def test_manner_changes_nothing(change: Callable[[str], str]) -> None:
    """Politeness, case, spaces and slips of the pen leave at least nine in ten readings right."""
    share, wrong = await share_right(retold(TASKS, change))

    assert share >= KEPT, wrong


@pytest.mark.parametrize(
    "frame",
    [
        "remind me to {}",
        "can you remind me to {}?",
        "I need to {}",
        "set a reminder to {}",
        "don't let me forget to {}",
    ],
)
async def test_frame_and_order_change_nothing(frame: str) -> None:
    """The timing may stand behind the task, within any framing."""
    turned = [(row, timing_last(row)) for row in TASKS]
    rows = [{**row, "text": frame.format(text)} for row, text in turned if text is not None]

    share, wrong = await share_right(rows)

    assert len(rows) > 50
    assert share >= KEPT, wrong


async def test_talk_stays_talk() -> None:
    """What is no schedule is none in capitals or with a greeting either."""
    talk = [row for row in ENGLISH if row["expect"]["type"] == "no-schedule"]

    share, wrong = await share_right([*retold(talk, str.upper), *retold(talk, lambda text: f"hey, {text}")])

    assert share >= KEPT, wrong


def made_rows() -> list[Row]:
    """Return requests put together from parts whose meaning is known, in many zones, numbers and orders."""
    random = Random(7)
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    words = [
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
    ]
    rows = []
    for _ in range(150):
        task = random.choice(["call Zoe", "water the ferns", "email Mr. Okafor", "check the kiln", "feed 3 cats"])
        hour, minute = random.randint(13, 23), random.choice([0, 5, 10, 30, 45])
        clock = random.choice([f"{hour}:{minute:02d}", f"{hour - 12}:{minute:02d} pm", f"{hour - 12}:{minute:02d}PM"])
        zone = random.choice([None, *ZONES])
        count = random.randint(2, 15)
        number = random.choice([str(count), words[count - 2]])
        weekday = random.randint(0, 6)
        cron_day = (weekday + 1) % 7
        place = {} if zone is None else {"timezone": ZONES[zone]}
        at = f"at {clock}" if zone is None else f"at {clock} {zone}"
        timing, expect = random.choice(
            [
                (f"in {number} minutes", {"type": "delayed", "delay_in_seconds": count * 60}),
                (f"in {number} hours", {"type": "delayed", "delay_in_seconds": count * 3600}),
                (f"{number} hours from now", {"type": "delayed", "delay_in_seconds": count * 3600}),
                (f"every day {at}", {"type": "cron", "cron": [f"{minute} {hour} * * *"], **place}),
                (f"every {days[weekday]} {at}", {"type": "cron", "cron": [f"{minute} {hour} * * {cron_day}"], **place}),
                (f"{at} every {days[weekday]}", {"type": "cron", "cron": [f"{minute} {hour} * * {cron_day}"], **place}),
                (f"every weekday {at}", {"type": "cron", "cron": [f"{minute} {hour} * * 1-5"], **place}),
                (
                    f"on the {count}th of every month {at}",
                    {"type": "cron", "cron": [f"{minute} {hour} {count} * *"], **place},
                ),
                (
                    f"every day {at} for {number} times",
                    {"type": "cron", "cron": [f"{minute} {hour} * * *"], "count": count, **place},
                ),
            ]
        )
        order = random.choice(
            ["{timing} {task}", "{task} {timing}", "remind me {timing} to {task}", "{timing}, {task}"]
        )
        text = order.format(timing=timing, task=task)
        rows.append(
            {"text": text, "now": NOW, "tz": "America/Chicago", "expect": expect, "description_contains": [task]}
        )
    return rows


async def test_other_numbers_zones_and_orders_are_read() -> None:
    """Requests made of known parts are read right."""
    share, wrong = await share_right(made_rows())

    assert share >= 0.97, wrong
