"""A long conversation costs no more a turn than a short one (SPEC 13.6)."""

from __future__ import annotations

from typing import Any

from agentkit.harness import Limits
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentRow, Batch, Lease, ValueRange
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office


class CountingStore(SqliteStore):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.reads = 0
        self.commits = 0
        self.written = 0

    async def value(self, lease: Lease, scope: str, key: str) -> str | None:
        self.reads += 1
        return await super().value(lease, scope, key)

    async def values(self, lease: Lease, scope: str, wanted: ValueRange) -> list[tuple[str, str]]:
        found = await super().values(lease, scope, wanted)
        self.reads += 1 + len(found)
        return found

    def commit(self, lease: Lease, row: AgentRow, batch: Batch, **options: Any) -> Any:
        self.commits += 1
        self.written += sum(len(text or "") for text in batch.values.values())
        return super().commit(lease, row, batch, **options)

    def counts(self) -> tuple[int, int, int]:
        """Return the counts so far, and begin anew."""
        counts = self.reads, self.commits, self.written
        self.reads = self.commits = self.written = 0
        return counts


def talking(turns: int) -> ScriptedModel:
    """Return a model that looks something up before each answer."""
    steps = [step for _ in range(turns) for step in (tool_call("look_up", name="bob"), "He lives in Main Street.")]
    return ScriptedModel(*steps)


async def test_two_hundred_runs_in_one_conversation() -> None:
    """Each reads, commits and writes as much as the first ones did."""
    store = CountingStore()
    costs = []
    async with ManualRuntime(Clerk, store=store, model=talking(200), deps=Office()) as runtime:
        ada = runtime.get(Clerk, "ada")
        for _ in range(200):
            await ada.ask("Where does bob live?")
            costs.append(store.counts())

    early, late = costs[5], costs[-1]
    assert late[:2] == early[:2]
    assert late[2] <= early[2] + 40  # numbers have more digits
    assert early[0] <= 12
    assert early[1] <= 6


async def test_two_hundred_turns_of_one_run() -> None:
    """The same within one run: a turn is two commits and reads nothing."""
    store = CountingStore()
    costs: list[tuple[int, int, int]] = []

    def step(number: int) -> Any:
        def answer(_: Any) -> Any:
            costs.append(store.counts())
            return tool_call("look_up", name=f"{number:03}")

        return answer

    model = ScriptedModel(*[step(number) for number in range(200)], "Done.")
    office = Office(limits=Limits(turns=500))
    async with ManualRuntime(Clerk, store=store, model=model, deps=office) as runtime:
        await runtime.get(Clerk, "ada").ask("Look all of them up")

    assert [cost[:2] for cost in costs[1:]] == [(0, 2)] * 199
    assert costs[-1][2] <= costs[5][2] + 40


async def test_view_is_read_once_an_instance() -> None:
    """And again after a crash, as far as it counts."""
    store = CountingStore()
    async with ManualRuntime(Clerk, store=store, model=talking(20), deps=Office()) as runtime:
        ada = runtime.get(Clerk, "ada")
        for _ in range(10):
            await ada.ask("Where does bob live?")
        await runtime.crash()
        store.counts()
        await ada.ask("Where does bob live?")
        first = store.counts()
        await ada.ask("Where does bob live?")
        second = store.counts()

    assert 40 < first[0] < 60
    assert second[0] <= 12
