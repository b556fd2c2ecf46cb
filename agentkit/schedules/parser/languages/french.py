"""French: words, grammar and intent."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.french_words import VOCABULARY
from agentkit.schedules.parser.languages.shared import (
    both,
    one_day,
)
from agentkit.schedules.parser.meanings import (
    Clock,
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

NUMBERS: Final[tuple[Rule, ...]] = (
    ("number", "<tens> - <number>", amounts.add),
    ("number", "<tens> et? <number>", lambda ten, n: ten + n if n < 10 else None),
    ("number", "moins <number>", lambda number: -abs(number)),
)


AMOUNTS: Final[tuple[Rule, ...]] = (
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", "<number> <unit> et demie|demi", lambda n, unit: amounts.and_a_half(amounts.duration(n, unit))),
    (
        "duration",
        "<number> <unit> et quart",
        lambda n, unit: amounts.together(amounts.duration(n, unit), Duration(900, last="minute")),
    ),
    (
        "duration",
        "<number> <unit> trois quarts",
        lambda n, unit: amounts.together(amounts.duration(n, unit), Duration(2700, last="minute")),
    ),
    ("duration", "<number>? demi|demie -? <unit>", lambda _, unit: amounts.half(unit)),
    ("duration", "<number>? quart d'heure", lambda _: Duration(900, last="minute")),
    ("duration", "<number> quarts d'heure", lambda _: Duration(2700, last="minute")),
    ("duration", "<duration> et? <duration>", amounts.together),
    ("duration", "<number> h <number>", amounts.hours_minutes),
    ("duration", "<number> h", lambda n: amounts.duration(n, Unit("hour"))),
    ("duration", "<number> <daykind>", lambda count, _: amounts.workdays(count)),
    ("time", "<number> h <number>", amounts.exact_clock),
    ("time", "<number> h", amounts.exact_clock),
    ("time", "midi et demi|demie", lambda: Clock(12, 30, exact=True)),
    ("time", "midi et quart", lambda: Clock(12, 15, exact=True)),
    ("time", "midi moins le quart", lambda: Clock(11, 45, exact=True)),
    ("time", "minuit et demi|demie", lambda: Clock(0, 30, exact=True)),
    ("said", "de|entre <number> h et|à <number> h", amounts.window),
    ("said", "de|entre <number> heures? et|à <number> heures", amounts.window),
    ("duration", "quelques|plusieurs <unit>", lambda _: Problem("Quand exactement ?")),
    ("clock", "à|a|vers|pour|dès <number> heures|heure", amounts.as_clock),
    (
        "clock",
        "à|a|vers|pour|dès <number> heures|heure <number>",
        lambda hour, minute: amounts.minutes_past(minute, hour),
    ),
    ("clock", "à|a|vers|pour|dès <number> heures|heure et demie", amounts.half_past),
    ("clock", "à|a|vers|pour|dès <number> heures|heure et quart", amounts.quarter_past),
    ("clock", "à|a|vers|pour|dès <number> heures|heure moins le quart", amounts.quarter_to),
    (
        "clock",
        "à|a|vers|pour|dès <number> heures|heure moins <number>",
        lambda hour, minutes: amounts.minutes_to(minutes, hour),
    ),
    ("clock", "à <time> et demie", amounts.half_past),
)


DAYS: Final[tuple[Rule, ...]] = (
    ("clock", "à|a|vers|pour|dès <time|dotted>", lambda time: time),
    ("clock", "<clock|time> du <part>", amounts.with_part),
    ("clock", "<clock|time> de <part>", amounts.with_part),
    ("weekdaylist", "du? <weekday> au|à|- <weekday>", days.weekday_range),
    ("weekdaylist", "<weekday|weekdaylist> ,|et|ou <weekday>", days.union),
    ("mondays", "<mondays> ,|et|ou les? <mondays>", days.union),
    ("day", "<weekday> prochain", days.next_weekday),
    ("day", "ce <weekday>", days.this_weekday),
    ("day", "<weekday> de la semaine prochaine", days.next_weekday),
    ("day", "<weekday> en huit", days.week_from),
    ("day", "<unit> prochain|prochaine", days.next_period),
    ("day", "le? la? <unit> prochain|prochaine", days.next_period),
    ("day", "cette|ce <unit>", days.this_period),
    ("day", "ce <daykind>", lambda kind: Period("weekend", 0) if len(kind) == 2 else None),
    ("day", "<daykind> prochain", lambda kind: Period("weekend", 1) if len(kind) == 2 else None),
    ("day", "<number|ordinal> <month> <year>?", days.day_month),
    ("day", "<weekday> ,? le? <day>", days.dated_weekday),
    ("day", "le? dernier jour du mois", lambda: Period("month", 0, end=True)),
    ("months", "<month> à|- <month>", days.month_range),
    ("months", "<month|months> ,|et|ou <month|months>", days.months_too),
    ("day", "le? dernier jour de|d' <month>", days.month_end),
    ("day", "le? <number|ordinal> du mois prochain", days.day_of_next_month),
    ("over", "<weekday|unit> dernier|dernière|passé|passée", lambda _: Past()),
    ("over", "il y a <duration>", lambda _: Past()),
)


RECURRENCES: Final[tuple[Rule, ...]] = (
    ("said", "dans|d'ici <duration>", phrases.after),
    ("said", "dans environ|à|peu|près? <duration>", phrases.after),
    ("every", "chaque <unit>", recurrences.every_unit),
    ("every", "chaque <weekday|weekdaylist|daykind>", recurrences.every_weekday),
    ("every", "chaque <part>", recurrences.every_part),
    ("every", "chaque <month>", recurrences.every_month_number),
    ("every", "<every> de|d' <month|months>", recurrences.in_months),
    ("every", "tous|toutes les <unit>", recurrences.every_unit),
    ("every", "tous|toutes les <duration>", recurrences.every_duration),
    ("every", "tous les <mondays|weekday|weekdaylist|daykind>", recurrences.every_weekday),
    ("every", "tous|toutes les <part>", recurrences.every_part),
    ("every", "toutes les demi - heures", lambda: Every(unit="minute", step=30)),
    ("every", "un <weekday> sur deux", recurrences.every_other_weekday),
    ("every", "<number> <weekday> sur deux", lambda _, day: recurrences.every_other_weekday(day)),
    ("every", "<number> jour sur deux", lambda _: Every(unit="day", step=2)),
    ("every", "<vague> sur deux", lambda _: Every(unit="day", step=2)),
    (
        "every",
        "<duration> sur deux",
        lambda length: recurrences.every_duration(Duration(length.seconds * 2, length.months * 2, last=length.last)),
    ),
    ("every", "les <mondays|daykind>", recurrences.every_weekday),
    ("every", "<weekdaylist>", recurrences.every_weekday),
    ("every", "le <ordinal> <weekday> du|de chaque? mois", monthly.nth_weekday_monthly),
    ("every", "le dernier <weekday> du|de chaque? mois", monthly.last_weekday_monthly),
    ("every", "le <number|ordinal> de chaque mois", lambda day: monthly.month_days(days.single(day))),
    ("every", "chaque <number|ordinal> du mois", lambda day: monthly.month_days(days.single(day))),
    ("every", "le <number|ordinal> du mois", lambda day: monthly.month_days(days.single(day))),
    (
        "every",
        "le <number|ordinal> et le? <number> de chaque mois",
        lambda a, b: monthly.month_days(days.union(a, b)),
    ),
    ("every", "le dernier jour de chaque mois", monthly.last_month_day),
    ("every", "le dernier <daykind> du|de chaque? mois", monthly.last_workday_monthly),
    ("every", "<number> fois par <unit>", recurrences.rate),
    ("count", "<number> fois", phrases.count_of),
)


PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<clock|times> ,|et <clock|times|time>", amounts.at_more),
    ("said", "<clock>", amounts.at_one),
    ("said", "<times>", lambda times: times),
    ("said", "<day> dans? la? <part>", lambda day, part: both(day, part)),
    ("said", "<weekday> <part>", lambda day, part: both(one_day(day), part)),
    ("said", "le <weekday> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("said", "le <weekday>", recurrences.every_weekday),
    ("said", "le? <mondays> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("said", "ce|cet|cette <part>", lambda part: Several((DayOffset(0), part))),
    ("said", "le|dans|la|au|en la|le? <part>", lambda part: part),
    ("said", "le|pour|à|au|en <day|weekday>", phrases.on),
    ("said", "pour le <day|weekday>", phrases.on),
    ("said", "le <slashed>", phrases.on),
    ("said", "en <day>", phrases.on),
    ("said", "le <number|ordinal>", lambda day: phrases.on(days.day_of_month(day))),
    ("said", "le|ce <daykind>", lambda kind: phrases.on(Period("weekend", 0)) if len(kind) == 2 else None),
    (
        "said",
        "en|au mois? de? <month|months>",
        lambda month: days.one_month(month) if isinstance(month, int) else month,
    ),
    ("said", "jusqu'à|jusqu'au|jusque <day|weekday|time>", phrases.until),
    ("said", "jusqu'à|jusque fin de? <month>", lambda month: Until(days.one_month(month))),
    ("said", "jusqu'à la fin de <month>", lambda month: Until(days.one_month(month))),
    ("said", "jusqu'en <month>", lambda month: Until(days.one_month(month))),
    ("said", "à partir de|du le? <day|weekday>", phrases.starting),
    ("said", "dès le? <day|weekday>", phrases.starting),
    ("said", "à partir de maintenant", lambda: Starting(Duration())),
    ("said", "de|entre <time|number> et|à <time|number>", amounts.window),
    ("said", "pendant|durant les? prochains|prochaines? <duration>", phrases.lasting),
    ("said", "de|pour <duration>", phrases.lasting),
    ("said", "<count>", lambda count: count),
    ("said", "sauf|excepté|hormis le|les? <weekday|mondays|daykind|weekdaylist>", phrases.excluding),
    ("zone", "heure de <city>", lambda zone: zone),
)


INTENT: Final = Intent(
    asking=(
        "rappelle|rappelez|rappeler|rapelle - moi|nous de|d'|que|qu'?",
        "rappelle|rappelez|rapelle moi|nous",
        "peux|pourrais|pouvez|pourriez - tu|vous me|nous rappeler|prévenir",
        "tu peux|pourrais me|nous rappeler|prévenir",
        "peux|pourrais tu me|nous rappeler|prévenir",
        "préviens|avertis|notifie|dis - moi",
        "fais - moi penser",
        "mets|mettez|crée|ajoute|programme|règle - moi? un|une|mon? rappel|alarme|réveil|minuteur|minuterie",
        "mets|mettez|crée|ajoute|programme|règle un|une? rappel|alarme|réveil|minuteur|minuterie",
        "rappel|alarme|minuteur",
        "n'oublie pas",
        "n'oublions pas",
        "ne me laisse pas oublier",
        "pense|penser",
    ),
    wishing=("je dois|veux|voudrais", "il faut", "il faudrait", "note|noter", "peux - tu", "il faut que je"),
    courtesies=(
        "salut|bonjour|bonsoir|hey|ok|merci|coucou|et|puis|alors|stp|svp",
        "s'il te|vous plaît|plait",
        ",|:|-|–|—|!|.|…|¶|*",
    ),
    closings=("merci|stp|svp", "s'il te|vous plaît|plait", "merci beaucoup|d'avance", ",|:|-|–|—|!|.|…|?|¶"),
    keeping=("réveille|appelle|appelez - moi",),
    links=frozenset({"de", "que", "pour", "à", "d'", "du", ":", "-", ","}),
    questions=(
        "qu'est|quel|quelle|quels|quelles|qui|quand|comment|pourquoi|où|combien|quoi|que",
        "est|sont|a|ai|as|y - ce|il|elle|je|tu|on",
        "est - ce que|qu'il",
        "tu travailles|sais|connais|peux",
        "raconte|explique|traduis|écris - moi? un|une|comment|pourquoi|le|la?",
    ),
    statements=(
        "je|j'ai|il|elle|nous|ils|elles|on|c'est|c'était|tu|vous",
        "à demain|bientôt|plus|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
        "bon|joyeux|bonne anniversaire|noël|nuit|journée",
    ),
    verbs=word_set("est sont était a commence ouvre ferme finit part arrive dure a eu"),
    past=word_set("était étaient fut avait est allé appelé fini"),
    management=(
        "annule|annulez|supprime|supprimez|efface|montre|affiche|liste|arrête|modifie|change|déplace|désactive",
    ),
    managed=word_set("rappel rappels alarme alarmes réveil réveils minuteur minuteurs agenda"),
    after_managed=word_set("de du des pour à le la les que sur d"),
    determiners=word_set("le la les l' mon ma mes ton ta tes son sa ses notre votre un une des du au"),
    choices=frozenset({"ou"}),
    limits=word_set("après avant pendant quand si lorsque entre"),
    elisions=("d'", "qu'"),
    glue=frozenset({"à", "de", "et", "pour", "jusqu'à", "en"}),
    leading=frozenset({"que", "et", "de", "puis"}),
    dangling=frozenset({"à", "et", "le", "de"}),
    joiners=frozenset({"et", "puis", ",", ";", ".", "¶"}),
    waiting=word_set("minuteur minuterie attends attendre alarme"),
    conditions=word_set("quand si lorsque dès avant après"),
    bounds=word_set("jusqu'à jusqu'au jusque sauf excepté"),
    recurring=frozenset({"chaque", "tous", "toutes"}),
    fillers=frozenset({",", "-", "et", "à", "le", "la", "les", "de", "du", ":", "vers"}),
)


@cache
def french() -> Language:
    """Return French, compiled at its first use."""
    return make_language(
        "fr", with_zones(VOCABULARY, without="et est art"), (NUMBERS, AMOUNTS, DAYS, RECURRENCES, PARTS), INTENT
    )
