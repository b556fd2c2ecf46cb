"""What labels mean: the same as the rules read in the same words, since the same code computes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agentkit.errors import ParseError
from agentkit.schedules.parser import parse_schedule
from agentkit.schedules.parser.hand_over import have_same_runs
from agentkit.schedules.parser.labels import Request, plan_of
from agentkit.schedules.parser.reply import ScheduleReply

NOW = datetime.fromisoformat("2026-02-10T13:45:00-06:00")
ZONE = "America/Chicago"

ONCE: Any = {"type": "once"}
DELAY: Any = {"type": "delay"}
REPEAT: Any = {"type": "repeat"}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("tomorrow at 9 call", {**ONCE, "day": "tomorrow", "times": ["9"]}),
        ("at 3 call", {**ONCE, "times": ["3"]}),
        ("at 9 call", {**ONCE, "times": ["at 9"]}),
        ("tonight call", {**ONCE, "day": "today", "part_of_day": "night"}),
        ("tonight call", {**ONCE, "day": "tonight"}),
        ("tomorrow evening at 8 call", {**ONCE, "day": "tomorrow", "times": ["8"], "part_of_day": "evening"}),
        ("end of day call", {**ONCE, "part_of_day": "end of day"}),
        ("next Friday call", {**ONCE, "day": "next friday"}),
        ("Friday at noon call", {**ONCE, "day": "Friday", "times": ["noon"]}),
        ("on the 20th call", {**ONCE, "day": "the 20th"}),
        ("on 3 March 2027 at 17:30 call", {**ONCE, "day": "2027-03-03", "times": ["17:30"]}),
        ("on the last day of next month call", {**ONCE, "day": "last day of next month"}),
        ("2 days before Christmas call", {**ONCE, "day": "2 days before christmas"}),
        ("in 90 minutes call", {**DELAY, "amount": 90, "unit": "minute"}),
        ("in half an hour call", {**DELAY, "amount": 0.5, "unit": "hour"}),
        (
            "in 1 hour and 15 minutes call",
            {**DELAY, "amount": 1, "unit": "hour", "extra_amount": 15, "extra_unit": "minute"},
        ),
        ("in 3 days at 8am call", {**DELAY, "amount": 3, "unit": "day", "times": ["8am"]}),
        ("in 2 months call", {**DELAY, "amount": 2, "unit": "month"}),
        ("in 3 business days call", {**DELAY, "amount": 3, "unit": "workday"}),
        ("every Monday at 9 call", {**REPEAT, "amount": 1, "unit": "week", "weekdays": ["monday"], "times": ["9"]}),
        ("every Monday at 9 call", {**REPEAT, "weekdays": ["monday"], "times": ["9"]}),
        ("every Monday at 9 call", {**REPEAT, "amount": 1, "unit": "day", "weekdays": ["monday"], "times": ["9"]}),
        ("every weekday at 8:45 call", {**REPEAT, "weekdays": ["workday"], "times": ["8:45"]}),
        ("every weekday at 8:45 call", {**REPEAT, "amount": 1, "unit": "workday", "times": ["8:45"]}),
        ("every weekend at 10 call", {**REPEAT, "weekdays": ["weekend"], "times": ["10"]}),
        (
            "every other Friday at 16:00 call",
            {**REPEAT, "amount": 2, "unit": "week", "weekdays": ["friday"], "times": ["16:00"]},
        ),
        ("every 3 days at 7 call", {**REPEAT, "amount": 3, "unit": "day", "times": ["7"]}),
        ("every 45 minutes call", {**REPEAT, "amount": 45, "unit": "minute"}),
        ("every 15 minutes call", {**REPEAT, "amount": 15, "unit": "minute"}),
        (
            "every hour and a half call",
            {**REPEAT, "amount": 1, "unit": "hour", "extra_amount": 30, "extra_unit": "minute"},
        ),
        ("at 20 past every hour call", {**REPEAT, "minute_of_hour": 20}),
        (
            "every 2 hours between 9 and 17 on weekdays call",
            {**REPEAT, "amount": 2, "unit": "hour", "hours_from": "9", "hours_to": "17", "weekdays": ["workday"]},
        ),
        ("every day at 7:15 and 21:45 call", {**REPEAT, "amount": 1, "unit": "day", "times": ["7:15", "21:45"]}),
        ("every morning call", {**REPEAT, "amount": 1, "unit": "day", "part_of_day": "morning"}),
        ("every day except Sunday at 9 call", {**REPEAT, "unit": "day", "amount": 1, "except_weekdays": ["sunday"]}),
        (
            "on the first Monday of every month at 10 call",
            {**REPEAT, "nth": 1, "weekdays": ["monday"], "times": ["10"]},
        ),
        (
            "on the last workday of every month at 5pm call",
            {**REPEAT, "nth": -1, "weekdays": ["workday"], "times": ["5pm"]},
        ),
        (
            "on the third workday of every month at 5pm call",
            {**REPEAT, "nth": 3, "weekdays": ["workday"], "times": ["5pm"]},
        ),
        ("on the 1st and 15th of every month call", {**REPEAT, "month_days": [1, 15]}),
        ("on the last day of every month call", {**REPEAT, "month_days": [-1]}),
        ("every year on 17 March call", {**REPEAT, "months": [3], "month_days": [17]}),
        ("every 3 months call", {**REPEAT, "amount": 3, "unit": "month"}),
        ("quarterly call", {**REPEAT, "amount": 1, "unit": "quarter"}),
        ("every Monday in January at 9 call", {**REPEAT, "weekdays": ["monday"], "months": [1], "times": ["9"]}),
        ("every day at 9 until Friday call", {**REPEAT, "unit": "day", "amount": 1, "times": ["9"], "until": "friday"}),
        (
            "every day at 9 starting on 1 March until the end of March call",
            {
                **REPEAT,
                "unit": "day",
                "amount": 1,
                "times": ["9"],
                "starting": "1 march",
                "until": "until end of march",
            },
        ),
        (
            "every day at 9 for 4 weeks call",
            {**REPEAT, "unit": "day", "amount": 1, "times": ["9"], "for_amount": 4, "for_unit": "week"},
        ),
        ("every day at 9, 10 times, call", {**REPEAT, "unit": "day", "amount": 1, "times": ["9"], "count": 10}),
        (
            "every day at 9 Tokyo time call",
            {**REPEAT, "unit": "day", "amount": 1, "times": ["9"], "zone_words": "Tokyo time", "zone": "Asia/Tokyo"},
        ),
        (
            "tomorrow at 9 UTC+2 call",
            {**ONCE, "day": "tomorrow", "times": ["9"], "zone_words": "UTC+2", "zone": "Etc/GMT-2"},
        ),
        ("tomorrow at 9 ET call", {**ONCE, "day": "tomorrow", "times": ["9"], "zone_words": "ET", "zone": "EST"}),
    ],
)
async def test_labels_mean_what_the_rules_read(text: str, labels: dict[str, Any]) -> None:
    """Dates, seconds, cron and bounds come out as if the words had been read."""
    expected = await parse_schedule(text, now=NOW, timezone=ZONE)

    plan = plan_of(ScheduleReply(task="call", **labels), Request(text=text, now=NOW, timezone=ZONE))

    assert expected.question is None
    assert have_same_runs(plan, expected, NOW), (plan, expected)
    assert plan.until == expected.until
    assert (plan.description, plan.source) == ("call", "model")


async def test_a_zone_that_the_rules_don_t_know() -> None:
    """A city that is in no list of ours: the model says its zone, the words must be the request's."""
    reply = ScheduleReply(
        type="repeat", task="call", amount=1, unit="day", zone_words="Tashkent time", zone="asia/tashkent"
    )

    plan = plan_of(reply, Request(text="call every day at 9 Tashkent time", now=NOW, timezone=ZONE))

    assert plan.when.type == "cron"
    assert plan.when.timezone == "Asia/Tashkent"


async def test_the_rules_know_better_what_zone_words_mean() -> None:
    """A model that takes London for another city changes nothing."""
    reply = ScheduleReply(
        type="repeat", task="call", amount=1, unit="day", zone_words="London time", zone="America/Toronto"
    )

    plan = plan_of(reply, Request(text="call every day at 9 London time", now=NOW, timezone=ZONE))

    assert plan.when.type == "cron"
    assert plan.when.timezone == "Europe/London"


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Erinnere mich morgen: Müll rausbringen!", "Müll rausbringen"),
        ("明天提醒我9点给妈妈打电话", "给妈妈打电话"),
        ("lembre-me de PAGAR a conta, amanhã", "pagar a conta"),
        ("Ｔｏｍｏｒｒｏｗ call Ann", "call Ann"),
    ],
)
def test_tasks_are_the_users_own_words(text: str, task: str) -> None:
    """Upper case, width and punctuation don't matter, and words may be left out between others."""
    reply = ScheduleReply(type="once", task=task, day="tomorrow")

    plan = plan_of(reply, Request(text=text, now=NOW, timezone=ZONE))

    assert plan.description == task


@pytest.mark.parametrize("day", ["in my dreams", "tomorrow and friday", "every friday", "x" * 500, "3/4", "9:30 or 10"])
def test_words_that_aren_t_a_day_are_refused(day: str) -> None:
    """The rules' grammar must read every word of a label."""
    with pytest.raises(ParseError, match="day "):
        plan_of(ScheduleReply(type="once", day=day), Request(text="x", now=NOW, timezone=ZONE))
