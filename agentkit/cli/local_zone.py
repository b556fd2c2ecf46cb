"""Which time zone this machine is set to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_PLAIN: Final = {"Etc/UTC": "UTC", "Universal": "UTC", "Zulu": "UTC"}


def local_zone() -> str:
    """Return the IANA name of the machine's zone: $TZ, else /etc/localtime, else UTC."""
    for name in (os.environ.get("TZ", "").lstrip(":"), _linked(), _written()):
        if name and _is_known(name):
            return _PLAIN.get(name, name)
    return "UTC"


def _linked() -> str:
    try:
        return os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    except OSError:
        return ""


def _written() -> str:
    try:
        return Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return not name.startswith(("posix", "right/"))
