"""Every engine: what one commit changes, together or not at all, and in which order (SPEC 3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentkit.store.store import AgentId, AgentRow, Batch, Store
from tests.store.rows import (
    ADA,
    BOB,
    activate,
    history_row,
    job_row,
    puts,
    row_for,
    stored_values,
)


def value_batch(**values: str | None) -> Batch:
    """Return a batch that puts values into the host's scope, and deletes those that are None."""
    return Batch(values={("host", key): value for key, value in values.items()})


# --- whole or not at all


async def test_batch_stores_jobs_values_history_and_hot_row(store: Store, node: str) -> None:
    """One commit, four tables."""
    job = job_row("job", due_ms=2_000, payload='{"text":"hi"}')
    lease = (await activate(store, node)).lease
    row = AgentRow(alarm_ms=2_000, running="job", memory_strikes=1, crash_strikes=2, failed_starts=3, runs=1)
    batch = puts(job)
    batch.values["host", "key"] = "1"
    batch.values["scheduler", "key"] = "2"
    batch.history.append(history_row("run"))

    await store.commit(lease, row, batch).wait()

    assert await store.jobs(ADA) == [job]
    assert await store.value(lease, "host", "key") == "1"
    assert await store.value(lease, "scheduler", "key") == "2"
    assert await store.history(ADA, 10) == [history_row("run")]
    assert (await activate(store, node)).row == replace(row, running=None)


BAD: dict[str, Callable[[Batch], None]] = {
    "text that is no Unicode": lambda batch: batch.values.update({("host", "bad"): "\ud800"}),
    "a number of more than 64 bits": lambda batch: batch.jobs.update({"bad": job_row("bad", due_ms=1 << 70)}),
    "nothing where something must be": lambda batch: batch.history.append(
        history_row("bad")._replace(function=None)  # type: ignore[arg-type]  # that is what is bad about it
    ),
    "a type that can't be stored": lambda batch: batch.history.append(
        history_row("bad")._replace(error=object())  # type: ignore[arg-type]  # that is what is bad about it
    ),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD.keys())
async def test_batch_with_one_bad_row_stores_nothing(store: Store, node: str, spoil: Callable[[Batch], None]) -> None:
    """Not the jobs without the history, nor the hot row without the values."""
    old, new = job_row("old"), job_row("new", due_ms=1)
    lease = (await activate(store, node)).lease
    batch = puts(old)
    batch.values["host", "old"] = "1"
    await store.commit(lease, row_for(old), batch).wait()
    batch = puts(new)
    batch.jobs["old"] = None
    batch.clear("host")
    batch.values["host", "new"] = "1"
    batch.history.append(history_row("run"))
    spoil(batch)

    with pytest.raises(Exception):  # noqa: B017  # which error depends on the engine and on what is bad
        await store.commit(lease, AgentRow(alarm_ms=1, runs=1), batch).wait()

    assert await store.jobs(ADA) == [old]
    assert await stored_values(store, lease) == {"old": "1"}
    assert await store.history(ADA, 10) == []
    assert [summary.alarm_ms for summary in await store.agents()] == [old.due_ms]


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD.keys())
async def test_bad_batch_leaves_the_others_of_its_group_alone(
    store: Store, node: str, spoil: Callable[[Batch], None]
) -> None:
    """Commits of many agents share a transaction; one that can't be written fails alone."""
    agents = [AgentId("Bot", str(number)) for number in range(9)]
    leases = [(await activate(store, node, agent)).lease for agent in agents]
    # The first commit is under way when the others are asked for, so those share the next group.
    commits = []
    for number, lease in enumerate(leases):
        batch = value_batch(key=str(number))
        if number == 4:
            spoil(batch)
        commits.append(store.commit(lease, AgentRow(), batch))

    outcomes = []
    for commit in commits:
        try:
            await commit.wait()
        except Exception as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("stored")

    assert outcomes.pop(4) != "stored"
    assert outcomes == ["stored"] * 8
    values = [(await stored_values(store, lease)).get("key") for lease in leases]
    assert values == ["0", "1", "2", "3", None, "5", "6", "7", "8"]


async def test_history_survives_a_bad_batch_in_its_group(store: Store, node: str) -> None:
    """Runs of one agent in several commits of the group keep a line each."""
    ada = (await activate(store, node, ADA)).lease
    bob = (await activate(store, node, BOB)).lease
    row = AgentRow()
    bad = value_batch()
    BAD["text that is no Unicode"](bad)

    store.commit(bob, AgentRow(), Batch())  # under way, so that the next ones share a group
    commits = []
    for run_id in ("first", "second"):
        row.runs += 1
        commits.append(store.commit(ada, row, Batch(history=[history_row(run_id, seq=row.runs)])))
    spoilt = store.commit(bob, AgentRow(), bad)
    for commit in commits:
        await commit.wait()

    with pytest.raises(UnicodeEncodeError):
        await spoilt.wait()
    assert [run.run_id for run in await store.history(ADA, 10)] == ["second", "first"]


# --- order


@pytest.mark.parametrize("together", [True, False], ids=["one group", "one by one"])
async def test_later_batch_wins(store: Store, node: str, together: bool) -> None:
    """Batches of one agent apply in the order in which they were asked for, grouped or not."""
    lease = (await activate(store, node)).lease
    first, second = job_row("both"), job_row("both", due_ms=2_000)
    steps = [
        Batch(jobs={"both": first, "gone": job_row("gone"), "back": None}, values={("host", "a"): "1"}),
        Batch(jobs={"both": None, "gone": None}, values={("host", "a"): None, ("host", "b"): "1"}),
        Batch(jobs={"both": second, "back": job_row("back")}, values={("host", "a"): "2", ("host", "c"): "3"}),
        Batch(values={("host", "c"): None}),
    ]
    store.commit(lease, AgentRow(), Batch())  # under way, so that the next ones share a group
    commits = []
    for number, batch in enumerate(steps):
        commits.append(store.commit(lease, AgentRow(alarm_ms=number), batch))
        if not together:
            await commits[-1].wait()
    await commits[-1].wait()

    assert [(job.id, job.due_ms) for job in await store.jobs(ADA)] == [("back", 1_000), ("both", 2_000)]
    assert await stored_values(store, lease) == {"a": "2", "b": "1"}
    assert [summary.alarm_ms for summary in await store.agents()] == [3]


@pytest.mark.parametrize("together", [True, False], ids=["one group", "one by one"])
async def test_clearing_a_scope_spares_what_is_put_afterwards(store: Store, node: str, together: bool) -> None:
    """Clear, then put: the put stays. Put, then clear: it goes. Other scopes never do."""
    lease = (await activate(store, node)).lease
    before = value_batch(old="1", both="1")
    before.values["scheduler", "kept"] = "1"
    put = value_batch(fresh="1", both="2")
    clear = Batch()
    clear.clear("host")
    after = value_batch(both="3", last="4")
    store.commit(lease, AgentRow(), Batch())  # under way, so that the next ones share a group
    commits = []
    for batch in (before, put, clear, after):
        commits.append(store.commit(lease, AgentRow(), batch))
        if not together:
            await commits[-1].wait()
    await commits[-1].wait()

    assert await stored_values(store, lease) == {"both": "3", "last": "4"}
    assert await stored_values(store, lease, "scheduler") == {"kept": "1"}


async def test_clearing_inside_one_batch_keeps_the_order_of_its_calls(store: Store, node: str) -> None:
    """The same within a single batch."""
    lease = (await activate(store, node)).lease
    await store.commit(lease, AgentRow(), value_batch(old="1")).wait()
    batch = value_batch(dropped="1", both="1")
    batch.clear("host")
    batch.values["host", "both"] = "2"

    await store.commit(lease, AgentRow(), batch).wait()

    assert await stored_values(store, lease) == {"both": "2"}


async def test_equal_ids_of_two_agents_stay_apart(store: Store, node: str) -> None:
    """Jobs, keys and scopes belong to their agent, also within one group."""
    ada = (await activate(store, node, ADA)).lease
    bob = (await activate(store, node, BOB)).lease
    for lease in (ada, bob):
        await store.commit(lease, row_for(job_row()), puts(job_row())).wait()
        await store.commit(lease, row_for(job_row()), value_batch(key="1")).wait()
    clearing = Batch(jobs={"job": None})
    clearing.clear("host")

    store.commit(ada, AgentRow(), Batch())  # under way, so that the next ones share a group
    store.commit(bob, row_for(job_row()), value_batch(other="2"))
    await store.commit(ada, AgentRow(), clearing).wait()

    assert (await store.jobs(ADA), await stored_values(store, ada)) == ([], {})
    assert [job.id for job in await store.jobs(BOB)] == ["job"]
    assert await stored_values(store, bob) == {"key": "1", "other": "2"}


async def test_batch_may_grow_until_its_group_is_formed(store: Store, node: str) -> None:
    """Writes of one tick go into the batch that waits anyway."""
    lease = (await activate(store, node)).lease
    row, batch = AgentRow(), Batch()
    store.commit(lease, AgentRow(), Batch())  # under way, so that the next one has to wait

    commit = store.commit(lease, row, batch)
    is_open = not commit.is_taken
    batch.values["host", "late"] = "1"
    row.alarm_ms = 7
    await commit.wait()

    assert is_open
    assert commit.is_taken
    assert await stored_values(store, lease) == {"late": "1"}
    assert [summary.alarm_ms for summary in await store.agents()] == [7]


async def test_commits_settle_in_the_order_of_the_calls(store: Store, node: str) -> None:
    """Whoever asked first hears first, and a waiter that comes late hears as well."""
    stale = (await activate(store, node)).lease
    lease = (await activate(store, node)).lease
    told: list[tuple[str, str | None]] = []

    def listen(name: str) -> Callable[[BaseException | None], None]:
        return lambda error: told.append((name, None if error is None else type(error).__name__))

    store.commit(lease, AgentRow(), Batch(), settled=listen("first"))
    store.commit(stale, AgentRow(), Batch(), settled=listen("stale"))
    last = store.commit(lease, AgentRow(), Batch(), settled=listen("last"))
    is_settled_at_once = last.is_settled
    await last.wait()
    await last.wait()

    assert not is_settled_at_once
    assert last.is_settled
    assert told == [("first", None), ("stale", "FencedError"), ("last", None)]


# --- history


async def record(store: Store, node: str, *runs: tuple[str, bool], keep: int | None = None) -> None:
    """Record runs, one commit each; the last one prunes."""
    activated = await activate(store, node)
    for number, (run_id, pinned) in enumerate(runs, 1):
        activated.row.runs += 1
        batch = Batch(history=[history_row(run_id, seq=number, pinned=pinned)])
        batch.keep_history = keep if number == len(runs) else None
        await store.commit(activated.lease, activated.row, batch).wait()


async def test_history_is_read_newest_first(store: Store, node: str) -> None:
    """The latest runs, and one run by its id."""
    await record(store, node, *((f"run{number}", False) for number in range(5)))

    assert [run.run_id for run in await store.history(ADA, 3)] == ["run4", "run3", "run2"]
    assert await store.run(ADA, "run1") == history_row("run1", seq=2)
    assert await store.run(ADA, "other") is None
    assert await store.run(BOB, "run1") is None
    assert await store.history(BOB, 3) == []


async def test_history_limit_counts_no_pinned_runs(store: Store, node: str) -> None:
    """What waits to be requeued is listed besides, however old it is."""
    runs = [("old", True), ("a", False), ("b", False), ("middle", True), ("c", False)]
    await record(store, node, *runs)

    listed = [[run.run_id for run in await store.history(ADA, limit)] for limit in (0, 1, 2, 9)]

    assert listed == [
        ["middle", "old"],
        ["c", "middle", "old"],
        ["c", "middle", "b", "old"],
        ["c", "middle", "b", "a", "old"],
    ]


@pytest.mark.parametrize("keep", [0, 1, 2, 3, 9])
async def test_pruning_keeps_the_newest_runs_and_every_pinned_one(store: Store, node: str, keep: int) -> None:
    """Pinned entries don't count towards what is kept (SPEC 4.10)."""
    await record(store, node, ("old", True), ("a", False), ("b", False), ("middle", True), ("c", False), keep=keep)

    listed = {run.run_id for run in await store.history(ADA, 100)}

    assert listed == {"old", "middle", *["c", "b", "a"][:keep]}


async def test_pruning_spares_other_agents(store: Store, node: str) -> None:
    """Each agent has a history of its own."""
    bob = await activate(store, node, BOB)
    bob.row.runs = 1
    await store.commit(bob.lease, bob.row, Batch(history=[history_row("kept")])).wait()

    await record(store, node, ("a", False), ("b", False), keep=1)

    assert [run.run_id for run in await store.history(BOB, 10)] == ["kept"]


async def test_requeued_run_leaves_the_history_with_its_job(store: Store, node: str) -> None:
    """Bringing a job back and forgetting its entry is one commit."""
    await record(store, node, ("other", True), ("poisoned", True))
    activated = await activate(store, node)
    job = job_row("back")
    batch = puts(job)
    batch.forget.append("poisoned")

    await store.commit(activated.lease, replace(activated.row, alarm_ms=1_000), batch).wait()

    assert [run.run_id for run in await store.history(ADA, 10)] == ["other"]
    assert await store.jobs(ADA) == [job]


async def test_runs_of_one_group_are_recorded_in_order(store: Store, node: str) -> None:
    """Several runs in a batch, and several batches in a group, keep a line each."""
    activated = await activate(store, node)
    store.commit(activated.lease, activated.row, Batch())  # under way, so that the next ones share a group
    commits = []
    for first in (0, 2, 4):
        runs = [history_row(f"run{number}", seq=number + 1) for number in (first, first + 1)]
        activated.row.runs += 2
        commits.append(store.commit(activated.lease, activated.row, Batch(history=runs)))
    await commits[-1].wait()

    assert [run.run_id for run in await store.history(ADA, 10)] == [f"run{number}" for number in range(5, -1, -1)]


# --- the end of an agent


async def test_destroy_drops_every_row(store: Store, node: str) -> None:
    """Jobs, values of every scope, history and the agent itself, of this agent only."""
    for agent in (ADA, BOB):
        activated = await activate(store, node, agent)
        batch = puts(job_row())
        batch.values.update({("host", "key"): "1", ("scheduler", "key"): "2", ("state", ""): "3"})
        batch.history.append(history_row("run"))
        activated.row.runs, activated.row.alarm_ms = 1, 1_000
        await store.commit(activated.lease, activated.row, batch).wait()
    ada = (await activate(store, node, ADA)).lease

    await store.commit(ada, AgentRow(), Batch(destroy=True)).wait()

    assert [summary.agent for summary in await store.agents()] == [BOB]
    assert (await store.jobs(ADA), await store.history(ADA, 10)) == ([], [])
    assert await stored_values(store, ada) == {}
    bob = await activate(store, node, BOB)
    assert (len(bob.jobs), bob.state, len(await store.history(BOB, 10))) == (1, "3", 1)
    again = await activate(store, node, ADA)
    assert (again.row, again.jobs, again.state) == (AgentRow(), [], None)
    assert await stored_values(store, again.lease) == {}


async def test_destroy_wins_over_what_its_batch_puts(store: Store, node: str) -> None:
    """Nothing of the agent is left over, whatever else the commit was asked for."""
    lease = (await activate(store, node)).lease
    batch = puts(job_row())
    batch.values["host", "key"] = "1"
    batch.destroy = True

    await store.commit(lease, row_for(job_row()), batch).wait()

    assert await store.agents() == []
    assert await stored_values(store, (await activate(store, node)).lease) == {}
