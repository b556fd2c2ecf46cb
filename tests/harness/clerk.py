"""An agent with a harness, and the office it works in; shared by the tests of the harness."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from agentkit import Agent
from agentkit.harness import Harness, Limits, Run, ToolContext, tool
from agentkit.host import AgentContext
from agentkit.store.store import AgentId
from agentkit.testing import ManualRuntime

T = TypeVar("T")
#: The fixture ``manual_runtime``.
Start = Callable[..., Awaitable[ManualRuntime]]


class Office:
    """The world outside, which no crash undoes; given to a runtime as ``deps``.

    Attributes:
        sent: What was sent, with the key of the call.
        read: What was looked up.
        more: Further tools.
        options: What else the harness is given.
        gate: Set when a call may go on; tools that wait, wait for it.
    """

    def __init__(self, *, more: Sequence[Any] = (), **options: Any) -> None:
        self.more = list(more)
        self.sent: list[tuple[str, str]] = []
        self.read: list[str] = []
        self.options = options
        self.gate = asyncio.Event()


class Clerk(Agent):
    """Answers mail."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        office: Office = context.deps
        tools = [self.look_up, self.send, self.file, self.fail, self.wait, self.sign, *office.more]
        self.harness = self.lifecycle.use(Harness(**{"tools": tools, "limits": Limits(turns=40), **office.options}))

    @tool(effect="read")
    async def look_up(self, name: str) -> str:
        """Look a name up.

        Args:
            name: Whose address is wanted.
        """
        self.deps.read.append(name)
        return f"{name} lives in Main Street"

    @tool
    async def send(self, to: str, text: str, context: ToolContext) -> str:
        """Send a letter."""
        self.deps.sent.append((f"{to}: {text}", context.idempotency_key))
        return "sent"

    @tool(effect="idempotent")
    async def file(self, paper: str, context: ToolContext) -> str:
        """File a paper."""
        self.deps.sent.append((paper, context.idempotency_key))
        return "filed"

    @tool(effect="read")
    async def fail(self) -> None:
        """Fail."""
        raise LookupError("the drawer is empty")

    @tool(effect="idempotent", timeout=30)
    async def wait(self) -> str:
        """Wait for the gate."""
        await self.deps.gate.wait()
        return "open"

    @tool(approve=True)
    async def sign(self, paper: str) -> str:
        """Sign a paper."""
        self.deps.sent.append((paper, "signed"))
        return f"signed {paper}"

    async def ask(self, message: str, **options: Any) -> Any:
        return await self.harness.ask(message, **options)

    async def submit(self, message: str, **options: Any) -> Run:
        return await self.harness.submit(message, **options)

    async def use(self, action: Callable[[Clerk], Awaitable[T]]) -> T:
        """Run what a test wants to do inside the agent."""
        return await action(self)


async def stored(runtime: ManualRuntime, prefix: str = "") -> dict[str, Any]:
    """Return what the harness of ada has stored."""

    async def read(clerk: Clerk) -> dict[str, Any]:
        return await clerk.harness.lifecycle.storage.list(prefix=prefix)

    return await runtime.get(Clerk, "ada").use(read)


async def beats(runtime: ManualRuntime) -> list[str]:
    """Return the ids of ada's jobs."""
    return [row.id for row in await runtime.store.jobs(AgentId("Clerk", "ada"))]


async def until(condition: Any) -> None:
    """Let the loop turn until something is so."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.0002)
    pytest.fail("it never was so")
