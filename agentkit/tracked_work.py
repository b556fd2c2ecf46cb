"""Background work handed to an alarm: the alarm counts as over only when it has ended too (SPEC 4.13)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from agentkit.context import Work
from agentkit.jobs.failures import is_memory_limit
from agentkit.store.store import JobRow

logger = logging.getLogger(__name__)


class TrackedWork:
    """The tasks that one agent's alarms were handed.

    Args:
        on_memory_limit: Called when memory ran out in one, with the job that had handed it over.
        on_end: Called when one has ended.
    """

    __slots__ = ("_on_end", "_on_memory_limit", "_tasks")

    def __init__(
        self,
        *,
        on_memory_limit: Callable[[JobRow | None, BaseException], Awaitable[None]],
        on_end: Callable[[], None],
    ) -> None:
        self._on_memory_limit = on_memory_limit
        self._on_end = on_end
        self._tasks: dict[asyncio.Task[Any], tuple[str, Work]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(list(self._tasks))

    def works(self) -> Iterator[Work]:
        """Yield whose work is under way (a fake clock waits for it)."""
        for _, work in self._tasks.values():
            yield work

    def add(self, task: asyncio.Task[Any], row: JobRow | None, work: Work) -> None:
        """Track a task until it, and what its end brings about, is over."""
        watcher = asyncio.get_running_loop().create_task(self._watch(task, row))
        self._tasks[task] = (task.get_name(), work)
        watcher.add_done_callback(lambda _: self._ended(task))

    async def _watch(self, task: asyncio.Task[Any], row: JobRow | None) -> None:
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not is_memory_limit(error):
            logger.error("background work failed", exc_info=error)
            return
        try:
            await self._on_memory_limit(row, error)
        except Exception:
            logger.exception("a memory-limit reset could not be stored")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._on_end()
