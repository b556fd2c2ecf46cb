"""Instances for tests of engines, made of the ``engine`` fixture that ``tests/conftest.py`` gives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit.clock import SystemClock
from agentkit.ids import IdSource
from agentkit.sandbox.engine import SandboxEngine
from agentkit.testing import InMemoryEngine, ManualRuntime
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import CANDIDATES
from tests.sandbox.sandbox_host import Coder, Given


@pytest.fixture
async def boxes(engine: SandboxEngine) -> AsyncIterator[Boxes]:
    """Return a maker of instances, which are removed at the end with all that came of them."""
    made = Boxes(engine, store=IdSource(SystemClock()).new(), image=CANDIDATES[engine.name].image)
    yield made
    await made.clear()


@pytest.fixture
async def box(boxes: Boxes) -> Box:
    """Return a running instance."""
    return await boxes.start()


# The capability, on an engine in memory and a clock in the test's hand.


@pytest.fixture
def given() -> Given:
    """Return what the agents of a test go by."""
    return Given()


@pytest.fixture
def memory_engine() -> InMemoryEngine:
    """Return an engine without any instance."""
    return InMemoryEngine()


@pytest.fixture
async def runtime(given: Given, memory_engine: InMemoryEngine, tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    """Return a runtime of agents with a sandbox, with its store in a file."""
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Coder, store=store, engine=memory_engine, deps=given) as runtime:
        yield runtime


@pytest.fixture
def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent with a sandbox."""
    return runtime.get(Coder, "ada")
