"""Drives the runs of one harness one after another, in a task of the agent's own that lives while there are any."""

from __future__ import annotations

import asyncio

from agentkit.errors import AgentGoneError, HarnessError
from agentkit.harness.driver import RunDriver
from agentkit.harness.opening import Opening
from agentkit.harness.parts import Parts
from agentkit.harness.records import CallEntry, Entry, RunRecord, entry_key, to_entry
from agentkit.harness.resting import CANCELLED, cancel_key
from agentkit.harness.signals import Live, Stop
from agentkit.harness.transcript import Transcript
from agentkit.harness.waiting import inside_tools_of


class Driving:
    """What of a harness is in memory: the run under way, the view of the log, and who waits. All of it may be lost.

    Attributes:
        live: The answer that is coming in, and the signals for those who wait.
        opening: The model and the tools.
    """

    def __init__(self, parts: Parts, opening: Opening) -> None:
        self.parts = parts
        self.live: Live = parts.live
        self.opening = opening
        self._transcript: Transcript | None = None
        self._loading = asyncio.Lock()
        self._driver: RunDriver | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False
        self._has_left = False

    # --- going on

    async def wake(self) -> None:
        """See to it that whatever can go on does; what is stored decides what that is."""
        self._is_wanted = True
        self._begin()

    def _begin(self) -> None:
        if self._task is None and not self._has_left:
            self._task = self.parts.lifecycle.spawn_work(self._drive(), "the harness")
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Note that nothing is driven any more: cancelled, the instance ends; failed, the heart beats again."""
        self._task = None
        is_whole = not task.cancelled() and task.exception() is None
        if not is_whole:  # what is in memory may be ahead of what is stored, or behind it
            self._transcript = None
        self._has_left = self._has_left or task.cancelled()
        self.live.rest()
        if is_whole and self._is_wanted:
            self._begin()

    async def stop(self, id: str) -> None:
        """End a run that has been marked as cancelled."""
        if self._driver is not None and self._driver.run.id == id:
            self._driver.stop.ask(CANCELLED)
        self.live.rest()
        await self.wake()

    async def decided(self, call: CallEntry) -> None:
        """Go on with a call that has been decided about."""
        if self._transcript is not None:
            self._transcript.take([call])
        await self.wake()

    async def give_up(self, reason: str) -> None:
        """End the run whose turn it is, and let those behind it have theirs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        run = await self.parts.queue.first()
        if run is None:
            return
        transcript = await Transcript.load(self.parts.lifecycle.storage)
        await RunDriver(self.parts, run, transcript, Stop()).give_up(reason)
        if await self.parts.queue.open_ids():
            await self.parts.queue.beat()

    def leave(self) -> None:
        """Note that the instance is being dropped, and tell whoever waits."""
        self._has_left = True
        self.live.rest()

    def check_here(self) -> None:
        """Make sure that there is still something to wait for.

        Raises:
            AgentGoneError: The instance has left.
        """
        if self._has_left or self.parts.lifecycle.is_gone:
            agent = self.parts.lifecycle.agent
            raise AgentGoneError(agent, "its instance has left; the run goes on where the agent lives next")

    async def _drive(self) -> None:
        inside_tools_of.set(())  # whoever woke it may have been a tool, and doesn't wait for it
        try:
            while (run := await self._next_run()) is not None:
                await self._drive_run(run)
        finally:
            await self.opening.close()

    async def _next_run(self) -> RunRecord | None:
        self._is_wanted = False
        run = await self.parts.queue.first()
        if run is None or await self.is_postponed(run):
            return None
        if not self.parts.queue.is_beating:
            await self.parts.queue.beat()
        return run

    async def is_postponed(self, run: RunRecord) -> bool:
        """Tell whether a server asked to wait longer, and nobody has cancelled the run since."""
        if run.retry_at_ms is None or run.retry_at_ms <= self.parts.lifecycle.clock.now_ms():
            return False
        return not await self.parts.lifecycle.storage.get(cancel_key(run.id))

    async def _drive_run(self, run: RunRecord) -> None:
        self._driver = RunDriver(self.parts, run, await self.loaded(), Stop())
        try:
            await self._driver.drive()
        finally:
            self._driver = None

    # --- looking; see ``following.Source``

    async def loaded(self) -> Transcript:
        """Return the view of the log, read once an instance."""
        async with self._loading:
            if self._transcript is None:
                self._transcript = await Transcript.load(self.parts.lifecycle.storage)
            return self._transcript

    async def record(self, id: str) -> RunRecord:
        """Return a run as it stands.

        Raises:
            HarnessError: There is none.
            AgentGoneError: The instance has left, and the run goes on elsewhere.
        """
        if self._driver is not None and self._driver.run.id == id:
            return self._driver.run
        run = await self.parts.queue.get(id)
        if run is None:
            raise HarnessError(f"there is no run {id!r}")
        if not run.is_over:
            self.check_here()
        return run

    async def line(self, number: int) -> Entry | None:
        """Return a line of the log; None if there is none yet."""
        transcript = self._transcript
        if transcript is not None and number >= transcript.head.start:
            position = number - transcript.head.start
            return transcript.entries[position] if position < len(transcript.entries) else None
        stored = await self.parts.lifecycle.storage.get(entry_key(number))
        return None if stored is None else to_entry(stored)

    def is_live(self, id: str) -> bool:
        """Tell whether what is coming in belongs to this run."""
        return self._driver is not None and self._driver.run.id == id
