"""Spanish: words, grammar and intent."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.shared import (
    MORNING,
    NOON,
    both,
    one_day,
)
from agentkit.schedules.parser.languages.spanish_words import VOCABULARY
from agentkit.schedules.parser.meanings import (
    DayOffset,
    Duration,
    Every,
    Past,
    Period,
    Problem,
    Several,
    Starting,
    Unit,
    Until,
)
from agentkit.schedules.parser.word_lists import word_set
from agentkit.schedules.parser.zones import with_zones

_EVERY: Final = "cada"


NUMBERS: Final[tuple[Rule, ...]] = (
    ("number", "<tens> y <number>", amounts.add),
    ("number", "menos <number>", lambda number: -abs(number)),
)


AMOUNTS: Final[tuple[Rule, ...]] = (
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", "<number> <unit> y media|medio", lambda n, unit: amounts.and_a_half(amounts.duration(n, unit))),
    (
        "duration",
        "<number> <unit> y cuarto",
        lambda n, unit: amounts.together(amounts.duration(n, unit), Duration(900, last="minute")),
    ),
    ("duration", "media|medio <unit>", amounts.half),
    ("duration", "hora y media", lambda: amounts.and_a_half(amounts.one(Unit("hour")))),
    (
        "duration",
        "unos|unas|varios|varias|algunos|algunas|pocos|pocas <unit>",
        lambda _: Problem("¿Cuándo exactamente?"),
    ),
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
    ("months", "<month|months> ,|y|o <month|months>", days.months_too),
    ("day", "último|ultimo día|dia de <month>", days.month_end),
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
    ("every", "cada <number> <weekday>", recurrences.every_nth_weekday),
    ("every", "cada <part>", recurrences.every_part),
    ("every", "cada mañana", lambda: recurrences.every_part(MORNING)),
    ("every", "cada <month>", recurrences.every_month_number),
    ("every", "<every> de|del <month|months>", recurrences.in_months),
    ("every", "todos|todas los|las <unit>", recurrences.every_unit),
    ("every", "todos los <weekday|weekdaylist|daykind|mondays>", recurrences.every_weekday),
    ("every", "todas las <part>", recurrences.every_part),
    ("every", "todas las mañanas", lambda: recurrences.every_part(MORNING)),
    ("every", "los <weekday|weekdaylist|mondays|daykind>", recurrences.every_weekday),
    ("every", "de <weekdaylist>", recurrences.every_weekday),
    ("every", "<weekday> por medio", recurrences.every_other_weekday),
    ("every", "un <weekday> sí|si y otro no", recurrences.every_other_weekday),
    ("every", "<number> <weekday> sí|si y otro no", lambda _, weekday: recurrences.every_other_weekday(weekday)),
    ("every", "un <weekday> de cada dos", recurrences.every_other_weekday),
    ("every", "cada dos <mondays>", recurrences.every_other_weekday),
    ("every", "los días|dias <number> y <number> de cada mes", lambda a, b: monthly.month_days(days.union(a, b))),
    ("every", "un día|dia sí|si y otro no", lambda: Every(unit="day", step=2)),
    ("every", "día|dia por medio", lambda: Every(unit="day", step=2)),
    ("every", "el? <ordinal> <weekday> de|del cada? mes", monthly.nth_weekday_monthly),
    ("every", "el? último|ultimo <weekday> de|del cada? mes", monthly.last_weekday_monthly),
    ("every", "el? día|dia? <number> de cada mes", lambda day: monthly.month_days(days.single(day))),
    ("every", "el? día|dia? <number> y <number> de cada mes", lambda a, b: monthly.month_days(days.union(a, b))),
    ("every", "el? último|ultimo día|dia de cada mes", monthly.last_month_day),
    ("every", "el? último|ultimo <daykind> de|del cada? mes", monthly.last_workday_monthly),
    ("every", "<number> vez|veces al|por|a <unit>", recurrences.rate),
    ("every", "<number> vez|veces a la <unit>", recurrences.rate),
    ("count", "<number> veces", phrases.count_of),
)


PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<clock|times> ,|y <clock|times|time>", amounts.at_more),
    ("times", "<clock|times> y a? las? <number|time>", amounts.at_more),
    ("said", "<clock>", amounts.at_one),
    ("said", "<clock> del <weekday>", lambda time, day: both(one_day(day), amounts.at_one(time))),
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
    ("said", "el <slashed>", phrases.on),
    ("said", "el día|dia? <number>", lambda day: phrases.on(days.day_of_month(day))),
    ("said", "el <daykind>", lambda kind: phrases.on(Period("weekend", 0)) if len(kind) == 2 else None),
    ("said", "en <month|months>", lambda month: days.one_month(month) if isinstance(month, int) else month),
    (
        "said",
        "hasta el|la|las? <day|weekday|time|number>",
        lambda end: phrases.until(amounts.as_clock(end) if isinstance(end, int | float) else end),
    ),
    ("said", "hasta <month>", lambda month: Until(days.one_month(month))),
    ("said", "hasta finales|fin|final de <month>", lambda month: Until(days.one_month(month))),
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
        (
            "qué|que|quién|quien|cuándo|cuando|cuánto|cuánta|cuántos|cuántas|dónde|donde|cómo|como|cuál|cual es|"
            "son|está|hay|hora|tiempo|día|haces|tengo|puedo|va|vas|dice|significa|falta|faltan"
        ),
        "por qué",
        "qué|quién|cuándo|cuánto|cuánta|cuántos|cuántas|dónde|cómo|cuál",
        "es|está|hay|tengo|tienes|puedo|trabajas|sabes|abre|cierra",
        "cuéntame|explica|explícame|traduce|escribe un|una|cómo|qué|el|la?",
    ),
    statements=(
        (
            "fui|hice|terminé|llamé|comí|estuve|tuve|salí|compré|pagué|hablé|vi|dormí|llegué|trabajé|jugué|corrí|"
            "desayuné|cené|olvidé|perdí|fuimos|hicimos"
        ),
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
    choices=frozenset({"o"}),
    limits=word_set("después antes durante si cuando mientras entre"),
    glue=frozenset({"a", "de", "y", "por", "para", "hasta", "en"}),
    leading=frozenset({"que", "y"}),
    dangling=frozenset({"a", "y", "el", "la", "de"}),
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
        "es", with_zones(VOCABULARY, without="est art"), (NUMBERS, AMOUNTS, CLOCKS, RECURRENCES, PARTS), INTENT
    )
