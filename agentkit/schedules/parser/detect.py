"""Which language a request is in, by its script and its small words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentkit.schedules.parser.grammar import Item
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.languages.chinese import chinese
from agentkit.schedules.parser.languages.english import english
from agentkit.schedules.parser.languages.french import french
from agentkit.schedules.parser.languages.german import german
from agentkit.schedules.parser.languages.japanese import japanese
from agentkit.schedules.parser.languages.spanish import spanish

# Words that are frequent in requests, and in no other of these languages.
_MARKERS: Final[dict[str, tuple[Callable[[], Language], frozenset[str]]]] = {
    "de": (
        german,
        frozenset(
            "morgen heute übermorgen uhr um den dem das der die ein eine einen einem einer und ich mich mir bitte "
            "jeden jede jeder jedes alle montag dienstag mittwoch donnerstag freitag samstag sonntag montags "
            "dienstags mittwochs donnerstags freitags samstags sonntags erinnere erinner täglich wöchentlich "
            "monatlich jährlich stündlich minuten stunde stunden tage tagen woche wochen monat monate monats "
            "abend abends morgens mittags nachmittags nachts werktags nächste nächsten nächster kommenden diesen bis "
            "zum zur für auf vom nach vor nicht muss kannst weck wecke stell stelle halbe halben januar februar märz "
            "mai juni juli oktober dezember jahr jahre ist sind wann wie warum was wer gestern".split()
        ),
    ),
    "es": (
        spanish,
        frozenset(
            "mañana hoy pasado las los el la a por tarde noche todos todas cada lunes martes miércoles miercoles "
            "jueves viernes sábado sabado domingo sábados domingos en minutos minuto hora horas día días dia dias "
            "semana semanas mes meses año años dentro recuérdame recuerdame recordar avísame despiértame para con "
            "del una un y que mediodía medianoche enero febrero marzo abril mayo junio julio agosto septiembre "
            "octubre noviembre diciembre próximo próxima viene hasta desde durante favor tengo hay qué cuándo cómo "
            "llamar pagar comprar de media ayer pon ponme mi".split()
        ),
    ),
    "fr": (
        french,
        frozenset(
            "demain aujourd'hui à heures heure dans tous toutes les chaque lundi mardi mercredi jeudi vendredi samedi "
            "dimanche lundis mardis mercredis jeudis vendredis samedis dimanches matin soir midi minuit après jours "
            "jour semaine semaines mois an ans rappelle rappelez moi de le la du des une un et pour prochain "
            "prochaine jusqu'à jusqu'au pendant janvier février mars avril mai juin juillet août septembre octobre "
            "novembre décembre demi demie ce cette au aux réveille n'oublie quel quelle quand il je j'ai est dois "
            "hier qui que quoi d'appeler mon ma mes appeler".split()
        ),
    ),
}
_ENGLISH: Final = frozenset(
    "the to at on in every for my me and of a an remind tomorrow today is with by call send buy please from this next "
    "day week month hour hours minutes am pm i it you your what when who how".split()
)


def detect_language(items: list[Item]) -> Language:
    """Return the language whose words the request uses most; English unless another clearly wins."""
    words = [item.word for item in items]
    if any("\u3040" <= word[:1] <= "\u30ff" for word in words):
        return japanese()
    han = [word for word in words if "\u4e00" <= word[:1] <= "\u9fff"]
    if han:
        return japanese() if any(word in _JAPANESE for word in han) and not _CHINESE.intersection(han) else chinese()
    best, most = english, sum(1 for word in words if word in _ENGLISH)
    for language, markers in _MARKERS.values():
        count = sum(1 for word in words if word in markers)
        if count > most:
            best, most = language, count
    return best()


# Signs that only one of the two languages uses in requests written without kana.
_JAPANESE: Final = frozenset("毎曜")
_CHINESE: Final = frozenset("每点點这這们們后个個")
