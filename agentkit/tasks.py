"""Tasks that somebody owns: spawned here, ended here, and never failing unseen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from agentkit.context import push_frame

logger = logging.getLogger(__name__)


class TaskSet:
    """The tasks of one runtime.

    Attributes:
        waiting: Those that wait for others of the set, and so are no work of their own.
    """

    def __init__(self) -> None:
        # Work of the runtime belongs to no agent, whoever's call or job brought it about.
        self._context = copy_context()
        self._context.run(push_frame, None)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task; its error is logged."""
        _ = self.task(work)

    def task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task and return it; its error is logged."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Mark the running task as one that waits for others of the set."""
        task = asyncio.current_task()
        assert task is not None
        self.waiting.add(task)
        try:
            yield
        finally:
            self.waiting.discard(task)

    async def cancel(self, grace: float) -> set[asyncio.Task[Any]]:
        """Cancel all but the running task, and return those that have not ended after ``grace`` real seconds."""
        own = asyncio.current_task()
        tasks = {task for task in self._tasks if task is not own}
        for task in tasks:
            task.cancel()
        if not tasks:
            return set()
        _, stuck = await asyncio.wait(tasks, timeout=grace)
        return stuck

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the runtime failed", exc_info=error)
