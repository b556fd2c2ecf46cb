"""What changes a sandbox: start, go on, stop, destroy, save, remove. Each is a chain of steps that may end anywhere.

Before the engine is asked to make or end anything, the intent is in the record and the job that looks after leftovers
is in the queue; ``record.look`` understands whatever a crash leaves.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

from agentkit.clock import duration_of
from agentkit.errors import (
    ConfigurationError,
    NameInUseError,
    SandboxBusyError,
    SandboxError,
    SandboxRunningError,
    SnapshotNotFoundError,
    SpecMismatchError,
)
from agentkit.events import SANDBOX
from agentkit.sandbox.engine import INSTANCE, SNAPSHOT, SPEC, Instance, InstancePlan, PullProgress
from agentkit.sandbox.host_directories import check_host_directories
from agentkit.sandbox.keeper import Keeper
from agentkit.sandbox.outfit import warn_of_network
from agentkit.sandbox.snapshot_rows import Row
from agentkit.sandbox.snapshots import Snapshot, to_snapshot
from agentkit.sandbox.stops import Intent, Started
from agentkit.sandbox.way_in import WayIn, close

logger = logging.getLogger(__name__)

#: What SIGTERM gets before SIGKILL when nobody says otherwise (SPEC 12.5).
GRACE = timedelta(seconds=10)
#: By when the program inside has surely done what it does by itself.
SLACK = timedelta(seconds=30)
_AUTOSAVE = "autosave"
_ATTEMPTS = 3
_LONGEST_NAME = 200


class Changes:
    """The changes of one sandbox, one at a time.

    Attributes:
        rows: Its snapshots.
    """

    def __init__(self, keeper: Keeper, way: WayIn) -> None:
        """Begin with nothing under way."""
        self._keeper = keeper
        self._way = way
        self.scope = keeper.scope
        self._ledger = keeper.ledger
        self.rows = keeper.snapshots

    # start and go on

    async def start(self, snapshot: Snapshot | str | None) -> None:
        """Make a new container; see ``Sandbox.start``."""
        async with self._keeper.lock:
            found = await self._way.look()
            # A start that was cut off told nobody of its container: this one takes its place.
            is_unfinished = (await self._ledger.record()).intent == "start"
            if found is not None and found.is_running and not is_unfinished:
                raise SandboxRunningError(self.scope.agent)
            await self.rows.sweep(expired=False)
            row = None if snapshot is None else await self._row_of(snapshot)
            await self._prepare(row)
            if found is not None:
                await self.clear(found, save=self._keeper.spec.autosave and not is_unfinished, spared=row)
            await self._create(row)

    async def ensure_started(self, *, replace: bool) -> None:
        """Go on with what there is; see ``Sandbox.ensure_started``."""
        async with self._keeper.lock:
            found = await self._way.look()
            if found is None:
                row = await self._row_to_restore()
                await self._prepare(row)
                await self._create(row)
            elif found.labels.get(SPEC) != self._keeper.spec.fingerprint:
                if not replace:
                    raise SpecMismatchError(self.scope.agent)
                await self._replace(found)
            elif found.is_running:
                await self._way.enter(found)
            else:
                await self._restart(found)

    async def _replace(self, found: Instance) -> None:
        """Save the files of an instance with another spec, and start anew from them."""
        if found.is_running:
            await self.stop_instance(found, "stop")
        row = await self._save(found, _AUTOSAVE, is_autosave=True)
        await self._drop_autosaves(row)
        await self.clear(found, save=False)
        await self._create(row)

    async def _restart(self, found: Instance) -> None:
        keeper = self._keeper
        await asyncio.to_thread(check_host_directories, keeper.spec.mounts)
        await self._look_after(is_running=True)
        record = await self._ledger.record()
        started_ms = keeper.clock.now_ms()
        await self._ledger.save(replace(record, intent="restart", runs=record.runs + 1, started_ms=started_ms))
        plan = await keeper.plan(instance=found.id, source=found.labels.get(SNAPSHOT) or None)
        made = await keeper.unbroken((await keeper.engine()).start(plan))
        await self._way.enter(made)
        self._announce(made, "disk")

    async def _create(self, row: Row | None) -> None:
        keeper, source = self._keeper, None if row is None else row.id
        plan = await keeper.plan(instance=self.scope.new_id(), source=source)
        warn_of_network(await keeper.engine(), keeper.spec)
        await self._look_after(is_running=True)
        record = await self._ledger.record()
        intended = replace(record, instance=plan.labels[INSTANCE], is_running=False, intent="start", told=None)
        await self._ledger.save(replace(intended, runs=record.runs + 1, started_ms=keeper.clock.now_ms()))
        try:
            await asyncio.to_thread(check_host_directories, keeper.spec.mounts)
            made = await self._made(plan)
            if row is not None:
                await self.rows.restored(row)
            await self._way.enter(made)
        except SandboxError:
            await self._take_back()
            raise
        self._announce(made, "image" if row is None else "snapshot")

    async def _made(self, plan: InstancePlan) -> Instance:
        """Create an instance. One that an owner who died had asked for may turn up first."""
        engine = await self._keeper.engine()
        for _ in range(_ATTEMPTS):
            try:
                return await self._keeper.unbroken(engine.create(plan))
            except NameInUseError:
                found = await engine.find(plan.name)
            if found is not None and found.is_running and _is_alike(found, plan):
                return found
            await self._keeper.unbroken(engine.remove(plan.name))
        raise SandboxBusyError(f"the engine has the name {plan.name} in use again and again")

    async def _take_back(self) -> None:
        """Leave nothing of a start that failed."""
        try:
            await self._way.close()
            await self._keeper.unbroken((await self._keeper.engine()).remove(self._keeper.name))
            await self._way.look()
        except SandboxError as error:
            logger.warning("what is left of a start of the sandbox of %s stays for now: %s", self.scope.agent, error)

    def _announce(self, made: Instance, source: str) -> None:
        self.scope.emit(SANDBOX, "sandbox:start", {"instance": made.id, "source": source})
        self._keeper.monitors.publish(Started(instance=made.id, at=self.scope.clock.now()))

    # what to start from

    async def _row_of(self, snapshot: Snapshot | str) -> Row:
        """Return a snapshot of this sandbox, or its copy of another agent's."""
        id, name = (snapshot, None) if isinstance(snapshot, str) else (snapshot.id, snapshot.name)
        row = await self.rows.get(id)
        if row is not None:
            return row
        await self._look_after(is_running=self._ledger.may_run)
        return await self._keeper.unbroken(self.rows.copied(id, name))

    async def copy(self, snapshot: Snapshot | str) -> Snapshot:
        """Copy another agent's snapshot to this one."""
        async with self._keeper.lock:
            return to_snapshot(await self._row_of(snapshot))

    async def delete(self, id: str) -> bool:
        """Delete a snapshot; False if there is none."""
        async with self._keeper.lock:
            row = await self.rows.get(id)
            if row is not None:
                await self.rows.delete(row)
            return row is not None

    async def _row_to_restore(self) -> Row | None:
        restore = (await self._ledger.record()).restore
        row = None if restore is None else await self.rows.get(restore)
        if row is not None and await self._is_there(row):
            return row
        if restore is not None:
            logger.warning("the sandbox of %s starts from its image: snapshot %s is gone", self.scope.agent, restore)
        return None

    async def _is_there(self, row: Row) -> bool:
        return any(image.id == row.id for image in await (await self._keeper.engine()).saved())

    async def _prepare(self, row: Row | None) -> None:
        """Make sure that there is something to start from, before anything is removed for it."""
        if row is None:
            await (await self._keeper.engine()).prepare(self._keeper.spec.image_reference, self._tell_pull)
        elif not await self._is_there(row):
            await self.rows.delete(row)
            raise SnapshotNotFoundError(row.id)

    def _tell_pull(self, progress: PullProgress) -> None:
        facts = {"image": progress.image, "done": progress.done, "total": progress.total, "status": progress.status}
        self.scope.emit(SANDBOX, "sandbox:pull", facts)

    # end

    async def stop(self, grace: timedelta) -> None:
        """Stop it if it runs; see ``Sandbox.stop``."""
        async with self._keeper.lock:
            found = await self._way.look()
            if found is not None and found.is_running:
                await self.stop_instance(found, "stop", grace)

    async def stop_instance(self, found: Instance, intent: Intent, grace: timedelta = GRACE) -> None:
        """Stop one that runs, for a reason; the lock must be held."""
        await self._way.push_out(found)
        record = await self._ledger.record()
        await self._ledger.save(replace(record, instance=found.id, is_running=True, intent=intent))
        entry = self._way.release()
        try:
            await self._keeper.unbroken((await self._keeper.engine()).stop(self._keeper.name, grace=grace))
        finally:
            await close(entry)
        await self._way.look()

    async def destroy(self) -> None:
        """Remove it, running or not; see ``Sandbox.destroy``."""
        async with self._keeper.lock:
            found = await self._way.look()
            record = await self._ledger.record()
            if found is not None:
                await self._ledger.save(replace(record, intent="destroy"))
                entry = self._way.release()
                try:
                    await self._keeper.unbroken((await self._keeper.engine()).remove(self._keeper.name))
                finally:
                    await close(entry)
                await self._way.look()
            elif record.restore is not None:
                await self._ledger.save(replace(record, restore=None))
            await self._drop_autosaves()
            await self.rows.sweep(expired=False)

    async def clear(self, found: Instance, *, save: bool, spared: Row | None = None) -> None:
        """Remove an instance that doesn't run, or that nobody was told of; ``spared`` is started from next."""
        if save:
            saved = await self._save(found, _AUTOSAVE, is_autosave=True)
            await self._drop_autosaves(saved, spared)
        await self._way.close()
        await self._keeper.unbroken((await self._keeper.engine()).remove(self._keeper.name))
        await self._way.look()
        self.scope.emit(SANDBOX, "sandbox:remove", {"instance": found.id})

    async def leave_nothing(self) -> None:
        """Remove the container and every snapshot: the agent is being destroyed."""
        async with self._keeper.lock:
            rows = await self.rows.all()
            if (await self._ledger.record()).instance is not None:
                await self._way.close()
                await (await self._keeper.engine()).remove(self._keeper.name)
            for row in rows:
                await self.rows.delete(row)

    # save

    async def snapshot(self, name: str | None) -> Snapshot:
        """Save its files; see ``Sandbox.snapshot``."""
        _check_name(name)
        async with self._keeper.lock:
            found = await self._way.look()
            if found is None:
                raise await self._way.not_running()
            return to_snapshot(await self._save(found, name))

    async def _save(self, found: Instance, name: str | None, *, is_autosave: bool = False) -> Row:
        engine = await self._keeper.engine()
        await self._look_after(is_running=found.is_running)
        row = await self.rows.begin(name, is_autosave=is_autosave)
        try:
            with self._keeper.frozen():
                saving = engine.save(self._keeper.name, row.id, self.rows.labels(row.id))
                image = await self._keeper.unbroken(saving)
        except SandboxError:
            await self.rows.delete(row)
            raise
        row = replace(row, state="ready", size=image.size)
        record = await self._ledger.record()
        await self._ledger.save(replace(record, restore=row.id) if is_autosave else record, dict([row.stored]))
        self.scope.emit(SANDBOX, "sandbox:snapshot", {"snapshot": row.id, "size": row.size, "is_autosave": is_autosave})
        return row

    async def _drop_autosaves(self, *spared: Row | None) -> None:
        """Delete what was saved when earlier containers had to go; a newer one takes their place."""
        ids = {row.id for row in spared if row is not None}
        for row in await self.rows.all():
            if row.is_autosave and row.state == "ready" and row.id not in ids:
                await self.rows.delete(row)

    # settings, and what is left

    async def _look_after(self, *, is_running: bool) -> None:
        """See to it that what a crash leaves of a change is found, and that what runs stops in time."""
        lifetime = duration_of(self._keeper.spec.max_lifetime, "max_lifetime")
        moment = self.scope.clock.now() + min(await self._keeper.inactivity(), lifetime) + SLACK
        await self._ledger.tend_by(moment, is_running=is_running)

    async def set_inactivity(self, timeout: timedelta) -> None:
        """Store an inactivity timeout and hand it to what runs; see ``Sandbox.set_inactivity_timeout``."""
        async with self._keeper.lock:
            await self._ledger.set_inactivity(timeout.total_seconds())
            if (await self._ledger.record()).instance is None:
                return
            found = await self._way.look()
            if found is not None and found.is_running:
                await (await self._way.enter(found)).set_inactivity(timeout)
                await self._look_after(is_running=True)


def _check_name(name: object) -> None:
    is_good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    if name is not None and not is_good:
        shown = f"{str(name)[:40]!r}… ({len(name)} letters)" if isinstance(name, str) and len(name) > 40 else repr(name)
        raise ConfigurationError(
            f"a snapshot is named by a printable text of 1 to {_LONGEST_NAME} letters, got {shown}"
        )


def _is_alike(found: Instance, plan: InstancePlan) -> bool:
    return all(found.labels.get(key) == plan.labels[key] for key in (SPEC, SNAPSHOT))
