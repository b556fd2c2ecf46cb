"""An engine without any: instances, disks, snapshots and volumes in memory, on the agent's clock.

For tests of agents, and what the capability is tested with. Commands are coroutine functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple, Self

from agentkit.clock import Clock, SystemClock
from agentkit.errors import (
    EngineUnavailableError,
    ImageError,
    NameInUseError,
    SandboxError,
    SandboxStoppedError,
    SnapshotNotFoundError,
)
from agentkit.sandbox.engine import (
    EXIT_ASKED,
    MANAGED,
    SNAPSHOT,
    STORE,
    Feature,
    Instance,
    InstancePlan,
    OnProgress,
    PullProgress,
    SavedImage,
)
from agentkit.sandbox.spec import BucketMount
from agentkit.testing.fake_clock import resting
from agentkit.testing.in_memory.background import BackgroundProcesses
from agentkit.testing.in_memory.disk import Directory, User, copy_tree, tree_size
from agentkit.testing.in_memory.guest import InMemoryGuest
from agentkit.testing.in_memory.image import ImageFiles, image_tree, new_directory
from agentkit.testing.in_memory.machine import InMemoryMachine
from agentkit.testing.in_memory.process import KILLED, InMemoryProcess, Program, unsupported
from agentkit.testing.in_memory.programs import BUILT_INS

__all__ = ["InMemoryEngine", "InMemoryProcess"]


class _Saved(NamedTuple):
    root: Directory
    image: SavedImage


class InMemoryEngine:
    """See ``SandboxEngine``; hand it to a ``ManualRuntime``.

    >>> async def pytest(process):                                     # doctest: +SKIP
    ...     process.print("1 passed")
    ...     return 0
    >>> runtime = ManualRuntime(Coder, engine=InMemoryEngine(commands={"pytest": pytest}))    # doctest: +SKIP

    Besides those registered, an instance has ``sh -c`` for simple lines (words, quotes, ``$NAME``, ``;``, ``&&``,
    ``||``, redirections) and a few plain commands: ``true false echo printf cat pwd env sleep ls mkdir rm touch mv cp
    ln readlink chmod id test``. What they can't do as the real ones would is an ``UnsupportedByEngineError``.
    Limits aren't enforced, and there is no network.

    Attributes:
        is_available: Set to False, every method raises ``EngineUnavailableError``.
    """

    name = "memory"
    features: frozenset[Feature] = frozenset(
        ("images", "owner_may_die", "memory_report", "allowlist", "other_users", "volumes")
    )

    def __init__(
        self,
        commands: Mapping[str, Program] | None = None,
        *,
        images: Mapping[str, ImageFiles] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make an engine with no instances.

        Args:
            commands: Programs by name: coroutine functions that take an ``InMemoryProcess`` and return an exit code.
            images: The images there are, each with its files by absolute path; None means that any name is an image
                with nothing in it.
            clock: Whose time passes inside; None means the agent's.
        """
        self.clock = clock
        self.is_available = True
        self._programs = {**BUILT_INS, **(commands or {})}
        self._images = images
        self._machines: dict[str, InMemoryMachine] = {}
        self._processes: dict[str, BackgroundProcesses] = {}
        self._guests: dict[str, list[InMemoryGuest]] = {}
        self._saved: dict[str, _Saved] = {}
        self._volumes: dict[tuple[str, str], Directory] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all instances."""
        self.is_available = True
        for name in list(self._machines):
            await self.remove(name)

    @property
    def _time(self) -> Clock:
        return self.clock or SystemClock()

    # what a test does to it

    def play(self, name: str, command: Program) -> None:
        """Let a coroutine function be the program of a name from now on, in every instance."""
        self._programs[name] = command

    def kill(self, name: str) -> None:
        """Kill an instance's main process, as ``kill -9`` does."""
        self._machines[name].stop_now(KILLED)

    def run_out_of_memory(self, name: str) -> None:
        """Let the kernel kill an instance's main process for want of memory."""
        self._machines[name].stop_now(KILLED, out_of_memory=True)

    def restart(self) -> None:
        """Restart the engine: everything that runs is stopped, with the exit code of a stop."""
        for machine in self._machines.values():
            machine.stop_now(EXIT_ASKED)

    def disconnect(self, name: str) -> None:
        """Break every way into an instance, which goes on; commands under way are killed."""
        for guest in self._guests.get(name, []):
            guest.break_off()

    # what engines do

    async def check(self) -> None:
        """See ``SandboxEngine``."""
        self._require_available()

    async def prepare(self, image: str, on_progress: OnProgress | None = None) -> None:
        """See ``SandboxEngine``."""
        self._files_of(image)
        if on_progress is not None:
            on_progress(PullProgress(image=image, done=1, total=1, status="Downloaded"))

    async def create(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``."""
        self._require_available()
        if plan.name in self._machines:
            raise NameInUseError(plan.name)
        root = self._root_for(plan)
        machine = InMemoryMachine(plan, root, self._mounts_for(plan), programs=self._programs)
        self._machines[plan.name] = machine
        return self._boot(machine, plan)

    async def start(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(plan.name)
        if machine is None:
            raise SandboxStoppedError("it was removed")
        if machine.exit_code is None:
            return machine.instance
        return self._boot(machine, plan)

    def _boot(self, machine: InMemoryMachine, plan: InstancePlan) -> Instance:
        self._guests[plan.name] = []
        self._processes[plan.name] = BackgroundProcesses(machine)
        machine.boot(plan, self._time)
        return machine.instance

    async def stop(self, name: str, *, grace: timedelta) -> None:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(name)
        if machine is not None:
            machine.end(EXIT_ASKED, grace, overdue=KILLED)
            await self.wait(name)
            await machine.settle()

    async def remove(self, name: str) -> None:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.pop(name, None)
        if machine is not None:
            del self._processes[name], self._guests[name]
            machine.stop_now(KILLED)
            await machine.settle()

    async def find(self, name: str) -> Instance | None:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(name)
        if machine is not None and machine.labels.get(MANAGED) != "1":
            raise SandboxError(f"an instance {name!r} exists that no label says is agentkit's")
        return None if machine is None else machine.instance

    async def instances(self) -> list[Instance]:
        """See ``SandboxEngine``."""
        self._require_available()
        return [machine.instance for machine in self._machines.values() if machine.labels.get(MANAGED) == "1"]

    async def wait(self, name: str) -> None:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(name)
        if machine is not None:
            with resting(machine.clock):
                await machine.stopped.wait()

    async def enter(self, name: str, plan: InstancePlan) -> InMemoryGuest:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(name)
        if machine is None:
            raise SandboxStoppedError("it was removed")
        guest = InMemoryGuest(machine, self._processes[name])
        self._guests[name] = [other for other in self._guests[name] if other.is_open] + [guest]
        return guest

    async def save(self, name: str, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``."""
        self._require_available()
        machine = self._machines.get(name)
        if machine is None:
            raise SandboxStoppedError("it was removed")
        return self._keep(machine.disk.root, snapshot, labels)

    async def saved(self) -> list[SavedImage]:
        """See ``SandboxEngine``."""
        self._require_available()
        return [saved.image for saved in self._saved.values() if saved.image.labels.get(MANAGED) == "1"]

    async def copy_saved(self, snapshot: str, copy: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``."""
        self._require_available()
        if snapshot not in self._saved:
            raise SnapshotNotFoundError(snapshot)
        return self._keep(self._saved[snapshot].root, copy, labels)

    async def delete_saved(self, snapshot: str) -> bool:
        """See ``SandboxEngine``."""
        self._require_available()
        return self._saved.pop(snapshot, None) is not None

    async def remove_volume(self, name: str, store: str) -> bool:
        """See ``SandboxEngine``."""
        self._require_available()
        return self._volumes.pop((store, name), None) is not None

    async def close(self) -> None:
        """See ``SandboxEngine``."""
        for name in self._guests:
            self.disconnect(name)
        # What was cut off ends in the next turn of the loop.
        await asyncio.sleep(0)

    def _require_available(self) -> None:
        if not self.is_available:
            raise EngineUnavailableError(["memory: the test switched it off"], ["Set engine.is_available = True."])

    def _files_of(self, image: str) -> ImageFiles:
        self._require_available()
        if self._images is None:
            return {}
        if image not in self._images:
            raise ImageError(image, "there is none; InMemoryEngine(images=…) says which there are")
        return self._images[image]

    def _root_for(self, plan: InstancePlan) -> Directory:
        if plan.source is None:
            return image_tree(self._files_of(plan.spec.image_reference), self._time.now_ms())
        if plan.source not in self._saved:
            raise SnapshotNotFoundError(plan.source)
        return _copy(self._saved[plan.source].root)

    def _mounts_for(self, plan: InstancePlan) -> dict[str, Directory]:
        owner, now_ms = User(plan.spec.uid, plan.spec.gid), self._time.now_ms()
        found: dict[str, Directory] = {}
        for mount in plan.spec.mounts:
            _require_bucket(mount)
            found[mount.path] = new_directory(now_ms, owner)
        for volume in plan.spec.volumes:
            key = (plan.labels.get(STORE, ""), volume.name)
            found[volume.path] = self._volumes.setdefault(key, new_directory(now_ms, owner))
        return found

    def _keep(self, root: Directory, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
        copy = _copy(root)
        image = SavedImage(
            id=snapshot, labels={**labels, SNAPSHOT: snapshot}, size=tree_size(copy), saved_at=self._time.now()
        )
        self._saved[snapshot] = _Saved(copy, image)
        return image


def _copy(root: Directory) -> Directory:
    copy = copy_tree(root)
    assert isinstance(copy, Directory)
    return copy


def _require_bucket(mount: BucketMount) -> None:
    if mount.host_directory is not None:
        raise unsupported(f"BucketMount({mount.url!r}), a directory of the host")
