"""Background work handed to an alarm: the alarm counts as over only when it has ended too (SPEC 4.13)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Protocol

from agentkit.context import Work
from agentkit.jobs.failures import is_memory_limit
from agentkit.store.store import JobRow

logger = logging.getLogger(__name__)


class Alarmed(Protocol):
    """Whose work is tracked; see ``Lifecycle``."""

    async def work_ran_out_of_memory(self, row: JobRow | None, error: BaseException) -> None:
        """Memory ran out in a task; ``row`` is the job that had handed it over."""

    def work_ended(self) -> None:
        """A task, and what its end brought about, is over."""


class TrackedWork:
    """The tasks that one agent's alarms were handed."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], tuple[str, Work]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(list(self._tasks))

    def works(self) -> Iterator[Work]:
        """Yield whose work is under way (a fake clock waits for it)."""
        for _, work in self._tasks.values():
            yield work

    def add(self, task: asyncio.Task[Any], row: JobRow | None, work: Work, owner: Alarmed) -> None:
        """Track a task of ``owner`` until it, and what its end brings about, is over."""
        watcher = asyncio.get_running_loop().create_task(self._watch(task, row, owner))
        self._tasks[task] = (task.get_name(), work)
        watcher.add_done_callback(lambda _: self._ended(task, owner))

    async def _watch(self, task: asyncio.Task[Any], row: JobRow | None, owner: Alarmed) -> None:
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not is_memory_limit(error):
            logger.error("background work failed", exc_info=error)
            return
        try:
            await owner.work_ran_out_of_memory(row, error)
        except Exception:
            logger.exception("a memory-limit reset could not be stored")

    def _ended(self, task: asyncio.Task[Any], owner: Alarmed) -> None:
        self._tasks.pop(task, None)
        owner.work_ended()
