"""Signals as events of the loop, and orphans as children."""

from __future__ import annotations

import os
import signal

from agentkit.sandbox.inside.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36


class Signals:
    """Calls back when a signal came."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def on(self, number: signal.Signals, callback: Callable[[], None]) -> None:
        """Call back at this signal, from now on."""
        self._callbacks[number] = callback
        # A handler that does nothing, rather than none: programs that are started don't inherit it.
        signal.signal(number, do_nothing)

    async def deliver(self) -> None:
        """Call back, for ever."""
        while True:
            await self._loop.readable(self._reading)
            for number in set(os.read(self._reading, 4096)):
                if number in self._callbacks:
                    self._callbacks[number]()


def do_nothing(number: int, frame: object) -> None:
    """Let a signal pass."""


def adopt_orphans() -> None:
    """Become the parent of all processes below this one that lose theirs, where the kernel and Python allow it."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        # A Python without ctypes: orphans that have wiped their environment aren't found, nothing else.
        return
