"""Instances in memory for the tests of what stands around a guest."""

from __future__ import annotations

from datetime import timedelta

from agentkit.sandbox.engine import InstancePlan
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import SandboxSpec
from agentkit.testing import InMemoryEngine


async def in_memory_guest(
    engine: InMemoryEngine | None = None, spec: SandboxSpec | None = None, *, name: str = "box"
) -> Guest:
    """Start an instance and return the way into it."""
    engine = engine or InMemoryEngine()
    plan = InstancePlan(
        name=name, source=None, spec=spec or SandboxSpec(), env={}, labels={}, inactivity=timedelta(hours=1)
    )
    await engine.create(plan)
    return await engine.enter(name, plan)


async def read_all(guest: Guest, path: str) -> bytes:
    """Return a file's content."""
    return b"".join([piece async for piece in guest.read(path)])
