"""Every engine against plain dictionaries: any batches of two agents, grouped in any way."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.store.store import AgentId, AgentRow, Batch, HistoryRow, Store
from tests.store.conftest import Engine
from tests.store.rows import ADA, BOB, activate, history_row, job_row, stored_values

SCOPES = ("host", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One commit.

    Attributes:
        cleared: Scopes emptied before ``values`` apply.
        values: By scope and key: the text to put, or None to delete it.
        jobs: By id: the due time to put, or None to delete it.
        runs: How many runs to record.
        waits: Whether the next commit is asked for only when this one is durable.
    """

    agent: AgentId
    cleared: set[str]
    values: dict[tuple[str, str], str | None]
    jobs: dict[str, int | None]
    runs: int
    waits: bool


@dataclass(slots=True)
class Model:
    """What an agent's rows must be."""

    values: dict[tuple[str, str], str] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)

    def apply(self, step: Step, runs: list[str]) -> None:
        """Do what one commit must do."""
        self.values = {key: value for key, value in self.values.items() if key[0] not in step.cleared}
        for key, value in step.values.items():
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value
        for job_id, due_ms in step.jobs.items():
            self.jobs.pop(job_id, None)
            if due_ms is not None:
                self.jobs[job_id] = due_ms
        self.runs += runs


IDS = st.sampled_from("abc")
STEPS = st.builds(
    Step,
    agent=st.sampled_from([ADA, BOB]),
    cleared=st.sets(st.sampled_from(SCOPES), max_size=1),
    values=st.dictionaries(st.tuples(st.sampled_from(SCOPES), IDS), st.none() | st.integers(0, 9).map(str), max_size=3),
    jobs=st.dictionaries(IDS, st.none() | st.integers(0, 9), max_size=2),
    runs=st.integers(0, 2),
    waits=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEPS, max_size=20))
def test_batches_behave_like_dictionaries(engine: Engine, steps: list[Step]) -> None:
    """Nothing depends on which commits happened to share a transaction."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(engine.make(Path(folder)), steps))


async def check(store: Store, steps: list[Step]) -> None:
    """Play the steps on a store and on the models, and compare what is left."""
    await store.open()
    node = await store.join("http://first")
    leases = {agent: (await activate(store, node, agent)).lease for agent in (ADA, BOB)}
    rows = {agent: AgentRow() for agent in leases}
    models = {agent: Model() for agent in leases}
    for number, step in enumerate(steps):
        row = rows[step.agent]
        runs = [history_row(f"run{number}.{run}", seq=row.runs + run + 1) for run in range(step.runs)]
        models[step.agent].apply(step, [run.run_id for run in runs])
        row.runs += len(runs)
        row.alarm_ms = number
        commit = store.commit(leases[step.agent], row, batch_of(step, runs))
        if step.waits:
            await commit.wait()
    for lease in leases.values():
        await store.commit(lease, rows[lease.agent], Batch()).wait()

    summaries = {summary.agent: summary for summary in await store.agents()}
    for agent, model in models.items():
        for scope in SCOPES:
            expected = {key: value for (put, key), value in model.values.items() if put == scope}
            assert await stored_values(store, leases[agent], scope) == expected
        assert {job.id: job.due_ms for job in await store.jobs(agent)} == model.jobs
        assert [run.run_id for run in await store.history(agent, 100)] == model.runs[::-1]
        assert summaries[agent].alarm_ms == rows[agent].alarm_ms
    await store.close()


def batch_of(step: Step, runs: list[HistoryRow]) -> Batch:
    """Return a step as what a store is given."""
    return Batch(
        jobs={id: None if due_ms is None else job_row(id, due_ms=due_ms) for id, due_ms in step.jobs.items()},
        values=dict(step.values),
        cleared=set(step.cleared),
        history=list(runs),
    )
