"""The runner's event loop: coroutines that wait for descriptors, moments and each other, on one thread.

asyncio would do as well, but would cost 8 MB of the sandbox's memory and its start-up a third more time.
"""

from __future__ import annotations

import heapq
import select
import time
import types
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any

    Forget = Callable[[], None]
    Arrange = Callable[[Callable[[Any], None]], Forget]


class Cancelled(BaseException):
    """Raised inside a task that was cancelled; it cleans up and lets it go on."""


@types.coroutine
def _suspend(arrange: Arrange) -> Generator[Arrange, Any, Any]:
    """Wait until the function that ``arrange`` gets is called, and return what it is called with."""
    return (yield arrange)


class Task:
    """A coroutine that runs by itself."""

    __slots__ = ("_cancel", "_coroutine", "_forget", "_has_begun", "_loop", "_on_done", "is_done")

    def __init__(self, loop: Loop, coroutine: Coroutine[Any, Any, None], on_done: Callable[[], None] | None) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._on_done = on_done
        self._forget: Forget | None = None
        self._cancel = "no"
        self._has_begun = False
        self.is_done = False

    def resume(self, value: Any = None) -> None:
        """Go on to the next wait, or to the end."""
        try:
            # One that is cancelled before its first step would end without cleaning up or saying so.
            if self._cancel == "asked" and self._has_begun:
                self._cancel = "told"
                arrange = self._coroutine.throw(Cancelled())
            else:
                self._has_begun = True
                arrange = self._coroutine.send(value)
        except (StopIteration, Cancelled):
            self.is_done = True
            if self._on_done is not None:
                self._on_done()
            return
        self._forget = arrange(self._wake)
        if self._cancel == "asked":
            self._wake(None)

    def cancel(self) -> None:
        """Raise ``Cancelled`` where it waits, once; no error if it is done."""
        if not self.is_done and self._cancel == "no":
            self._cancel = "asked"
            self._wake(None)

    def _wake(self, value: Any) -> None:
        forget, self._forget = self._forget, None
        if forget is not None:
            forget()
            self._loop.ready(self, value)


class Event:
    """Something that tasks wait for."""

    __slots__ = ("_loop", "_waiting", "is_set")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[Any], None]] = []
        self.is_set = False

    def set(self) -> None:
        """Let all go on who wait, now or later."""
        self.is_set = True
        for wake in list(self._waiting):
            wake(True)

    def clear(self) -> None:
        """Let those wait who come from now on."""
        self.is_set = False

    async def wait(self, until: float | None = None) -> bool:
        """Wait until it is set; False if the moment ``until`` came first."""
        if self.is_set:
            return True
        return await self._loop.wait(self.arrange, until)

    def arrange(self, wake: Callable[[Any], None]) -> Forget:
        """Call ``wake`` when it is set, until the function returned is called."""
        self._waiting.append(wake)
        return lambda: self._waiting.remove(wake)


class Loop:
    """Runs tasks in turn; every method but ``run`` returns at once or is awaited by a task."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watches: dict[int, dict[int, Callable[[Any], None]]] = {}
        self._ready: deque[tuple[Task, Any]] = deque()
        self._timers: list[tuple[float, int, list[Callable[[Any], None] | None]]] = []
        self._numbers = 0
        self._called_off = 0

    def start(self, coroutine: Coroutine[Any, Any, None], on_done: Callable[[], None] | None = None) -> Task:
        """Run a coroutine beside the others; ``on_done`` is called at its end."""
        task = Task(self, coroutine, on_done)
        self.ready(task, None)
        return task

    def ready(self, task: Task, value: Any) -> None:
        """Let a task go on in the next round."""
        self._ready.append((task, value))

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run until this coroutine has ended."""
        main = self.start(coroutine)
        while True:
            # One round: those who are ready now, then a look at descriptors and timers; nobody is left waiting.
            for _ in range(len(self._ready)):
                task, value = self._ready.popleft()
                task.resume(value)
            if main.is_done:
                return
            self._poll()

    def _poll(self) -> None:
        if self._called_off > 1000:
            # Most timers are time limits that never come: they'd be kept until their moment.
            self._timers = [timer for timer in self._timers if timer[2][0] is not None]
            heapq.heapify(self._timers)
            self._called_off = 0
        timeout = -1.0
        if self._ready:
            timeout = 0.0
        elif self._timers:
            timeout = max(0.0, self._timers[0][0] - time.monotonic())
        for descriptor, events in self._epoll.poll(timeout):
            watches = self._watches.get(descriptor, {})
            for event, wake in list(watches.items()):
                if events & (event | select.EPOLLHUP | select.EPOLLERR):
                    wake(True)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            [wake_or_none] = heapq.heappop(self._timers)[2]
            if wake_or_none is not None:
                wake_or_none(False)

    async def wait(self, arrange: Arrange, until: float | None = None) -> bool:
        """Wait until the function that ``arrange`` gets is called with True; False if ``until`` came first."""

        def both(wake: Callable[[Any], None]) -> Forget:
            forget = arrange(wake)
            if until is None:
                return forget
            cell: list[Callable[[Any], None] | None] = [wake]
            self._numbers += 1
            heapq.heappush(self._timers, (until, self._numbers, cell))

            def forget_both() -> None:
                cell[0] = None
                self._called_off += 1
                forget()

            return forget_both

        return bool(await _suspend(both))

    async def turn(self) -> None:
        """Let all others go on first."""
        await self.wait(lambda wake: lambda: None, 0.0)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self.wait(lambda wake: lambda: None, time.monotonic() + seconds)

    async def readable(self, descriptor: int, until: float | None = None) -> bool:
        """Wait until something can be read, or the other side is gone; False if ``until`` came first."""
        return await self.wait(lambda wake: self.watch(descriptor, select.EPOLLIN, wake), until)

    async def readable_or(self, descriptor: int, event: Event) -> None:
        """Wait until something can be read, or an event is set."""

        def either(wake: Callable[[Any], None]) -> Forget:
            forget_descriptor = self.watch(descriptor, select.EPOLLIN, wake)
            forget_event = event.arrange(wake)

            def forget_both() -> None:
                forget_descriptor()
                forget_event()

            return forget_both

        await self.wait(either)

    async def writable(self, descriptor: int, until: float | None = None) -> bool:
        """Wait until something can be written, or the other side is gone; False if ``until`` came first."""
        return await self.wait(lambda wake: self.watch(descriptor, select.EPOLLOUT, wake), until)

    def watch(self, descriptor: int, event: int, wake: Callable[[Any], None]) -> Forget:
        """Call ``wake`` when there is an event at a descriptor, until the function returned is called."""
        watches = self._watches.setdefault(descriptor, {})
        watches[event] = wake
        self._arm(descriptor, watches, is_new=len(watches) == 1)

        def forget() -> None:
            del watches[event]
            self._arm(descriptor, watches, is_new=False)

        return forget

    def _arm(self, descriptor: int, watches: dict[int, Callable[[Any], None]], *, is_new: bool) -> None:
        events = 0
        for event in watches:
            events |= event
        if is_new:
            self._epoll.register(descriptor, events)
        elif events:
            self._epoll.modify(descriptor, events)
        else:
            del self._watches[descriptor]
            self._epoll.unregister(descriptor)
