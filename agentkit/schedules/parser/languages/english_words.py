"""English: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.languages.shared import AFTERNOON, EVENING, MIDNIGHT, MORNING, NIGHT, NOON, NOON_CLOCK
from agentkit.schedules.parser.meanings import (
    CalendarDay,
    DayOffset,
    DayPart,
    EasterDay,
    Every,
    NthWeekday,
    Past,
    Period,
    Problem,
    Unit,
    Vague,
)
from agentkit.schedules.parser.word_lists import word_list

_MONDAY_TO_FRIDAY: Final = frozenset(range(5))
_WEEKEND: Final = frozenset({5, 6})

_WEEKDAY_NAMES: Final = (
    "monday mon",
    "tuesday tue tues",
    "wednesday wed weds",
    "thursday thu thur thurs",
    "friday fri",
    "saturday sat",
    "sunday sun",
)
_MONTH_NAMES: Final = (
    "january jan",
    "february feb",
    "march mar",
    "april apr",
    "may",
    "june jun",
    "july jul",
    "august aug",
    "september sep sept",
    "october oct",
    "november nov",
    "december dec",
)
_UNITS: Final = {
    "second": "second seconds sec secs s",
    "minute": "minute minutes min mins mn mns",
    "hour": "hour hours hr hrs",
    "day": "day days",
    "week": "week weeks wk wks",
    "month": "month months mo mos mth mths",
    "year": "year years yr yrs",
}
_NUMBERS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)


def _units() -> dict[str, Unit]:
    units: dict[str, Unit] = {
        word: Unit(name)  # type: ignore[arg-type]  # the table's keys are the unit names
        for name, words in _UNITS.items()
        for word in words.split()
    }
    units["m"] = Unit("minute")
    units["h"] = Unit("hour")
    units["d"] = Unit("day")
    units["w"] = Unit("week")
    units["fortnight"] = units["fortnights"] = Unit("week", 2)
    units["quarter"] = units["quarters"] = Unit("month", 3)
    units["decade"] = units["decades"] = Unit("year", 10)
    return units


def _weekdays() -> dict[str, frozenset[int]]:
    return {word: frozenset({weekday}) for weekday, words in enumerate(_WEEKDAY_NAMES) for word in words.split()}


def _plural_weekdays() -> dict[str, frozenset[int]]:
    plurals = {
        f"{word}s": frozenset({weekday})
        for weekday, words in enumerate(_WEEKDAY_NAMES)
        for word in words.split()
        if len(word) >= 6
    }
    return plurals


def _day_kinds() -> dict[str, frozenset[int]]:
    kinds = {}
    for name in ("weekday", "workday", "work day", "working day", "business day", "week day"):
        kinds[name] = kinds[f"{name}s"] = _MONDAY_TO_FRIDAY
    kinds["week days"] = _MONDAY_TO_FRIDAY
    kinds["weekend"] = kinds["weekends"] = kinds["week end"] = kinds["weekend day"] = _WEEKEND
    kinds["weekend days"] = _WEEKEND
    return kinds


# Short forms and slips that are more than one letter away from what is meant.
ALIASES: Final = {
    **dict.fromkeys(
        word_list("tmrw tmr tmw tmrrw tommorow tommorrow tomorow tomorro tomm tomo tomoz 2moro 2morrow tmmrw"),
        "tomorrow",
    ),
    **dict.fromkeys(word_list("evry ev evey eveyr evrey"), "every"),
    **dict.fromkeys(word_list("wendesday wensday wednsday wedensday wednesay"), "wednesday"),
    **dict.fromkeys(word_list("thrusday thursay thurday"), "thursday"),
    **dict.fromkeys(word_list("saterday satuday"), "saturday"),
    **dict.fromkeys(word_list("rmnd remnd remid reming rember remined remindr"), "remind"),
    "firday": "friday",
    "febuary": "february",
    "tonite": "tonight",
    "2nite": "tonight",
    "2night": "tonight",
    "2day": "today",
    "fourty": "forty",
    "oclock": "o'clock",
    "nite": "night",
    "rmd": "remind",
}

VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": {
        **{word: number for number, word in enumerate(_NUMBERS.split())},
        **{word: 20 + 10 * number for number, word in enumerate(_TENS.split())},
        "a couple of": 2,
        "a couple": 2,
        "couple of": 2,
        "couple": 2,
        "a few": 3,
        "few": 3,
        "half a dozen": 6,
        "a dozen": 12,
        "dozen": 12,
        "hundred": 100,
        "a hundred": 100,
    },
    "tens": {
        **{word: 20 + 10 * number for number, word in enumerate(_TENS.split())},
    },
    "digit": {word: number for number, word in enumerate(_NUMBERS.split()[:10]) if number},
    "ordinal": {
        **{word: number for number, word in enumerate(_ORDINALS.split(), start=1)},
        "twentieth": 20,
        "thirtieth": 30,
    },
    "article": {"a": 1, "an": 1},
    "unit": dict(_units()),
    "weekday": dict(_weekdays()),
    # "an hour's time": only there, or "next week's plan" would be a day.
    "owned": {f"{name}'s": Unit(name) for name in _UNITS},  # type: ignore[arg-type]  # the keys are unit names
    "mondays": {
        "mwf": frozenset({0, 2, 4}),
        "tth": frozenset({1, 3}),
        "tuth": frozenset({1, 3}),
        **_plural_weekdays(),
        **{kind: days for kind, days in _day_kinds().items() if kind.endswith("s")},
    },
    "daykind": dict(_day_kinds()),
    "month": {word: number for number, words in enumerate(_MONTH_NAMES, start=1) for word in words.split()},
    "part": {
        "morning": MORNING,
        "mornings": MORNING,
        "noontime": NOON,
        "lunchtime": NOON,
        "lunch time": NOON,
        "afternoon": AFTERNOON,
        "afternoons": AFTERNOON,
        "evening": EVENING,
        "evenings": EVENING,
        "night": NIGHT,
        "nights": NIGHT,
        "nighttime": NIGHT,
        "night time": NIGHT,
    },
    "dayparts": {"mornings": MORNING, "afternoons": AFTERNOON, "evenings": EVENING, "nights": NIGHT},
    "phrase": {
        "first thing": MORNING,
        "end of day": DayPart(17, "pm"),
        "end of the day": DayPart(17, "pm"),
        "end of business": DayPart(17, "pm"),
        "close of business": DayPart(17, "pm"),
        "end of the workday": DayPart(17, "pm"),
        "eod": DayPart(17, "pm"),
        "cob": DayPart(17, "pm"),
    },
    "time": {
        "noon": NOON_CLOCK,
        "midday": NOON_CLOCK,
        "mid - day": NOON_CLOCK,
        "noonday": NOON_CLOCK,
        "midnight": MIDNIGHT,
    },
    "day": {
        "today": DayOffset(0),
        "tomorrow": DayOffset(1),
        "day after tomorrow": DayOffset(2),
        "the day after tomorrow": DayOffset(2),
        "overmorrow": DayOffset(2),
        "a day after tomorrow": DayOffset(2),
        "thanksgiving": NthWeekday(4, 3, month=11),
        "thanksgiving day": NthWeekday(4, 3, month=11),
        "labor day": NthWeekday(1, 0, month=9),
        "memorial day": NthWeekday(-1, 0, month=5),
        "easter": EasterDay(0),
        "easter sunday": EasterDay(0),
        "easter monday": EasterDay(1),
        "good friday": EasterDay(-2),
        "christmas eve": CalendarDay(12, 24),
        "xmas eve": CalendarDay(12, 24),
        "christmas day": CalendarDay(12, 25),
        "christmas": CalendarDay(12, 25),
        "xmas": CalendarDay(12, 25),
        "boxing day": CalendarDay(12, 26),
        "new year's eve": CalendarDay(12, 31),
        "new years eve": CalendarDay(12, 31),
        "nye": CalendarDay(12, 31),
        "new year's day": CalendarDay(1, 1),
        "new years day": CalendarDay(1, 1),
        "new year's": CalendarDay(1, 1),
        "valentine's day": CalendarDay(2, 14),
        "valentines day": CalendarDay(2, 14),
        "halloween": CalendarDay(10, 31),
        "st patrick's day": CalendarDay(3, 17),
        "independence day": CalendarDay(7, 4),
        "eow": Period("week", 0, end=True),
        "eom": Period("month", 0, end=True),
        "eoy": Period("year", 0, end=True),
    },
    "tonight": {"tonight": NIGHT},
    "every": {
        "daily": Every(unit="day"),
        "hourly": Every(unit="hour"),
        "weekly": Every(unit="week"),
        "monthly": Every(unit="month"),
        "yearly": Every(unit="year"),
        "annually": Every(unit="year"),
        "quarterly": Every(unit="month", months=frozenset({1, 4, 7, 10})),
        "nightly": Every(unit="day", part=NIGHT),
        "fortnightly": Every(unit="week", step=2),
        "biweekly": Every(unit="week", step=2),
        "bi - weekly": Every(unit="week", step=2),
        "everyday": Every(unit="day"),
        "day in day out": Every(unit="day"),
    },
    "rate": {
        "bimonthly": Problem("Twice a month or every two months, and on which days?"),
        "bi - monthly": Problem("Twice a month or every two months, and on which days?"),
        "semiweekly": Problem("On which days of the week?"),
        "semimonthly": Problem("On which days of the month?"),
        "semi - monthly": Problem("On which days of the month?"),
        "semiannually": Problem("On which dates of the year?"),
        "biannually": Problem("On which dates?"),
        "biannual": Problem("On which dates?"),
        "biyearly": Problem("On which dates?"),
        "once in a while": Problem("How often should it run?"),
        "once in a blue moon": Problem("How often should it run?"),
        "every once in a while": Problem("How often should it run?"),
        "every so often": Problem("How often should it run?"),
        "every now and then": Problem("How often should it run?"),
        "every now and again": Problem("How often should it run?"),
        "now and then": Problem("How often should it run?"),
        "now and again": Problem("How often should it run?"),
        "from time to time": Problem("How often should it run?"),
        "occasionally": Problem("How often should it run?"),
        "regularly": Problem("How often should it run?"),
        "periodically": Problem("How often should it run?"),
        "frequently": Problem("How often should it run?"),
        "sometimes": Problem("How often should it run?"),
    },
    "often": {"once": 1, "twice": 2, "thrice": 3},
    "vague": dict.fromkeys(
        (
            "at some point",
            "some point",
            "sometime",
            "some time",
            "some day",
            "someday",
            "one of these days",
            "soon",
            "sooner or later",
            "later",
            "later on",
            "later today",
            "later this week",
            "in a bit",
            "in a while",
            "in a moment",
            "in a little while",
            "in a sec",
            "in a jiffy",
            "in due course",
            "in the future",
            "eventually",
            "asap",
            "shortly",
            "before long",
            "another time",
            "whenever",
            "around then",
            "the other day",
            "after lunch",
            "before lunch",
            "after work",
            "before work",
            "after school",
            "before school",
            "after dinner",
            "before dinner",
            "at dinner",
            "at breakfast",
            "after breakfast",
            "before breakfast",
            "before bed",
            "before bedtime",
            "at bedtime",
            "bedtime",
            "at sunset",
            "at sunrise",
            "at dawn",
            "at dusk",
            "at the crack of dawn",
            "crack of dawn",
            "before sunset",
            "after sunset",
            "before dawn",
            "before sunrise",
            "after dark",
            "before dark",
        ),
        Vague("When exactly should that be?"),
    ),
    "over": dict.fromkeys(("yesterday", "yday", "last night", "the other day", "the day before yesterday"), Past()),
    "hours": dict.fromkeys(
        (
            "working hours",
            "business hours",
            "office hours",
            "work hours",
            "the workday",
            "the working day",
            "working time",
        ),
        1,
    ),
}
