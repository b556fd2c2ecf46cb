"""Blocks that held others up for ever."""

from __future__ import annotations

import asyncio
import contextlib

from pydantic import BaseModel

from agentkit import Agent
from agentkit.errors import TransactionConflictError
from tests.jobs.worker import Start


class Count(BaseModel):
    """A state."""

    n: int = 0


class Counter(Agent[Count]):
    """Opens a block in the hook of a block."""

    initial_state = Count()

    async def on_state_changed(self, state: Count, source: object) -> None:
        async with self.transaction():
            await self.storage.put("seen", state.n)

    async def change(self) -> int:
        async with self.transaction():
            await self.set_state(Count(n=1))
        seen: int = await self.storage.get("seen")
        return seen


class Blocker(Agent):
    """A job that never leaves its block, and others that need one."""

    async def begin(self) -> None:
        await self.schedule(1, self.stubborn, timeout=1)
        await self.schedule(20, self.write)

    async def stubborn(self) -> None:
        async with self.transaction():
            await self.storage.put("stubborn", True)
            with contextlib.suppress(asyncio.CancelledError):
                await self.lifecycle.clock.sleep(1_000_000)
            await self.lifecycle.clock.sleep(1_000_000)

    async def write(self) -> None:
        async with self.transaction():
            await self.storage.put("written", True)

    async def begin_with(self, other: str) -> None:
        await self.schedule(1, self.enter, other, timeout=1)

    async def enter(self, other: str) -> None:
        await self.get(Blocker, other).stubborn()

    async def stored(self) -> dict[str, bool]:
        async with self.transaction():
            return await self.storage.list()


async def test_state_hook_of_a_block_may_open_a_block(manual_runtime: Start) -> None:
    """``on_state_changed`` runs after the block's commit, when others may have their turn."""
    runtime = await manual_runtime(Counter)

    async with asyncio.timeout(5):
        seen = await runtime.get(Counter, "ada").change()

    assert seen == 1


async def test_run_abandoned_in_a_block_holds_no_other_block_up(manual_runtime: Start) -> None:
    """Its block ends with it: nothing of it is stored, the next job and calls have theirs (SPEC 4.8)."""
    runtime = await manual_runtime(Blocker, real_timeout=5)
    blocker = runtime.get(Blocker, "ada")
    await blocker.begin()

    await runtime.advance(60)
    async with asyncio.timeout(5):
        stored = await blocker.stored()

    assert stored == {"written": True}


async def test_run_abandoned_in_the_block_of_another_agent_ends_it(manual_runtime: Start) -> None:
    """A job that is given up inside a call's block doesn't keep the called agent from blocks of its own."""
    runtime = await manual_runtime(Blocker, real_timeout=5)
    await runtime.get(Blocker, "ada").begin_with("bob")

    await runtime.advance(60)
    async with asyncio.timeout(5):
        stored = await runtime.get(Blocker, "bob").stored()

    assert stored == {}


class Account(Agent):
    """Moves something to another account, in a block on each."""

    async def move(self, other: str) -> None:
        async with self.transaction():
            await self.storage.put("sent", other)
            await self.deps.wait()
            await self.get(Account, other).receive(self.name)

    async def receive(self, sender: str) -> None:
        async with self.transaction():
            await self.storage.put("received", sender)

    async def stored(self) -> dict[str, str]:
        return await self.storage.list()


async def test_blocks_that_wait_for_each_other_are_refused(manual_runtime: Start) -> None:
    """Of two opposite moves one raises and stores nothing, instead of a wait without an end (SPEC 3.4)."""
    both_inside = asyncio.Barrier(2)
    runtime = await manual_runtime(Account, deps=both_inside)
    ada, bob = runtime.get(Account, "ada"), runtime.get(Account, "bob")

    async with asyncio.timeout(5):
        ends = await asyncio.gather(ada.move("bob"), bob.move("ada"), return_exceptions=True)

    assert [type(end) for end in ends if end is not None] == [TransactionConflictError]
    if ends[0] is None:
        assert (await ada.stored(), await bob.stored()) == ({"sent": "bob"}, {"received": "ada"})
    else:
        assert (await ada.stored(), await bob.stored()) == ({"received": "bob"}, {"sent": "ada"})
