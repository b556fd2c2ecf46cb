"""First step: the request's text becomes items with their place in the text. Quoted text is one item, unread."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Final

from agentkit.schedules.parser.grammar import Item
from agentkit.schedules.parser.meanings import CalendarDay, Clock, Instant, Problem
from agentkit.schedules.parser.zones import iana_zone

# One character becomes one character, so that places in the copy are places in the text.
_SAME_WIDTH: Final = str.maketrans(
    "０１２３４５６７８９：／．＠，。！？、；（）−’‘ʼ\u00a0\u202f\u200b\u3000",
    "0123456789:/.@,.!?,;()-''' " + "   ",
)
# "half past 9" as one sign, spelt-out fractions and the dashes stay as they are.
FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Every repetition that may fail at its end is bounded, so that no text takes more than linear time.
_TOKEN: Final = re.compile(
    r"""
    (?P<quote> "[^"\n]{1,500}" | “[^”\n]{1,500}” | «[^»\n]{1,500}» | „[^“”\n]{1,500}[“”] | 「[^」\n]{1,500}」
        | 『[^』\n]{1,500}』 | `[^`\n]{1,500}` | (?<![\w])'[^'\n]{2,500}'(?![\w]) )
  | (?P<address> \d{1,5}[a-z]?\s(?:(?-i:[A-Z][a-z'.-]{1,20})\s){0,2}
        (?!(?:the|this|my|our|pm|am|mins?|minutes?|hours?|hrs?)\b)[^\W\d_]{2,20}\s(?:street|road|avenue|ave|lane|boulevard|blvd)\b
        | \d{1,3}(?:st|nd|rd|th)\s(?:street|avenue|ave|floor|grade|birthday|anniversary|edition|chapter|season)\b )
  | (?P<named> (?:chapter|level|season|episode|page|room|gate|bus|volume|platform|apartment|ticket|issue|channel|route)
        \s\d{1,4}\b (?!\s?(?:[ap]\.?m\b|o'clock|[:/h.])) )
  | (?P<link> https?://\S+ | [a-z0-9_.+-]{1,64}@[a-z0-9-]{1,64}\.[a-z0-9.-]+
        | [a-z_]{2,30}[-_]\d{4}-\d{2}-\d{2}\S{0,30}
        | \#\d+ | \$\s?\d[\d.,]* | \d[\d.,]{0,20}\s?[%€£$] | [€£]\s?\d[\d.,]* )
  | (?P<iso> \d{4}-\d{1,2}-\d{1,2} (?: [T\ ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?\ ?(?:Z\b|[+-]\d{2}:?\d{2})
        | T\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)? )? (?!\d) )
  | (?P<ymd> \d{4}[/.]\d{1,2}[/.]\d{1,2} (?!\d) )
  | (?P<date> \d{1,2}(?P<separator>[/.-])\d{1,2}(?P=separator)(?:\d{4}|\d{2}) (?![\d:]) )
  | (?P<dotted> \d{1,2}\.\d{1,2}\. (?!\d) )
  | (?P<slashed> \d{1,2}/\d{1,2} (?![\d/]) )
  | (?P<clock> \d{1,2}:\d{2}(?::\d{2})? (?![\d:]) )
  | (?P<offset> (?:(?<=utc|gmt)[+-]|(?<=:\d\d)\+)\d{1,2}(?::?\d{2})?(?!\d) | (?<=:\d\d\ )\+\d{2}:\d{2}(?!\d) )
  | (?P<texted> (?<!\w)(?:2(?:moro|morow|morrow|mrw|moz|nite|night|nyt|day)|b4|l8r)\b )
  | (?P<ordinal> \d{1,3}(?:st|nd|rd|th|º|ª|er|ère|e|ème|eme)\b )
  | (?P<thousands> \d{1,3}(?:,\d{3}){1,3} (?![\d,]) )
  | (?P<malformed> \d{1,2}:\d (?!\d) )
  | (?P<number> (?<![\w.])-\d+(?:[.,]\d+)? | \d+(?:[.,]\d+)? )
  | (?P<iana> (?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc|US)
        (?:/[A-Z][A-Za-z0-9_+-]+)+ (?!/) )
  | (?P<half> [ap]\.\s?m\.? )
  | (?P<cjk> [\u3005\u3040-\u30ff\u4e00-\u9fff] )
  | (?P<word> [^\W\d_\u3005\u3040-\u30ff\u4e00-\u9fff]+ (?:'[^\W\d_]+)* )
  | (?P<dots> \.{2,} | … )
  | (?P<line> \n )
  | (?P<sign> \S )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_READINGS: Final[dict[str, object]] = {}


def same_width(text: str) -> str:
    """Return the text with full-width digits and signs made plain, every character in its place."""
    return text.translate(_SAME_WIDTH)


def split_text(text: str, *, month_first: bool) -> list[Item]:
    """Return the items of a text, in order.

    Args:
        text: As ``same_width`` returns it.
        month_first: Whether 4/5 is the fifth of April.
    """
    items = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "separator":
            kind = "date"
        word = match.group()
        start, end = match.span()
        if kind == "word" or kind == "cjk":
            items.append(Item(word.lower(), _NO_READINGS, start, end))
        elif kind == "number":
            items.append(Item(word, _number(word), start, end))
        elif kind == "sign":
            items.append(Item(word, _NO_READINGS, start, end))
        else:
            items.append(Item(*_shaped(kind, word, month_first=month_first), start, end))
    return items


def _shaped(kind: str, word: str, *, month_first: bool) -> tuple[str, dict[str, object]]:
    match kind:
        case "quote" | "link" | "address" | "named":
            return "\x00", _NO_READINGS
        case "iso" | "ymd":
            return word, _iso(word.replace("/", "-").replace(".", "-") if kind == "ymd" else word)
        case "date" | "dotted" | "slashed":
            return word, _written_date(kind, word, month_first=month_first)
        case "clock":
            hour, minute = word.split(":")[:2]
            return word, {"time": clock(int(hour), int(minute), exact=hour.startswith("0"))}
        case "thousands":
            return word, {"number": int(word.replace(",", ""))}
        case "malformed":
            return word, {"malformed": Problem(f"{word} is not a time of day. What time do you mean?")}
        case "ordinal":
            return word, {"ordinal": int(re.match(r"\d+", word)[0])}  # type: ignore[index]  # the pattern starts so
        case "half":
            return ("am" if word[0] in "aA" else "pm"), _NO_READINGS
        case "offset":
            digits = word[1:].replace(":", "")
            hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
            total = (hours * 60 + minutes) * (-1 if word[0] == "-" else 1)
            return word, {"offset": total, "negative": hours} if word[0] == "-" else {"offset": total}
        case "dots":
            return "…", _NO_READINGS
        case "line":
            return "¶", _NO_READINGS
        case "texted":
            return word.lower(), _NO_READINGS
        case "iana":
            zone = iana_zone(word)
            unknown = Problem(f"I don't know the time zone {word}. Which one do you mean?")
            return word, {"zone": unknown if zone is None else zone}
        case _:
            return word, _NO_READINGS


def _number(word: str) -> dict[str, object]:
    readings: dict[str, object] = {}
    if len(word) > 9:
        return {"number": float(10**9)}
    value = float(word.replace(",", "."))
    readings["number"] = int(value) if value == int(value) else value
    whole, dot, part = word.partition(".")
    if dot and len(part) == 2 and len(whole) <= 2:
        readings["dotted"] = clock(abs(int(whole)), int(part), exact=whole.startswith("0"))
    if word.isdigit():
        if len(word) == 4 and 1900 <= value <= 9999:
            readings["year"] = int(value)
        if len(word) in (3, 4) and int(word[:-2]) < 24 and int(word[-2:]) < 60:
            readings["military"] = Clock(int(word[:-2]), int(word[-2:]), word.startswith("0"))
        if len(word) == 2 and word[0] == "0":
            readings["padded"] = int(value)
    return readings


def clock(hour: int, minute: int = 0, *, exact: bool = False) -> Clock | Problem:
    """Return a time of day, or what is wrong with it."""
    if hour == 24 and minute == 0:
        return Clock(24, 0, exact=True)
    if not (0 <= hour < 24 and 0 <= minute < 60):
        return Problem(f"{hour}:{minute:02d} is not a time of day. What time do you mean?")
    return Clock(hour, minute, exact or hour > 12 or hour == 0)


def _iso(word: str) -> dict[str, object]:
    year, month, day = (int(part) for part in re.split(r"[-Tt ]", word)[:3])
    try:
        date(year, month, day)
        if ":" in word:
            written = word[:11].replace(" ", "T") + word[11:].replace(" ", "")
            return {"moment": Instant(datetime.fromisoformat(written.upper()))}
    except ValueError:
        return {"day": Problem(f"{word} is not a date. Which day do you mean?")}
    return {"day": CalendarDay(month, day, year)}


def _written_date(kind: str, word: str, *, month_first: bool) -> dict[str, object]:
    parts = [int(part) for part in re.split(r"[/.-]", word) if part]
    first, second = parts[0], parts[1]
    year = parts[2] if len(parts) > 2 else None
    if year is not None and year < 100:
        year += 2000
    dotted = "." in word
    if dotted or (not month_first and second <= 12) or first > 12:
        day, month = first, second
    else:
        month, day = first, second
    meaning: CalendarDay | Problem = CalendarDay(month, day, year)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        meaning = Problem(f"{word} is not a date. Which day do you mean?")
    if kind == "slashed":
        return {"slashed": meaning}
    return {"day": meaning}
