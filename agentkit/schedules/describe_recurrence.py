"""An RFC 5545 recurrence in plain English where it is a common one, and by its own text where it isn't."""

from __future__ import annotations

from datetime import datetime

from agentkit.schedules.describe_cron import with_zone


def describe_recurrence(rrule: str, timezone: str, *, starts_at: datetime | None = None) -> str:
    """Return when a recurrence runs, in English.

    Args:
        rrule: Anything ``Recurrence`` accepts.
        timezone: IANA name, said at the end.
        starts_at: Where the rule starts, unless its text has a ``DTSTART``; None if that isn't known.
    """
    return with_zone(f"by the rule {'; '.join(rrule.split())}", timezone)
