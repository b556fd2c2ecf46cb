"""Spanish: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
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

_SMALL: Final = word_list(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco "
    "veintiséis veintisiete veintiocho veintinueve"
)


_TENS: Final = word_list("treinta cuarenta cincuenta sesenta setenta ochenta noventa")


_WEEKDAYS: Final = "lunes|martes|miércoles miercoles|jueves|viernes|sábado sabado|domingo"


_MONTHS: Final = (
    "enero ene|febrero feb|marzo|abril abr|mayo|junio jun|julio jul|agosto ago|septiembre setiembre sept|"
    "octubre oct|noviembre nov|diciembre dic"
)


_ORDINALS: Final = "primer primero primera|segundo segunda|tercer tercero tercera|cuarto cuarta|quinto quinta"


def _units() -> dict[str, object]:
    table = {
        "second": "segundo segundos seg s",
        "minute": "minuto minutos min mins minutitos",
        "hour": "hora horas hr hrs h",
        "day": "día días dia dias",
        "week": "semana semanas",
        "month": "mes meses",
        "year": "año años",
    }
    units: dict[str, object] = {}
    for name, words in table.items():
        units |= dict.fromkeys(words.split(), Unit(name))  # type: ignore[arg-type]  # the keys are unit names
    units |= dict.fromkeys(("trimestre", "trimestres"), Unit("month", 3))
    units["quincena"] = Unit("week", 2)
    return units


def _weekdays() -> dict[str, object]:
    return {word: frozenset({n}) for n, words in enumerate(_WEEKDAYS.split("|")) for word in words.split()}


_HOW_OFTEN: Final = Problem("¿Con qué frecuencia exactamente?")


_WHEN: Final = Vague("¿Cuándo exactamente?")


VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": {
        **{word: n for n, word in enumerate(_SMALL)},
        **{word: 30 + 10 * n for n, word in enumerate(_TENS)},
        "un": 1,
        "una": 1,
        "un par de": 2,
        "dieciseis": 16,
        "veintidos": 22,
        "veintitres": 23,
        "cien": 100,
    },
    "tens": {word: 30 + 10 * n for n, word in enumerate(_TENS)},
    "ordinal": {word: n for n, words in enumerate(_ORDINALS.split("|"), start=1) for word in words.split()},
    "unit": _units(),
    "weekday": _weekdays(),
    "mondays": {
        "sábados": frozenset({5}),
        "sabados": frozenset({5}),
        "domingos": frozenset({6}),
        "entre semana": frozenset(range(5)),
        "fines de semana": frozenset({5, 6}),
    },
    "daykind": {
        "día laborable": frozenset(range(5)),
        "días laborables": frozenset(range(5)),
        "día hábil": frozenset(range(5)),
        "días hábiles": frozenset(range(5)),
        "dia habil": frozenset(range(5)),
        "fin de semana": frozenset({5, 6}),
    },
    "month": {word: n for n, words in enumerate(_MONTHS.split("|"), start=1) for word in words.split()},
    "part": {
        "madrugada": DayPart(3, "am"),
        "tarde": AFTERNOON,
        "tardes": AFTERNOON,
        "noche": NIGHT,
        "noches": NIGHT,
        "atardecer": EVENING,
    },
    "time": {"mediodía": NOON_CLOCK, "mediodia": NOON_CLOCK, "medianoche": MIDNIGHT},
    "day": {
        "hoy": DayOffset(0),
        "mañana": DayOffset(1),
        "mañana temprano": DayOffset(1),
        "mañana a primera hora": DayOffset(1),
        "manana": DayOffset(1),
        "pasado mañana": DayOffset(2),
        "nochebuena": CalendarDay(12, 24),
        "navidad": CalendarDay(12, 25),
        "nochevieja": CalendarDay(12, 31),
        "año nuevo": CalendarDay(1, 1),
        "fin de mes": Period("month", 0, end=True),
        "final de mes": Period("month", 0, end=True),
        "fin de año": Period("year", 0, end=True),
    },
    "tonight": {"esta noche": NIGHT, "esta tarde": AFTERNOON, "este mediodía": NOON},
    "every": {
        "diariamente": Every(unit="day"),
        "a diario": Every(unit="day"),
        "semanalmente": Every(unit="week"),
        "mensualmente": Every(unit="month"),
        "anualmente": Every(unit="year"),
        "trimestralmente": Every(unit="month", months=frozenset({1, 4, 7, 10})),
    },
    "rate": dict.fromkeys(
        ("de vez en cuando", "a veces", "regularmente", "cada tanto", "cada cierto tiempo"), _HOW_OFTEN
    ),
    "hint": hints(
        mornings="despiértame despiertame despertar despertarme levantarme desayuno desayunar", evenings="cena cenar"
    ),
    "city": {
        "nueva york": Zone("America/New_York"),
        "londres": Zone("Europe/London"),
        "parís": Zone("Europe/Paris"),
        "berlín": Zone("Europe/Berlin"),
        "tokio": Zone("Asia/Tokyo"),
        "moscú": Zone("Europe/Moscow"),
        "pekín": Zone("Asia/Shanghai"),
        "los ángeles": Zone("America/Los_Angeles"),
        "ciudad de méxico": Zone("America/Mexico_City"),
        "lisboa": Zone("Europe/Lisbon"),
        "roma": Zone("Europe/Rome"),
    },
    "vague": dict.fromkeys(
        ("más tarde", "mas tarde", "luego", "pronto", "algún día", "en algún momento", "en un rato"), _WHEN
    ),
    "over": dict.fromkeys(("ayer", "anteayer", "anoche"), Past()),
}
