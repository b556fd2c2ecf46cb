"""Between the wall clock of a zone and instants: named zones, skipped times and repeated times.

A *wall* is what a clock on the wall shows: a naive ``datetime``. In spring some walls are skipped (a gap), in
autumn some come twice. What to do then is the caller's rule; this step only says which case it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from agentkit.errors import ScheduleError

MINUTE = timedelta(minutes=1)
NO_TIME = timedelta(0)

# Found beside the IANA names on many systems: the machine's own setting, and copies that count leap seconds.
NOT_IANA = ("localtime", "posixrules", "Factory", "posix/", "right/")


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Return the zone with this IANA name.

    Raises:
        ScheduleError: If there is none; the message names it and the likeliest spelling.
    """
    try:
        if name and not name.startswith(NOT_IANA):
            return ZoneInfo(name)
    # An unknown name is a KeyError, "../etc" a ValueError, the folder "America" an OSError.
    except (KeyError, ValueError, OSError):
        pass
    message = f"time zone {name[:100]!r} is unknown; use an IANA name such as {_closest_name(name)!r}"
    raise ScheduleError(message)


def wall_at(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return what the zone's clock shows at a moment, still with its zone and ``fold``.

    Raises:
        ScheduleError: If the moment is naive.
    """
    if moment.tzinfo is None:
        message = f"moment {moment.isoformat()} has no time zone; make it aware, as datetime.now(UTC) is"
        raise ScheduleError(message)
    return moment.astimezone(zone)


def offsets_at(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """Return the two UTC offsets that could hold at a wall: equal but near a change of the clock.

    Inside a gap the first is smaller than the second, in a repeated time it is larger.
    """
    aware = wall.replace(tzinfo=zone, fold=0)
    first = aware.utcoffset() or NO_TIME
    return first, aware.replace(fold=1).utcoffset() or NO_TIME


def instant_of(wall: datetime, offset: timedelta) -> datetime:
    """Return the UTC instant of a wall that has this offset."""
    return (wall - offset).replace(tzinfo=UTC)


def end_of_change(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first whole minute, by the wall, after the gap or repeated time that this wall is in."""
    first, second = offsets_at(wall, zone)
    inside, outside = 0, -(-abs(second - first) // MINUTE)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        first, second = offsets_at(wall + middle * MINUTE, zone)
        if first == second:
            outside = middle
        else:
            inside = middle
    return wall + outside * MINUTE


def _closest_name(name: str) -> str:
    """Return the known zone a misspelled name most likely means, or a well-known one."""
    wanted = name.strip().lower().replace(" ", "_")
    for known in sorted(available_timezones().difference(NOT_IANA)):
        if wanted and wanted in (known.lower(), known.lower().rpartition("/")[2]):
            return known
    return "Europe/Berlin"
