"""What a tool gave back, as text of a size that a model can take and the store can keep."""

from __future__ import annotations

import json
from typing import Any, Final

from agentkit.errors import PayloadError
from agentkit.jobs.failures import storable
from agentkit.json_value import plain

#: What a model is shown of one result, in characters.
LONGEST_SHOWN: Final = 30_000
#: Of that, what is taken from the end: the last lines of a log tell most.
_TAIL: Final = 10_000


def text_of(value: Any) -> str:
    """Return a result as text: text as it is, nothing as nothing, the rest as JSON where that can carry it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    try:
        return json.dumps(plain(value, "result"), ensure_ascii=False)
    except PayloadError:
        return str(value)


def clipped(text: str, longest: int = LONGEST_SHOWN) -> str:
    r"""Return text of about ``longest`` characters at most: its beginning and its end, and how much was left out.

    >>> clipped("a" * 50, 30)
    'aaaaaaaaaaaaaaaaaaaa\n[… 20 of 50 characters left out …]\naaaaaaaaaa'
    """
    if len(text) <= longest:
        return storable(text)
    tail = min(_TAIL, longest // 3)
    left_out = len(text) - longest
    begin, end = text[: longest - tail], text[len(text) - tail :]
    return storable(f"{begin}\n[… {left_out:,} of {len(text):,} characters left out …]\n{end}")


def fitting(text: str, most_bytes: int) -> str:
    """Return text, shortened if need be, whose JSON has at most so many bytes.

    >>> len(json.dumps(fitting("é" * 1_000, 900))) <= 900
    True
    """
    longest = most_bytes
    while True:
        kept = clipped(text, longest)
        size = len(json.dumps(kept))
        if size <= most_bytes:
            return kept
        longest = min(longest * most_bytes // size, longest - 100)
        if longest < 100:
            return ""
