"""An agent with a sandbox, for tests of the capability."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentkit import Agent
from agentkit.host import AgentContext
from agentkit.sandbox import Sandbox, SandboxSpec, Stopped

T = TypeVar("T")


@dataclass
class Given:
    """What the agents of a test go by.

    Attributes:
        spec: What their sandboxes are made of.
        stops: What ``on_stop`` was told, by agent.
        on_stop: Done when a sandbox has stopped.
    """

    spec: SandboxSpec = field(default_factory=SandboxSpec)
    stops: list[tuple[str, Stopped]] = field(default_factory=list)
    on_stop: Callable[[Coder], Awaitable[None]] | None = None


class Coder(Agent[None]):
    """Has a sandbox, and does with it what a test says."""

    deps: Given

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.sandbox = self.lifecycle.use(Sandbox(self.deps.spec, on_stop=self.stopped))

    async def stopped(self, stopped: Stopped) -> None:
        """Note a stop."""
        self.deps.stops.append((self.name, stopped))
        if self.deps.on_stop is not None:
            await self.deps.on_stop(self)

    async def use(self, action: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Do something with the sandbox."""
        return await action(self.sandbox)

    async def do(self, action: Callable[[Coder], Awaitable[T]]) -> T:
        """Do something with the agent."""
        return await action(self)

    async def later(self, payload: Any) -> None:
        """Do what the payload says, as a job."""
        await getattr(self.sandbox, payload["method"])(*payload.get("arguments", []))
