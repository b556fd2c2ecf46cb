"""What a request was understood as: the one value both parsing paths end in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Run once, at an instant."""

    date: datetime
    type: Literal["scheduled"] = field(default="scheduled", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """Run once, so many seconds after the request."""

    delay_in_seconds: int
    type: Literal["delayed"] = field(default="delayed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Run by the wall clock of a zone.

    Attributes:
        cron: Five fields; several rules are joined by ``" | "``.
        timezone: IANA name.
    """

    cron: str
    timezone: str
    type: Literal["cron"] = field(default="cron", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Run every so many elapsed seconds, first one interval after the request (or at ``starts_at``)."""

    interval_seconds: int
    type: Literal["interval"] = field(default="interval", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrule:
    """Run by an iCalendar rule, whose first run is the plan's ``starts_at``.

    Attributes:
        rrule: RFC 5545 rule without ``DTSTART``.
        timezone: IANA name.
    """

    rrule: str
    timezone: str
    type: Literal["rrule"] = field(default="rrule", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSchedule:
    """Nothing to schedule: chat, a question, or a request that needs an answer first."""

    type: Literal["no-schedule"] = field(default="no-schedule", init=False)


When = Scheduled | Delayed | Cron | Interval | Rrule | NoSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSchedule:
    """A request, read.

    Attributes:
        description: The task in the user's own words, without its timing.
        when: When to run it.
        until: Last instant at which it may run, inclusive.
        count: Number of runs after which it ends.
        starts_at: First instant at which it may run; for a ``Rrule`` its first run.
        question: What must be asked before anything is scheduled; ``when`` is then only a guess.
        source: Who read the request.
    """

    description: str
    when: When
    until: datetime | None = None
    count: int | None = None
    starts_at: datetime | None = None
    question: str | None = None
    source: Literal["rules", "model"] = "rules"
