"""The buckets and host directories of a sandbox (SPEC 12.11).

A host directory is bound by the engine. A bucket is copied by the owner, never mounted: what is in it is pulled when
the sandbox starts, what changes inside is pushed. Its credentials stay with the owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from datetime import timedelta
from importlib.util import find_spec
from typing import Final

from agentkit.clock import Clock, SystemClock
from agentkit.errors import BucketError, ConfigurationError
from agentkit.sandbox.buckets.sync import BucketSync, PushFailure, PushReport
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import BucketMount

logger = logging.getLogger(__name__)

#: How often changes are pushed while the sandbox is in use.
PUSH_EVERY: Final = timedelta(seconds=10)
#: After a failure, a push that nobody insists on waits so long: a bucket out of reach must not slow down each command.
_PAUSE: Final = timedelta(seconds=30)


class Buckets:
    """The buckets of one sandbox. One pull or push runs at a time; pushes that wait for their turn are one.

    Attributes:
        has_any: There is a bucket; without one, nothing here does anything.
    """

    def __init__(self, mounts: Sequence[BucketMount], clock: Clock | None = None) -> None:
        """Check the mounts; nothing is reached for yet.

        Args:
            mounts: Those of the spec.
            clock: Of real time, which passes inside.

        Raises:
            ConfigurationError: A bucket's URL is none, or the library for buckets isn't installed.
        """
        buckets = [mount for mount in mounts if mount.host_directory is None]
        if buckets and find_spec("boto3") is None:
            raise ConfigurationError("buckets need boto3; install with: pip install 'agentkit[buckets]'")
        self._syncs = [BucketSync(mount, clock or SystemClock()) for mount in buckets]
        self._turn = asyncio.Lock()
        self._waiting: tuple[Guest, asyncio.Task[PushReport]] | None = None
        self._tasks: set[asyncio.Task[PushReport]] = set()
        self._paused_until = 0.0
        self.has_any = bool(buckets)

    async def pull(self, guest: Guest) -> PushReport:
        """Push what an earlier run left inside, then pull: before the first command after each start.

        Returns:
            What was pushed, and what couldn't be.

        Raises:
            BucketError: A bucket can't be read.
        """
        report = PushReport()
        async with self._turn:
            for sync in self._syncs:
                report.add(await sync.pull(guest))
        return report

    async def push(self, guest: Guest, *, insist: bool = False) -> PushReport:
        """Push what was changed inside: after each command, every 10 s, at attaching, and before a stop or a removal.

        What a bucket refuses is told in the report and a warning, and tried again by later pushes. A caller that is
        cancelled doesn't end it.

        Args:
            guest: The way in.
            insist: Try although a bucket has just failed.

        Raises:
            SandboxStoppedError: The instance has gone meanwhile.
            SandboxConnectionError: The way in broke.
        """
        loop = asyncio.get_running_loop()
        if not self.has_any or (not insist and loop.time() < self._paused_until):
            return PushReport()
        if self._waiting is None or self._waiting[0] is not guest:
            # In no context: it is nobody's call, and may outlive the one that wanted it.
            task = loop.create_task(self._push(guest), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            self._waiting = (guest, task)
        return await asyncio.shield(self._waiting[1])

    async def close(self) -> None:
        """End what is under way, and let go of connections and threads."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for sync in self._syncs:
            sync.close()

    async def _push(self, guest: Guest) -> PushReport:
        report = PushReport()
        async with self._turn:
            # It sees all that was written until now; who comes later needs another.
            if self._waiting is not None and self._waiting[1] is asyncio.current_task():
                self._waiting = None
            for sync in self._syncs:
                try:
                    report.add(await sync.push(guest))
                except BucketError as error:
                    report.failed.append(PushFailure(url=error.url, path=sync.directory, reason=str(error)))
        self._pause(report)
        return report

    def _pause(self, report: PushReport) -> None:
        if not report.failed:
            self._paused_until = 0.0
            return
        was_paused = self._paused_until > 0
        self._paused_until = asyncio.get_running_loop().time() + _PAUSE.total_seconds()
        if not was_paused:
            count, first = len(report.failed), report.failed[0]
            logger.warning("%d files were not pushed to bucket %s: %s", count, first.url, first.reason)

    def _ended(self, task: asyncio.Task[PushReport]) -> None:
        self._tasks.discard(task)
        if self._waiting is not None and self._waiting[1] is task:
            self._waiting = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; with nobody left, it is no error of anybody's
