"""From a sentence to a schedule. Rules read what they fully understand, a language model the rest if there is one."""

from agentkit.schedules.parser.model import InstructorModel, ScheduleModel, schedule_prompt
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
    "InstructorModel",
    "Interval",
    "NoSchedule",
    "ParsedSchedule",
    "Rrule",
    "ScheduleModel",
    "ScheduleParser",
    "Scheduled",
    "When",
    "parse_schedule",
    "schedule_prompt",
]
