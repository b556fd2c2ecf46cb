"""How long a server asks to wait: the ``Retry-After`` header, and which answers may be mended by waiting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

_BUSY: Final = frozenset({408, 409, 425, 429})


def asked_wait(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how long the headers ask to wait, in seconds or until a date; None if they don't say.

    >>> asked_wait({"retry-after": "5"}, datetime(2026, 1, 1))
    datetime.timedelta(seconds=5)
    """
    asked = headers.get("retry-after", "")
    for number, unit in ((headers.get("retry-after-ms", ""), 1_000), (asked, 1)):
        with suppress(ValueError, OverflowError):
            if math.isfinite(seconds := float(number) / unit):
                return timedelta(seconds=max(seconds, 0))
    with suppress(ValueError, TypeError, OverflowError):
        return max(parsedate_to_datetime(asked) - now, timedelta(0))
    return None


def is_passing(status: int, code: str | None) -> bool:
    """Tell whether the same request may work later.

    Args:
        status: HTTP status.
        code: What kind of error the answer's body names; an account without quota stays without.
    """
    if status == 429 and code == "insufficient_quota":
        return False
    return status in _BUSY or status >= 500
