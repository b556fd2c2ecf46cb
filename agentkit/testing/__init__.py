"""Tests of agents without waiting: a clock and a runtime in the test's hand, and what was emitted."""

from agentkit.testing.event_recorder import EventRecorder
from agentkit.testing.fake_clock import FakeClock
from agentkit.testing.in_memory_engine import InMemoryEngine, InMemoryProcess
from agentkit.testing.manual_runtime import ManualRuntime
from agentkit.testing.scripted_model import ScriptedModel, tool_call

__all__ = [
    "EventRecorder",
    "FakeClock",
    "InMemoryEngine",
    "InMemoryProcess",
    "ManualRuntime",
    "ScriptedModel",
    "tool_call",
]
