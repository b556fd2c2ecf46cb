"""French: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
    MORNING,
    NIGHT,
    NOON_CLOCK,
)
from agentkit.schedules.parser.meanings import (
    CalendarDay,
    DayOffset,
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
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
)


_TENS: Final = word_list("vingt trente quarante cinquante soixante")


_WEEKDAYS: Final = word_list("lundi mardi mercredi jeudi vendredi samedi dimanche")


_MONTHS: Final = (
    "janvier janv|février fevrier fév|mars|avril|mai|juin|juillet juil|août aout|septembre sept|octobre oct|"
    "novembre nov|décembre decembre déc"
)


_ORDINALS: Final = "premier première|deuxième second seconde|troisième|quatrième|cinquième"


def _units() -> dict[str, object]:
    table = {
        "second": "seconde secondes sec s",
        "minute": "minute minutes min mn",
        "hour": "heure heures",
        "day": "jour jours journée",
        "week": "semaine semaines",
        "month": "mois",
        "year": "an ans année années",
    }
    units: dict[str, object] = {}
    for name, words in table.items():
        units |= dict.fromkeys(words.split(), Unit(name))  # type: ignore[arg-type]  # the keys are unit names
    units |= dict.fromkeys(("trimestre", "trimestres"), Unit("month", 3))
    units |= dict.fromkeys(("quinzaine",), Unit("week", 2))
    return units


_HOW_OFTEN: Final = Problem("À quelle fréquence exactement ?")


_WHEN: Final = Vague("Quand exactement ?")


VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": {
        **{word: n for n, word in enumerate(_SMALL)},
        **{word: 20 + 10 * n for n, word in enumerate(_TENS)},
        "une": 1,
        "dix - sept": 17,
        "dix - huit": 18,
        "dix - neuf": 19,
        "vingt et un": 21,
        "vingt et une": 21,
        "cent": 100,
    },
    "tens": {word: 20 + 10 * n for n, word in enumerate(_TENS)},
    "ordinal": {word: n for n, words in enumerate(_ORDINALS.split("|"), start=1) for word in words.split()},
    "unit": _units(),
    "weekday": {word: frozenset({n}) for n, word in enumerate(_WEEKDAYS)},
    "mondays": {
        **{f"{word}s": frozenset({n}) for n, word in enumerate(_WEEKDAYS)},
        "en semaine": frozenset(range(5)),
        "week - ends": frozenset({5, 6}),
        "weekends": frozenset({5, 6}),
    },
    "daykind": {
        "jour ouvré": frozenset(range(5)),
        "jours ouvrés": frozenset(range(5)),
        "jour ouvrable": frozenset(range(5)),
        "jours ouvrables": frozenset(range(5)),
        "jour de semaine": frozenset(range(5)),
        "jours de semaine": frozenset(range(5)),
        "week - end": frozenset({5, 6}),
        "weekend": frozenset({5, 6}),
    },
    "month": {word: n for n, words in enumerate(_MONTHS.split("|"), start=1) for word in words.split()},
    "part": {
        "matin": MORNING,
        "matins": MORNING,
        "matinée": MORNING,
        "l'après - midi": AFTERNOON,
        "après - midi": AFTERNOON,
        "aprèm": AFTERNOON,
        "soir": EVENING,
        "soirs": EVENING,
        "soirée": EVENING,
        "nuit": NIGHT,
        "nuits": NIGHT,
    },
    "time": {"midi": NOON_CLOCK, "minuit": MIDNIGHT},
    "day": {
        "aujourd'hui": DayOffset(0),
        "demain": DayOffset(1),
        "après - demain": DayOffset(2),
        "noël": CalendarDay(12, 25),
        "la fin du mois": Period("month", 0, end=True),
        "fin de mois": Period("month", 0, end=True),
        "fin du mois": Period("month", 0, end=True),
        "la fin de la semaine": Period("week", 0, end=True),
        "fin de semaine": Period("week", 0, end=True),
    },
    "every": {
        "quotidiennement": Every(unit="day"),
        "hebdomadairement": Every(unit="week"),
        "mensuellement": Every(unit="month"),
        "annuellement": Every(unit="year"),
    },
    "rate": dict.fromkeys(("de temps en temps", "parfois", "régulièrement"), _HOW_OFTEN),
    "city": {
        "londres": Zone("Europe/London"),
        "moscou": Zone("Europe/Moscow"),
        "pékin": Zone("Asia/Shanghai"),
        "genève": Zone("Europe/Zurich"),
        "bruxelles": Zone("Europe/Brussels"),
        "montréal": Zone("America/Toronto"),
        "lisbonne": Zone("Europe/Lisbon"),
        "le caire": Zone("Africa/Cairo"),
    },
    "vague": dict.fromkeys(
        ("plus tard", "bientôt", "un jour", "tout à l'heure", "un de ces jours", "à l'occasion"), _WHEN
    ),
    "over": dict.fromkeys(("hier", "avant - hier", "hier soir"), Past()),
}
