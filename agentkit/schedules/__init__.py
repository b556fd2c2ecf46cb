"""What users see of jobs: once after a delay, once at a date, by cron, or every interval.

``Schedule``, ``Scheduler`` and ``Recurrence`` are imported from here or from ``agentkit``.
"""

from agentkit.schedules.history import ScheduleRun
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.schedule import Schedule
from agentkit.schedules.scheduler import Scheduler

__all__ = ["Recurrence", "Schedule", "ScheduleRun", "Scheduler"]
