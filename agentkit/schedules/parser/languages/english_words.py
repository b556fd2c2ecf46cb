"""English: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.languages.english_phrases import FIXED_PHRASES
from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
    MORNING,
    NIGHT,
    NOON,
    NOON_CLOCK,
    hints,
)
from agentkit.schedules.parser.meanings import (
    Every,
    Unit,
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
        word_list(
            "tmrw tmr tmw tmrrw tommorow tommorrow tomorow tomorro tomm tomo tomoz tmmrw tmoro morro tmro "
            "2moro 2morow 2morrow 2mrw 2moz"
        ),
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
    **dict.fromkeys(word_list("2nite 2night 2nyt tonit tonigt"), "tonight"),
    "b4": "before",
    "l8r": "later",
    "2day": "today",
    "fourty": "forty",
    "oclock": "o'clock",
    "nite": "night",
    "rmd": "remind",
}

VOCABULARY: Final[dict[str, dict[str, object]]] = {
    **FIXED_PHRASES,
    "number": {
        **{word: number for number, word in enumerate(_NUMBERS.split())},
        **{word: 20 + 10 * number for number, word in enumerate(_TENS.split())},
        "a couple of": 2,
        "a couple": 2,
        "couple of": 2,
        "couple": 2,
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
        "tu / th": frozenset({1, 3}),
        "t / th": frozenset({1, 3}),
        "m / w / f": frozenset({0, 2, 4}),
        "m / w": frozenset({0, 2}),
        "m - f": _MONDAY_TO_FRIDAY,
        "m - th": frozenset(range(4)),
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
    "time": {
        "noon": NOON_CLOCK,
        "midday": NOON_CLOCK,
        "mid - day": NOON_CLOCK,
        "noonday": NOON_CLOCK,
        "midnight": MIDNIGHT,
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
        "nightly": Every(unit="day", part=NIGHT, needs_time=True),
        "fortnightly": Every(unit="week", step=2),
        "biweekly": Every(unit="week", step=2),
        "bi - weekly": Every(unit="week", step=2),
        "everyday": Every(unit="day"),
        "day in day out": Every(unit="day"),
    },
    # Alarms that ring by themselves are no reminders.
    "thing": dict.fromkeys(
        (
            *(f"{kind} {alarm}" for kind in ("smoke", "fire", "burglar", "car") for alarm in ("alarm", "alarms")),
            *("sunday times", "sunday roast", "saturday night live", "monday night football", "taco tuesday"),
            "may the 4th be with you",
        )
    ),
    "hint": hints(mornings="wake wakeup breakfast", evenings="dinner supper"),
    "often": {"once": 1, "twice": 2, "thrice": 3},
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
