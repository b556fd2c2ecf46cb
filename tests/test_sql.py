"""Agents' private databases (SPEC 3.3)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, Runtime
from agentkit.errors import AgentGoneError
from agentkit.store.private import MOST_OPEN
from agentkit.testing import ManualRuntime


class Shop(Agent):
    """Keeps orders in a table of its own."""

    async def open(self) -> None:
        await self.sql("create table if not exists orders (id integer primary key, what text)")

    async def order(self, what: str) -> int:
        rows = await self.sql("insert into orders (what) values (?) returning id", what)
        number: int = rows[0]["id"]
        return number

    async def orders(self) -> list[dict[str, Any]]:
        return await self.sql("select id, what from orders order by id")

    async def fail_after_an_order(self) -> None:
        async with self.transaction():
            await self.order("tea")
            await self.storage.put("ordered", True)
            raise ValueError("no")

    async def itself(self) -> Shop:
        return self


async def test_rows_come_back_by_column_name() -> None:
    """Parameters go in by position, rows come out as mappings."""
    async with ManualRuntime(Shop) as runtime:
        shop = runtime.get(Shop, "ada")
        await shop.open()

        numbers = [await shop.order("tea"), await shop.order('it\'s "quoted"; drop table orders')]

        assert numbers == [1, 2]
        assert (await shop.orders())[1] == {"id": 2, "what": 'it\'s "quoted"; drop table orders'}


async def test_each_agent_has_a_database_of_its_own() -> None:
    """What one agent stores another doesn't see."""
    async with ManualRuntime(Shop) as runtime:
        ada, bob = runtime.get(Shop, "ada"), runtime.get(Shop, "bob")
        await ada.open()
        await bob.open()

        await ada.order("tea")

        assert await bob.orders() == []


async def test_rows_survive_eviction_a_crash_and_a_restart(tmp_path: Path) -> None:
    """An agent that has stored nothing else keeps its database all the same."""
    url = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Shop, store=url) as runtime:
        shop = runtime.get(Shop, "ada")
        await shop.open()
        await shop.order("tea")
        await runtime.evict(Shop, "ada")
        await shop.order("milk")
        await runtime.crash()

        assert len(await shop.orders()) == 2

    async with Runtime(Shop, store=url) as later:
        assert [order["what"] for order in await later.get(Shop, "ada").orders()] == ["tea", "milk"]


async def test_statements_commit_outside_of_transactions() -> None:
    """A block that is dropped drops storage, not what ``sql`` has written."""
    async with ManualRuntime(Shop) as runtime:
        shop = runtime.get(Shop, "ada")
        await shop.open()

        with pytest.raises(ValueError, match="no"):
            await shop.fail_after_an_order()

        assert len(await shop.orders()) == 1


async def test_errors_are_those_of_sqlite() -> None:
    """A bad statement raises sqlite3's error and breaks nothing."""
    async with ManualRuntime(Shop) as runtime:
        shop = runtime.get(Shop, "ada")

        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await shop.orders()

        await shop.open()
        assert await shop.orders() == []


async def test_destroyed_agent_leaves_no_file(tmp_path: Path) -> None:
    """The database goes with the agent; its namesake starts with an empty one."""
    async with ManualRuntime(Shop, store=f"sqlite:///{tmp_path}/agents.db") as runtime:
        shop = runtime.get(Shop, "ada")
        await shop.open()
        await shop.order("tea")

        await shop.destroy()
        await runtime.advance(1)

        assert os.listdir(tmp_path / "agents.db.agents") == []
        await shop.open()
        assert await shop.orders() == []


async def test_files_are_private_and_named_by_a_hash(tmp_path: Path) -> None:
    """No name of an agent becomes a path."""
    async with ManualRuntime(Shop, store=f"sqlite:///{tmp_path}/agents.db") as runtime:
        await runtime.get(Shop, "../../etc/passwd").open()

        [file] = [path for path in (tmp_path / "agents.db.agents").iterdir() if path.suffix == ".db"]

        assert "passwd" not in file.name
        assert file.stat().st_mode & 0o777 == 0o600


async def test_only_so_many_stay_open(tmp_path: Path) -> None:
    """A connection costs a thread: those that are not in use are closed, and opened again when asked for."""
    async with ManualRuntime(Shop, store=f"sqlite:///{tmp_path}/agents.db") as runtime:
        shops = [runtime.get(Shop, f"shop-{number}") for number in range(MOST_OPEN + 8)]

        await asyncio.gather(*(shop.open() for shop in shops))
        await asyncio.gather(*(shop.order("tea") for shop in shops))

        assert [len(await shop.orders()) for shop in shops] == [1] * len(shops)
        descriptors = [os.readlink(f"/proc/self/fd/{number}") for number in _descriptors()]
        assert len({path for path in descriptors if path.endswith(".db") and ".agents/" in path}) <= MOST_OPEN


def _descriptors() -> list[str]:
    return [number for number in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{number}")]


async def test_evicted_instance_can_not_write() -> None:
    """A reference kept beyond eviction raises instead of writing beside the live instance."""
    async with ManualRuntime(Shop) as runtime:
        old = await runtime.get(Shop, "ada").itself()
        await runtime.evict(Shop, "ada")

        with pytest.raises(AgentGoneError):
            await old.order("tea")
