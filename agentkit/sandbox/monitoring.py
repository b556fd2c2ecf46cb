"""Passes starts and stops on to whoever waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from agentkit.sandbox.stops import Started, Stopped

#: None is the end.
Change: TypeAlias = Started | Stopped | None
#: Who has so many waiting has stopped listening.
_MOST = 1_000


class Monitors:
    """Those who listen to one sandbox."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Change]] = set()

    def publish(self, change: Change) -> None:
        """Tell everybody; None ends their listening."""
        for queue in self._queues:
            if change is None or queue.qsize() < _MOST:
                queue.put_nowait(change)

    @contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Change]]:
        """Give what is published while the block runs."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)
