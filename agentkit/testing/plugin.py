"""The pytest plugin: ``fake_clock`` and ``manual_runtime`` as fixtures (async tests need pytest-asyncio)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentkit.testing import FakeClock, ManualRuntime

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
