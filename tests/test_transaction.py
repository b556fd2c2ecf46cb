"""Transactions: all of a block or nothing, seen by others after the commit, and one block at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent, Capability, JobContext, Runtime
from agentkit.errors import AgentGoneError, TransactionConflictError
from agentkit.host import AgentContext
from agentkit.store.sqlite import SqliteStore
from tests.jobs.worker import Script, Start, Worker, at


class Balance(BaseModel):
    cents: int = 0
    notes: list[str] = []


class Shop(Agent[Balance]):
    """Records orders; ``deps`` is the log of what jobs ran."""

    initial_state = Balance()

    async def on_job(self, context: JobContext) -> None:
        self.deps.append(context.job.function)

    async def use(self, action: Any) -> Any:
        """Run what a test wants to do inside the agent."""
        return await action(self)

    async def look(self) -> dict[str, Any]:
        """Return all that is stored, as other code sees it."""
        jobs = [(job.id, job.due_at) for job in await self.lifecycle.jobs.list()]
        return {"values": await self.storage.list(), "state": self.state.cents, "jobs": jobs}

    async def on_state_changed(self, state: Balance, source: Any) -> None:
        self.deps.append(f"state {state.cents}")


NOTHING: dict[str, Any] = {"values": {}, "state": 0, "jobs": []}


async def order(shop: Shop) -> None:
    """Change something of every kind."""
    await shop.storage.put("order", 1)
    await shop.storage.put_many({"a": 1, "b": 2})
    await shop.set_state(Balance(cents=500))
    await shop.lifecycle.jobs.push("remind", at=at(60), id="reminder")


ORDERED: dict[str, Any] = {
    "values": {"a": 1, "b": 2, "order": 1},
    "state": 500,
    "jobs": [("reminder", at(60))],
}


# --- all or nothing


async def test_block_commits_values_state_and_jobs_together(manual_runtime: Start) -> None:
    """Storage, state and jobs of one block are there after it, also after a crash."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await order(agent)

    await shop.use(scenario)
    now = await shop.look()
    await runtime.crash()

    assert now == ORDERED
    assert await shop.look() == ORDERED


async def test_exception_drops_all_of_a_block(manual_runtime: Start) -> None:
    """An error inside leaves values, state, jobs and the alarm as they were, in memory and on disk."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        with suppress(KeyError):
            async with agent.transaction():
                await order(agent)
                raise KeyError

    await shop.use(scenario)
    now = await shop.look()
    await runtime.advance(120)
    await runtime.crash()
    await runtime.advance(120)

    assert now == NOTHING
    assert await shop.look() == NOTHING
    assert log == []


async def test_dropped_block_keeps_the_alarm_and_jobs_of_before(manual_runtime: Start) -> None:
    """Jobs cancelled, moved or replaced in a dropped block fire as if it had never been."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        jobs = agent.lifecycle.jobs
        for name in ("cancelled", "moved", "replaced"):
            await jobs.push(name, at=at(10), id=name)
        with suppress(KeyError):
            async with agent.transaction():
                await jobs.cancel("cancelled")
                await jobs.reschedule("moved", at(500))
                await jobs.push("new", at=at(500), id="replaced")
                raise KeyError

    await shop.use(scenario)
    await runtime.advance(10)

    assert log == ["cancelled", "moved", "replaced"]


async def test_dropped_block_undoes_a_state_changed_in_place(manual_runtime: Start) -> None:
    """Changing the model itself and storing it in a block that is dropped leaves the old state."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> tuple[int, list[str]]:
        await agent.set_state(Balance(cents=1, notes=["old"]))
        with suppress(KeyError):
            async with agent.transaction():
                state = agent.state
                state.cents = 99
                state.notes.append("new")
                await agent.set_state(state)
                raise KeyError
        return agent.state.cents, agent.state.notes

    assert await shop.use(scenario) == (1, ["old"])


async def test_state_hook_runs_after_the_commit_and_not_for_a_dropped_block(manual_runtime: Start) -> None:
    """``on_state_changed`` tells of what is stored."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> list[str]:
        with suppress(KeyError):
            async with agent.transaction():
                await agent.set_state(Balance(cents=1))
                raise KeyError
        async with agent.transaction():
            await agent.set_state(Balance(cents=2))
            inside = list(log)
        return inside

    inside = await shop.use(scenario)

    assert inside == []
    assert log == ["state 2"]


async def test_crash_before_the_end_of_a_block_leaves_nothing_of_it(manual_runtime: Start) -> None:
    """A process that dies inside a block has stored none of it."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await order(agent)
            await agent.lifecycle.clock.sleep(1_000)

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(0)
    await runtime.crash()
    await runtime.advance(2_000)

    with pytest.raises(AgentGoneError):
        await call
    assert await shop.look() == NOTHING
    assert log == []


async def test_values_deleted_in_a_block_go_with_it(manual_runtime: Start) -> None:
    """``delete`` and ``delete_all`` are part of the block."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> list[dict[str, Any]]:
        await agent.storage.put_many({"a": 1, "b": 2, "c": 3})
        seen = []
        with suppress(KeyError):
            async with agent.transaction():
                await agent.storage.delete_all()
                await agent.storage.put("d", 4)
                seen.append(await agent.storage.list())
                raise KeyError
        seen.append(await agent.storage.list())
        async with agent.transaction():
            assert await agent.storage.delete("a") is True
            assert await agent.storage.delete("a") is False
            seen.append(await agent.storage.list())
            await agent.storage.delete_all()
            await agent.storage.put("e", 5)
        seen.append(await agent.storage.list())
        return seen

    before = {"a": 1, "b": 2, "c": 3}
    assert await shop.use(scenario) == [{"d": 4}, before, {"b": 2, "c": 3}, {"e": 5}]


async def test_jobs_of_a_block_fire_after_it(manual_runtime: Start) -> None:
    """A job that is due when it is pushed in a block runs once the block is left."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> list[str]:
        async with agent.transaction():
            await agent.lifecycle.jobs.push("work", after=0)
            await agent.lifecycle.clock.sleep(100)
            return list(log)

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(100)

    assert await call == []
    assert log == ["work"]


async def test_empty_block_changes_nothing(manual_runtime: Start) -> None:
    """A block in which nothing is changed is no conflict with anything."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            """Do nothing."""

    await shop.use(scenario)

    assert await shop.look() == NOTHING


async def test_transaction_inside_a_job_commits_before_its_outcome(manual_runtime: Start) -> None:
    """What a job's block has stored survives a crash in the rest of the job."""

    async def work(agent: Worker, context: JobContext) -> None:
        async with agent.transaction():
            await agent.storage.put("runs", await agent.storage.get("runs", 0) + 1)
        await agent.lifecycle.clock.sleep(1_000)

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)
    await runtime.advance(1)

    await runtime.crash()

    assert await ada.use(lambda agent: agent.storage.get("runs")) == 1


# --- who sees what


async def test_block_reads_its_own_writes(manual_runtime: Start) -> None:
    """Code in the block sees every change, in gets, lists, state and jobs."""
    runtime = await manual_runtime(Shop, deps=[])

    async def scenario(agent: Shop) -> dict[str, Any]:
        async with agent.transaction():
            await order(agent)
            assert await agent.storage.get("order") == 1
            assert await agent.storage.list(prefix="o") == {"order": 1}
            assert (await agent.lifecycle.jobs.get("reminder")) is not None
            return await agent.look()

    assert await runtime.get(Shop, "ada").use(scenario) == ORDERED


async def test_tasks_that_the_block_starts_and_awaits_belong_to_it(manual_runtime: Start) -> None:
    """A task made in the block reads and writes as part of it."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> Any:
        with suppress(KeyError):
            async with agent.transaction():
                await agent.storage.put("a", 1)
                async with asyncio.TaskGroup() as group:
                    seen = group.create_task(agent.storage.get("a"))
                    group.create_task(agent.storage.put("b", 2))
                inside = seen.result(), await agent.storage.get("b")
                raise KeyError
        return inside

    assert await shop.use(scenario) == (1, 2)
    assert await shop.look() == NOTHING


async def test_task_that_outlives_the_block_writes_on_its_own(manual_runtime: Start) -> None:
    """Once the block is left its tasks write as other code does."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        left = asyncio.Event()

        async def later() -> None:
            await left.wait()
            await agent.storage.put("later", 1)

        with suppress(KeyError):
            async with agent.transaction():
                task = asyncio.create_task(later())
                await asyncio.sleep(0)
                raise KeyError
        left.set()
        await task

    await shop.use(scenario)

    assert (await shop.look())["values"] == {"later": 1}


async def test_other_code_sees_a_block_after_its_commit(manual_runtime: Start) -> None:
    """While the block is open, calls beside it see what was there before."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await order(agent)
            await agent.lifecycle.clock.sleep(10)

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(1)
    during = await shop.look()
    await runtime.advance(10)
    await call

    assert during == NOTHING
    assert await shop.look() == ORDERED


async def test_capability_takes_part_in_the_block(manual_runtime: Start) -> None:
    """Values and jobs of a capability that are changed in a block of its host belong to it."""

    class Post(Capability):
        id = "post"

        async def on_job(self, context: JobContext) -> None:
            """Do nothing."""

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.post = self.lifecycle.use(Post())

        async def scenario(self) -> tuple[Any, int]:
            inner = self.post.lifecycle
            with suppress(KeyError):
                async with self.transaction():
                    await inner.storage.put("sent", 1)
                    await inner.jobs.push("send", after=1)
                    async with inner.transaction():
                        await inner.storage.put("nested", 1)
                    raise KeyError
            return await inner.storage.list(), len(await inner.jobs.list())

    runtime = await manual_runtime(Host, deps=Script())

    assert await runtime.get(Host, "ada").scenario() == ({}, 0)


# --- nesting and exclusion


async def test_nested_block_joins_the_outer(manual_runtime: Start) -> None:
    """Leaving the inner block commits nothing; the outer one decides for both."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        with suppress(KeyError):
            async with agent.transaction():
                await agent.storage.put("outer", 1)
                async with agent.transaction():
                    await order(agent)
                raise KeyError

    await shop.use(scenario)
    dropped = await shop.look()

    async def again(agent: Shop) -> None:
        async with agent.transaction(), agent.transaction():
            await order(agent)

    await shop.use(again)

    assert dropped == NOTHING
    assert await shop.look() == ORDERED


async def test_blocks_of_one_agent_exclude_each_other(manual_runtime: Start) -> None:
    """Counters that read, wait and write in blocks lose no step."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def add(agent: Shop) -> None:
        async with agent.transaction():
            count = await agent.storage.get("count", 0)
            await agent.lifecycle.clock.sleep(1)
            await agent.storage.put("count", count + 1)

    calls = [asyncio.create_task(shop.use(add)) for _ in range(5)]
    await runtime.advance(10)
    await asyncio.gather(*calls)

    assert (await shop.look())["values"] == {"count": 5}


async def test_blocks_of_different_agents_do_not_exclude_each_other(manual_runtime: Start) -> None:
    """Inside one agent's block another agent's is its own."""
    runtime = await manual_runtime(Shop, deps=[])

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await agent.storage.put("mine", 1)
            await agent.get(Shop, "bob").use(theirs)
            raise KeyError

    async def theirs(agent: Shop) -> None:
        async with agent.transaction():
            await agent.storage.put("theirs", 1)

    with pytest.raises(KeyError):
        await runtime.get(Shop, "ada").use(scenario)

    assert (await runtime.get(Shop, "ada").look())["values"] == {}
    assert (await runtime.get(Shop, "bob").look())["values"] == {"theirs": 1}


# --- conflicts


async def _read_value(agent: Shop) -> None:
    await agent.storage.get("a")


async def _read_list(agent: Shop) -> None:
    await agent.storage.list()


async def _read_state(agent: Shop) -> None:
    assert agent.state is not None


async def _read_job(agent: Shop) -> None:
    await agent.lifecycle.jobs.get("one")


async def _read_jobs(agent: Shop) -> None:
    await agent.lifecycle.jobs.list()


async def _put_value(agent: Shop) -> None:
    await agent.storage.put("a", 2)


async def _put_other_value(agent: Shop) -> None:
    await agent.storage.put("other", 2)


async def _delete_all(agent: Shop) -> None:
    await agent.storage.delete_all()


async def _put_state(agent: Shop) -> None:
    await agent.set_state(Balance(cents=2))


async def _push_job(agent: Shop) -> None:
    await agent.lifecycle.jobs.push("work", at=at(500), id="one")


async def _push_other_job(agent: Shop) -> None:
    await agent.lifecycle.jobs.push("work", at=at(500), id="other")


async def _cancel_job(agent: Shop) -> None:
    await agent.lifecycle.jobs.cancel("one")


async def _attempt(manual_runtime: Start, read: Any, change: Any) -> tuple[Any, BaseException | None]:
    """Open a block that reads, let other code change something, and leave the block."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def prepare(agent: Shop) -> None:
        await agent.storage.put("a", 1)
        await agent.lifecycle.jobs.push("work", at=at(1_000), id="one")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await read(agent)
            await agent.lifecycle.clock.sleep(10)
            await agent.storage.put("written", 1)
            await agent.lifecycle.jobs.push("written", at=at(2_000), id="written")

    await shop.use(prepare)
    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(5)
    await shop.use(change)
    await runtime.advance(10)
    await asyncio.wait({call})
    return shop, call.exception()


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (_read_value, _put_value),
        (_read_value, _delete_all),
        (_read_list, _put_other_value),
        (_read_list, _delete_all),
        (_read_state, _put_state),
        (_read_job, _push_job),
        (_read_job, _cancel_job),
        (_read_jobs, _push_other_job),
    ],
)
async def test_block_that_read_what_was_changed_meanwhile_stores_nothing(
    manual_runtime: Start, read: Any, change: Any
) -> None:
    """Leaving it raises ``TransactionConflictError`` naming what changed; the other code's change stays."""
    shop, result = await _attempt(manual_runtime, read, change)

    look = await shop.look()
    assert isinstance(result, TransactionConflictError)
    assert result.changed
    assert "written" not in look["values"]
    assert "written" not in dict(look["jobs"])


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (_read_value, _put_other_value),
        (_read_value, _put_state),
        (_read_job, _push_other_job),
        (_read_state, _put_value),
        (_read_jobs, _put_value),
        (_put_value, _put_value),
    ],
)
async def test_change_of_something_else_is_no_conflict(manual_runtime: Start, read: Any, change: Any) -> None:
    """What the block hasn't read may change; of two blind writes the block's comes last."""
    shop, result = await _attempt(manual_runtime, read, change)

    look = await shop.look()
    assert result is None
    assert look["values"]["written"] == 1
    assert "written" in dict(look["jobs"])


async def test_block_may_be_run_again_after_a_conflict(manual_runtime: Start) -> None:
    """After a conflict the next block reads what the other code wrote."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> int:
        for attempt in (1, 2):
            try:
                async with agent.transaction():
                    count = await agent.storage.get("count", 0)
                    if attempt == 1:
                        await agent.lifecycle.clock.sleep(10)
                    await agent.storage.put("count", count + 1)
            except TransactionConflictError:
                continue
            return attempt
        return 0

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(5)
    await shop.use(lambda agent: agent.storage.put("count", 40))
    await runtime.advance(10)

    assert await call == 2
    assert (await shop.look())["values"] == {"count": 41}


async def test_job_that_ran_meanwhile_is_a_conflict(manual_runtime: Start) -> None:
    """A block that has read a job which then ran and left the queue doesn't bring it back."""
    log: list[str] = []
    runtime = await manual_runtime(Shop, deps=log)
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            assert await agent.lifecycle.jobs.reschedule("one", at(100)) is True
            await agent.lifecycle.clock.sleep(50)

    await shop.use(lambda agent: agent.lifecycle.jobs.push("work", at=at(10), id="one"))
    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(60)

    with pytest.raises(TransactionConflictError):
        await call
    await runtime.advance(100)
    assert log == ["work"]


# --- cancellation, and who may write


async def test_cancelled_block_stores_nothing(manual_runtime: Start) -> None:
    """Cancelling a block before its flush drops it, and the next block isn't locked out."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await order(agent)
            await agent.lifecycle.clock.sleep(1_000)

    async def other(agent: Shop) -> None:
        async with agent.transaction():
            await agent.storage.put("other", 1)

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await shop.use(other)

    assert await shop.look() == {"values": {"other": 1}, "state": 0, "jobs": []}


async def test_cancellation_waits_for_a_flush_that_has_begun(tmp_path: Any) -> None:
    """A block cancelled while it is being committed is stored whole, and then the cancellation goes on."""
    began, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    is_held = False

    def hold(when: str, commits: int) -> None:
        nonlocal is_held
        if is_held and when == "before":
            is_held = False
            loop.call_soon_threadsafe(began.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)

    store = SqliteStore(tmp_path / "agents.db", durability="process", commit_hook=hold)
    async with Runtime(Shop, store=store, deps=[]) as runtime:
        shop = runtime.get(Shop, "ada")
        await shop.look()

        async def scenario(agent: Shop) -> None:
            nonlocal is_held
            async with agent.transaction():
                await order(agent)
                is_held = True

        call = asyncio.create_task(shop.use(scenario))
        await began.wait()
        call.cancel()
        await asyncio.sleep(0.01)
        was_done = call.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        look = await shop.look()

    assert was_done is False
    assert look == ORDERED


async def test_evicted_instance_cannot_write(manual_runtime: Start) -> None:
    """Code that holds on to an instance which was dropped can neither write nor open a block."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")

    async def itself(agent: Shop) -> Shop:
        return agent

    old: Shop = await shop.use(itself)
    await runtime.evict(Shop, "ada")

    with pytest.raises(AgentGoneError, match=r"Shop/ada can't write any more: it was evicted"):
        await old.storage.put("late", 1)
    with pytest.raises(AgentGoneError):
        await old.lifecycle.jobs.push("late", after=1)
    with pytest.raises(AgentGoneError):
        await old.set_state(Balance(cents=1))
    with pytest.raises(AgentGoneError):
        async with old.transaction():
            """Never gets here."""
    assert await shop.look() == NOTHING


async def test_block_left_after_a_crash_raises(manual_runtime: Start) -> None:
    """A block that was open when the process died can't be committed by code that is still about."""
    runtime = await manual_runtime(Shop, deps=[])
    shop = runtime.get(Shop, "ada")
    go = asyncio.Event()

    async def scenario(agent: Shop) -> None:
        async with agent.transaction():
            await order(agent)
            await go.wait()

    call = asyncio.create_task(shop.use(scenario))
    await runtime.advance(0)
    await runtime.crash()
    go.set()

    with pytest.raises(AgentGoneError):
        await call
    assert await shop.look() == NOTHING
