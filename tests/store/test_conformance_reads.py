"""Every engine: ranges of values, and listings."""

from __future__ import annotations

from itertools import product

import pytest

from agentkit.store.store import AgentId, AgentRow, AgentSummary, Batch, Lease, Store, ValueRange
from tests.store.rows import ADA, BOB, activate, job_row, put_away, puts, row_for

#: Neighbours in every way that matters: prefixes of one another, and the ends of Unicode's ranges.
KEYS = sorted(
    [
        "a",
        "a:",
        "a:1",
        "a:10",
        "a:2",
        "a;",
        "b",
        "A",
        "ä",
        "a\x00b",
        "\x7f",
        "\ud7ff",
        "\ud7ffx",
        "\ud7ff\U0010ffff",
        "\ue000",
        "\ue000x",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
        "\U0010ffff\U0010ffff",
        "\U0010ffff\U0010ffffx",
        "x\U0010ffff",
        "x\U0010ffff\U0010ffff1",
        "y",
    ]
)
PREFIXES = ["", "a", "a:", "a:1", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff", "x\U0010ffff", "zz"]
BOUNDS = [None, "", "a:", "a:2", "b", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff"]


async def filled(store: Store, node: str) -> Lease:
    """Store every key, and as many in another scope and in another agent."""
    bob = (await activate(store, node, BOB)).lease
    values = {("host", key): f"other {key!r}" for key in KEYS}
    await store.commit(bob, AgentRow(), Batch(values=dict(values))).wait()
    lease = (await activate(store, node)).lease
    values = {(scope, key): f"{scope} {key!r}" for key in KEYS for scope in ("hos", "host", "host2")}
    await store.commit(lease, AgentRow(), Batch(values=dict(values))).wait()
    return lease


def chosen(wanted: ValueRange) -> list[str]:
    """Return the keys in the range, as plain Python finds them."""
    keys = [
        key
        for key in KEYS
        if key.startswith(wanted.prefix)
        and (wanted.start is None or key >= wanted.start)
        and (wanted.end is None or key < wanted.end)
    ]
    keys.sort(reverse=wanted.reverse)
    return keys if wanted.limit is None else keys[: wanted.limit]


@pytest.mark.parametrize("prefix", PREFIXES, ids=ascii)
async def test_ranges_of_values(store: Store, node: str, prefix: str) -> None:
    """Keys order by code point; start is in, end is out; of a reversed list the limit keeps the last ones."""
    lease = await filled(store, node)

    ends = [bound for bound in BOUNDS if bound != ""]
    for start, end, limit, reverse in product(BOUNDS, ends, (None, 0, 1, 3), (False, True)):
        wanted = ValueRange(prefix, start, end, limit, reverse)
        found = await store.values(lease, "host", wanted)
        assert found == [(key, f"host {key!r}") for key in chosen(wanted)], wanted


async def test_range_that_ends_before_every_key_is_empty(store: Store, node: str) -> None:
    """An end of "" is a bound like any other, not the lack of one."""
    lease = await filled(store, node)

    assert await store.values(lease, "host", ValueRange(end="")) == []


async def test_value_is_read_by_scope_and_key(store: Store, node: str) -> None:
    """Every key comes back as it was put, and nothing else does."""
    lease = await filled(store, node)

    assert [await store.value(lease, "host2", key) for key in KEYS] == [f"host2 {key!r}" for key in KEYS]
    assert await store.value(lease, "host", "missing") is None
    assert await store.value(lease, "missing", "a") is None


@pytest.mark.parametrize("text", ['"\\u0000"', '"\U0001f600"', "x" * (1 << 20), '""'], ids=len)
async def test_values_come_back_unchanged(store: Store, node: str, text: str) -> None:
    """Whatever the text, up to the size that SPEC 19 allows."""
    lease = (await activate(store, node)).lease

    await store.commit(lease, AgentRow(), Batch(values={("host", "key"): text})).wait()

    assert await store.value(lease, "host", "key") == text


async def test_jobs_are_listed_by_due_time_and_push_order(store: Store, node: str) -> None:
    """Ties go by the order of the pushes."""
    first, second, early = job_row("z"), job_row("a"), job_row("m", due_ms=5)
    await put_away(store, node, ADA, second, early, first)

    assert await store.jobs(ADA) == [early, first, second]
    assert await store.jobs(BOB) == []


async def test_job_comes_back_as_it_was_put(store: Store, node: str) -> None:
    """Every column of it."""
    job = job_row("ä\U0001f600", due_ms=-5, exclusive=True, payload='{"a":[1,2.5,null]}')
    job = job._replace(options='{"timeout":1.5}', created_ms=253_402_300_799_000)
    lease = (await activate(store, node)).lease

    await store.commit(lease, row_for(job), puts(job)).wait()

    assert await store.jobs(ADA) == [job]
    assert (await activate(store, node)).jobs == [job]


async def test_agents_are_listed_with_alarm_and_owner(store: Store, node: str) -> None:
    """All of them, or those of one class."""
    await put_away(store, node, BOB, job_row(due_ms=7))
    await put_away(store, node, AgentId("Ant", "eve"), job_row(due_ms=8))
    await activate(store, node, ADA)

    ant = AgentSummary(AgentId("Ant", "eve"), 8, is_live=False)
    ada = AgentSummary(ADA, None, is_live=True)
    bob = AgentSummary(BOB, 7, is_live=False)
    assert await store.agents() == [ant, ada, bob]
    assert await store.agents("Bot") == [ada, bob]
    assert await store.agents("Cat") == []


async def test_classes_that_wait_are_those_with_an_unowned_alarm(store: Store, node: str) -> None:
    """Live agents and agents without an alarm wait for nobody."""
    await put_away(store, node, AgentId("Ant", "eve"), job_row())
    await put_away(store, node, AgentId("Ant", "joe"), job_row())
    await put_away(store, node, AgentId("Bee", "eve"), job_row())
    live = (await activate(store, node, AgentId("Cat", "eve"))).lease
    await store.commit(live, row_for(job_row()), puts(job_row())).wait()
    idle = (await activate(store, node, AgentId("Dog", "eve"))).lease
    await store.commit(idle, AgentRow(), Batch(values={("host", "key"): "1"}), release=True).wait()

    assert await store.classes_waiting() == ["Ant", "Bee"]
