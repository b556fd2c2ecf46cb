"""German: words, grammar and intent."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.german_words import VOCABULARY
from agentkit.schedules.parser.languages.shared import (
    MORNING,
    NIGHT,
    both,
    one_day,
)
from agentkit.schedules.parser.meanings import (
    At,
    DayOffset,
    Duration,
    Every,
    Past,
    Period,
    Problem,
    Several,
    Starting,
    Until,
)
from agentkit.schedules.parser.word_lists import word_set
from agentkit.schedules.parser.zones import with_zones

_EVERY: Final = "jede|jeden|jeder|jedes|jedem"


_NEXT: Final = "nächste|nächsten|nächster|nächstes|nächstem|naechste|naechsten"


_THIS: Final = "diese|diesen|dieser|dieses|diesem"


_COMING: Final = "kommende|kommenden|kommender|kommendes|kommendem"


_LAST: Final = "letzte|letzten|letzter|letztes|letztem"


_HALF: Final = "halbe|halben|halber|halbes"


NUMBERS: Final[tuple[Rule, ...]] = (
    ("ordinal", "<number> .", lambda number: number if number == int(number) and 0 < number <= 31 else None),
    ("number", "<number> einhalb", lambda number: number + 0.5),
    ("number", "eineinhalb|anderthalb", lambda: 1.5),
    ("number", "zweieinhalb", lambda: 2.5),
    ("number", "minus <number>", lambda number: -abs(number)),
)


AMOUNTS: Final[tuple[Rule, ...]] = (
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", f"<number> {_HALF} <unit>", lambda _, unit: amounts.half(unit)),
    ("duration", f"{_HALF} <unit>", amounts.half),
    ("duration", "<number>? viertelstunde", lambda _: Duration(900, last="minute")),
    ("duration", "<number>? dreiviertelstunde", lambda _: Duration(2700, last="minute")),
    ("duration", "<duration> und? <duration>", amounts.together),
    ("duration", "<duration> und <number> halb|halbe", lambda length, _: amounts.and_a_half(length)),
    ("duration", "<number> h <number>", amounts.hours_minutes),
    ("duration", "<number> <daykind>", lambda count, _: amounts.workdays(count)),
    ("time", "<time|number|dotted|ordinal> uhr", amounts.as_clock),
    ("time", "<number> uhr <number>", lambda hour, minute: amounts.minutes_past(minute, hour)),
    ("time", "<number> h", amounts.exact_clock),
    ("time", "halb <number>", amounts.half_before),
    ("time", "<number> minuten? vor halb <number>", lambda minutes, hour: amounts.minutes_to(30 + minutes, hour)),
    ("time", "<number> minuten? nach halb <number>", lambda minutes, hour: amounts.minutes_to(30 - minutes, hour)),
    ("duration", "ein? paar|einige|einigen <unit>", lambda _: Problem("Wann genau soll das sein?")),
    ("time", "viertel nach <number>", amounts.quarter_past),
    ("time", "viertel vor <number>", amounts.quarter_to),
    ("time", "dreiviertel <number>", amounts.quarter_to),
    ("time", "<number> minuten? nach <number>", amounts.minutes_past),
    ("time", "<number> minuten? vor <number>", amounts.minutes_to),
    ("time", "<time> <part>", lambda time, part: amounts.with_part(time, part)),
    ("time", "<time> in der nacht", lambda time: amounts.with_part(time, NIGHT)),
    ("time", "<time> am <part>", amounts.with_part),
    ("time", "<time> am morgen", lambda time: amounts.with_part(time, MORNING)),
)


DAYS: Final[tuple[Rule, ...]] = (
    ("weekdaylist", "von? <weekday> bis|- <weekday>", days.weekday_range),
    ("weekdaylist", "von? <short> bis|- <short>", days.weekday_range),
    ("weekdaylist", "<weekday|weekdaylist> ,? und|oder|, <weekday>", days.union),
    ("weekdaylist", "<short|weekdaylist> ,|und|/ <short>", days.union),
    ("mondays", "<mondays> ,? und|,|& <mondays>", days.union),
    ("day", f"{_NEXT} woche <weekday>", days.next_weekday),
    ("day", f"<weekday> {_NEXT} woche", days.next_weekday),
    ("day", f"{_NEXT} woche am? <weekday>", days.next_weekday),
    ("day", f"{_NEXT} <weekday>", days.next_weekday),
    ("day", f"{_THIS} <weekday>", days.this_weekday),
    ("day", f"{_COMING} <weekday>", days.coming),
    ("day", f"{_NEXT}|{_COMING} <unit>", days.next_period),
    ("day", f"{_THIS} <unit>", days.this_period),
    ("day", f"{_THIS} <daykind>", lambda kind: Period("weekend", 0) if len(kind) == 2 else None),
    (
        "day",
        f"{_NEXT}|{_COMING} <daykind>",
        lambda kind: Period("weekend", 1) if len(kind) == 2 else Period("workday", 1),
    ),
    ("day", "<ordinal|number> <month> <year>?", days.day_month),
    ("day", "<weekday> ,? den? dem? <day>", days.dated_weekday),
    ("day", "<weekday> in <number> wochen", lambda day, n: days.weekday_after_next(day) if n == 2 else None),
    ("day", f"ende {_NEXT} <unit>", lambda unit: days.end_of(days.next_period(unit))),
    ("day", f"{_LAST} tag des monats", lambda: Period("month", 0, end=True)),
    ("months", "<month> bis|- <month>", days.month_range),
    ("months", "<month|months> ,? und|oder|, <month|months>", days.months_too),
    ("day", "<weekday> in einer woche", days.week_from),
    ("day", "<day> in <duration>", lambda day, length: days.shifted(length, day) if day == DayOffset(0) else None),
    ("day", f"am? {_LAST} tag im? <month>", days.month_end),
    ("monthdays", "<ordinal> und|, <ordinal|monthdays>", days.union),
)


RECURRENCES: Final[tuple[Rule, ...]] = (
    ("said", "in|nach <duration>", phrases.after),
    ("said", "in etwa|ungefähr|ca|circa <duration>", phrases.after),
    ("bare_delay", "in <number>", phrases.after_minutes),
    ("every", f"{_EVERY} <unit>", recurrences.every_unit),
    ("every", f"{_EVERY} <daykind|mondays|weekday|weekdaylist>", recurrences.every_weekday),
    ("every", f"{_EVERY} <part>", recurrences.every_part),
    ("every", f"{_EVERY} morgen", lambda: recurrences.every_part(MORNING)),
    ("every", f"{_EVERY} <ordinal> <unit>", recurrences.every_nth),
    (
        "every",
        f"{_EVERY} <ordinal> <weekday>",
        lambda n, day: recurrences.every_other_weekday(day) if n == 2 else monthly.nth_weekday_monthly(n, day),
    ),
    ("every", f"{_EVERY} <ordinal> <weekday> im|des|jedes monat|monats", monthly.nth_weekday_monthly),
    ("every", f"{_EVERY} {_LAST} <weekday> im|des? monat|monats?", monthly.last_weekday_monthly),
    (
        "every",
        f"{_EVERY} <weekpart>",
        lambda weekpart: Every(unit="week", weekdays=weekpart[0], part=weekpart[1]),
    ),
    ("every", f"{_EVERY} <month>", recurrences.every_month_number),
    ("every", f"{_EVERY} <months>", lambda span: Every(unit="year", months=span.months)),
    ("said", f"am {_LAST} tag", monthly.last_month_day),
    ("every", f"{_EVERY} <ordinal> des|im monats|monat", lambda day: monthly.month_days(days.single(day))),
    (
        "every",
        f"{_EVERY} <monthdays|ordinal>",
        lambda numbers: monthly.month_days(numbers if isinstance(numbers, frozenset) else days.single(numbers)),
    ),
    ("every", f"{_EVERY} {_HALF} <unit>", lambda unit: recurrences.every_duration(amounts.half(unit))),
    ("every", f"{_EVERY} viertelstunde", lambda: Every(unit="minute", step=15)),
    ("every", "alle <duration>", recurrences.every_duration),
    ("every", f"am? <ordinal> <weekday> im|des|{_EVERY} monat|monats", monthly.nth_weekday_monthly),
    ("every", f"am? {_LAST} <weekday> im|des|{_EVERY} monat|monats", monthly.last_weekday_monthly),
    (
        "every",
        "am? <ordinal|monthdays> jedes|jeden|des monats|monat",
        lambda numbers: monthly.month_days(numbers if isinstance(numbers, frozenset) else days.single(numbers)),
    ),
    ("every", f"am? {_LAST} tag jedes|jeden monats|monat", monthly.last_month_day),
    ("every", f"am? {_LAST} <daykind> im|des|{_EVERY} monat|monats", monthly.last_workday_monthly),
    ("every", f"am? <ordinal> <daykind> im|des|{_EVERY} monat|monats", lambda n, _: monthly.nth_workday_monthly(n)),
    ("every", "<often> am|pro|die|im|in <unit>", recurrences.rate),
    ("every", "<often> der <unit>", recurrences.rate),
    ("every", "<number> mal am|pro|die|im <unit>", recurrences.rate),
    ("every", "<often> <every>", recurrences.rate_of),
    ("every", "<number> mal <every>", recurrences.rate_of),
    ("every", "an <daykind>", recurrences.every_weekday),
    ("every", "<mondays> <part>", lambda kind, part: Every(unit="week", weekdays=kind, part=part)),
    ("every", "<mondays> morgen", lambda kind: Every(unit="week", weekdays=kind, part=MORNING)),
    ("count", "<number> mal", phrases.count_of),
    ("over", f"{_LAST} <weekday|unit>", lambda _: Past()),
    ("over", "vor <duration>", lambda _: Past()),
)


PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<time|times> ,? und|, <time|times>", amounts.at_more),
    ("times", "<time|number|times> ,? und|, <time>", amounts.at_more),
    ("times", "<number|time> , <times>", amounts.at_more),
    ("said", "<said> , <times>", lambda said, times: amounts.at_more(said, times) if isinstance(said, At) else None),
    ("said", "um|gegen|ab|auf <time|number>", amounts.at_one),
    ("said", "um <number|time> und|, <time|number|times>", amounts.at_more),
    ("said", "um|gegen <times>", lambda times: times),
    (
        "said",
        "um <number|time> , <number|time> ,? und <number|time>",
        lambda first, second, third: amounts.at_more(amounts.at_more(first, second), third),
    ),
    ("said", "heute morgen", lambda: Several((DayOffset(0), MORNING))),
    ("said", "<day> <part>", lambda day, part: both(day, part)),
    ("said", "morgen früh", lambda: Several((DayOffset(1), MORNING))),
    ("said", "<weekday> <part>", lambda day, part: both(one_day(day), part)),
    ("said", "am? <weekday> morgen", lambda day: both(one_day(day), MORNING)),
    ("said", "am? <weekday> <part>", lambda day, part: both(one_day(day), part)),
    ("said", "am|zum|zu|an|den <day|weekday|weekdaylist>", phrases.on),
    ("said", "am <slashed>", phrases.on),
    ("said", "am <ordinal>", lambda day: phrases.on(days.day_of_month(day))),
    ("said", "am <monthdays>", monthly.month_days),
    ("said", "am <daykind>", lambda kind: phrases.on(Period("weekend", 0)) if len(kind) == 2 else None),
    ("said", "am|gegen|in|über <part>", lambda part: part),
    ("said", "in der nacht", lambda: NIGHT),
    ("said", "am|diesen|kommenden? <weekpart>", lambda weekpart: both(one_day(weekpart[0]), weekpart[1])),
    ("said", "am morgen", lambda: MORNING),
    ("said", "zum|bis|zu <phrase>", lambda part: part),
    ("said", "im <month|months>", lambda month: days.one_month(month) if isinstance(month, int) else month),
    ("said", "bis zum|zu? <day|weekday|time>", phrases.until),
    ("said", "bis am? <weekday>", phrases.until),
    ("said", "bis ende <month>", lambda month: Until(days.one_month(month))),
    ("said", "ab|seit dem|den|nächsten? <day|weekday>", phrases.starting),
    ("said", "beginnend|startend am|ab|mit? <day|weekday>", phrases.starting),
    ("said", "ab sofort|jetzt", lambda: Starting(Duration())),
    ("said", "von|zwischen <number|time> und|bis|- <time|number> uhr?", amounts.window),
    ("said", "für|über|auf die? nächsten? <duration>", phrases.lasting),
    ("said", "<duration> lang", phrases.lasting),
    ("said", "<count>", lambda count: count),
    ("said", "<often>", lambda count: phrases.count_of(count) if count > 1 else None),
    ("said", "außer|ausser|bis auf? am|an? <weekday|weekdaylist|mondays|daykind>", phrases.excluding),
    ("zone", "<city|abbreviation> zeit", lambda zone: zone),
    ("zone", "<city|abbreviation> er zeit", lambda zone: zone),
)


INTENT: Final = Intent(
    asking=(
        "erinnere|erinner|erinnre|errinnere|errinner mich|uns bitte? daran?",
        "erinnere|erinner",
        "kannst|könntest|kannste|würdest|willst du mich|uns bitte?",
        "ich möchte|will an|daran? erinnert werden",
        "erinnerung|wecker|timer",
        "stell|stelle|setz|setze|mach|erstelle|leg|richte mir? bitte? einen|eine|nen|ne? wecker|timer|erinnerung|alarm",
        "gib|sag|sage|schreib|schick mir bitte? bescheid|eine? nachricht|erinnerung?",
        "benachrichtige|informiere mich",
        "vergiss nicht",
        "lass mich nicht vergessen",
        "denk|denke bitte? daran|dran",
    ),
    wishing=(
        "ich muss|soll|sollte|möchte|will noch?",
        "wir müssen|sollen",
        "kannst|könntest du bitte?",
        "merk|merke dir",
        "plane|termin",
    ),
    courtesies=(
        "bitte|hallo|hey|hi|ok|okay|also|und|dann|danke|moin|servus|mal|noch",
        "guten morgen|tag|abend",
        ",|:|-|–|—|!|.|…|¶|*",
    ),
    closings=("bitte|danke|merci|erinnern", "vielen dank", "zu? erinnern", ",|:|-|–|—|!|.|…|?|¶"),
    keeping=("weck|wecke mich|uns", "ruf|rufe mich"),
    links=frozenset({"an", "daran", "dass", "zu", "zum", "zur", "für", "wegen", ":", "-", ",", "den", "das"}),
    questions=(
        "was|wer|wen|wem|wo|wohin|warum|wieso|weshalb|wie|welche|welcher|welches|wann|wieviel",
        "ist|sind|war|hat|haben|habe|gibt|kommt|darf|soll|muss ich|es|er|sie|der|die|das|wir|du",
        "hast|bist|kannst|weißt|magst|arbeitest|machst du",
        "erzähl|erkläre|erklär|übersetze|schreib|schreibe mir? ein|eine|einen|von|wie|was|über|das",
    ),
    statements=(
        "ich|er|sie|es|wir|ihr|du|das|man",
        "alles gute|klar",
        "bis morgen|bald|dann|montag|später",
        "gute nacht",
    ),
    verbs=word_set(
        "ist sind war waren hat hatte beginnt fängt öffnet schließt endet fährt kommt geht läuft findet war wird"
    ),
    past=word_set("war waren hatte hatten ging kam wurde gab habe hat"),
    management=(
        "lösche|lösch|storniere|stornier|entferne|zeige|zeig|liste|pausiere|stoppe|stopp|ändere|verschiebe|brich|beende|deaktiviere",
    ),
    managed=word_set("erinnerung erinnerungen wecker timer termine termin alarm alarme zeitplan zeitpläne"),
    after_managed=word_set("für um am an von zu auf über heute morgen ab"),
    determiners=word_set(
        "der die das den dem des mein meine meinen meinem meiner unser unsere dein deine ein eine einen einem einer"
    ),
    choices=frozenset({"oder"}),
    limits=word_set("nach vor während wenn sobald falls solange zwischen"),
    glue=frozenset({"um", "am", "zu", "und", "bis", "an", "im", "für"}),
    counted=frozenset({"zu", "zum"}),
    leading=frozenset({"zu", "dass", "dann", "und"}),
    dangling=frozenset({"um", "und", "am", "ab"}),
    joiners=frozenset({"und", "dann", ",", ";", ".", "¶"}),
    waiting=word_set("timer wecker warte snooze schlummern"),
    conditions=word_set("wenn sobald falls bevor nachdem bis"),
    until_is_by=True,
    bounds=word_set("bis außer ausser ab solange ohne"),
    recurring=frozenset(_EVERY.split("|")) | {"alle"},
    fillers=frozenset({",", "-", "und", "um", "am", "an", "den", "dem", "der", "ab", "jeweils", "immer", ":", "gegen"}),
)


@cache
def german() -> Language:
    """Return German, compiled at its first use."""
    return make_language(
        "de", with_zones(VOCABULARY, without="ist met"), (NUMBERS, AMOUNTS, DAYS, RECURRENCES, PARTS), INTENT
    )
