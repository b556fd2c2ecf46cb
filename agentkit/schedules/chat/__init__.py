"""Schedules made, listed, changed and cancelled by chat."""

from agentkit.schedules.chat.conversation import SchedulingChat

__all__ = ["SchedulingChat"]
