"""Simulated instances for tests of the in-memory engine's parts, used in one line each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agentkit.clock import Clock
from agentkit.sandbox.command import Command, Exit, Stderr, Stdout
from agentkit.sandbox.engine import INSTANCE, MANAGED, STORE, InstancePlan
from agentkit.sandbox.spec import WORKSPACE, SandboxSpec
from agentkit.testing import FakeClock, InMemoryEngine
from agentkit.testing.in_memory.guest import InMemoryGuest
from agentkit.testing.in_memory.process import Program

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str
    exit: Exit


def plan_of(
    name: str = "a", *, source: str | None = None, inactivity: timedelta = 600 * SECOND, **spec: Any
) -> InstancePlan:
    """Return a plan of the store ``s``."""
    settings = SandboxSpec(**spec)
    labels = {MANAGED: "1", STORE: "s", INSTANCE: f"id-{name}"}
    return InstancePlan(
        name=name, source=source, spec=settings, env=settings.variables, labels=labels, inactivity=inactivity
    )


async def started(
    commands: Mapping[str, Program] | None = None, *, clock: Clock | None = None, plan: InstancePlan | None = None
) -> tuple[InMemoryEngine, InMemoryGuest]:
    """Return an engine with one running instance, and the way into it."""
    engine, chosen = InMemoryEngine(commands, clock=clock or FakeClock()), plan or plan_of()
    await engine.create(chosen)
    return engine, await engine.enter(chosen.name, chosen)


async def run(guest: InMemoryGuest, *argv: str, **options: Any) -> Done:
    """Run a command to its end."""
    out, err, last = [], [], None
    async with aclosing(guest.run(Command(argv=argv, **{"cwd": WORKSPACE, **options}))) as outputs:
        async for output in outputs:
            match output:
                case Stdout(text=text):
                    out.append(text)
                case Stderr(text=text):
                    err.append(text)
                case Exit():
                    last = output
    assert last is not None
    return Done(code=last.exit_code, out="".join(out), err="".join(err), exit=last)


async def sh(guest: InMemoryGuest, line: str, **options: Any) -> Done:
    """Run a line for the shell."""
    return await run(guest, "sh", "-c", line, **options)


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    """Yield what is to be written."""
    for piece in content:
        yield piece
