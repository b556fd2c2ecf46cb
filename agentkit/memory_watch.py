"""Ends a process before the system does: over its memory limit it stores whose fault that may be (SPEC 7.1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable

from agentkit.clock import Clock
from agentkit.errors import AgentKitError
from agentkit.hosting import Hosting

logger = logging.getLogger(__name__)

#: What a shell reports of a process that the system killed for its memory.
EXIT_STATUS = 137
_INTERVAL = 0.5


class MemoryWatch:
    """Looks at the process's memory twice a second.

    Args:
        limit: Resident bytes.
        measure: Returns the resident bytes now.
        leave: Ends the process with a status.
    """

    def __init__(
        self,
        limit: int,
        hosting: Hosting,
        *,
        clock: Clock,
        measure: Callable[[], int],
        leave: Callable[[int], None],
    ) -> None:
        self._limit = limit
        self._hosting = hosting
        self._clock = clock
        self._measure = measure
        self._leave = leave

    async def run(self) -> None:
        """Watch until the limit is passed, then store the strikes, run the hooks and end the process."""
        while (used := self._measure()) <= self._limit:
            await self._clock.sleep(_INTERVAL)
        logger.critical("the process uses %d bytes, its limit is %d: it ends", used, self._limit)
        suspects = [life for life in self._hosting.live.values() if life.session.row.running is not None]
        error = MemoryError(f"the process used {used:,} bytes; its memory_limit is {self._limit:,}")
        for lifecycle in suspects:
            if lifecycle.session.gone is not None:
                continue
            row = lifecycle.session.table.get(lifecycle.session.row.running or "")
            lifecycle.alarm.stop()
            if lifecycle.alarm_task is not None:
                lifecycle.alarm_task.cancel()
                await asyncio.wait({lifecycle.alarm_task}, timeout=1)
            with contextlib.suppress(AgentKitError):
                await lifecycle.reset(row, error, shared=len(suspects) > 1)
        self._leave(EXIT_STATUS)


def resident_bytes() -> int:
    """Return how much memory the process holds now; where the system doesn't tell, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
