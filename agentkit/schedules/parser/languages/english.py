"""English: the grammar's rules, from numbers up to the parts of a request."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Language, make_language
from agentkit.schedules.parser.languages.english_days import AMOUNTS, DAYS, MONTHS, NUMBERS
from agentkit.schedules.parser.languages.english_intent import INTENT
from agentkit.schedules.parser.languages.english_recurrences import DELAYS, RECURRENCES
from agentkit.schedules.parser.languages.english_words import ALIASES, VOCABULARY
from agentkit.schedules.parser.languages.shared import NIGHT
from agentkit.schedules.parser.meanings import (
    Clock,
    Day,
    DayOffset,
    Duration,
    Every,
    MonthSpan,
    Part,
    Past,
    Period,
    Problem,
    Several,
    Starting,
    Until,
    Window,
    Zone,
)
from agentkit.schedules.parser.zones import ZONE_VOCABULARY, gmt_offset

WORKING: Final = Window(Clock(9, 0, exact=True), Clock(17, 0, exact=True))


LISTS: Final[tuple[Rule, ...]] = (
    ("times", "<time|number> ,? or <time|number>", amounts.either),
    ("monthday", "the <ordinal>", days.day_of_month),
    ("over", "last <weekday|unit|month|daykind|part>", lambda _: Past()),
    ("over", "<duration> ago", lambda _: Past()),
    ("over", "<duration> earlier", lambda _: Past()),
    ("over", "this past <weekday|unit>", lambda _: Past()),
    ("over", "yesterday <part>", lambda _: Past()),
    ("said", "between|from <time|number|dotted> and|to|until|till|through|- <time|number|dotted>", amounts.window),
    ("window", "<time|number|dotted> -|–|to <time>", amounts.window),
    ("window", "<number> - <number>", amounts.window),
    ("said", "<number> to|-|–|until <number> <day>", lambda start, end, day: _both(amounts.window(start, end), day)),
    ("said", "<day> ,? <number> to|-|–|until <number>", lambda day, start, end: _both(day, amounts.window(start, end))),
    ("said", "from|at|,? <time> -|–|to|until|till|through <time|number>", amounts.window),
    ("times", "<time|times> ,? and|&? <time|times>", amounts.at_more),
    ("times", "<number|padded|numbers|dotted> ,? and|&? <time|times>", amounts.at_more),
    ("times", "<time|times> ,? and|& <number|numbers|padded|dotted>", amounts.at_more),
    ("times", "<time|times> ,? and|& at <time|number|padded|dotted>", amounts.at_more),
    ("numbers", "<number|numbers|dotted> ,? and|& <number|numbers|dotted>", amounts.at_more),
    ("numbers", "<number|numbers> , <number|numbers>", amounts.at_more),
)


PARTS: Final[tuple[Rule, ...]] = (
    ("every", "on|at|in|every|each|once|only <every>", lambda every: every),
    ("every", "<every> that has one", lambda every: every),
    ("every", "<every> of <every>", recurrences.within),
    ("said", "<duration> before <time>", days.before),
    ("said", "<duration> after|past <time>", days.shifted),
    (
        "said",
        "at|by|@? <time> ,? <duration> before|prior|earlier|beforehand",
        lambda time, length: days.before(length, time),
    ),
    ("said", "<duration> before my|the|our <time>", days.before),
    ("said", "<duration> after my|the|our <time>", days.shifted),
    (
        "said",
        "the? day|night|week|evening|hour before|after|prior",
        lambda: Problem("I don't know when that is. At what time exactly?"),
    ),
    (
        "said",
        "<duration> before|after|ahead|prior",
        lambda _: Problem("I don't know when that is. At what time exactly?"),
    ),
    (
        "said",
        "<number> <tonight>",
        lambda hour, part: _both(amounts.at_one(hour), Several((DayOffset(0), part))) if 5 <= hour <= 12 else None,
    ),
    ("said", "last thing <tonight>", lambda part: Several((DayOffset(0), part))),
    (
        "said",
        "at|@|by|around|about|approximately|circa|exactly|approx|before|not <time|dotted|military|number>",
        amounts.at_one,
    ),
    ("said", "at|@|by <malformed>", lambda problem: problem),
    ("said", "no later than <time|number>", amounts.at_one),
    ("said", "at|@|by around|about|approximately|exactly <time|dotted|military|number>", amounts.at_one),
    ("said", "at|@|by <times|numbers>", lambda times: times),
    (
        "said",
        "at|@|by <time|dotted|number|military> ,? and|&|or? at <time|dotted|number|military|times>",
        amounts.at_more,
    ),
    ("said", "<day|weekday> at|@|,? <time|dotted>", lambda day, time: _both(_day(day), amounts.at_one(time))),
    ("said", "<day|weekday> at|@ <number|military>", lambda day, time: _both(_day(day), amounts.at_one(time))),
    ("said", "on|by|for|due|over|before <day|slashed|weekdaylist>", phrases.on),
    ("said", "not before|until|till <day>", phrases.on),
    ("said", "early on? <day|weekday>", phrases.on),
    ("said", "late <tonight>", lambda part: Several((DayOffset(0), part))),
    ("said", "early <day> <part>", lambda day, part: _both(day, part)),
    ("said", "on|by|for|due <weekday>", phrases.on),
    ("said", "on the <weekday>", phrases.on),
    ("said", "on|by|before|until|every <feast>", lambda _: Problem("On which date is that?")),
    ("said", "on|by|for|due <monthday>", lambda day: phrases.on(day)),
    ("said", "on|by the? <ordinal>", lambda day: phrases.on(days.day_of_month(day))),
    ("said", "on the? <monthdays>", monthly.month_days),
    ("said", "at|by|on|before <day>", phrases.on),
    ("said", "in|during|throughout|within <months>", lambda span: span),
    ("said", "in|during|throughout early? <month>", days.one_month),
    ("said", "in the month of <month>", days.one_month),
    ("said", "of|in|during|at the? hours <number|numbers|time|times>", lambda _: Problem("At which times exactly?")),
    ("said", "next|this coming? <month>", days.one_month),
    ("said", "on <daykind|mondays>", recurrences.every_weekday),
    ("said", "on <daykind|mondays> and <daykind|mondays>", lambda a, b: recurrences.every_weekday(a | b)),
    ("said", "on|over the <daykind>", lambda kind: phrases.on(Period("weekend", 0)) if len(kind) == 2 else None),
    ("said", "in|during the <part>", lambda part: part),
    ("said", "in|during the early|late <part>", lambda part: part),
    ("said", "at night", lambda: NIGHT),
    ("said", "by|at|around|before <part|phrase>", lambda part: part),
    ("said", "by|at|around the <phrase>", lambda part: part),
    ("said", "this <part>", lambda part: Several((DayOffset(0), part))),
    ("said", "by|for|until? <tonight>", lambda part: Several((DayOffset(0), part))),
    ("said", "later <tonight>", lambda part: Several((DayOffset(0), part))),
    ("said", "later this <part>", lambda part: Several((DayOffset(0), part))),
    ("said", "tomorrow <phrase> in? the? <part>", lambda _, part: Several((DayOffset(1), part))),
    ("said", "<phrase> in|of the <part>", lambda _, part: part),
    ("said", "<phrase> on? <day|weekday>", lambda part, day: _both(_day(day), part)),
    ("said", "<phrase> <day|weekday> <part>", lambda _, day, part: _both(_day(day), part)),
    ("said", "on? <day|weekday> ,? <part|phrase>", lambda day, part: _both(_day(day), part)),
    ("said", "on|in? the <part> of <day|weekday|monthday>", lambda part, day: _both(_day(day), part)),
    ("said", "until|till|til|thru|through|ending|to and? including? on? the? <day|weekday|monthday>", phrases.until),
    ("said", "until|till|til|ending at|to? <time|times>", phrases.until),
    ("said", "up to|until|till <time|times>", phrases.until),
    (
        "said",
        "until|till|til|up to? <number>",
        lambda hour: phrases.until(amounts.as_clock(hour)) if 0 < hour < 25 else None,
    ),
    ("said", "until|till|til|through|thru the? end of <month>", lambda month: Until(_month_end(month))),
    ("said", "until|till|til|through|thru <month>", lambda month: Until(_month_end(month))),
    ("said", "until|till|til|ending in <duration>", phrases.until),
    ("said", "until|till|til <duration> from now", phrases.until),
    ("said", "until|till|til|by <tonight>", lambda part: Until(DayOffset(0))),
    ("said", "until|till|til on? the? <ordinal>", lambda day: phrases.until(days.day_of_month(day))),
    (
        "said",
        "from|between <day|weekday|monthday> to|until|till|through|thru|and|- <day|weekday|monthday>",
        lambda start, end: _both(phrases.starting(start), phrases.until(end)),
    ),
    (
        "said",
        "starting|beginning|effective|commencing|as of|from|on? <day|weekday|time|monthday>",
        phrases.starting,
    ),
    ("said", "starting|beginning at <time|number>", lambda time: phrases.starting(amounts.as_clock(time))),
    ("said", "starting|beginning|from the <day|monthday>", phrases.starting),
    ("said", "starting|beginning in <month>", lambda month: phrases.starting(days.one_month(month))),
    ("said", "starting|beginning <month>", lambda month: phrases.starting(days.one_month(month))),
    ("said", "starting|beginning|start <said>", phrases.starting_said),
    ("said", "starting|beginning <duration> from now", phrases.starting),
    ("said", "as of <day|weekday>", phrases.starting),
    ("said", "from <day|weekday|time|monthday> on|onward|onwards|forward?", phrases.starting),
    ("said", "from now on|onwards?", lambda: Starting(DayOffset(0))),
    ("said", "starting|beginning now", lambda: Starting(Duration())),
    ("said", "starting|beginning <tonight>", lambda part: Starting(DayOffset(0))),
    ("said", "during|in|within <hours>", lambda _: Several((Every(weekdays=frozenset(range(5))), WORKING))),
    ("said", "for|over the? next|coming|following <duration>", phrases.lasting_from_now),
    ("said", "the next|coming <duration>", phrases.lasting_from_now),
    ("said", "for|over|during|lasting about|a|total? of? <duration>", phrases.lasting),
    ("said", "for <article>? <unit>", lambda _, unit: phrases.lasting(amounts.one(unit)) if _ else None),
    ("said", "for the rest of the <unit>", lambda unit: _rest_of(days.this_period(unit))),
    ("said", "for the rest of <day>", lambda day: Until(day)),
    ("said", "for|,|only? <count> in? total?", lambda count: count),
    ("said", "for|, up to <count>", lambda count: count),
    ("said", "at most <count>", lambda count: count),
    ("said", "a maximum of <count>", lambda count: count),
    ("said", "for? the next <count>", lambda count: count),
    ("said", "a total of <count>", lambda count: count),
    ("said", "only? <often>", lambda count: phrases.count_of(count) if count > 1 else None),
    (
        "said",
        (
            "except|excluding|besides|minus|but|bar|barring|save|skip|skipping|without not|for|on? "
            "<weekday|weekdaylist|daykind|mondays>"
        ),
        phrases.excluding,
    ),
    ("said", "except|excluding|not on|during? the? <weekday|weekdaylist|daykind|mondays>", phrases.excluding),
    ("said", "apart|aside from <weekday|weekdaylist|daykind|mondays>", phrases.excluding),
    ("said", "other than on? <weekday|weekdaylist|daykind|mondays>", phrases.excluding),
    ("said", "but|and not on <weekday|weekdaylist|daykind|mondays>", phrases.excluding),
    ("said", "except|excluding|but not? in|during? <month|months>", phrases.excluding_months),
    ("zone", "in? the? <city|abbreviation> time|timezone", lambda zone: zone),
    ("zone", "<city> standard|daylight time", lambda zone: zone),
    ("zone", "<offset>", lambda minutes: gmt_offset(Zone("UTC"), minutes)),
    ("zone", "<abbreviation> time? <offset>", gmt_offset),
    ("zone", "<abbreviation> + <number>", lambda zone, hours: gmt_offset(zone, int(hours * 60))),
    ("zone", "<abbreviation> - <number>", lambda zone, hours: gmt_offset(zone, -int(hours * 60))),
    ("zone", "in the <city|zone> timezone|zone", lambda zone: zone),
    ("zone", "( <abbreviation|city|zone> )", lambda zone: zone),
    ("zone", "in <zone>", lambda zone: zone),
)


def _day(day: Day | frozenset[int] | Problem) -> Day | Problem | None:
    return days.coming(day) if isinstance(day, frozenset) else day


def _both(first: Part | None, second: Part | None) -> Part | None:
    if first is None or second is None:
        return None
    if isinstance(first, Problem):
        return first
    return second if isinstance(second, Problem) else Several((first, second))


def _rest_of(period: Day | None) -> Until | None:
    return None if period is None else Until(period)


def _month_end(month: int) -> MonthSpan:
    return MonthSpan(frozenset({month}))


@cache
def english() -> Language:
    """Return English, compiled at its first use."""
    return make_language(
        "en",
        {**VOCABULARY, **ZONE_VOCABULARY},
        (NUMBERS, AMOUNTS, MONTHS, DAYS, DELAYS, RECURRENCES, LISTS, PARTS),
        INTENT,
        aliases=ALIASES,
    )
