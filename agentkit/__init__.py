"""LLM agents that remember and wake: durable objects with storage, jobs, schedules and one alarm each."""

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
