"""SIGINT and SIGTERM for everyone in this process who serves until one comes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_listeners: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}


@contextmanager
def on_stop_signal(callback: Callable[[], None]) -> Iterator[None]:
    """Call back for each SIGINT and SIGTERM while the block runs; several may listen on one loop."""
    loop = asyncio.get_running_loop()
    listeners = _listeners.setdefault(loop, [])
    listeners.append(callback)
    if len(listeners) == 1:
        for number in _SIGNALS:
            loop.add_signal_handler(number, _tell, listeners)
    try:
        yield
    finally:
        listeners.remove(callback)
        if not listeners:
            del _listeners[loop]
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _tell(listeners: list[Callable[[], None]]) -> None:
    for listener in list(listeners):
        listener()
