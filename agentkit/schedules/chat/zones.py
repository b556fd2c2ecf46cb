"""Time zones as people name them."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import available_timezones


def known_name(words: str) -> str:
    """Return the IANA name for "europe/berlin", "Berlin" or "New York"; the words themselves if there is none.

    >>> known_name("new york")
    'America/New_York'
    """
    words = words.strip(" .").removesuffix(" time")
    return _names().get(words.lower().replace(" ", "_"), words)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    names = sorted(available_timezones())
    cities = {name.rpartition("/")[2].lower(): name for name in reversed(names) if name.count("/") == 1}
    return cities | {name.lower(): name for name in names}
