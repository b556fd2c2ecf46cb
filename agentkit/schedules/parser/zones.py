"""Time zones as people name them: IANA names, cities, abbreviations and offsets from UTC."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from agentkit.errors import ScheduleError
from agentkit.schedules.parser.grammar import Item
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.meanings import Problem, Zone
from agentkit.schedules.wall_clock import zone_named

_CITIES: Final = {
    "America/New_York": "new york|nyc|ny|boston|washington|miami|atlanta|philadelphia|orlando",
    "America/Detroit": "detroit",
    "America/Chicago": "chicago|houston|dallas|austin|minneapolis|new orleans|nashville",
    "America/Denver": "denver|salt lake city|boulder",
    "America/Phoenix": "phoenix|arizona",
    "America/Los_Angeles": "los angeles|la|san francisco|sf|seattle|san diego|las vegas|california|portland",
    "America/Anchorage": "anchorage|alaska",
    "Pacific/Honolulu": "honolulu|hawaii",
    "America/Toronto": "toronto|montreal|ottawa",
    "America/Vancouver": "vancouver",
    "America/Halifax": "halifax",
    "America/Mexico_City": "mexico city|mexico",
    "America/Bogota": "bogota|bogotá|colombia",
    "America/Lima": "lima|peru",
    "America/Santiago": "santiago|chile",
    "America/Caracas": "caracas",
    "America/Sao_Paulo": "sao paulo|são paulo|rio|brazil|brasilia",
    "America/Argentina/Buenos_Aires": "buenos aires|argentina",
    "America/Montevideo": "montevideo",
    "Atlantic/Reykjavik": "reykjavik|iceland",
    "Europe/London": "london|uk|british|england|edinburgh|manchester|scotland",
    "Europe/Dublin": "dublin|ireland|irish",
    "Europe/Lisbon": "lisbon|portugal",
    "Europe/Madrid": "madrid|barcelona|spain|spanish",
    "Europe/Paris": "paris|france|french|lyon",
    "Europe/Brussels": "brussels|belgium",
    "Europe/Amsterdam": "amsterdam|netherlands|dutch",
    "Europe/Berlin": "berlin|germany|german|munich|hamburg|frankfurt|cologne",
    "Europe/Zurich": "zurich|zürich|geneva|switzerland|swiss",
    "Europe/Vienna": "vienna|austria",
    "Europe/Rome": "rome|milan|italy|italian",
    "Europe/Prague": "prague",
    "Europe/Budapest": "budapest",
    "Europe/Warsaw": "warsaw|poland",
    "Europe/Copenhagen": "copenhagen|denmark",
    "Europe/Oslo": "oslo|norway",
    "Europe/Stockholm": "stockholm|sweden",
    "Europe/Helsinki": "helsinki|finland",
    "Europe/Athens": "athens|greece",
    "Europe/Bucharest": "bucharest",
    "Europe/Sofia": "sofia",
    "Europe/Kyiv": "kyiv|kiev|ukraine",
    "Europe/Istanbul": "istanbul|turkey",
    "Europe/Moscow": "moscow",
    "Africa/Cairo": "cairo|egypt",
    "Africa/Lagos": "lagos|nigeria",
    "Africa/Nairobi": "nairobi|kenya",
    "Africa/Johannesburg": "johannesburg|cape town|south africa",
    "Africa/Casablanca": "casablanca",
    "Asia/Jerusalem": "jerusalem|tel aviv|israel",
    "Asia/Dubai": "dubai|abu dhabi",
    "Asia/Riyadh": "riyadh",
    "Asia/Tehran": "tehran",
    "Asia/Karachi": "karachi",
    "Asia/Kolkata": "mumbai|delhi|new delhi|bangalore|bengaluru|kolkata|chennai|india|indian|hyderabad|pune",
    "Asia/Kathmandu": "kathmandu|nepal",
    "Asia/Dhaka": "dhaka",
    "Asia/Bangkok": "bangkok|thailand",
    "Asia/Jakarta": "jakarta",
    "Asia/Ho_Chi_Minh": "hanoi|ho chi minh city|vietnam",
    "Asia/Singapore": "singapore",
    "Asia/Kuala_Lumpur": "kuala lumpur",
    "Asia/Manila": "manila|philippines",
    "Asia/Hong_Kong": "hong kong",
    "Asia/Shanghai": "shanghai|beijing|china|shenzhen|chinese",
    "Asia/Taipei": "taipei|taiwan",
    "Asia/Seoul": "seoul|korea|korean",
    "Asia/Tokyo": "tokyo|japan|osaka|kyoto|japanese",
    "Australia/Perth": "perth",
    "Australia/Adelaide": "adelaide",
    "Australia/Brisbane": "brisbane",
    "Australia/Sydney": "sydney|canberra",
    "Australia/Melbourne": "melbourne",
    "Pacific/Auckland": "auckland|wellington|new zealand|nz",
}
_ABBREVIATIONS: Final = {
    "UTC": "utc|gmt|zulu|z",
    "America/New_York": "et|est|edt",
    "America/Chicago": "ct|cdt|cst",
    "America/Denver": "mt|mst|mdt",
    "America/Los_Angeles": "pt|pst|pdt",
    "America/Anchorage": "akst|akdt",
    "Pacific/Honolulu": "hst",
    "America/Halifax": "ast|adt",
    "America/Sao_Paulo": "brt",
    "Europe/London": "bst",
    "Europe/Lisbon": "wet|west",
    "Europe/Berlin": "cet|cest|mez|mesz",
    "Europe/Helsinki": "eet|eest",
    "Europe/Moscow": "msk",
    "Asia/Dubai": "gst",
    "Asia/Karachi": "pkt",
    "Asia/Hong_Kong": "hkt",
    "Asia/Singapore": "sgt",
    "Asia/Manila": "pht",
    "Asia/Jakarta": "wib",
    "Asia/Tokyo": "jst",
    "Asia/Seoul": "kst",
    "Australia/Perth": "awst",
    "Australia/Brisbane": "aest",
    "Australia/Sydney": "aedt|aet",
    "Australia/Adelaide": "acst|acdt",
    "Pacific/Auckland": "nzst|nzdt|nzt",
}
_NAMED: Final = {
    "eastern": "America/New_York",
    "central": "America/Chicago",
    "mountain": "America/Denver",
    "pacific": "America/Los_Angeles",
    "central european": "Europe/Berlin",
    "eastern european": "Europe/Helsinki",
    "universal": "UTC",
    "greenwich": "UTC",
    "greenwich mean": "UTC",
    "local": "",
    "my": "",
    "our": "",
}
_NO_AREAS: Final = ("Etc/", "US/", "Canada/", "Mexico/", "Brazil/", "Chile/", "SystemV/")
_CLOCKS: Final = frozenset({"said", "time", "day", "times"})
# Between Indian, Irish and Israel time there is no telling: the user's own zone is meant.
_OWN: Final = frozenset({"ist"})


def _flat(table: dict[str, str]) -> dict[str, object]:
    return {word: Zone(name) for name, words in table.items() for word in words.split("|")}


ZONE_VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "city": {**_flat(_CITIES), **{word: Zone(name) for word, name in _NAMED.items()}},
    "abbreviation": {**_flat(_ABBREVIATIONS), **{word: Zone() for word in _OWN}},
}


def with_zones(vocabulary: Mapping[str, Mapping[str, object]], *, without: str) -> dict[str, Mapping[str, object]]:
    """Return a vocabulary with the zones every language knows, except what is a word of its own there, like "et"."""
    known = {**vocabulary}
    for kind, words in ZONE_VOCABULARY.items():
        others = {word: zone for word, zone in words.items() if word not in without.split()}
        known[kind] = {**others, **vocabulary.get(kind, {})}
    return known


@cache
def known_zone(name: str) -> ZoneInfo | None:
    """Return the zone with that IANA name, or None."""
    try:
        return zone_named(name)
    except ScheduleError:
        return None


@cache
def _names_by_lower_case() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones() if "/" in name}


@cache
def _cities_by_name() -> dict[str, str]:
    names = sorted(name for name in available_timezones() if name.count("/") == 1 and not name.startswith(_NO_AREAS))
    return {name.split("/")[1].replace("_", " ").lower(): name for name in names}


def name_cities(items: list[Item], text: str, language: Language) -> list[Item]:
    """Return the items with "Kigali time" as a zone behind a clock time, and an unknown place as a problem."""
    words = language.intent.zone_words
    if all(item.word not in words for item in items):
        return items
    for place in range(len(items) - 2, 0, -1):
        clock, city, word = items[place - 1 : place + 2]
        is_name = word.word in words and text[city.start].isupper() and not city.readings
        if not is_name or not _CLOCKS.intersection(clock.readings):
            continue
        name = _cities_by_name().get(city.word)
        zone = Problem("I don't know that time zone. Which one do you mean?") if name is None else Zone(name)
        items[place : place + 2] = [Item("", {"zone": zone}, city.start, word.end)]
    return items


def iana_zone(word: str) -> Zone | None:
    """Return the zone a word such as ``Asia/Tokyo`` names, in whatever case."""
    if known_zone(word) is not None:
        return Zone(word)
    name = _names_by_lower_case().get(word.lower())
    return None if name is None else Zone(name)


def gmt_offset(base: Zone, minutes: int) -> Zone | None:
    """Return "UTC+2"; whole hours have an IANA name of the opposite sign."""
    if base.name != "UTC" or abs(minutes) > 14 * 60:
        return None
    if minutes % 60:
        return Zone(minutes=minutes)
    hours = minutes // 60
    return Zone(f"Etc/GMT{-hours:+d}" if hours else "UTC", minutes)
