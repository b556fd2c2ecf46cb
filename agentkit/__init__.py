"""LLM agents that remember and wake: durable objects with storage, jobs, schedules and one alarm each.

Names are loaded when they are first used, so that ``import agentkit`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit.agent import Agent
    from agentkit.capability import Capability
    from agentkit.context import current_agent, from_thread
    from agentkit.errors import AgentKitError
    from agentkit.host import AgentContext, DurableObject, callable_method
    from agentkit.jobs.job import Job, JobContext
    from agentkit.jobs.outcome import RescheduleAt, YieldNow
    from agentkit.lifecycle import Lifecycle
    from agentkit.options import AgentOptions
    from agentkit.retry import RetryPolicy
    from agentkit.runtime import Runtime
    from agentkit.schedules import Recurrence, Schedule, Scheduler

_HOMES = {
    "Agent": "agent",
    "AgentContext": "host",
    "AgentKitError": "errors",
    "AgentOptions": "options",
    "Capability": "capability",
    "DurableObject": "host",
    "Job": "jobs.job",
    "JobContext": "jobs.job",
    "Lifecycle": "lifecycle",
    "Recurrence": "schedules",
    "RescheduleAt": "jobs.outcome",
    "RetryPolicy": "retry",
    "Runtime": "runtime",
    "Schedule": "schedules",
    "Scheduler": "schedules",
    "YieldNow": "jobs.outcome",
    "callable_method": "host",
    "current_agent": "context",
    "from_thread": "context",
}

__all__ = [
    "Agent",
    "AgentContext",
    "AgentKitError",
    "AgentOptions",
    "Capability",
    "DurableObject",
    "Job",
    "JobContext",
    "Lifecycle",
    "Recurrence",
    "RescheduleAt",
    "RetryPolicy",
    "Runtime",
    "Schedule",
    "Scheduler",
    "YieldNow",
    "callable_method",
    "current_agent",
    "from_thread",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module 'agentkit' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(f"agentkit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
