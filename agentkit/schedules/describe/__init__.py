"""Schedules and cron expressions in plain English: what is said is what runs."""

from agentkit.schedules.describe.cron import describe_cron
from agentkit.schedules.describe.whole import describe

__all__ = ["describe", "describe_cron"]
