"""A limit on how long a block may take, by the clock of whoever measures it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from agentkit.clock import Clock, to_ms


@asynccontextmanager
async def deadline(clock: Clock, limit: timedelta | None, *, on_expiry: Callable[[], None]) -> AsyncIterator[None]:
    """Cancel what the block awaits once the limit is over; None means no limit.

    Args:
        clock: Measures.
        limit: How long the block may take.
        on_expiry: Called first, to let go of what the block might hang on even then.

    Raises:
        TimeoutError: The limit is over.
    """
    task = asyncio.current_task()
    if limit is None or task is None:
        yield
        return
    is_over, cancelling = False, task.cancelling()

    def expire() -> None:
        nonlocal is_over
        is_over = True
        on_expiry()
        task.cancel()

    timer = clock.call_at(to_ms(clock.now() + limit), expire)
    try:
        yield
    except asyncio.CancelledError:
        if is_over and task.uncancel() <= cancelling:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
