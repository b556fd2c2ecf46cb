"""The way into a running instance: opened at first use, found again after a break, watched for the instance's end.

What an agent instance holds open hangs on tasks beside it, so that eviction, closing and a crash let go of everything;
the container goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any

from agentkit.clock import Clock
from agentkit.errors import (
    AgentGoneError,
    AgentKitError,
    SandboxConnectionError,
    SandboxError,
    SandboxStoppedError,
)
from agentkit.events import SANDBOX
from agentkit.sandbox.activity import BEAT_SECONDS, Activity
from agentkit.sandbox.engine import SNAPSHOT, SPEC, Instance
from agentkit.sandbox.guest import Connection, Guest
from agentkit.sandbox.keeper import Keeper
from agentkit.sandbox.network.exposed import ExposedPorts
from agentkit.sandbox.outfit import Outfit, has_buckets
from agentkit.sandbox.variables import remember, remembered

logger = logging.getLogger(__name__)

#: How long to wait before an engine that could not be reached is asked again, doubling.
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
#: How often changed files of buckets are pushed while the sandbox is in use, in seconds.
_PUSH_EVERY = 10.0


@dataclass(slots=True, kw_only=True)
class Entry:
    """One way in, open or broken.

    Attributes:
        instance: Id of what it leads into.
        outfit: What is served to it.
    """

    instance: str
    guest: Guest
    outfit: Outfit

    async def close(self) -> None:
        """Close it; commands under way end."""
        try:
            await self.guest.close()
        finally:
            await self.outfit.close()


class WayIn:
    """Leads everything that is done inside through one guest, and counts it as use of the sandbox.

    Attributes:
        activity: Whether the sandbox is in use.
        exposed: Ports that lead inside.
    """

    def __init__(self, keeper: Keeper) -> None:
        """Open nothing yet."""
        self._keeper = keeper
        self._scope = keeper.scope
        self._entry: Entry | None = None
        self._watched: str | None = None
        self._watch: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._joining: asyncio.Task[None] | None = None
        self._listens_for_work = False
        self._awake: asyncio.Task[None] | None = None
        self._pushing: asyncio.Task[None] | None = None
        self.activity = Activity(
            clock=lambda: keeper.clock, touch=self._touch, is_working=self._is_working, spawn=self._scope.spawn_beside
        )
        self.exposed = ExposedPorts(self.connect, ports=keeper.spec.ports, hold=self.activity.counted)

    # using it

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Guest]:
        """Give the way in, opening it if need be; the block counts as use of the sandbox.

        Raises:
            SandboxStoppedError: It doesn't run, or stopped meanwhile; says why.
            SandboxConnectionError: The way in broke; the next use opens it anew.
        """
        guest = await self.guest()
        runs = (await self._keeper.ledger.record()).runs
        try:
            async with self.activity.held():
                self._push_regularly()
                yield guest
        except (SandboxStoppedError, SandboxConnectionError) as error:
            raise await self._explained(error, runs) from error

    async def guest(self) -> Guest:
        """Return the way in, opening it if need be, once no snapshot is being made.

        Raises:
            SandboxStoppedError: It doesn't run.
        """
        await self._keeper.until_thawed()
        if self._entry is not None and self._entry.guest.is_open:
            return self._entry.guest
        return await self._scope.apart(self._find_in())

    async def _find_in(self) -> Guest:
        async with self._keeper.lock:
            if self._entry is not None and self._entry.guest.is_open:
                return self._entry.guest
            found = await self.look()
            if found is not None and found.is_running:
                try:
                    return await self.enter(found)
                except (SandboxStoppedError, SandboxConnectionError):
                    found = await self.look()
                    if found is not None and found.is_running:
                        raise
            raise await self.not_running()

    async def not_running(self) -> SandboxStoppedError:
        """Return the error that says why the sandbox doesn't run."""
        record = await self._keeper.ledger.record()
        return SandboxStoppedError("never started" if record.last is None else record.last.reason)

    @property
    def clock(self) -> Clock:
        """Whose time passes inside."""
        return self._keeper.clock

    def give_up(self) -> None:
        """Count the way in as broken; the next use opens another."""
        entry = self.release()
        if entry is not None:
            _ = self._scope.spawn_beside(close(entry), "a broken way into the sandbox")

    async def connect(self, port: int) -> Connection:
        """Open a connection to a port inside, if it runs."""
        return await (await self.guest()).connect(port)

    async def _explained(self, error: SandboxError, runs: int) -> SandboxError:
        """Return what is known of why a use failed: the end of the run it was in, if that is why."""
        try:
            async with self._keeper.lock:
                found = await self.look()
        except AgentKitError:
            return error
        is_same_run = (await self._keeper.ledger.record()).runs == runs
        if found is not None and found.is_running and is_same_run:
            return error
        return await self.not_running()

    # buckets

    async def push(self) -> None:
        """Push what a command may have changed in the files of buckets."""
        if self._entry is not None:
            await self._entry.outfit.push()

    async def push_out(self, found: Instance) -> None:
        """Push everything before an instance stops; the lock must be held."""
        if found.is_running and has_buckets(self._keeper.spec):
            try:
                await self.enter(found)
            except SandboxError as error:
                logger.warning("what buckets of the sandbox of %s lack stays inside: %s", self._scope.agent, error)
            if self._entry is not None:
                await self._entry.outfit.push(insist=True)

    def _push_regularly(self) -> None:
        has_any = self._entry is not None and self._entry.outfit.has_buckets
        if has_any and (self._pushing is None or self._pushing.done()):
            self._pushing = self._scope.spawn_beside(self._pushes(), "pushing to buckets")

    async def _pushes(self) -> None:
        """Push every 10 s while the sandbox is in use, and once after that (SPEC 12.11)."""
        is_active = True
        while is_active:
            is_active = self.activity.is_active
            await self.clock.sleep(_PUSH_EVERY)
            await self.push()

    # opening and closing it; the lock must be held

    async def look(self) -> Instance | None:
        """See ``Keeper.look``; the way in is closed if what it led into has ended."""
        found = await self._keeper.look()
        if self._entry is not None and (found is None or not found.is_running or found.id != self._entry.instance):
            await self.close()
        return found

    async def enter(self, found: Instance) -> Guest:
        """Open the way into a running instance, and note that it is ours now."""
        if self._entry is not None and self._entry.instance == found.id and self._entry.guest.is_open:
            return self._entry.guest
        await self.close()
        record = await self._keeper.ledger.record()
        is_new = record.intent in ("start", "restart")
        guest = await self._open(found, is_new=is_new)
        entry = Entry(instance=found.id, guest=guest, outfit=Outfit(guest, self._keeper.spec, self._tell))
        try:
            await self._take_on(found, entry, is_new=is_new)
            self.hold_on()
            self.watch(found)
        except BaseException:
            await entry.close()
            raise
        self._entry = entry
        self.activity.touched_ms = None  # what is known is of an earlier run
        await self.activity.tell()
        self.activity.stir()
        return guest

    async def _open(self, found: Instance, *, is_new: bool) -> Guest:
        """Open the way in, with the variables that the run was started with: changed ones hold from its next start."""
        keeper = self._keeper
        engine = await keeper.engine()
        plan = await keeper.plan(instance=found.id, source=found.labels.get(SNAPSHOT) or None)
        guest = await engine.enter(keeper.name, plan)
        try:
            if is_new:
                await remember(guest, plan.env)
            elif found.labels.get(SPEC) != keeper.spec.fingerprint:
                variables = await remembered(guest)
                if variables not in (None, plan.env):
                    await guest.close()
                    guest = await engine.enter(keeper.name, replace(plan, env=variables))
        except BaseException:
            await guest.close()
            raise
        return guest

    async def _take_on(self, found: Instance, entry: Entry, *, is_new: bool) -> None:
        """Make an instance ours before its first command: its settings, what its spec asks of the owner, its record."""
        keeper = self._keeper
        record = await keeper.ledger.record()
        await entry.guest.set_inactivity(await keeper.inactivity())
        await entry.outfit.put_on(is_new=is_new)
        restore = found.labels.get(SNAPSHOT) or None
        taken_on = replace(record, instance=found.id, is_running=True, intent=None, restore=restore)
        if taken_on != record:
            await keeper.ledger.save(taken_on)
        await keeper.ledger.note_use()

    def _tell(self, event: str, facts: dict[str, Any]) -> None:
        self._scope.emit(SANDBOX, event, facts)

    def release(self) -> Entry | None:
        """Take the way in away from new uses; those under way go on with it."""
        entry, self._entry = self._entry, None
        return entry

    async def close(self) -> None:
        """Close the way in; commands under way end."""
        await close(self.release())

    def hold_on(self) -> None:
        """Let go of everything when the agent's instance goes."""
        if self._keeping is None or self._keeping.done():
            self._keeping = self._scope.spawn_beside(self._keep(), "the way into the sandbox")
        self.listen_for_work()

    async def _keep(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._keeper.monitors.publish(None)
            await self.exposed.close()
            if not self._scope.is_gone:
                await self.push()
            await self.close()

    async def expose(self, port: int) -> str:
        """Lead an address of the loopback interface to a port inside; see ``Sandbox.expose``."""
        async with self.used():
            url = await self.exposed.expose(port)
        if self._awake is None or self._awake.done():
            self._awake = self._scope.spawn_beside(self._until_stopped(), "exposed ports", keeps_awake=True)
        return url

    async def _until_stopped(self) -> None:
        if self._watch is not None:
            await asyncio.wait({self._watch})

    # noticing its end

    def watch(self, found: Instance) -> None:
        """Notice when a running instance stops."""
        if self._watched == found.id and self._watch is not None and not self._watch.done():
            return
        if self._watch is not None:
            self._watch.cancel()
        self._watched = found.id
        self.hold_on()
        self._watch = self._scope.spawn_beside(self._watching(), "the watch over the sandbox")

    async def _watching(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                engine = await self._keeper.engine()
                await engine.wait(self._keeper.name)
                async with self._keeper.lock:
                    found = await self.look()
            except AgentGoneError:
                return  # whoever has the agent now looks after it
            except SandboxError as error:
                logger.warning("the sandbox of %s can't be watched: %s", self._scope.agent, error)
                await self._keeper.clock.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
                continue
            if found is None or not found.is_running:
                return
            wait = _FIRST_WAIT

    # activity

    async def _touch(self) -> None:
        if self._entry is not None:
            await self._entry.guest.touch()

    def _is_working(self) -> bool:
        return self._scope.is_working(besides=self._keeper.ledger.tend_id)

    def listen_for_work(self) -> None:
        """Count the agent's jobs and other work as use of the sandbox from now on."""
        if not self._listens_for_work:
            self._listens_for_work = True
            self._scope.on_work(self._work_began)

    def _work_began(self) -> None:
        if self._entry is not None:
            # In no context: it belongs to no job, call or transaction.
            asyncio.get_running_loop().call_soon(self.activity.stir, context=Context())
        elif (self._joining is None or self._joining.done()) and self._is_working() and self._keeper.ledger.may_run:
            self._joining = self._scope.spawn_beside(self._join_work(), "work beside the sandbox")

    async def _join_work(self) -> None:
        """Open the way in for work that takes longer, so that the sandbox is there when it is wanted."""
        await self._keeper.clock.sleep(BEAT_SECONDS)
        if not self._is_working() or self._entry is not None:
            return
        try:
            await self.guest()
        except SandboxError as error:
            logger.debug("the sandbox of %s is not held for the work under way: %s", self._scope.agent, error)


async def close(entry: Entry | None) -> None:
    """Close a way in, if there is one."""
    if entry is not None:
        await entry.close()
