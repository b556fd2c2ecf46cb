"""What may be passed as ``when`` and beside it: what it becomes, and what is refused, with nothing stored."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.tz import gettz
from pydantic import BaseModel, SecretStr

from agentkit import Agent, Recurrence, RetryPolicy
from agentkit.errors import NothingToScheduleError, PayloadError, ScheduleError, ScheduleNotClearError
from agentkit.schedules.parser import (
    Cron,
    Delayed,
    Interval,
    NoSchedule,
    ParsedSchedule,
    Rrule,
    Scheduled,
)
from agentkit.schedules.schedule import Schedule
from agentkit.store.store import AgentId, JobRow
from agentkit.testing import ManualRuntime

START = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)


class Note(BaseModel):
    """What a reminder says."""

    text: str


class Login(BaseModel):
    """Holds what must not be stored."""

    user: str
    password: SecretStr


class Bot(Agent[None]):
    """Takes all kinds of payloads."""

    async def remind(self, payload: Any) -> None:
        """Take anything."""

    async def note(self, payload: Note) -> None:
        """Take a model."""

    async def log_in(self, payload: Login) -> None:
        """Take a model with a secret."""

    async def three(self, payload: Any, schedule: Schedule, more: int) -> None:
        """Take too much."""

    async def by_name(self, *, payload: Any) -> None:
        """Take what is never given."""

    def other(self) -> Other:
        """Return no callback."""
        return Other()


class Other:
    """Not the agent."""

    async def remind(self, payload: Any) -> None:
        """Look like a callback."""


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    """Return a runtime whose clock stands at the start of 2026."""
    async with ManualRuntime(Bot) as runtime:
        yield runtime


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


# --- what when may be


@pytest.mark.parametrize(
    ("when", "delay"),
    [
        (60, timedelta(seconds=60)),
        (0, timedelta(0)),
        (1.5, timedelta(seconds=1.5)),
        (0.0004, timedelta(milliseconds=1)),
        (timedelta(hours=2), timedelta(hours=2)),
        (timedelta(microseconds=1), timedelta(milliseconds=1)),
        (timedelta(days=3650), timedelta(days=3650)),
    ],
)
async def test_delay(bot: Bot, when: float | timedelta, delay: timedelta) -> None:
    """Seconds and timedeltas are a delay from now, rounded up to the millisecond."""
    schedule = await bot.schedule(when, "remind")

    assert schedule.type == "delayed"
    assert schedule.delay == delay
    assert schedule.next_run == START + delay


@pytest.mark.parametrize(
    "zone",
    [UTC, ZoneInfo("Asia/Tokyo"), timezone(timedelta(hours=-3, minutes=-30)), gettz("America/New_York")],
    ids=["utc", "zoneinfo", "offset", "dateutil"],
)
async def test_instant(bot: Bot, zone: Any) -> None:
    """An aware datetime of any kind is the instant it names."""
    when = datetime(2026, 7, 1, 9, 30, tzinfo=zone)

    schedule = await bot.schedule(when, "remind")

    assert schedule.type == "scheduled"
    assert schedule.next_run == when
    assert (schedule.delay, schedule.cron, schedule.interval, schedule.rrule) == (None, None, None, None)


async def test_instant_is_rounded_up_to_the_millisecond(bot: Bot) -> None:
    """A run is never early, not by a microsecond either."""
    schedule = await bot.schedule(START + timedelta(microseconds=1), "remind")

    assert schedule.next_run == START + timedelta(milliseconds=1)


async def test_text_is_a_cron_expression(bot: Bot) -> None:
    """A text is cron, read by the clock of the zone."""
    schedule = await bot.schedule("0 9 * * MON-FRI", "remind", timezone=BERLIN)

    assert (schedule.type, schedule.cron, schedule.timezone) == ("cron", "0 9 * * MON-FRI", BERLIN)
    assert schedule.next_run == datetime(2026, 1, 1, 9, tzinfo=ZoneInfo(BERLIN))


async def test_recurrence(bot: Bot) -> None:
    """What cron can't say is an RFC 5545 rule; its own zone comes first."""
    rule = Recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0", BERLIN)

    schedule = await bot.schedule(rule, "remind", timezone="Asia/Tokyo")

    assert (schedule.type, schedule.rrule, schedule.timezone) == ("rrule", rule.rrule, BERLIN)
    assert schedule.next_run == datetime(2026, 1, 2, 9, tzinfo=ZoneInfo(BERLIN))
    assert await bot.next_runs(schedule.id, 2) == [
        datetime(2026, 1, 2, 9, tzinfo=ZoneInfo(BERLIN)),
        datetime(2026, 1, 16, 9, tzinfo=ZoneInfo(BERLIN)),
    ]


async def test_recurrence_without_a_zone_goes_by_the_one_given(bot: Bot) -> None:
    """A rule that names no zone is read in that of the call."""
    rule = Recurrence("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0")

    schedule = await bot.schedule(rule, "remind", timezone="Asia/Tokyo")

    assert schedule.timezone == "Asia/Tokyo"
    assert schedule.next_run == datetime(2026, 1, 2, 9, tzinfo=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize("interval", [1, 60, 90.5, timedelta(days=1), timedelta(days=3650)])
async def test_interval(bot: Bot, interval: float | timedelta) -> None:
    """An interval first runs after one interval."""
    schedule = await bot.schedule_every(interval, "remind")

    duration = interval if isinstance(interval, timedelta) else timedelta(seconds=interval)
    assert (schedule.type, schedule.interval) == ("interval", duration)
    assert schedule.next_run == START + duration


def plan(when: Any, **bounds: Any) -> ParsedSchedule:
    """Return a request that was understood."""
    return ParsedSchedule(description="stand up", when=when, **bounds)


@pytest.mark.parametrize(
    ("parsed", "type", "next_run"),
    [
        (plan(Delayed(delay_in_seconds=600)), "delayed", START + timedelta(minutes=10)),
        (plan(Scheduled(date=START + DAY)), "scheduled", START + DAY),
        (
            plan(Cron(cron="0 9 * * *", timezone=BERLIN)),
            "cron",
            datetime(2026, 1, 1, 9, tzinfo=ZoneInfo(BERLIN)),
        ),
        (plan(Interval(interval_seconds=7200)), "interval", START + timedelta(hours=2)),
        (plan(Interval(interval_seconds=7200), starts_at=START + DAY), "interval", START + DAY),
        (
            plan(Rrule(rrule="FREQ=WEEKLY;INTERVAL=2", timezone=BERLIN), starts_at=START + DAY),
            "rrule",
            START + DAY,
        ),
    ],
    ids=["delayed", "scheduled", "cron", "interval", "interval from", "rrule"],
)
async def test_plan(bot: Bot, parsed: ParsedSchedule, type: str, next_run: datetime) -> None:
    """A sentence that was understood becomes the schedule it says."""
    schedule = await bot.schedule(parsed, "remind")

    assert schedule.type == type
    assert schedule.next_run == next_run


async def test_bounds_of_a_plan(bot: Bot) -> None:
    """Start, end and number of runs come with the plan."""
    until = START + 9 * DAY
    parsed = plan(Cron(cron="0 9 * * *", timezone="UTC"), starts_at=START + DAY, until=until, count=3)

    schedule = await bot.schedule(parsed, "remind")

    assert (schedule.starts_at, schedule.until, schedule.remaining) == (START + DAY, until, 3)
    assert schedule.next_run == START + DAY + timedelta(hours=9)


async def test_arguments_come_before_the_bounds_of_a_plan(bot: Bot) -> None:
    """What the code says wins over what the sentence said."""
    parsed = plan(Cron(cron="0 9 * * *", timezone="UTC"), until=START + 9 * DAY, count=3)

    schedule = await bot.schedule(parsed, "remind", until=START + 2 * DAY, count=5)

    assert (schedule.until, schedule.remaining) == (START + 2 * DAY, 5)


async def test_plan_with_a_question_is_refused(bot: Bot) -> None:
    """A guess is not scheduled: the error carries what to ask."""
    parsed = plan(Scheduled(date=START + DAY), question="9 in the morning or in the evening?")

    with pytest.raises(ScheduleNotClearError) as caught:
        await bot.schedule(parsed, "remind")

    assert caught.value.question == "9 in the morning or in the evening?"


async def test_plan_without_a_schedule_is_refused(bot: Bot) -> None:
    """Chat asks for no schedule; the error says what to check."""
    with pytest.raises(NothingToScheduleError, match=r"check plan\.when\.type"):
        await bot.schedule(plan(NoSchedule()), "remind")


# --- what is refused

Call = Callable[[Bot], Awaitable[Any]]


def setting(*arguments: Any, **keywords: Any) -> Call:
    """Return a call of ``schedule`` with a callback that is fine."""
    return lambda bot: bot.schedule(arguments[0], "remind", *arguments[1:], **keywords)


def calling(callback: Any, payload: Any = None) -> Call:
    """Return a call of ``schedule`` with a time that is fine."""
    return lambda bot: bot.schedule(60, callback, payload)


def repeating(interval: Any, **keywords: Any) -> Call:
    """Return a call of ``schedule_every``."""
    return lambda bot: bot.schedule_every(interval, "remind", **keywords)


def daily(**keywords: Any) -> Call:
    """Return a call with an expression that is fine."""
    return setting("0 9 * * *", **keywords)


NAIVE = datetime(2026, 2, 1, 9, 30)
REFUSED: dict[str, tuple[Call, type[Exception], list[str]]] = {
    # when
    "naive datetime": (setting(NAIVE), ScheduleError, ["2026-02-01T09:30:00", "no time zone", "ZoneInfo("]),
    "NaN": (setting(math.nan), ScheduleError, ["nan", "finite number of seconds"]),
    "infinity": (setting(math.inf), ScheduleError, ["inf", "finite number of seconds"]),
    "negative delay": (setting(-1), ScheduleError, ["-1", "not be negative", "aware datetime"]),
    "negative timedelta": (setting(timedelta(seconds=-5)), ScheduleError, ["-1, seconds=86395", "negative"]),
    "endless delay": (setting(timedelta(days=3_000_000)), ScheduleError, ["3000000 days", "9999"]),
    "bool": (setting(True), ScheduleError, ["True", "seconds, a timedelta, an aware datetime"]),
    "None": (setting(None), ScheduleError, ["None", "a cron expression, a Recurrence"]),
    "list": (setting([1]), ScheduleError, ["[1]", "seconds, a timedelta"]),
    "bytes": (setting(b"* * * * *"), ScheduleError, ["b'* * * * *'", "a cron expression"]),
    # cron and zones
    "six fields": (setting("0 0 9 * * *"), ScheduleError, ["'0 0 9 * * *'", "6 fields", "no seconds"]),
    "no cron": (setting("tomorrow at 9"), ScheduleError, ["'tomorrow at 9'", "five are needed"]),
    "empty text": (setting(""), ScheduleError, ["''", "five are needed"]),
    "never runs": (setting("0 0 31 2 *"), ScheduleError, ["'0 0 31 2 *'", "never runs", "change day or month"]),
    "unknown zone": (daily(timezone="Europe/Berln"), ScheduleError, ["'Europe/Berln'", "IANA name"]),
    "empty zone": (daily(timezone=""), ScheduleError, ["''", "IANA name"]),
    "abbreviated zone": (daily(timezone="CEST"), ScheduleError, ["'CEST'", "IANA name"]),
    "zone object": (daily(timezone=ZoneInfo(BERLIN)), ScheduleError, ["Europe/Berlin')", "IANA name"]),
    "rule in the past": (
        setting(Recurrence("FREQ=DAILY;UNTIL=20200101T000000Z")),
        ScheduleError,
        ["UNTIL=20200101T000000Z", "never runs any more", "another rule"],
    ),
    # intervals
    "interval 0": (repeating(0), ScheduleError, ["got 0", "1 s to ten years"]),
    "interval 0.5": (repeating(0.5), ScheduleError, ["got 0.5", "1 s to ten years"]),
    "interval of 20 years": (repeating(timedelta(days=7305)), ScheduleError, ["7305", "1 s to ten years"]),
    "negative interval": (repeating(-60), ScheduleError, ["got -60", "1 s to ten years"]),
    "NaN interval": (repeating(math.nan), ScheduleError, ["nan", "finite number of seconds"]),
    "bool interval": (repeating(True), ScheduleError, ["True", "seconds or a timedelta"]),
    "text interval": (repeating("60"), ScheduleError, ["'60'", "seconds or a timedelta"]),
    # callbacks
    "lambda": (calling(lambda: None), ScheduleError, ["<lambda>", "not a method", "self.send_reminder"]),
    "partial": (
        calling(functools.partial(Other().remind, 1)),
        ScheduleError,
        ["functools.partial", "only the name is stored"],
    ),
    "function": (calling(Bot.remind), ScheduleError, ["Bot.remind", "pass a bound method"]),
    "other object": (calling(Other().remind), ScheduleError, ["Other.remind", "another object's method"]),
    "no callable": (calling(7), ScheduleError, ["7", "pass a bound method"]),
    "unknown callback": (calling("remnid"), ScheduleError, ["'remnid'", "methods of Bot"]),
    "dunder": (calling("__init__"), ScheduleError, ["'__init__'", "methods of Bot"]),
    "attribute": (calling("scheduler"), ScheduleError, ["'scheduler'", "methods of Bot"]),
    "property": (calling("storage"), ScheduleError, ["'storage'", "methods of Bot"]),
    "three arguments": (calling("three"), ScheduleError, ["Bot.three", "3 arguments", "(payload, schedule)"]),
    "by name only": (calling("by_name"), ScheduleError, ["Bot.by_name", "payload=", "(payload, schedule)"]),
    # payloads
    "set": (calling("remind", {"tags": {1}}), PayloadError, ["payload.tags", "set", "a list for a set"]),
    "payload bytes": (calling("remind", b"x"), PayloadError, ["payload", "bytes", "base64"]),
    "payload NaN": (calling("remind", [1, math.nan]), PayloadError, ["payload[1]", "nan", "use None"]),
    "number as key": (calling("remind", {1: 2}), PayloadError, ["the key 1", "use str(key)"]),
    "object": (calling("remind", {"a": [object()]}), PayloadError, ["payload.a[0]", "object", "convert"]),
    "secret": (calling("remind", {"key": SecretStr("x")}), PayloadError, ["payload.key", "SecretStr"]),
    "model with a secret": (
        calling("remind", Login(user="ada", password=SecretStr("x"))),
        PayloadError,
        ["payload", "Login", "store a reference"],
    ),
    "dict read as a secret": (
        calling("log_in", {"user": "ada", "password": "x"}),
        PayloadError,
        ["payload", "Login", "store a reference"],
    ),
    "wrong type": (calling("note", {"text": 5}), PayloadError, ["payload.text", "annotation refuses", "string"]),
    "missing field": (calling("note", {}), PayloadError, ["payload.text", "required"]),
    "no payload": (calling("note"), PayloadError, ["payload", "annotation refuses"]),
    # options
    "unknown option": (daily(retries=3), TypeError, ["retries"]),
    "unknown option of every": (repeating(60, grace=5), TypeError, ["grace"]),
    "catch_up": (daily(catch_up="sometimes"), ScheduleError, ["'sometimes'", '"once", "skip" or "all"']),
    "count 0": (daily(count=0), ScheduleError, ["got 0", "1 or more"]),
    "count -1": (daily(count=-1), ScheduleError, ["got -1", "1 or more"]),
    "count True": (daily(count=True), ScheduleError, ["got True", "whole number"]),
    "count 1.5": (daily(count=1.5), ScheduleError, ["got 1.5", "whole number"]),
    "count text": (daily(count="3"), ScheduleError, ["got '3'", "whole number"]),
    "empty key": (daily(key=""), ScheduleError, ["''", "leave it out"]),
    "blank key": (daily(key=" \t"), ScheduleError, ["' \\t'", "leave it out"]),
    "number as key of a schedule": (daily(key=5), ScheduleError, ["got 5", "a text"]),
    "long key": (daily(key="ä" * 501), ScheduleError, ["ää", "1,000 bytes"]),
    "naive start": (daily(starts_at=NAIVE), ScheduleError, ["starts_at 2026-02-01T09:30:00", "ZoneInfo("]),
    "naive end": (daily(until=NAIVE), ScheduleError, ["until 2026-02-01T09:30:00", "ZoneInfo("]),
    "end as a text": (daily(until="2026-02-01"), ScheduleError, ["'2026-02-01'", "aware datetime"]),
    "end in the past": (daily(until=START - DAY), ScheduleError, ["2025-12-31", "choose other bounds"]),
    "end before the start": (
        daily(starts_at=START + 9 * DAY, until=START + 8 * DAY),
        ScheduleError,
        ["starts_at 2026-01-10", "until 2026-01-09", "never runs"],
    ),
    "timeout 0": (daily(timeout=0), ScheduleError, ["got 0", "more than 0 s"]),
    "negative timeout": (daily(timeout=-1), ScheduleError, ["got -1", "more than 0 s"]),
    "NaN timeout": (daily(timeout=math.nan), ScheduleError, ["nan", "finite number of seconds"]),
    "bool timeout": (daily(timeout=True), ScheduleError, ["True", "seconds or a timedelta"]),
    "number as retry": (daily(retry=5), ScheduleError, ["got 5", "RetryPolicy(max_attempts=5)"]),
    "end of a one-shot": (setting(60, until=START + DAY), ScheduleError, ["until", "runs once"]),
    "start of a one-shot": (setting(60, starts_at=START + DAY), ScheduleError, ["starts_at", "runs once"]),
    "count of a one-shot": (setting(START + DAY, count=3), ScheduleError, ["count", "runs once"]),
    "catch_up of a one-shot": (setting(60, catch_up="skip"), ScheduleError, ["catch_up", "runs once"]),
}


async def stored(runtime: ManualRuntime) -> tuple[list[JobRow], Any]:
    """Return what the store has of the agent."""
    summaries = await runtime.store.agents()
    return await runtime.store.jobs(AgentId("Bot", "ada")), [summary[:2] for summary in summaries]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_refused(runtime: ManualRuntime, bot: Bot, call: Call, error: type[Exception], words: list[str]) -> None:
    """An error names the value and says what to do instead; nothing is stored and nothing changed."""
    await bot.schedule("0 7 * * *", "remind", key="here before")
    before = await stored(runtime)

    with pytest.raises(error) as caught:
        await call(bot)

    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert await stored(runtime) == before
    assert runtime.events.count("schedule:create") == 1


async def test_refused_schedule_leaves_what_its_key_named(runtime: ManualRuntime, bot: Bot) -> None:
    """A replacement that can't be made does not take the old one away."""
    await bot.schedule("0 7 * * *", "note", {"text": "stand up"}, key="morning")
    before = await stored(runtime)

    with pytest.raises(PayloadError):
        await bot.schedule("0 7 * * *", "note", {"text": 7}, key="morning")

    assert await stored(runtime) == before


@pytest.mark.parametrize("field", ["max_attempts", "base_delay", "max_delay"])
def test_impossible_retry_names_its_field(field: str) -> None:
    """A policy is checked where it is written."""
    with pytest.raises(ValueError, match=field):
        RetryPolicy(**{field: -1})
