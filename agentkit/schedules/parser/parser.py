"""The way in: a sentence becomes a ``ParsedSchedule``, by the rules first and by a model where they must ask."""

from __future__ import annotations

from datetime import datetime

from agentkit.errors import ScheduleError
from agentkit.model_settings import is_configured
from agentkit.schedules.parser.hand_over import checked, needs_model, settled
from agentkit.schedules.parser.model import InstructorModel, ScheduleModel
from agentkit.schedules.parser.parsed import ParsedSchedule
from agentkit.schedules.parser.rules import read_request
from agentkit.schedules.wall_clock import zone_named


class ScheduleParser:
    """Reads requests such as "every Monday at 9 send the report".

    The rules answer what they fully understand, with no network and in well under a millisecond. A model, if there is
    one, is asked about the rest.
    """

    def __init__(self, model: ScheduleModel | str | None = None) -> None:
        """Choose who reads what the rules can't.

        Args:
            model: A ``ScheduleModel``; the name of a model, at the endpoint that the environment names; ``"auto"`` for
                ``$AGENTKIT_MODEL`` if that and a key or an endpoint are set, else the rules alone; None for the rules
                alone.

        Raises:
            ConfigurationError: A model is named that has no key, or its libraries aren't installed.
        """
        self._model = model_for(model)

    async def parse(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
        """Return what a request means; see ``parse_schedule``."""
        zone = zone_named(timezone)
        if now.tzinfo is None:
            message = "now has no time zone; pass an aware datetime such as datetime.now(timezone.utc)"
            raise ScheduleError(message)
        plan = checked(read_request(text, now=now, zone_name=timezone, zone=zone), now)
        if self._model is None or not needs_model(plan, text):
            return plan
        return settled(plan, checked(await self._model.read(text, now=now, timezone=timezone), now), now)


def model_for(model: ScheduleModel | str | None) -> ScheduleModel | None:
    """Return the model that an argument names; see ``ScheduleParser``."""
    if model == "auto":
        return InstructorModel() if is_configured() else None
    return InstructorModel(model) if isinstance(model, str) else model


async def parse_schedule(
    text: str, *, now: datetime, timezone: str, model: ScheduleModel | str | None = None
) -> ParsedSchedule:
    """Return what a request means.

    Args:
        text: The request, in English, German, Spanish, French, Chinese or Japanese, or with a model in any language.
        now: The moment it was made, aware.
        timezone: IANA name of the user's zone.
        model: Reads what the rules can't; see ``ScheduleParser``. What they fully understand it never sees.

    Returns:
        The task and when to run it. A ``question`` is set where the request has to be asked about first.

    Raises:
        ScheduleError: If the zone is unknown or ``now`` is naive. By the rules alone, no text raises.
        ParseError: If the model gave no usable answer, or couldn't be reached.
        ConfigurationError: If the endpoint refuses the key, or doesn't know the model.
    """
    return await ScheduleParser(model).parse(text, now=now, timezone=timezone)
