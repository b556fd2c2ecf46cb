"""Sandboxes without a daemon: namespaces made by bubblewrap, held by processes that outlive their owner.

The system's files are this machine's, read-only, or those of a directory that the spec names. What a sandbox changes is
a directory of its own; a snapshot is an archive of that. It needs user namespaces and Linux, and no rights.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentkit.clock import Clock, SystemClock
from agentkit.errors import SandboxConnectionError, SandboxError, SandboxStoppedError, UnsupportedByEngineError
from agentkit.sandbox.bubblewrap import instances as instances
from agentkit.sandbox.bubblewrap.channel import BubblewrapProgram, open_program
from agentkit.sandbox.bubblewrap.host import Bubblewrap, HostUser
from agentkit.sandbox.bubblewrap.places import image_directory
from agentkit.sandbox.bubblewrap.processes import end_of
from agentkit.sandbox.bubblewrap.store import InstanceFolder, Record, StateDirectory
from agentkit.sandbox.bubblewrap.view import PATH
from agentkit.sandbox.channel import OneOffChannel
from agentkit.sandbox.engine import MANAGED, Feature, Instance, InstancePlan, OnProgress, SavedImage
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.main_process import hand_over
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.runner_guest import RUNNER, open_runner
from agentkit.sandbox.runner.shell_guest import ShellGuest
from agentkit.sandbox.spec import SandboxSpec

T = TypeVar("T")

_REASONS = {75: "inactivity", 76: "max_lifetime", 143: "stopped"}


class BubblewrapEngine:
    """See ``SandboxEngine``.

    It has no images, no limit of memory but one for each process's data, none of processors, and one user.

    Args:
        directory: Where instances, snapshots and volumes are kept, for this user alone; None means
            ``$XDG_STATE_HOME/agentkit/sandboxes``, else ``~/.local/state/agentkit/sandboxes``.
        program: bubblewrap.
    """

    name = "bubblewrap"
    features: frozenset[Feature] = frozenset(
        (
            "owner_may_die",
            "process_tree",
            "process_limit",
            "network",
            "allowlist",
            "volumes",
            "host_directories",
            "isolation",
        )
    )

    def __init__(self, directory: Path | str | None = None, *, program: str = "bwrap") -> None:
        self.clock: Clock | None = SystemClock()
        self._time = SystemClock()
        self._state = StateDirectory(Path(directory) if directory is not None else _default_directory())
        self._host = Bubblewrap(program)
        if not self._host.filter:
            # Without a filter of system calls the kernel's whole surface is open.
            self.features = self.features - {"isolation"}
        self._is_checked = False

    async def check(self) -> None:
        """See ``SandboxEngine``."""
        await asyncio.to_thread(self._host.check)
        if not self._host.limits_processes:
            self.features = self.features - {"process_limit"}
        self._is_checked = True

    async def _do(self, work: Callable[[], T]) -> T:
        if not self._is_checked:
            await self.check()
        return await asyncio.to_thread(work)

    async def prepare(self, image: str, on_progress: OnProgress | None = None) -> None:
        """See ``SandboxEngine``: a directory is looked at, a name stands for this machine's own programs."""
        if image.startswith("/"):
            await asyncio.to_thread(image_directory, SandboxSpec(image=image))

    async def create(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``."""
        now_ms = self._time.now_ms()
        return await self._do(lambda: instances.create(self._host, self._state, plan, now_ms=now_ms))

    async def start(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``."""
        return await self._do(lambda: instances.start(self._host, self._state, plan))

    async def stop(self, name: str, *, grace: timedelta) -> None:
        """See ``SandboxEngine``."""
        await asyncio.to_thread(instances.ask_to_stop, self._state, name)
        try:
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait(name)
        except TimeoutError:
            await asyncio.to_thread(instances.kill, self._state, name)

    async def remove(self, name: str) -> None:
        """See ``SandboxEngine``."""
        await self._do(lambda: instances.remove(self._host, self._state, name))

    async def find(self, name: str) -> Instance | None:
        """See ``SandboxEngine``."""
        return await asyncio.to_thread(self._find, name)

    def _find(self, name: str) -> Instance | None:
        folder = self._state.instance(name)
        record = folder.record()
        if record is None:
            return None
        if record.labels.get(MANAGED) != "1":
            raise SandboxError(f"an instance {name!r} exists that no label says is agentkit's")
        return folder.instance(record)

    async def instances(self) -> list[Instance]:
        """See ``SandboxEngine``."""
        found: list[tuple[InstanceFolder, Record]] = await asyncio.to_thread(self._state.instances)
        ours = [(folder, record) for folder, record in found if record.labels.get(MANAGED) == "1"]
        return await asyncio.to_thread(lambda: [folder.instance(record) for folder, record in ours])

    async def wait(self, name: str) -> None:
        """See ``SandboxEngine``."""
        folder = self._state.instance(name)
        while living := await asyncio.to_thread(folder.living):
            await end_of(int(living[0][0]))

    async def enter(self, name: str, plan: InstancePlan) -> Guest:
        """See ``SandboxEngine``."""
        program, settings = partial(self.open, name, plan), RunnerSettings(env=plan.env)
        by_shell = ShellGuest(program, settings)
        channel = OneOffChannel(await program(RUNNER, env={}))
        try:
            guest: Guest = await open_runner(channel, settings, others=by_shell) or by_shell
        except SandboxConnectionError:
            await self._require_running(name)
            raise
        try:
            await hand_over(guest, plan)
        except BaseException:
            await guest.close()
            raise
        return guest

    async def open(
        self,
        name: str,
        plan: InstancePlan,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        user: str | None = None,
    ) -> BubblewrapProgram:
        """Start a program in a running instance and return the way to it; see ``OpenOneOff``.

        Raises:
            SandboxStoppedError: It doesn't run.
            UnsupportedByEngineError: It is to run as another user.
        """
        if user not in (None, plan.spec.user):
            raise UnsupportedByEngineError("bubblewrap", f"the user {user!r}", "only Docker has more than one user")
        config = await self._do(lambda: self._entry(name, plan))
        return await open_program(config, argv, {"PATH": PATH, **env})

    def _entry(self, name: str, plan: InstancePlan) -> dict[str, object]:
        folder = self._state.instance(name)
        record, inner = folder.record(), folder.find_inner()
        if record is None or inner is None:
            raise self._stopped(name)
        return self._host.entry(inner.main, HostUser(record.uid, record.gid), plan.spec)

    def _stopped(self, name: str) -> SandboxStoppedError:
        folder = self._state.instance(name)
        if folder.record() is None:
            return SandboxStoppedError("it was removed")
        code = folder.exit_code()
        return SandboxStoppedError(_REASONS.get(code or 0, f"its main process ended with {code}"))

    async def _require_running(self, name: str) -> None:
        if not await asyncio.to_thread(self._state.instance(name).living):
            raise await asyncio.to_thread(self._stopped, name)

    async def save(self, name: str, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``; what a running instance writes meanwhile may be caught halfway."""
        now_ms = self._time.now_ms()
        return await self._do(lambda: instances.save(self._host, self._state, name, snapshot, labels, now_ms=now_ms))

    async def saved(self) -> list[SavedImage]:
        """See ``SandboxEngine``."""
        return await asyncio.to_thread(self._state.saved)

    async def copy_saved(self, snapshot: str, copy: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``."""
        now_ms = self._time.now_ms()
        return await asyncio.to_thread(lambda: instances.copy_saved(self._state, snapshot, copy, labels, now_ms=now_ms))

    async def delete_saved(self, snapshot: str) -> bool:
        """See ``SandboxEngine``."""
        return await asyncio.to_thread(self._state.delete_saved, snapshot)

    async def remove_volume(self, name: str, store: str) -> bool:
        """See ``SandboxEngine``."""
        return await self._do(lambda: instances.remove_volume(self._host, self._state, name, store))

    async def close(self) -> None:
        """See ``SandboxEngine``: it holds nothing open."""


def _default_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "agentkit" / "sandboxes"
