"""What the harness adds to a step, besides the model and its tools: one run of many steps, on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise

from agentkit import Agent, Runtime
from agentkit.harness import ChatRequest, Delta, Harness, Limits, Reply, ToolCall, Usage, tool
from agentkit.host import AgentContext
from agentkit.store.sqlite import SqliteStore
from benchmarks.figures import percentile, spread
from benchmarks.fresh import run_fresh
from benchmarks.measures import Place
from benchmarks.probe import FILE
from benchmarks.report import Report, below

_MILLISECONDS = 5.0
_USAGE = Usage(input_tokens=1_000, output_tokens=50)


class Instant:
    """A model that answers at once, and notes when it was asked."""

    name = "instant"

    def __init__(self, steps: int) -> None:
        self.asked_at: list[float] = []
        self._steps = steps

    async def reply(self, request: ChatRequest) -> AsyncIterator[Delta | Reply]:
        self.asked_at.append(time.perf_counter())
        if request.answers % (self._steps + 1) == self._steps:
            yield Reply(text="Done.", usage=_USAGE)
        else:
            arguments = f'{{"word": "number {request.answers}"}}'
            yield Reply(text="I note it.", calls=(ToolCall(id="", name="note", arguments=arguments),), usage=_USAGE)


class Noting(Agent):
    """Has one tool that does nothing."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        limits = Limits(turns=1_000_000, tokens=None)
        harness = Harness(model=context.deps, tools=[self.note], limits=limits, context_tokens=100_000_000)
        self.harness = self.lifecycle.use(harness)

    @tool
    async def note(self, word: str) -> str:
        """Note a word."""
        return f"noted {word}"

    async def ask(self) -> str:
        return await self.harness.ask("Note the numbers.")


def steps(count: int) -> list[float]:
    """Return the milliseconds from one question to the next, in a run of so many steps (an entry point)."""
    return asyncio.run(_steps(count))


async def _steps(count: int) -> list[float]:
    model = Instant(count)
    async with Runtime(Noting, store=SqliteStore(FILE), deps=model) as runtime:
        noting = runtime.get(Noting, "one")
        await noting.ask()  # everything is loaded
        model.asked_at.clear()
        await noting.ask()
    moments = model.asked_at
    return [(after - before) * 1000 for before, after in pairwise(moments)]


def measure(place: Place) -> Report:
    """Measure steps with one call each: what is stored of one is two commits, synced."""
    count = place.scale.harness_steps
    rounds = []
    for _ in range(place.scale.repeat):
        with place.folder() as folder:
            rounds.append(run_fresh("benchmarks.measures.harness:steps", folder, count=count))
    middle = spread([percentile(spent, 0.5) for spent in rounds])
    late = spread([percentile(spent[-count // 4 :], 0.5) for spent in rounds])
    p99 = spread([percentile(spent, 0.99) for spent in rounds])
    row = below(
        f"harness, besides model and tools, p50 a step of {count:,}",
        middle.median,
        _MILLISECONDS,
        shown=f"{middle.show('ms')}, p99 {p99.show('ms')}; the last quarter {late.show('ms')}",
        unit="ms",
    )
    return Report(rows=[row], raw={"p50_ms": middle.values, "p99_ms": p99.values, "last_quarter_p50_ms": late.values})
