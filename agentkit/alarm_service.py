"""Serves alarms: of live agents when their moment comes, and of agents in the store, claimed in waves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from agentkit.clock import Clock
from agentkit.errors import StoreError
from agentkit.hosting import Hosting, Starting
from agentkit.jobs.breaker import Isolation
from agentkit.lifecycle import Lifecycle
from agentkit.store.store import Activated, Store
from agentkit.tasks import TaskSet
from agentkit.wakeups import Wakeups

logger = logging.getLogger(__name__)

_WAVE = 256
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0


class AlarmService:
    """Fires what is due, agents side by side, the jobs of one agent one after another."""

    def __init__(
        self,
        store: Store,
        hosting: Hosting,
        *,
        classes: Sequence[str],
        clock: Clock,
        tasks: TaskSet,
        wakeups: Wakeups,
        max_concurrent: int,
    ) -> None:
        self._store = store
        self._hosting = hosting
        self._classes = classes
        self._clock = clock
        self._tasks = tasks
        self._wakeups = wakeups
        self._max_concurrent = max_concurrent
        self._isolation = Isolation(tasks, clock)
        self._is_claiming = False
        self._woken = 0
        self._slot_free = asyncio.Event()

    def due(self, lifecycle: Lifecycle) -> None:
        """Start a live agent's alarm, unless one is under way (which looks again at its end)."""
        if self._hosting.is_serving and lifecycle.alarm_task is None:
            lifecycle.alarm_task = self._tasks.task(self._serve(lifecycle, release=False))

    def cold_due(self) -> None:
        """Begin to claim agents of the store that are due."""
        if self._hosting.is_serving and not self._is_claiming:
            self._is_claiming = True
            self._tasks.spawn(self._claim())

    async def _serve(self, lifecycle: Lifecycle, *, release: bool) -> None:
        """Fire until nothing of an agent is due."""
        try:
            while lifecycle.session.gone is None and self._hosting.is_serving:
                went_through = await self._fire(lifecycle, release=release)
                alarm_ms = lifecycle.session.row.alarm_ms
                if not went_through or alarm_ms is None or alarm_ms > self._clock.now_ms():
                    break
        except asyncio.CancelledError:
            # By the end of the process, or by the job itself: it uses no attempt, and is tried again later.
            if not lifecycle.alarm.is_stopped:
                self._hosting.lose(lifecycle, "its alarm was cancelled")
            raise
        except Exception as error:
            if self._hosting.is_serving and lifecycle.session.gone is None:
                logger.exception("the alarm of %s failed", lifecycle.session.agent)
                self._hosting.lose(lifecycle, f"its alarm failed ({error})")
        finally:
            lifecycle.alarm_task = None
            if lifecycle.session.gone is not None:
                self._hosting.forget(lifecycle)
            else:
                self._hosting.settle_in(lifecycle)
                lifecycle.stir()

    async def _fire(self, lifecycle: Lifecycle, *, release: bool) -> bool:
        """Fire once, an agent under suspicion with no other's alarm beside it."""
        was_alone = self._isolation.is_alone
        is_alone = await self._isolation.enter(alone=lifecycle.alarm.is_suspect)
        try:
            if is_alone:
                await self._store.suspect(self._hosting.node, lifecycle.session.lease)
            elif was_alone:
                await self._store.suspect(self._hosting.node, None)  # from now on the blame is shared
            return await lifecycle.fire(release=release)
        finally:
            self._isolation.leave()
            if is_alone:
                with contextlib.suppress(StoreError):
                    await self._store.suspect(self._hosting.node, None)

    async def _claim(self) -> None:
        """Wake agents that are due and not live, in waves."""
        wait = 0.0
        try:
            while self._hosting.is_serving:
                room = min(_WAVE, self._max_concurrent - self._woken)
                if room < max(1, min(_WAVE, self._max_concurrent) // 2):
                    await self._wait_for_slot()
                    continue
                try:
                    is_backlog = await self._claim_wave(room)
                except StoreError:
                    wait = min(max(wait * 2, _FIRST_WAIT), _LONGEST_WAIT)
                    logger.exception("due agents could not be claimed; trying again in %g s", wait)
                    await self._clock.sleep(wait)
                    continue
                wait = 0.0
                if not is_backlog:
                    return
        finally:
            self._is_claiming = False

    async def _claim_wave(self, room: int) -> bool:
        """Claim and start a wave; True if there may be more."""
        now_ms = self._clock.now_ms()
        with self._hosting.claiming():
            claimed = await self._store.claim_due(self._hosting.node, self._classes, now_ms, room)
            is_backlog = len(claimed.agents) == room
            for activated in claimed.agents:
                self._woken += 1
                starting = self._hosting.begin(activated.lease.agent, is_claimed=True)
                self._tasks.spawn(self._wake(activated, starting, release=is_backlog))
        if not is_backlog:
            self._wakeups.cold(claimed.next_due_ms)
        return is_backlog

    async def _wait_for_slot(self) -> None:
        self._slot_free.clear()
        with self._tasks.waits():
            await self._slot_free.wait()

    async def _wake(self, activated: Activated, starting: Starting, *, release: bool) -> None:
        """Start a claimed agent up and serve its alarm."""
        agent = activated.lease.agent
        try:
            lifecycle = await self._hosting.start(agent, activated, starting)
            if lifecycle is not None and lifecycle.alarm_task is None:
                lifecycle.alarm_task = asyncio.current_task()
                await self._serve(lifecycle, release=release)
        except Exception:
            logger.exception("start-up of %s raised; its jobs wait", agent)
        finally:
            self._woken -= 1
            self._slot_free.set()
