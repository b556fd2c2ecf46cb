"""Spanish: words, grammar and intent."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
    MORNING,
    NIGHT,
    NOON,
    NOON_CLOCK,
    both,
    one_day,
)
from agentkit.schedules.parser.meanings import (
    CalendarDay,
    DayOffset,
    DayPart,
    Duration,
    Every,
    Past,
    Period,
    Problem,
    Several,
    Starting,
    Unit,
    Until,
    Vague,
)
from agentkit.schedules.parser.word_lists import word_list, word_set
from agentkit.schedules.parser.zones import ZONE_VOCABULARY

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
    "vague": dict.fromkeys(
        ("más tarde", "mas tarde", "luego", "pronto", "algún día", "en algún momento", "en un rato"), _WHEN
    ),
    "over": dict.fromkeys(("ayer", "anteayer", "anoche"), Past()),
}

_EVERY: Final = "cada"

NUMBERS: Final[tuple[Rule, ...]] = (
    ("number", "<tens> y <number>", amounts.add),
    ("number", "menos <number>", lambda number: -abs(number)),
)
AMOUNTS: Final[tuple[Rule, ...]] = (
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", "<number> <unit> y media|medio", lambda n, unit: amounts.and_a_half(amounts.duration(n, unit))),
    ("duration", "media|medio <unit>", amounts.half),
    ("duration", "un cuarto de <unit>", amounts.quarter),
    ("duration", "<number> cuarto de <unit>", lambda _, unit: amounts.quarter(unit)),
    ("duration", "<number> cuartos de <unit>", lambda _, unit: amounts.three_quarters(unit)),
    ("duration", "<duration> y|con <duration>", amounts.together),
    ("duration", "<duration> <duration>", amounts.together),
    ("duration", "<number> <daykind>", lambda count, _: amounts.workdays(count)),
    ("said", "a la|las <number> y media", lambda hour: amounts.at_one(amounts.half_past(hour))),
    ("clock", "a la|las <number> y media", amounts.half_past),
    ("clock", "a la|las <number> y cuarto", amounts.quarter_past),
    ("clock", "a la|las <number> y <number>", lambda hour, minutes: amounts.minutes_past(minutes, hour)),
    ("clock", "a la|las <number> menos cuarto", amounts.quarter_to),
    ("clock", "a la|las <number> menos <number>", lambda hour, minutes: amounts.minutes_to(minutes, hour)),
    ("clock", "a la|las <time|number|dotted> horas|hrs|h?", amounts.as_clock),
    ("clock", "a la|las <time|number|dotted> en punto", amounts.as_clock),
    ("time", "<time|number|dotted> am|a.m", amounts.in_the_morning),
    ("time", "<time|number|dotted> pm|p.m", amounts.in_the_afternoon),
    ("clock", "a la|las <time|number|dotted> am|a.m", amounts.in_the_morning),
    ("clock", "a la|las <time|number|dotted> pm|p.m", amounts.in_the_afternoon),
    ("time", "<number> h", amounts.exact_clock),
)
CLOCKS: Final[tuple[Rule, ...]] = (
    ("clock", "<clock|time> de|por la <part>", amounts.with_part),
    ("clock", "<clock|time> de|por la mañana", lambda time: amounts.with_part(time, MORNING)),
    ("clock", "<clock|time> del mediodía", lambda time: amounts.with_part(time, NOON)),
    ("clock", "al|a <time>", lambda time: time),
    ("weekdaylist", "de? <weekday> a <weekday>", days.weekday_range),
    ("weekdaylist", "<weekday|weekdaylist> ,|y|e|o <weekday>", days.union),
    ("weekdaylist", "<weekday|weekdaylist> , y|e <weekday>", days.union),
    ("day", "próximo|proximo <weekday>", days.next_weekday),
    ("day", "<weekday> próximo|proximo", days.next_weekday),
    ("day", "<weekday> que viene", days.next_weekday),
    ("day", "este <weekday>", days.this_weekday),
    ("day", "<weekday> de la semana que viene", days.next_weekday),
    ("day", "<weekday> de la próxima|proxima semana", days.next_weekday),
    ("day", "próxima|próximo|proxima|proximo <unit>", days.next_period),
    ("day", "<unit> que viene", days.next_period),
    ("day", "<unit> próxima|próximo|proxima|proximo", days.next_period),
    ("day", "esta|este <unit>", days.this_period),
    ("day", "este <daykind>", lambda kind: Period("weekend", 0) if len(kind) == 2 else None),
    ("day", "<number|ordinal> de <month>", days.day_month),
    ("day", "<number|ordinal> de <month> del|de <year>", days.day_month),
    ("day", "<weekday> ,? <day>", days.dated_weekday),
    ("day", "último|ultimo día|dia del|de mes|este?", lambda: Period("month", 0, end=True)),
    ("months", "<month> a|hasta <month>", days.month_range),
    ("over", "<weekday> pasado", lambda _: Past()),
    ("over", "semana|mes|año pasada|pasado", lambda: Past()),
    ("over", "hace <duration>", lambda _: Past()),
)
RECURRENCES: Final[tuple[Rule, ...]] = (
    ("said", "en|dentro de? <duration>", phrases.after),
    ("said", "dentro de <duration>", phrases.after),
    ("said", "de aquí a <duration>", phrases.after),
    ("every", "cada <unit>", recurrences.every_unit),
    ("every", "cada <duration>", recurrences.every_duration),
    ("every", "cada <weekday|weekdaylist|daykind|mondays>", recurrences.every_weekday),
    ("every", "cada <part>", recurrences.every_part),
    ("every", "cada mañana", lambda: recurrences.every_part(MORNING)),
    ("every", "cada <month>", recurrences.every_month_number),
    ("every", "todos|todas los|las <unit>", recurrences.every_unit),
    ("every", "todos los <weekday|weekdaylist|daykind|mondays>", recurrences.every_weekday),
    ("every", "todas las <part>", recurrences.every_part),
    ("every", "todas las mañanas", lambda: recurrences.every_part(MORNING)),
    ("every", "los <weekday|weekdaylist|mondays|daykind>", recurrences.every_weekday),
    ("every", "de <weekdaylist>", recurrences.every_weekday),
    ("every", "<weekday> por medio", recurrences.every_other_weekday),
    ("every", "un día|dia sí|si y otro no", lambda: Every(unit="day", step=2)),
    ("every", "día|dia por medio", lambda: Every(unit="day", step=2)),
    ("every", "el? <ordinal> <weekday> de|del cada? mes", recurrences.nth_weekday_monthly),
    ("every", "el? último|ultimo <weekday> de|del cada? mes", recurrences.last_weekday_monthly),
    ("every", "el? día|dia? <number> de cada mes", lambda day: recurrences.month_days(days.single(day))),
    ("every", "el? día|dia? <number> y <number> de cada mes", lambda a, b: recurrences.month_days(days.union(a, b))),
    ("every", "el? último|ultimo día|dia de cada mes", recurrences.last_month_day),
    ("every", "el? último|ultimo <daykind> de|del cada? mes", recurrences.last_workday_monthly),
    ("every", "<number> vez|veces al|por|a <unit>", recurrences.rate),
    ("every", "<number> vez|veces a la <unit>", recurrences.rate),
    ("count", "<number> veces", phrases.count_of),
)
PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<clock|times> ,|y <clock|times|time>", amounts.at_more),
    ("times", "<clock|times> y a? las? <number|time>", amounts.at_more),
    ("said", "<clock>", amounts.at_one),
    ("said", "<times>", lambda times: times),
    ("said", "sobre|hacia las <number|time>", amounts.at_one),
    ("said", "<day> por|en|a la <part>", lambda day, part: both(day, part)),
    ("said", "<day> por|en|a la mañana", lambda day: both(day, MORNING)),
    ("said", "el? <weekday> por|en|a|de la <part>", lambda day, part: both(one_day(day), part)),
    ("said", "el? <weekday> por|en|a|de la mañana", lambda day: both(one_day(day), MORNING)),
    ("said", "por|en|a la <part>", lambda part: part),
    ("said", "por|en|de la mañana", lambda: MORNING),
    ("said", "<tonight>", lambda part: Several((DayOffset(0), part))),
    ("said", "esta mañana", lambda: Several((DayOffset(0), MORNING))),
    ("said", "el|la|para|en|a el|la? <day|weekday>", phrases.on),
    ("said", "para <day|weekday>", phrases.on),
    ("said", "el día|dia? <number>", lambda day: phrases.on(days.day_of_month(day))),
    ("said", "el <daykind>", lambda kind: phrases.on(Period("weekend", 0)) if len(kind) == 2 else None),
    ("said", "en <month|months>", lambda month: days.one_month(month) if isinstance(month, int) else month),
    (
        "said",
        "hasta el|la|las? <day|weekday|time|number>",
        lambda end: phrases.until(amounts.as_clock(end) if isinstance(end, int | float) else end),
    ),
    ("said", "hasta finales|fin de <month>", lambda month: Until(days.one_month(month))),
    ("said", "a partir de|del el|la? <day|weekday>", phrases.starting),
    ("said", "desde|empezando|comenzando el|la? <day|weekday>", phrases.starting),
    ("said", "desde|a partir de? ahora", lambda: Starting(Duration())),
    ("said", "de|entre las? <number|time> y|a las? <number|time>", amounts.window),
    ("said", "durante|por los|las? próximos|próximas? <duration>", phrases.lasting),
    ("said", "de|por|para <duration>", phrases.lasting),
    ("said", "<count>", lambda count: count),
    ("said", "excepto|salvo|menos los|el? <weekday|weekdaylist|mondays|daykind>", phrases.excluding),
    ("zone", "hora de <city>", lambda zone: zone),
    ("zone", "hora <city>", lambda zone: zone),
)

INTENT: Final = Intent(
    asking=(
        "recuérdame|recuerdame|recordame|recuérdenos|recuérdanos|recordarme|acuérdame|avísame|avisame que|de|sobre?",
        "notifícame|notificame|dime",
        "puedes|podrías|podrias|puede recordarme|avisarme que|de?",
        "pon|ponme|crea|créame|programa|prográmame|configura|agenda un|una? recordatorio|alarma|temporizador|aviso",
        "recordatorio|alarma|temporizador",
        "no me dejes olvidar",
        "no olvides|olvidar",
        "quiero que me recuerdes",
        "haz que me acuerde",
    ),
    wishing=(
        "tengo|tenemos que",
        "hay que",
        "necesito|quiero|debo",
        "puedes|podrías por|favor?",
        "apunta|anota|agenda",
    ),
    courtesies=(
        "hola|oye|ok|vale|bueno|gracias|porfa|porfavor|y|también|luego",
        "por favor",
        "buenos días",
        "buenas tardes|noches",
        ",|:|-|–|—|!|¡|¿|.|…|¶|*",
    ),
    closings=("gracias|porfa|porfavor", "por favor", "muchas gracias", ",|:|-|–|—|!|.|…|?|¶"),
    keeping=("despiértame|despiertame|llámame|llamame",),
    links=frozenset({"que", "de", "para", "sobre", "a", ":", "-", ","}),
    questions=(
        "qué|que|quién|quien|cuándo|cuando|cuánto|cuánta|cuántos|cuántas|dónde|donde|cómo|como|cuál|cual es|son|está|hay|hora|tiempo|día|haces|tengo|puedo|va|vas|dice|significa|falta|faltan",
        "por qué",
        "qué|quién|cuándo|cuánto|cuánta|cuántos|cuántas|dónde|cómo|cuál",
        "es|está|hay|tengo|tienes|puedo|trabajas|sabes|abre|cierra",
        "cuéntame|explica|explícame|traduce|escribe un|una|cómo|qué|el|la?",
    ),
    statements=(
        "yo|él|ella|ellos|ellas|nosotros|ustedes|usted",
        "hasta mañana|luego|pronto",
        "feliz cumpleaños|navidad|año",
        "me|nos|se",
    ),
    verbs=word_set("es está son fue era empieza abre cierra termina sale llega tiene tuvo llamó"),
    past=word_set("fue era fui hice terminé llegó estuvo tuve llamó empezó salió comí fuimos hizo"),
    management=(
        "cancela|borra|elimina|quita|muestra|muéstrame|lista|pausa|detén|para|cambia|mueve|ver|anula|desactiva",
    ),
    managed=word_set("recordatorio recordatorios alarma alarmas temporizador temporizadores agenda avisos"),
    after_managed=word_set("de del para a que el la los las por en sobre"),
    determiners=word_set("el la los las mi mis tu tus su sus un una unos unas nuestro nuestra del al"),
    joiners=frozenset({"y", "luego", "después", ",", ";", ".", "¶"}),
    waiting=word_set("temporizador espera alarma pospón pospon"),
    conditions=frozenset({"si", "apenas"}),
    bounds=word_set("hasta excepto salvo desde"),
    recurring=frozenset({"cada", "todos", "todas"}),
    fillers=frozenset({",", "-", "y", "a", "el", "la", "las", "los", "de", "en", ":", "por"}),
)


@cache
def spanish() -> Language:
    """Return Spanish, compiled at its first use."""
    return make_language(
        "es", {**VOCABULARY, **ZONE_VOCABULARY}, (NUMBERS, AMOUNTS, CLOCKS, RECURRENCES, PARTS), INTENT
    )
