"""German: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

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
    CalendarDay,
    DayOffset,
    DayPart,
    Every,
    Past,
    Period,
    Problem,
    Unit,
    Vague,
    Zone,
)
from agentkit.schedules.parser.word_lists import word_list

_ONES: Final = word_list("null ein zwei drei vier fünf sechs sieben acht neun")


_SMALL: Final = word_list(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
)


_TENS: Final = word_list("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")


_ORDINALS: Final = word_list("erst zweit dritt viert fünft sechst siebt acht neunt zehnt elft zwölft")


_WEEKDAYS: Final = word_list("montag dienstag mittwoch donnerstag freitag samstag sonntag")


_SHORT: Final = word_list("mo di mi do fr sa so")


_MONTHS: Final = (
    "januar jan jänner|februar feb feber|märz mrz maerz|april apr|mai|juni jun|juli jul|august aug|"
    "september sep sept|oktober okt|november nov|dezember dez"
)


def _numbers() -> dict[str, object]:
    numbers: dict[str, object] = {word: number for number, word in enumerate(_SMALL)}
    numbers |= dict.fromkeys(("ein", "eine", "einer", "einem", "einen"), 1)
    numbers |= {"zwo": 2, "dutzend": 12, "hundert": 100}
    for ten, word in enumerate(_TENS, start=2):
        numbers[word] = ten * 10
        for one, small in enumerate(_ONES[1:], start=1):
            numbers[f"{small}und{word}"] = ten * 10 + one
    return numbers


def _ordinals() -> dict[str, object]:
    endings = ("e", "en", "er", "es", "em")
    return {f"{stem}{end}": n for n, stem in enumerate(_ORDINALS, start=1) for end in endings}


def _units() -> dict[str, object]:
    table = {
        "second": "sekunde sekunden sek s",
        "minute": "minute minuten min minütchen",
        "hour": "stunde stunden std h",
        "day": "tag tage tagen tages",
        "week": "woche wochen",
        "month": "monat monate monaten monats",
        "year": "jahr jahre jahren jahres",
    }
    units: dict[str, object] = {}
    for name, words in table.items():
        units |= dict.fromkeys(words.split(), Unit(name))  # type: ignore[arg-type]  # the keys are unit names
    units |= dict.fromkeys(("quartal", "quartals", "quartale"), Unit("month", 3))
    return units


_HOW_OFTEN: Final = Problem("Wie oft genau, und wann?")


_WHEN: Final = Vague("Wann genau soll das sein?")


VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": _numbers(),
    "ordinal": _ordinals(),
    "unit": _units(),
    "weekday": {
        **{word: frozenset({n}) for n, word in enumerate(_WEEKDAYS)},
        "sonnabend": frozenset({5}),
    },
    "weekpart": {
        f"{day}{name}": (frozenset({n}), part)
        for n, day in enumerate(_WEEKDAYS)
        for name, part in {
            "morgen": MORNING,
            "vormittag": MORNING,
            "mittag": NOON,
            "nachmittag": AFTERNOON,
            "abend": EVENING,
            "nacht": NIGHT,
        }.items()
    },
    "short": {word: frozenset({n}) for n, word in enumerate(_SHORT)},
    "mondays": {
        **{f"{word}s": frozenset({n}) for n, word in enumerate(_WEEKDAYS)},
        "werktags": frozenset(range(5)),
        "wochentags": frozenset(range(5)),
        "unter der woche": frozenset(range(5)),
    },
    "daykind": {
        "werktag": frozenset(range(5)),
        "werktage": frozenset(range(5)),
        "werktagen": frozenset(range(5)),
        "arbeitstag": frozenset(range(5)),
        "arbeitstage": frozenset(range(5)),
        "arbeitstagen": frozenset(range(5)),
        "wochentag": frozenset(range(5)),
        "wochentagen": frozenset(range(5)),
        "wochenende": frozenset({5, 6}),
        "wochenenden": frozenset({5, 6}),
    },
    "month": {word: n for n, words in enumerate(_MONTHS.split("|"), start=1) for word in words.split()},
    "part": {
        "früh": MORNING,
        "vormittag": MORNING,
        "vormittags": MORNING,
        "morgens": MORNING,
        "mittag": NOON,
        "mittags": NOON,
        "nachmittag": AFTERNOON,
        "nachmittags": AFTERNOON,
        "abend": EVENING,
        "abends": EVENING,
        "nacht": NIGHT,
        "nachts": NIGHT,
    },
    "phrase": {"feierabend": DayPart(17, "pm"), "tagesende": DayPart(17, "pm")},
    "time": {"mitternacht": MIDNIGHT, "12 uhr mittags": NOON_CLOCK},
    "day": {
        "heute": DayOffset(0),
        "morgen": DayOffset(1),
        "übermorgen": DayOffset(2),
        "uebermorgen": DayOffset(2),
        "heiligabend": CalendarDay(12, 24),
        "weihnachten": CalendarDay(12, 25),
        "silvester": CalendarDay(12, 31),
        "neujahr": CalendarDay(1, 1),
        "monatsende": Period("month", 0, end=True),
        "ende des monats": Period("month", 0, end=True),
        "ende der woche": Period("week", 0, end=True),
        "ende des jahres": Period("year", 0, end=True),
    },
    "every": {
        "täglich": Every(unit="day"),
        "stündlich": Every(unit="hour"),
        "minütlich": Every(unit="minute"),
        "wöchentlich": Every(unit="week"),
        "monatlich": Every(unit="month"),
        "jährlich": Every(unit="year"),
        "vierteljährlich": Every(unit="month", months=frozenset({1, 4, 7, 10})),
        "quartalsweise": Every(unit="month", months=frozenset({1, 4, 7, 10})),
        "zweiwöchentlich": Every(unit="week", step=2),
        "vierzehntägig": Every(unit="week", step=2),
    },
    "rate": dict.fromkeys(
        ("ab und zu", "hin und wieder", "gelegentlich", "regelmäßig", "von zeit zu zeit", "manchmal"), _HOW_OFTEN
    ),
    "hint": hints(mornings="weck wecke wecken aufstehen aufwachen frühstück frühstücken", evenings="abendessen"),
    # "Berliner Zeit"
    "city": {
        word: Zone(name)
        for name, words in {
            "Europe/Berlin": "berliner deutscher deutsche",
            "Europe/London": "londoner britischer",
            "Europe/Paris": "pariser",
            "Europe/Vienna": "wiener",
            "Europe/Zurich": "zürcher schweizer",
            "Europe/Moscow": "moskauer moskau",
            "Asia/Tokyo": "tokioter tokio",
            "Asia/Shanghai": "pekinger peking",
            "America/New_York": "newyorker",
        }.items()
        for word in words.split()
    },
    "often": {"einmal": 1, "zweimal": 2, "dreimal": 3, "viermal": 4, "fünfmal": 5, "zehnmal": 10},
    "vague": dict.fromkeys(
        ("irgendwann", "bald", "später", "demnächst", "nachher", "gleich", "in kürze", "bei gelegenheit"), _WHEN
    ),
    "greeting": dict.fromkeys(("guten morgen", "guten abend", "guten tag", "gute nacht"), 1),
    "over": dict.fromkeys(("gestern", "vorgestern", "gestern abend", "letzte nacht"), Past()),
}
