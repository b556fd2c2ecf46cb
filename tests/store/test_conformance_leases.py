"""Every engine: who owns an agent, who may write it, and what a death leaves behind (SPEC 2.11, 7.4, 16.1)."""

from __future__ import annotations

import asyncio

import pytest

from agentkit.errors import FencedError, StoreError
from agentkit.store.store import AgentId, AgentRow, Batch, Lease, Owner, Store
from tests.store.conftest import Engine
from tests.store.rows import (
    ADA,
    BOB,
    activate,
    history_row,
    job_row,
    put_away,
    puts,
    row_for,
    stored_values,
)


async def is_fenced(store: Store, lease: Lease) -> bool:
    """Try to write under a lease."""
    try:
        await store.commit(lease, AgentRow(), Batch(values={("host", "intruder"): "1"})).wait()
    except FencedError:
        return True
    return False


# --- activation


async def test_unknown_agent_is_activated_empty(store: Store, node: str) -> None:
    """An agent comes into being when it is first claimed."""
    activated = await activate(store, node)

    assert (activated.row, activated.jobs, activated.state) == (AgentRow(), [], None)
    assert (activated.lease.agent, activated.lease.fresh, activated.interrupted) == (ADA, True, None)


async def test_activation_brings_what_is_stored(store: Store, node: str) -> None:
    """Jobs, state and hot row come along."""
    late, early = job_row("late", due_ms=2_000), job_row("early")
    lease = (await activate(store, node)).lease
    row = AgentRow(alarm_ms=1_000, memory_strikes=1, crash_strikes=2, failed_starts=3, runs=4, destroying=1)
    batch = puts(late, early)
    batch.values["state", ""] = '{"count":1}'
    await store.commit(lease, row, batch, release=True).wait()

    found = await activate(store, node)

    assert sorted(found.jobs) == sorted([late, early])
    assert (found.state, found.lease.fresh, found.interrupted) == ('{"count":1}', False, None)
    assert found.row == row


async def test_owner_of_a_claimed_agent_is_named(store: Store) -> None:
    """Whoever comes second learns where the agent lives."""
    first = await store.join("http://first")
    second = await store.join("http://second")
    await activate(store, second)

    assert await store.activate(first, ADA) == Owner(second, "http://second")


async def test_node_that_owns_an_agent_claims_it_anew_only_when_it_says_so(store: Store, node: str) -> None:
    """Else a call and an alarm in one process would each get a live instance."""
    lease = (await activate(store, node)).lease

    assert await store.activate(node, ADA) == Owner(node, "http://first")
    assert not await is_fenced(store, lease)
    assert not isinstance(await store.activate(node, ADA, again=True), Owner)
    assert await is_fenced(store, lease)


async def test_claiming_anew_takes_no_agent_from_another_node(store: Store) -> None:
    """It is meant for instances of one's own that were lost."""
    first = await store.join("http://first")
    second = await store.join("http://second")
    await activate(store, second)

    assert await store.activate(first, ADA, again=True) == Owner(second, "http://second")


async def test_agents_of_one_name_and_two_classes_differ(store: Store, node: str) -> None:
    """The class is part of the address."""
    bot = (await activate(store, node, AgentId("Bot", "ada"))).lease
    cat = (await activate(store, node, AgentId("Cat", "ada"))).lease

    await store.commit(bot, AgentRow(), Batch(values={("host", "key"): "1"})).wait()

    assert await store.value(cat, "host", "key") is None


async def test_agent_activated_for_a_call_runs_no_job(engine: Engine, store: Store, node: str) -> None:
    """A commit made in a call notes no job as under way, so a crash then strikes nobody."""
    job = job_row()
    await put_away(store, node, ADA, job)
    called = await activate(store, node)
    await store.commit(called.lease, called.row, Batch(values={("host", "key"): "1"})).wait()
    await engine.bury(store, node)

    found = await activate(store, await store.join("http://second"))

    assert called.row.running is None
    assert (found.row.crash_strikes, found.interrupted) == (0, None)


# --- fences


async def test_second_claim_of_a_node_fences_its_first(store: Store, node: str) -> None:
    """Of two instances in one process the later one writes."""
    stale = (await activate(store, node)).lease
    lease = (await activate(store, node)).lease

    assert lease.epoch > stale.epoch
    assert await is_fenced(store, stale)
    assert not await is_fenced(store, lease)


async def test_other_node_fences_the_earlier_owner(engine: Engine, store: Store, node: str) -> None:
    """A node that was thought dead can't write any more, and nothing of its batch arrives."""
    job = job_row()
    stale = (await activate(store, node)).lease
    await engine.bury(store, node)
    lease = (await activate(store, await store.join("http://second"))).lease

    batch = puts(job)
    batch.values["host", "key"] = "1"
    batch.history.append(history_row("run"))
    with pytest.raises(FencedError, match="Bot/ada"):
        await store.commit(stale, row_for(job), batch).wait()

    assert await store.jobs(ADA) == []
    assert await stored_values(store, lease) == {}
    assert await store.history(ADA, 10) == []
    assert [agent.alarm_ms for agent in await store.agents()] == [None]


async def test_freed_agent_fences_a_dead_node_before_anyone_claims_it(engine: Engine, store: Store, node: str) -> None:
    """Joining takes the right to write away at once."""
    stale = (await activate(store, node)).lease
    await engine.bury(store, node)
    await store.join("http://second")

    assert await is_fenced(store, stale)


async def test_released_lease_is_fenced(store: Store, node: str) -> None:
    """Whoever gave an agent up has to claim it again."""
    job = job_row()
    lease = (await activate(store, node)).lease
    await store.commit(lease, row_for(job), puts(job), release=True).wait()

    assert await is_fenced(store, lease)
    assert (await activate(store, node)).lease.epoch > lease.epoch


async def test_destroyed_agent_fences_every_earlier_lease(store: Store, node: str) -> None:
    """A lease of a destroyed agent can't write into the new one of its name, ever."""
    seen: set[tuple[int, int]] = set()
    leases: list[Lease] = []
    for _ in range(3):
        leases.append((await activate(store, node)).lease)
        leases.append((await activate(store, node)).lease)
        await store.commit(leases[-1], AgentRow(), Batch(destroy=True)).wait()
    last = (await activate(store, node)).lease

    for lease in leases:
        seen.add((lease.key, lease.epoch))
        assert await is_fenced(store, lease)
    assert len(seen) == len(leases)
    assert (last.key, last.epoch) not in seen
    assert last.fresh
    assert await stored_values(store, last) == {}


async def test_agent_that_left_no_row_fences_every_earlier_lease(store: Store, node: str) -> None:
    """The same holds where an empty agent was simply given up."""
    stale = (await activate(store, node)).lease
    await store.commit(stale, AgentRow(), Batch(), release=True).wait()
    lease = (await activate(store, node)).lease

    assert (lease.key, lease.epoch) != (stale.key, stale.epoch)
    assert await is_fenced(store, stale)


async def test_fenced_commit_leaves_the_others_of_its_group_alone(store: Store, node: str) -> None:
    """Commits asked for in one tick share a transaction, not a fate."""
    stale = (await activate(store, node, ADA)).lease
    ada = (await activate(store, node, ADA)).lease
    bob = (await activate(store, node, BOB)).lease
    batch = Batch(values={("host", "key"): "1"})

    before = store.commit(bob, AgentRow(), Batch(values={("host", "first"): "1"}))
    fenced = store.commit(stale, AgentRow(), Batch(values={("host", "intruder"): "1"}))
    after = store.commit(ada, AgentRow(), batch)
    await before.wait()
    await after.wait()

    with pytest.raises(FencedError):
        await fenced.wait()
    assert await stored_values(store, ada) == {"key": "1"}
    assert await stored_values(store, bob) == {"first": "1"}


# --- claims of what is due


async def test_claim_takes_what_is_due_earliest_first(store: Store, node: str) -> None:
    """Due means: the alarm's moment is now or has passed."""
    for name, due_ms in (("c", 3_000), ("a", 1_000), ("d", 3_001), ("b", 2_000)):
        await put_away(store, node, AgentId("Bot", name), job_row(due_ms=due_ms))

    claimed = await store.claim_due(node, ["Bot"], 3_000, 10)

    assert [activated.lease.agent.name for activated in claimed.agents] == ["a", "b", "c"]
    assert claimed.next_due_ms == 3_001
    assert [activated.jobs[0].due_ms for activated in claimed.agents] == [1_000, 2_000, 3_000]


async def test_claim_takes_only_the_classes_asked_for(store: Store, node: str) -> None:
    """Agents whose code this process lacks stay where they are (SPEC 2.6)."""
    for class_name, due_ms in (("Ant", 1), ("Bee", 2), ("Cat", 3), ("Cat", 4)):
        await put_away(store, node, AgentId(class_name, str(due_ms)), job_row(due_ms=due_ms))

    claimed = await store.claim_due(node, ["Cat", "Ant"], 3, 10)
    nothing = await store.claim_due(node, [], 10, 10)

    assert [str(activated.lease.agent) for activated in claimed.agents] == ["Ant/1", "Cat/3"]
    assert claimed.next_due_ms == 4
    assert (nothing.agents, nothing.next_due_ms) == ([], None)
    assert await store.classes_waiting() == ["Bee", "Cat"]


async def test_claim_stops_at_its_limit_over_all_classes(store: Store, node: str) -> None:
    """The earliest of all classes come first, and what is left counts as next."""
    for due_ms in range(1, 7):
        await put_away(store, node, AgentId("Odd" if due_ms % 2 else "Even", str(due_ms)), job_row(due_ms=due_ms))

    first = await store.claim_due(node, ["Even", "Odd"], 100, 4)
    second = await store.claim_due(node, ["Even", "Odd"], 100, 4)
    third = await store.claim_due(node, ["Even", "Odd"], 100, 4)

    assert [activated.lease.agent.name for activated in first.agents] == ["1", "2", "3", "4"]
    assert first.next_due_ms == 5
    assert [activated.lease.agent.name for activated in second.agents] == ["5", "6"]
    assert second.next_due_ms is None
    assert third.agents == []


async def test_claim_leaves_owned_agents_alone(store: Store, node: str) -> None:
    """A live agent's alarm is its owner's business, and so is its next one."""
    await put_away(store, node, ADA, job_row())
    await put_away(store, node, BOB, job_row(due_ms=9_000))
    await activate(store, node, ADA)

    claimed = await store.claim_due(node, ["Bot"], 5_000, 10)

    assert claimed.agents == []
    assert claimed.next_due_ms == 9_000


async def test_claimed_agent_can_write_and_fences_its_last_owner(store: Store, node: str) -> None:
    """A claim is a lease like any other."""
    job = job_row()
    stale = (await activate(store, node)).lease
    await store.commit(stale, row_for(job), puts(job), release=True).wait()

    (claimed,) = (await store.claim_due(node, ["Bot"], 1_000, 10)).agents

    assert not claimed.lease.fresh
    assert await is_fenced(store, stale)
    assert not await is_fenced(store, claimed.lease)


async def test_claim_notes_the_first_job_as_under_way(store: Store, node: str) -> None:
    """The first by due time and push order; an exclusive one before all others (SPEC 6.4)."""
    first, second = job_row("first"), job_row("second")
    last = job_row("last", due_ms=4_000, exclusive=True)
    await put_away(store, node, ADA, second._replace(due_ms=2_000), first)
    await put_away(store, node, BOB, first, second, last)

    ada, bob = (await store.claim_due(node, ["Bot"], 9_000, 10)).agents

    assert (ada.row.running, bob.row.running) == ("first", "last")
    assert (ada.interrupted, bob.interrupted) == (None, None)


# --- deaths


async def test_death_in_a_job_strikes_its_agent_each_time(engine: Engine, store: Store, node: str) -> None:
    """One agent had a job under way: the evidence is against it alone, and adds up."""
    await put_away(store, node, ADA, job_row("deadly"))
    strikes = []
    for _ in range(3):
        (claimed,) = (await store.claim_due(node, ["Bot"], 9_000, 10)).agents
        # An agent under suspicion is not noted by the claim: it may have to wait for its turn.
        await store.mark(claimed.lease, "deadly")
        await engine.bury(store, node)
        node = await store.join("http://next")
        found = await activate(store, node)
        strikes.append((found.row.crash_strikes, found.interrupted))
        await store.mark(found.lease, "deadly")
        await engine.bury(store, node)
        node = await store.join("http://next")

    assert strikes == [(1, "deadly"), (3, "deadly"), (5, "deadly")]


async def test_death_with_several_jobs_under_way_strikes_each_at_most_once(
    engine: Engine, store: Store, node: str
) -> None:
    """Shared evidence seals nobody, however often it comes (SPEC 7.5)."""
    await put_away(store, node, ADA, job_row("one"))
    await put_away(store, node, BOB, job_row("two"))
    strikes = []
    for _ in range(7):
        for activated in (await store.claim_due(node, ["Bot"], 9_000, 10)).agents:
            await store.mark(activated.lease, activated.jobs[0].id)
        await engine.bury(store, node)
        node = await store.join("http://next")
        found = [await activate(store, node, agent) for agent in (ADA, BOB)]
        strikes.append([activated.row.crash_strikes for activated in found])
        for activated in found:
            await store.commit(activated.lease, activated.row, Batch(), release=True).wait()

    assert strikes == [[1, 1]] * 7


async def test_agent_that_ran_alone_takes_the_blame(engine: Engine, store: Store, node: str) -> None:
    """Others may have been claimed beside it; their jobs waited for it to end (SPEC 7.5)."""
    for agent in (ADA, BOB):
        await put_away(store, node, agent, job_row())
    ada, bob = (await store.claim_due(node, ["Bot"], 9_000, 10)).agents
    await store.suspect(node, ada.lease)
    await engine.bury(store, node)

    node = await store.join("http://second")

    assert (await activate(store, node, ada.lease.agent)).row.crash_strikes == 1
    assert (await activate(store, node, bob.lease.agent)).row.crash_strikes == 0


async def test_agent_that_no_longer_runs_alone_shares_the_blame(engine: Engine, store: Store, node: str) -> None:
    """Its turn alone is over when the node says so, and nobody's is at the next boot."""
    for agent in (ADA, BOB):
        await put_away(store, node, agent, job_row())
    ada, bob = (await store.claim_due(node, ["Bot"], 9_000, 10)).agents
    await store.suspect(node, ada.lease)
    await store.suspect(node, None)
    await engine.bury(store, node)

    node = await store.join("http://second")

    assert (await activate(store, node, ada.lease.agent)).row.crash_strikes == 1
    assert (await activate(store, node, bob.lease.agent)).row.crash_strikes == 1


async def test_shared_evidence_takes_no_strike_back(engine: Engine, store: Store, node: str) -> None:
    """Strikes gained alone stay when a death has several suspects."""
    for agent, strikes in ((ADA, 3), (BOB, 0)):
        lease = (await activate(store, node, agent)).lease
        row = AgentRow(alarm_ms=1_000, running="job", crash_strikes=strikes)
        await store.commit(lease, row, puts(job_row())).wait()
    await engine.bury(store, node)

    node = await store.join("http://second")

    assert (await activate(store, node, ADA)).row.crash_strikes == 3
    assert (await activate(store, node, BOB)).row.crash_strikes == 1


async def test_death_outside_a_job_strikes_nobody(engine: Engine, store: Store, node: str) -> None:
    """Owned agents without a job under way are merely freed."""
    for agent, running in ((ADA, None), (BOB, "job")):
        lease = (await activate(store, node, agent)).lease
        await store.commit(lease, AgentRow(alarm_ms=1_000, running=running), puts(job_row())).wait()
    await engine.bury(store, node)

    claimed = (await store.claim_due(await store.join("http://second"), ["Bot"], 9_000, 10)).agents

    assert {activated.lease.agent.name: activated.row.crash_strikes for activated in claimed} == {"ada": 0, "bob": 1}


async def test_agents_that_wait_under_suspicion_share_no_evidence(engine: Engine, store: Store, node: str) -> None:
    """Struck agents run one at a time; those that were only claimed had no job under way (SPEC 7.5)."""
    for agent in (ADA, BOB):
        lease = (await activate(store, node, agent)).lease
        row = AgentRow(alarm_ms=1_000, crash_strikes=1)
        await store.commit(lease, row, puts(job_row()), release=True).wait()
    ada, _ = (await store.claim_due(node, ["Bot"], 9_000, 10)).agents
    await store.mark(ada.lease, "job")
    await engine.bury(store, node)

    node = await store.join("http://second")

    strikes = {agent: (await activate(store, node, agent)).row.crash_strikes for agent in (ADA, BOB)}
    guilty = ada.lease.agent
    assert strikes.pop(guilty) == 2
    assert list(strikes.values()) == [1]


async def test_mark_under_a_lost_lease_changes_nothing(engine: Engine, store: Store, node: str) -> None:
    """It is found out at the commit that follows."""
    stale = (await activate(store, node)).lease
    await store.commit(stale, row_for(job_row()), puts(job_row())).wait()
    await engine.bury(store, node)
    second = await store.join("http://second")
    await activate(store, second)
    await store.mark(stale, "job")
    await engine.bury(store, second)

    found = await activate(store, await store.join("http://third"))

    assert (found.row.crash_strikes, found.interrupted) == (0, None)


async def test_leaving_frees_without_a_strike(store: Store, node: str) -> None:
    """A job cut off by an orderly end counts as not started (SPEC 5.3)."""
    job = job_row()
    lease = (await activate(store, node)).lease
    await store.commit(lease, AgentRow(alarm_ms=1_000, running="job"), puts(job)).wait()

    await store.leave(node)

    found = await activate(store, await store.join("http://second"))
    assert (found.row.crash_strikes, found.interrupted) == (0, None)
    assert found.jobs == [job]
    assert await is_fenced(store, lease)


async def test_leaving_gives_up_only_what_the_node_owns(store: Store) -> None:
    """Another node's agents stay with it."""
    first = await store.join("http://first")
    second = await store.join("http://second")
    kept = (await activate(store, second, BOB)).lease
    await activate(store, first, ADA)

    await store.leave(first)

    assert await store.activate(second, ADA) != Owner(first, "http://first")
    assert not await is_fenced(store, kept)


async def test_kill_drops_what_has_not_begun_and_refuses_what_comes_later(store: Store, node: str) -> None:
    """As the death of the process would, without one."""
    lease = (await activate(store, node)).lease
    await store.commit(lease, AgentRow(), Batch(values={("host", "acknowledged"): "1"})).wait()

    under_way = store.commit(lease, AgentRow(), Batch(values={("host", "under way"): "1"})).wait()
    pending = store.commit(lease, AgentRow(), Batch(values={("host", "pending"): "1"}))
    waiting = pending.wait()
    has_begun = pending.is_taken
    store.kill(node)

    assert not has_begun
    with pytest.raises(StoreError):
        await waiting
    assert await is_fenced(store, lease)
    await asyncio.wait([under_way])
    successor = (await activate(store, await store.join("http://second"))).lease
    stored = await stored_values(store, successor)
    assert stored.pop("acknowledged") == "1"
    assert "pending" not in stored
    assert not (stored and under_way.exception())


# --- agents that stored nothing


async def test_agent_that_stored_nothing_leaves_no_row(store: Store, node: str) -> None:
    """Asking is not storing: released, it is as if it had never been."""
    lease = (await activate(store, node)).lease
    await store.commit(lease, AgentRow(), Batch(), release=True).wait()

    assert await store.agents() == []


async def test_agents_that_stored_nothing_are_gone_when_their_node_leaves(store: Store, node: str) -> None:
    """The same at the orderly end of a process."""
    await activate(store, node, ADA)
    bob = (await activate(store, node, BOB)).lease
    await store.commit(bob, AgentRow(), Batch(values={("host", "key"): "1"})).wait()

    await store.leave(node)

    assert [summary.agent for summary in await store.agents()] == [BOB]


async def test_agents_that_stored_nothing_are_gone_when_their_node_is_dead(
    engine: Engine, store: Store, node: str
) -> None:
    """And at its death."""
    await activate(store, node, ADA)
    bob = (await activate(store, node, BOB)).lease
    await store.commit(bob, AgentRow(), Batch(values={("host", "key"): "1"})).wait()
    await engine.bury(store, node)

    await store.join("http://second")

    assert [summary.agent for summary in await store.agents()] == [BOB]


@pytest.mark.parametrize("kept", ["job", "value", "run"])
async def test_agent_that_stored_something_keeps_its_row(store: Store, node: str, kept: str) -> None:
    """Whatever it is that was stored."""
    lease = (await activate(store, node)).lease
    batch, row = Batch(), AgentRow()
    if kept == "job":
        batch, row = puts(job_row()), row_for(job_row())
    elif kept == "value":
        batch.values["host", "key"] = "1"
    else:
        batch.history.append(history_row("run"))
        row.runs = 1
    await store.commit(lease, row, batch, release=True).wait()

    assert [summary.agent for summary in await store.agents()] == [ADA]


async def test_waiting_agents_are_listed_in_stretches(store: Store, node: str) -> None:
    """Unowned agents of some classes that have an alarm; each stretch goes on where the last one ended."""
    for number in range(5):
        await put_away(store, node, AgentId("Bot", str(number)), job_row())
    await put_away(store, node, AgentId("Cat", "eve"), job_row())
    await put_away(store, node, AgentId("Dog", "eve"), job_row())
    await activate(store, node, AgentId("Bot", "2"))
    await store.commit((await activate(store, node)).lease, AgentRow(), Batch(values={("host", "key"): "1"})).wait()
    await store.leave(node)
    await activate(store, await store.join("http://second"), AgentId("Bot", "3"))

    found: list[str] = []
    after = 0
    while stretch := await store.waiting(["Bot", "Cat"], after, 2):
        assert len(stretch) <= 2
        found += [str(agent) for _, agent in stretch]
        after = stretch[-1][0]

    assert sorted(found) == ["Bot/0", "Bot/1", "Bot/2", "Bot/4", "Cat/eve"]


# --- lost and wrong alarms


async def repair(store: Store) -> None:
    """Repair every alarm."""
    after: int | None = 0
    while after is not None:
        after = await store.repair_alarms(after)


@pytest.mark.parametrize("stored_ms", [None, 1, 5_000_000])
async def test_repair_derives_lost_and_wrong_alarms_from_the_jobs(
    store: Store, node: str, stored_ms: int | None
) -> None:
    """No way of losing an alarm leaves an agent asleep with work due (SPEC 6.5)."""
    lease = (await activate(store, node)).lease
    jobs = puts(job_row("late", due_ms=3_000), job_row("early", due_ms=2_000))
    await store.commit(lease, AgentRow(alarm_ms=stored_ms), jobs, release=True).wait()

    await repair(store)

    assert [summary.alarm_ms for summary in await store.agents()] == [2_000]
    assert len((await store.claim_due(node, ["Bot"], 2_000, 10)).agents) == 1


async def test_repair_takes_an_alarm_without_jobs_away(store: Store, node: str) -> None:
    """Nothing to do, nothing to wake for."""
    lease = (await activate(store, node)).lease
    batch = Batch(values={("host", "key"): "1"})
    await store.commit(lease, AgentRow(alarm_ms=1_000), batch, release=True).wait()

    await repair(store)

    assert [summary.alarm_ms for summary in await store.agents()] == [None]


async def test_repair_sets_the_alarm_for_an_exclusive_job_alone(store: Store, node: str) -> None:
    """While one is pending nothing else counts (SPEC 6.4)."""
    lease = (await activate(store, node)).lease
    batch = puts(
        job_row("early", due_ms=1_000),
        job_row("later", due_ms=7_000, exclusive=True),
        job_row("sooner", due_ms=6_000, exclusive=True),
    )
    await store.commit(lease, AgentRow(alarm_ms=1_000), batch, release=True).wait()

    await repair(store)

    assert [summary.alarm_ms for summary in await store.agents()] == [6_000]


async def test_repair_leaves_owned_agents_to_their_owner(store: Store, node: str) -> None:
    """A live agent's alarm is what its owner says."""
    lease = (await activate(store, node)).lease
    await store.commit(lease, AgentRow(alarm_ms=9_000), puts(job_row())).wait()

    await repair(store)

    assert [(summary.alarm_ms, summary.is_live) for summary in await store.agents()] == [(9_000, True)]
