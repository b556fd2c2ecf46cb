"""An RFC 5545 recurrence and the instants it runs at. The one door to ``dateutil``.

``dateutil`` finds the days. It can only count up from a rule's start, and looks for a day that never comes
until the year 9999; so periods are skipped at once here, and the search has an end (``_walls``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from agentkit.errors import ScheduleError
from agentkit.schedules.recurrence_steps import matching_times, period_start
from agentkit.schedules.recurrence_text import RuleText, read_rule
from agentkit.schedules.wall_clock import instant_of, offsets_at, wall_at, zone_named

DAY = timedelta(days=1)

# The calendar repeats after 400 years, weekdays included.
CALENDAR_CYCLE = 400
# At least so far is looked ahead. Even 29 February on a Monday comes after 40 years at most.
YEARS_AHEAD = 200
# The last 28 years of dateutil's calendar have every kind of year.
ALL_KINDS_OF_YEARS = datetime(MAXYEAR - 27, 1, 1)

DATEUTIL_FREQUENCIES: dict[str, Literal[0, 1, 2]] = {"YEARLY": 0, "MONTHLY": 1, "WEEKLY": 2}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """When an RFC 5545 rule runs, by the wall clock of a zone: for what cron cannot say.

    Every other Friday is ``FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0``, the last workday of a month
    ``FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1``. What a rule leaves open comes from its start, seconds
    included. ``COUNT`` (up to 10,000) and ``UNTIL`` end it; lines with ``DTSTART``, ``RDATE`` and ``EXDATE``
    may stand beside the ``RRULE``, with dates by the wall clock or, ending in ``Z``, in UTC.

    A time that the clock skips moves on by the gap, so 02:30 becomes 03:30; a time that comes twice runs in
    the first pass. That goes for ``HOURLY`` and finer rules too: nothing of theirs runs in the second pass.

    Source: RFC 5545 3.3.5 and 3.3.10, and "Scheduler" 8.2 of the specification.

    Raises:
        ScheduleError: If the rule is malformed or never runs, or the zone is unknown.

    >>> rule = Recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", "Europe/Berlin")
    >>> start = datetime.fromisoformat("2026-12-04T09:00+01:00")
    >>> rule.next_after(start, timezone="UTC", anchor=start).isoformat()
    '2026-12-18T08:00:00+00:00'

    Attributes:
        rrule: The rule's text.
        timezone: IANA name; None for that of the agent.
    """

    rrule: str
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Check both values."""
        if self.timezone is not None:
            zone_named(self.timezone)
        if not _fires(self.rrule):
            message = f"rrule {self.rrule[:200]!r} never runs: no day of any year fits all its parts; leave one out"
            raise ScheduleError(message)

    def next_after(self, moment: datetime, *, timezone: str, anchor: datetime) -> datetime | None:
        """Return the first instant later than ``moment`` at which the rule runs, in UTC; None: never again.

        Args:
            moment: Aware.
            timezone: The zone if the rule has none of its own.
            anchor: Where the rule starts, unless its text has a ``DTSTART``. Nothing runs before it, and
                ``COUNT`` counts from it, itself included if it fits. Aware.

        Raises:
            ScheduleError: If the zone is unknown or a moment is naive.
        """
        rule, zone = read_rule(self.rrule), zone_named(self.timezone or timezone)
        excluded = {_instant(date, zone) for date in rule.excluded}
        found: list[datetime] = []
        try:
            start = _start_wall(rule.start or wall_at(anchor, zone), zone)
            found = _next_of_rule(self.rrule, zone, start, moment, excluded=excluded)
        # Beyond the year 9999.
        except OverflowError:
            pass
        found += [date for date in (_instant(date, zone) for date in rule.extra) if date > moment]
        return min((date for date in found if date not in excluded), default=None)


def _next_of_rule(
    text: str, zone: ZoneInfo, start: datetime, moment: datetime, *, excluded: set[datetime]
) -> list[datetime]:
    """Return the next instants of the rule proper: none, one or, near a gap, several in any order."""
    rule = read_rule(text)
    last = _last_counted(text, start)
    found: list[datetime] = []
    latest = datetime.max
    for wall in _walls(rule.completed_from(start), start, max(start, _earliest_wall(moment, zone))):
        instant = _instant(wall, zone)
        is_over = rule.until is not None and instant > _instant(rule.until, zone)
        if is_over or wall >= latest or (last is not None and wall > last):
            break
        if instant <= moment or instant in excluded:
            continue
        found.append(instant)
        # A wall in a gap moves on, and walls up to where it lands may come before it.
        latest = min(latest, wall_at(instant, zone).replace(tzinfo=None))
        if latest <= wall:
            break
    return found


def _start_wall(start: datetime, zone: ZoneInfo) -> datetime:
    """Return a start by the wall clock, which it may be given in already."""
    return start if start.tzinfo is None else wall_at(start, zone).replace(tzinfo=None, fold=0)


def _earliest_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall from which on occurrences may be later than a moment."""
    local, day_before = wall_at(moment, zone), wall_at(moment - DAY, zone)
    wall = local.replace(tzinfo=None, fold=0)
    # Right after a gap, walls inside it have moved on to times still to come.
    return wall - max(wall - day_before.replace(tzinfo=None) - DAY, timedelta(0))


def _instant(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant of a wall: moved on by the gap it is in, or in the first pass."""
    if moment.tzinfo is not None:
        return moment
    return instant_of(moment, offsets_at(moment, zone)[0])


@lru_cache(maxsize=1024)
def _last_counted(text: str, start: datetime) -> datetime | None:
    """Return the wall of the last occurrence that COUNT allows; None if there is no end within sight."""
    rule = read_rule(text)
    if rule.count is None:
        return None
    walls = _walls(rule.completed_from(start), start, start)
    return next(islice(walls, rule.count - 1, None), None)


def _walls(rule: RuleText, start: datetime, earliest: datetime) -> Iterator[datetime]:
    """Yield a completed rule's walls from ``earliest`` on, ascending, for 200 to 600 years.

    The search runs in the last centuries ``dateutil`` knows, a multiple of 400 years away, because there it
    ends by itself. ``earliest`` is not before ``start``.
    """
    cycles = (MAXYEAR - YEARS_AHEAD - earliest.year) // CALENDAR_CYCLE
    years = cycles * CALENDAR_CYCLE
    start, earliest = start.replace(year=start.year + years), earliest.replace(year=earliest.year + years)
    first_period = period_start(rule, start, earliest)
    for wall in _periodic_walls(rule, first_period):
        if wall.year - years > MAXYEAR:
            return
        if wall >= earliest:
            yield wall.replace(year=wall.year - years)


def _periodic_walls(rule: RuleText, first_period: datetime) -> Iterator[datetime]:
    """Yield a completed rule's walls from a period of its on, up to the year 9999."""
    if rule.frequency in DATEUTIL_FREQUENCIES:
        return _dateutil_walls(rule, first_period)
    return matching_times(rule, first_period, _matching_days(rule, first_period))


def _dateutil_walls(rule: RuleText, first_period: datetime) -> Iterator[datetime]:
    """Yield the walls of a rule that goes by weeks, months or years."""
    # Imported late: most agents have no such rule.
    from dateutil.rrule import rrule, weekday

    numbers = rule.numbers
    return iter(
        rrule(
            DATEUTIL_FREQUENCIES[rule.frequency],
            dtstart=first_period,
            interval=rule.interval,
            wkst=rule.week_starts_on,
            bysetpos=numbers.get("BYSETPOS"),
            bymonth=numbers.get("BYMONTH"),
            bymonthday=numbers.get("BYMONTHDAY"),
            byyearday=numbers.get("BYYEARDAY"),
            byweekno=numbers.get("BYWEEKNO"),
            byweekday=[weekday(day, number) for day, number in rule.weekdays] or None,
            byhour=numbers.get("BYHOUR"),
            byminute=numbers.get("BYMINUTE"),
            bysecond=numbers.get("BYSECOND"),
        )
    )


def _matching_days(rule: RuleText, start: datetime) -> Iterator[datetime]:
    """Yield the days, at midnight, that the parts about days allow, from the month of ``start`` on."""
    from dateutil.rrule import MONTHLY, rrule

    numbers = rule.numbers
    return iter(
        rrule(
            MONTHLY,
            dtstart=datetime(start.year, start.month, 1),
            wkst=rule.week_starts_on,
            bymonth=numbers.get("BYMONTH"),
            bymonthday=numbers.get("BYMONTHDAY"),
            byyearday=numbers.get("BYYEARDAY"),
            byweekno=numbers.get("BYWEEKNO"),
            byweekday=[day for day, _ in rule.weekdays] or range(7),
        )
    )


@lru_cache(maxsize=1024)
def _fires(text: str) -> bool:
    """Return whether any day of any year fits the rule, whatever its start and interval."""
    rule = read_rule(text).completed_from(ALL_KINDS_OF_YEARS).without_interval()
    return next(_periodic_walls(rule, ALL_KINDS_OF_YEARS), None) is not None
