"""The engines that the conformance suite runs on, and a store of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One kind of store.

    Attributes:
        make: Returns a store that lives in the folder, not yet open.
        bury: Makes a node of an open store count as dead at the next ``join``.
    """

    make: Callable[[Path], Store]
    bury: Callable[[Store, str], Awaitable[None]]


async def bury_nothing(store: Store, node: str) -> None:
    """Do nothing: who may open the file at all is alone, so every earlier node is dead."""


ENGINES = {
    "sqlite": Engine(make=lambda folder: SqliteStore(folder / "agents.db"), bury=bury_nothing),
}


@pytest.fixture(scope="session", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return ENGINES[request.param]


@pytest.fixture
async def store(engine: Engine, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store."""
    store = engine.make(tmp_path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def node(store: Store) -> str:
    """A node that has joined ``store``."""
    return await store.join("http://first")
