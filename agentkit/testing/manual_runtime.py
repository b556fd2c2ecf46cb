"""A runtime whose time the test moves: the same code and store, another clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from agentkit.clock import Duration, duration_of
from agentkit.host import DurableObject
from agentkit.lifecycle import Lifecycle
from agentkit.runtime import Runtime
from agentkit.store.store import Store
from agentkit.testing.event_recorder import EventRecorder
from agentkit.testing.fake_clock import FakeClock

#: What a moved clock set off may take several turns of the loop to get going. An asyncio loop tells when nothing is
#: ready any more; where it doesn't, or a test's own task keeps it busy, so many turns must do.
_TURNS = 30


class ManualRuntime(Runtime):
    """A ``Runtime`` on a fake clock.

    >>> async with ManualRuntime(ReminderBot) as runtime:              # doctest: +SKIP
    ...     await runtime.get(ReminderBot, "ada").remind("every day at 9: water the plants")
    ...     await runtime.advance(timedelta(days=30))
    ...     assert runtime.events.count("schedule:execute") == 30

    Attributes:
        events: What was emitted, an ``EventRecorder``.
    """

    events: EventRecorder

    def __init__(
        self,
        *agent_classes: type[DurableObject],
        store: str | Store = "sqlite:///:memory:",
        clock: FakeClock | None = None,
        model: Any = None,
        engine: Any = None,
        deps: Any = None,
        real_timeout: Duration = 60,
        **options: Any,
    ) -> None:
        """Put a runtime together.

        Args:
            agent_classes: See ``Runtime``.
            store: See ``Runtime``; by default one that is gone when closed.
            clock: Where time begins; by default 2026-01-01 00:00 UTC.
            model: Stands in for the model of every harness, such as a ``ScriptedModel``.
            engine: Stands in for the engine of every sandbox, such as an ``InMemoryEngine``.
            deps: See ``Runtime``.
            real_timeout: How many real seconds ``advance`` waits for work on real input and output.
            options: Other options of ``Runtime``.
        """
        self._fake = clock or FakeClock()
        self._real_timeout = duration_of(real_timeout, "real_timeout").total_seconds()
        super().__init__(*agent_classes, store=store, clock=self._fake, deps=deps, **options)
        self._stand_ins = {kind: given for kind, given in (("model", model), ("engine", engine)) if given is not None}
        self.events = EventRecorder()

    async def advance(self, duration: Duration) -> None:
        """Move the clock, firing everything that falls due on the way, each at its own moment.

        The clock stands while a job or tracked work is busy with anything but the clock.

        Raises:
            TimeoutError: That took more than ``real_timeout`` real seconds; names what it waits for.
        """
        wait = duration_of(duration, "duration")
        if wait < timedelta(0):
            message = f"advance() goes forward, got {duration!r}; to set a clock back use clock.move_to"
            raise ValueError(message)
        target = self._fake.now_ms() + wait // timedelta(milliseconds=1)
        await self._settle()
        while (next_ms := self._fake.next_ms()) is not None and next_ms <= target:
            self._fake.move_to(max(next_ms, self._fake.now_ms()))
            await self._settle()
        self._fake.move_to(target)
        await self._settle()

    async def _wait_for_rest(self, lifecycles: list[Lifecycle]) -> None:
        """Closing moves no clock: what only waits for it is cut off at once."""
        with suppress(TimeoutError):
            await self._settle()

    async def crash(self) -> None:
        """Lose everything that isn't stored, as ``kill -9`` would, and start again on the same store."""
        await self._die()
        await self.start()

    async def _settle(self) -> None:
        """Wait until nothing goes on but waiting for the clock."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._real_timeout
        ready = getattr(loop, "_ready", (None,))
        quiet = 0
        while quiet < _TURNS:
            await asyncio.sleep(0)
            busy = next(self._busy(), None)
            if busy is None:
                quiet += 1 if ready else _TURNS // 2
                continue
            quiet = 0
            if loop.time() > deadline:
                message = f"the clock stands still: after {self._real_timeout:g} real seconds {busy} is still under way"
                raise TimeoutError(message)
            await asyncio.sleep(0.0002)

    def _busy(self) -> Iterator[str]:
        """Yield what is under way on anything but the clock."""
        lifecycles = [] if self._hosting is None else list(self._hosting.live.values())
        alarms = {life.alarm_task: life.alarm_work for life in lifecycles if life.alarm_task is not None}
        for task in self._tasks:
            if task in self._fake.sleepers or task in self._tasks.waiting:
                continue
            work = alarms.get(task)
            if work is None:
                yield f"a task of the runtime ({task.get_coro().__qualname__})"  # type: ignore[union-attr]  # coroutines
            elif not work.sleeping:
                yield work.label
        for lifecycle in lifecycles:
            if lifecycle.session.has_pending:
                yield f"a commit of {lifecycle.session.agent}"
            for work in lifecycle.tracked.works():
                if not work.sleeping:
                    yield f"background work of {work.label}"
