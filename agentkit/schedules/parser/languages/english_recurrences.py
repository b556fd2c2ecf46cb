"""English: the grammar's rules for delays and recurrences."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser import amounts, days, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.languages.shared import MIDNIGHT, NOON, NOON_CLOCK
from agentkit.schedules.parser.meanings import (
    At,
    Every,
    Problem,
    Several,
    Vague,
)

# Before a recurrence is a part of its own: "every", "each" and their like.
RECURRENCES: Final[tuple[Rule, ...]] = (
    ("every", "every|each <unit>", recurrences.every_unit),
    ("every", "every|each single <unit>", recurrences.every_unit),
    ("every", "every|each <duration>", recurrences.every_duration),
    ("every", "every|each|once half - hour", lambda: Every(unit="minute", step=30)),
    ("every", "every|each other|second|alternate <unit>", recurrences.every_other),
    ("every", "every|each <ordinal> <unit>", recurrences.every_nth),
    ("every", "every|each other|second|alternate <weekday|weekdaylist|mondays>", recurrences.every_other_weekday),
    ("every", "alternate <weekday|mondays>", recurrences.every_other_weekday),
    ("every", "alternate days", lambda: Every(unit="day", step=2)),
    ("every", "every|each <ordinal> <weekday>", recurrences.nth_weekday_monthly),
    ("every", "every|each single? <weekday|weekdaylist|daykind|mondays>", recurrences.every_weekday),
    ("every", "every|each single? <part>", recurrences.every_part),
    (
        "said",
        "every|each <time>",
        lambda time: Several((Every(unit="day"), At((time,)))) if time in (NOON_CLOCK, MIDNIGHT) else None,
    ),
    ("every", "<weekday|weekdaylist> <dayparts>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("said", "on the? last <weekday>", lambda kind: phrases.on(days.nth_weekday(-1, kind))),
    ("said", "on the? <ordinal> <weekday>", lambda nth, kind: phrases.on(days.nth_weekday(nth, kind))),
    ("said", "the? <ordinal> to|-|from last|end <weekday|unit|daykind>", lambda *_: Problem("On which dates exactly?")),
    ("said", "the? penultimate <weekday|unit|daykind>", lambda *_: Problem("On which dates exactly?")),
    ("minute", "at : <number>", recurrences.minute_of_hour),
    ("minute", "at|on? <article>? quarter past", lambda _: Every(minute=15)),
    ("minute", "at|on? half past", lambda: Every(minute=30)),
    ("minute", "at|on? <article>? quarter to", lambda _: Every(minute=45)),
    ("minute", "at <number|duration> past", recurrences.minute_of_hour),
    ("every", "every|each noon|midday", lambda: Every(unit="day", part=NOON)),
    ("every", "every|each <month>", recurrences.every_month_number),
    ("every", "every|each <months>", lambda span: Every(unit="year", months=span.months)),
    ("every", "every|each <day>", recurrences.every_date),
    ("every", "every|each year on? <day>", recurrences.every_date),
    ("every", "every|each <ordinal>", lambda day: recurrences.every_date(days.day_of_month(day))),
    ("every", "every|each <monthdays>", recurrences.month_days),
    ("every", "<often> a|per|every|each <unit>", recurrences.rate),
    ("every", "<count> a|per|every|each <unit>", recurrences.times_per),
    ("every", "<number> x a|per <unit>", recurrences.rate),
    ("every", "<often> <duration>", recurrences.rate_per),
    ("every", "<number> x <duration>", recurrences.rate_per),
    ("every", "<count> <duration>", recurrences.times_per_length),
    ("every", "every|each? the? <monthdays> <weekday> of|in the|each|every month", recurrences.nth_set_monthly),
    ("every", "every|each <monthdays> <weekday>", recurrences.nth_set_monthly),
    (
        "every",
        "every|each first|1st <daykind> of|in? the|each|every? month?",
        lambda _: recurrences.nth_workday_monthly(1),
    ),
    ("every", "every|each last <daykind> of|in? the|each|every? month?", lambda _: recurrences.last_workday_monthly()),
    ("every", "<daykind> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("every", "<every> other <unit>", recurrences.every_other),
    ("every", "per <unit>", recurrences.every_unit),
    (
        "every",
        "the? <ordinal> <weekday|weekdaylist> of|in|each|every the|each|every? month",
        recurrences.nth_weekday_monthly,
    ),
    ("every", "the? last <weekday> of|in the|each|every? month", recurrences.last_weekday_monthly),
    ("every", "every|each last <weekday> of|in? the|each|every? month?", recurrences.last_weekday_monthly),
    ("every", "every|each <ordinal> <weekday> of|in the|each|every month", recurrences.nth_weekday_monthly),
    (
        "every",
        "the? <ordinal> and|& <ordinal> <weekday> of|in the|each|every month",
        lambda first, second, weekday: Every(
            unit="month", nth=frozenset((n, d) for n in (first, second) for d in weekday)
        ),
    ),
    ("every", "the? last day of|in each|every month", recurrences.last_month_day),
    ("every", "every|each month ,? on the last day", recurrences.last_month_day),
    ("every", "every|each last day of the|each|every month", recurrences.last_month_day),
    ("every", "each|every month end", recurrences.last_month_day),
    ("every", "the? end of each|every month", recurrences.last_month_day),
    ("every", "the? last <daykind> of|in the|each|every month", recurrences.last_workday_monthly),
    (
        "every",
        "the? <ordinal> <daykind> of|in the|each|every month",
        lambda nth, _: recurrences.nth_workday_monthly(nth),
    ),
    ("every", "the? <ordinal> day? of|in each|every month", lambda day: recurrences.month_days(days.single(day))),
    ("every", "the? <monthdays> day? of|in the|each|every month", recurrences.month_days),
    (
        "every",
        "<month> <ordinal|number> every|each year",
        lambda month, day: recurrences.every_date(days.month_day(month, day)),
    ),
    ("every", "<day> every|each year", recurrences.every_date),
    ("every", "<number|duration> past|after every|each|the hour", recurrences.minute_of_hour),
    ("every", "half past every|each hour", lambda: Every(unit="hour", minute=30)),
    ("every", "quarter past every|each hour", lambda: Every(unit="hour", minute=15)),
    ("every", "quarter to every|each hour", lambda: Every(unit="hour", minute=45)),
    ("every", "<number|duration> to|before every|each|the hour", recurrences.minute_before_hour),
    ("every", "minute <number> of every|each|the hour", recurrences.minute_of_hour),
    ("minute", "at|on minute <number>", lambda minute: recurrences.minute_of_hour(minute)),
    ("minute", "on the half hour", lambda: Every(minute=30)),
    ("minute", "on the hour", lambda: Every(minute=0)),
    ("every", "every|each hour on the half hour", lambda: Every(unit="hour", minute=30)),
    ("every", "every|each hour on the hour", lambda: Every(unit="hour", minute=0)),
    ("every", "<mondays>", recurrences.every_weekday),
    ("every", "on|each|every <daykind> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("every", "<weekdaylist> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("vague", "in a few|couple moments", lambda: Vague("When exactly should that be?")),
)


DELAYS: Final[tuple[Rule, ...]] = (
    ("said", "in|after|within <duration>", phrases.after),
    ("said", "in|after|within <duration> or so|less", phrases.after),
    (
        "said",
        "in|after|within about|approximately|around|exactly|roughly|just|maybe|like|approx|~ <duration>",
        phrases.after,
    ),
    ("said", "in another <duration>", phrases.after),
    ("said", "in|within under <duration>", phrases.after),
    ("said", "in less than <duration>", phrases.after),
    ("said", "in <duration> time", phrases.after),
    ("said", "in <article|number> <owned> time", lambda count, unit: phrases.after(amounts.duration(count, unit))),
    ("said", "in <duration> ' time", phrases.after),
    ("said", "in|after? <duration> from now|today", phrases.after),
    ("said", "in|after? <duration> from right now", phrases.after),
    ("said", "<duration> hence|later", phrases.after),
    ("said", "in|within the next <duration>", phrases.after),
    (
        "said",
        "in|within the next? <unit>",
        lambda unit: phrases.after(amounts.one(unit)) if unit.name in ("minute", "hour") else None,
    ),
    ("count", "<number> more? times|occurrences|repetitions|runs|reps|repeats", phrases.count_of),
    ("bare_delay", "in <number>", phrases.after_minutes),
)
