"""The pytest plugin: ``fake_clock``, ``manual_runtime`` and ``in_memory_engine`` as fixtures.

Async tests need pytest-asyncio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentkit.testing import FakeClock, InMemoryEngine, ManualRuntime

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:
    async_fixture = pytest.fixture  # type: ignore[assignment]  # the plugin must load; async fixtures then can't be used


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that moves only when told; stands at 2026-01-01 00:00 UTC."""
    from agentkit.testing import FakeClock

    return FakeClock()


@async_fixture
async def manual_runtime(fake_clock: FakeClock) -> AsyncIterator[Callable[..., Awaitable[ManualRuntime]]]:
    """Start manual runtimes on ``fake_clock``, closed after the test.

    Example: ``runtime = await manual_runtime(ReminderBot)``.
    """
    from agentkit.testing import ManualRuntime

    async with AsyncExitStack() as stack:

        async def make(*agent_classes: Any, **options: Any) -> ManualRuntime:
            runtime = ManualRuntime(*agent_classes, clock=options.pop("clock", fake_clock), **options)
            await stack.enter_async_context(runtime)
            return runtime

        yield make


@async_fixture
async def in_memory_engine(fake_clock: FakeClock) -> AsyncIterator[InMemoryEngine]:
    """An engine for sandboxes on ``fake_clock``; its instances are removed after the test.

    Example: ``in_memory_engine.play("pytest", run)``, ``await manual_runtime(Coder, engine=in_memory_engine)``.
    """
    from agentkit.testing import InMemoryEngine

    async with InMemoryEngine(clock=fake_clock) as engine:
        yield engine
