"""Whether a sandbox is in use, told to the program inside for as long as it is (SPEC 12.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from agentkit.clock import Clock
from agentkit.errors import SandboxError

logger = logging.getLogger(__name__)

#: While the sandbox is in use, it is told so this often.
BEAT_SECONDS = 1.0
#: Calls that follow each other closer than this are told once.
_CLOSE_MS = 250

Touch = Callable[[], Awaitable[None]]
Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class Activity:
    """Counts what uses a sandbox, and touches it: when that begins, each second, and when it ends.

    Attributes:
        touched_ms: When it was last touched, by the clock inside; None before.
    """

    def __init__(
        self, *, clock: Callable[[], Clock], touch: Touch, is_working: Callable[[], bool], spawn: Spawn
    ) -> None:
        """Begin with no use.

        Args:
            clock: Whose time passes inside.
            touch: Tells the program inside, if there is a way in.
            is_working: The agent is at work, which counts though nothing is asked of the sandbox.
            spawn: Starts a task that ends with the agent's instance.
        """
        self._clock = clock
        self._touch = touch
        self._is_working = is_working
        self._spawn = spawn
        self._holds = 0
        self._beat: asyncio.Task[None] | None = None
        self.touched_ms: int | None = None

    @property
    def is_active(self) -> bool:
        """Something uses the sandbox."""
        return self._holds > 0 or self._is_working()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count as activity while the block runs, to the second."""
        self._holds += 1
        self.stir()
        try:
            yield
        finally:
            self._holds -= 1

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Count as activity while the block runs, from its first to its last moment."""
        with self.counted():
            await self.tell()
            try:
                yield
            finally:
                await self.tell()

    def stir(self) -> None:
        """Begin to touch each second, if something uses the sandbox."""
        if self.is_active and (self._beat is None or self._beat.done()):
            self._beat = self._spawn(self._beats(), "use of the sandbox")

    async def _beats(self) -> None:
        was_working = False
        while self.is_active:
            was_working = self._is_working()
            await self.tell()
            await self._clock().sleep(BEAT_SECONDS)
        if was_working:
            # Calls tell of their end themselves; the end of work is only noticed here.
            await self.tell()

    async def tell(self) -> None:
        """Touch now, unless it has just been done. What fails here fails whatever uses the sandbox, too."""
        now_ms = self._clock().now_ms()
        if self.touched_ms is not None and 0 <= now_ms - self.touched_ms < _CLOSE_MS:
            return
        self.touched_ms = now_ms
        try:
            await self._touch()
        except SandboxError as error:
            logger.debug("a sandbox could not be told that it is in use: %s", error)
