"""From a sentence to a schedule. Rules read what they fully understand; conventions are in the documentation."""

from agentkit.schedules.parser.parsed import (
    Cron,
    Delayed,
    Interval,
    NoSchedule,
    ParsedSchedule,
    Rrule,
    Scheduled,
    When,
)
from agentkit.schedules.parser.parser import ScheduleParser, parse_schedule

__all__ = [
    "Cron",
    "Delayed",
    "Interval",
    "NoSchedule",
    "ParsedSchedule",
    "Rrule",
    "ScheduleParser",
    "Scheduled",
    "When",
    "parse_schedule",
]
