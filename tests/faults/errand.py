"""A run of a harness, killed at each of its commits: ``python -m tests.faults.errand FOLDER before|after``.

As ``tests.faults.life`` does it: a child for each commit, which kills itself right before or right after it. Each
leaves ``before-1.db`` and ``before-1.journal`` (and so on); the names of those that were killed are printed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from itertools import count, takewhile
from pathlib import Path

from agentkit import Agent
from agentkit.harness import Harness, ToolContext, tool
from agentkit.host import AgentContext
from agentkit.store.sqlite import SqliteStore
from agentkit.store.writer import CommitHook
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.faults.journal import Journal
from tests.faults.life import ended_by_a_kill, killer

ANSWER = "Everything is delivered."


class Courier(Agent):
    """Delivers what a model says; ``deps`` is the journal, which is the world outside."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.harness = self.lifecycle.use(Harness(tools=[self.look_up, self.label, self.deliver, self.sign]))

    @tool(effect="read")
    async def look_up(self, name: str) -> str:
        """Look a name up."""
        return f"{name} lives in Main Street"

    @tool(effect="idempotent")
    async def label(self, text: str, context: ToolContext) -> str:
        """Print a label."""
        self.deps.write("labelled", text, context.idempotency_key)
        return "printed"

    @tool
    async def deliver(self, parcel: str, context: ToolContext) -> str:
        """Deliver a parcel."""
        self.deps.write("delivered", parcel, context.idempotency_key)
        return "delivered"

    @tool(approve=True)
    async def sign(self, paper: str) -> str:
        """Sign for a parcel."""
        self.deps.write("signed", paper)
        return "signed"

    async def begin(self) -> str:
        """Ask for the errand; the same one, however often."""
        return (await self.harness.submit("deliver all", key="errand")).id

    async def decide(self) -> str | None:
        """Approve what waits, and return the answer once there is one."""
        for call in await self.harness.pending():
            await self.harness.decide(call.call_id, True, "eve")
        outcome = await self.harness.outcome_of(await self.begin())
        return None if outcome is None else outcome.text

    async def log(self) -> list[object]:
        """Return the whole log."""
        return list(await self.harness.log())

    async def usage(self) -> list[object]:
        """Return what each answer took."""
        return list(await self.harness.usage_of(await self.begin()))


def script() -> ScriptedModel:
    """Return what the model says, whichever life it is asked in."""
    return ScriptedModel(
        [tool_call("look_up", name="bob"), tool_call("look_up", name="eve"), tool_call("label", text="fragile")],
        [tool_call("deliver", parcel="one"), tool_call("sign", paper="receipt"), tool_call("deliver", parcel="two")],
        ANSWER,
    )


async def play(runtime: ManualRuntime) -> str:
    """Go on with the errand to its end."""
    courier = runtime.get(Courier, "ada")
    await courier.begin()
    while (answer := await courier.decide()) is None:
        await asyncio.sleep(0)
    return answer


async def live(path: Path, journal: Journal, hook: CommitHook | None = None) -> None:
    """Play the errand from its beginning."""
    store = SqliteStore(path, commit_hook=hook)
    async with ManualRuntime(Courier, store=store, model=script(), deps=journal) as runtime:
        journal.write("answered", *(await play(runtime)).split())


def is_killed(folder: Path, point: str) -> bool:
    """Let a child live until that commit; False if there is no such commit."""
    child = os.fork()
    if child == 0:
        journal = Journal(folder / f"{point}.journal")
        asyncio.run(live(folder / f"{point}.db", journal, killer(point)))
        os._exit(0)
    return ended_by_a_kill(child)


def main(folder: Path, moment: str) -> None:
    """Kill a child at each commit, until one survives, and print the points at which one died."""
    points = (f"{moment}-{number}" for number in count(1))
    sys.stdout.write(" ".join(takewhile(partial(is_killed, folder), points)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
