"""Tasks beside an instance: they keep nothing awake unless they say so, and end with the instance, cleaned up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

from agentkit import context

logger = logging.getLogger(__name__)

#: Real seconds that they get to clean up.
_CANCEL_GRACE = 5.0


class SideTasks:
    """The tasks beside one instance.

    Attributes:
        awake: How many of them keep the instance from being evicted.
    """

    __slots__ = ("_entered", "_stir", "_tasks", "awake")

    def __init__(self, entered: Callable[[], AbstractContextManager[None]], stir: Callable[[], None]) -> None:
        """Begin with none.

        Args:
            entered: Makes the code in it the agent's.
            stir: Told when one that kept the instance awake has ended.
        """
        self._tasks: set[asyncio.Task[None]] = set()
        self._entered = entered
        self._stir = stir
        self.awake = 0

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str, *, keeps_awake: bool) -> asyncio.Task[None]:
        """Start one; see ``Scope.spawn_beside``."""
        task = asyncio.get_running_loop().create_task(
            self._run(coroutine, keeps_awake=keeps_awake), name=name, context=context.outside()
        )
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _run(self, coroutine: Coroutine[Any, Any, None], *, keeps_awake: bool) -> None:
        self.awake += keeps_awake
        try:
            with self._entered():
                await coroutine
        finally:
            self.awake -= keeps_awake
            if keeps_awake:
                self._stir()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)

    async def end(self) -> None:
        """End them, those that their clean-up starts included."""
        while self._tasks:
            tasks = set(self._tasks)
            await asyncio.sleep(0)  # one that has not begun could not clean up
            for task in tasks:
                task.cancel()
            _, stuck = await asyncio.wait(tasks, timeout=_CANCEL_GRACE)
            for task in stuck:
                logger.error("%s did not stop when it was cancelled", task.get_name())
                self._tasks.discard(task)

    def abandon(self) -> None:
        """Have them cancelled soon: not before they have begun, or they could not clean up."""
        for task in self._tasks:
            asyncio.get_running_loop().call_soon(task.cancel)
