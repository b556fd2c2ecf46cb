"""The capability: one sandbox of an agent, found again by the agent's name (SPEC 12)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from agentkit.capability import Capability
from agentkit.clock import Duration, duration_of
from agentkit.errors import ConfigurationError, SandboxError
from agentkit.jobs.job import JobContext
from agentkit.jobs.outcome import RescheduleAt
from agentkit.sandbox.changes import GRACE, Changes
from agentkit.sandbox.command import ExecResult
from agentkit.sandbox.engine import SandboxEngine
from agentkit.sandbox.engines import EngineChoice, open_engine
from agentkit.sandbox.execution import Stream, checked, command_of, output_of, run
from agentkit.sandbox.files import Files
from agentkit.sandbox.keeper import Keeper
from agentkit.sandbox.ledger import STOPPED, may_run, tend_payload
from agentkit.sandbox.on_stop import OnStop, StopCallback
from agentkit.sandbox.outfit import check_parts
from agentkit.sandbox.processes import Processes
from agentkit.sandbox.snapshots import Snapshot, Snapshots
from agentkit.sandbox.spec import WORKSPACE, SandboxSpec, check_inactivity
from agentkit.sandbox.stops import Started, Stopped
from agentkit.sandbox.tending import Tending
from agentkit.sandbox.way_in import WayIn
from agentkit.store.store import JobRow

if TYPE_CHECKING:
    from agentkit.sandbox.git.git import Git

logger = logging.getLogger(__name__)

#: What ``exec`` keeps of each stream, unless told otherwise.
MAX_OUTPUT = 10 << 20
#: When an engine that could not be reached is asked again.
_LATER = timedelta(minutes=15)
_LONGEST_GRACE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """What there is of a sandbox now.

    Attributes:
        state: ``absent`` has no container: never started, destroyed, or removed.
        engine: What it runs on.
        name: The engine's name for it.
        instance: Id of the container.
        created_at: When the container was made, by the engine's clock.
        last_stop: The last stop that was noticed.
        inactivity_timeout: After how much inactivity it stops.
    """

    state: Literal["running", "stopped", "absent"]
    engine: str
    name: str
    instance: str | None
    created_at: datetime | None
    last_stop: Stopped | None
    inactivity_timeout: timedelta


class Sandbox(Capability):
    """A Linux environment for code nobody trusts yet. It outlives the agent's instance and the process.

    >>> class Coder(Agent):                                            # doctest: +SKIP
    ...     def __init__(self, context):
    ...         super().__init__(context)
    ...         self.sandbox = self.lifecycle.use(Sandbox(SandboxSpec(memory="2g")))

    Calls count as use of it, and so does any job of the agent; unused for ``inactivity_timeout`` it stops, and keeps
    its disk. What one process started, the next one finds by the agent's name.
    """

    def __init__(
        self,
        spec: SandboxSpec | None = None,
        *,
        engine: EngineChoice | None = None,
        on_stop: OnStop | None = None,
        id: str = "sandbox",
    ) -> None:
        """Say what the sandbox is made of; nothing is reached for before its first use.

        Args:
            spec: What it is made of; None means the defaults.
            engine: ``"docker"`` (the default), ``"bubblewrap"``, ``"auto"`` (Docker, else bubblewrap), or an engine.
            on_stop: A method of the agent, its name, or a function: called with a ``Stopped`` as a job of the agent,
                at least once a stop.
            id: Tells several sandboxes of one agent apart.
        """
        self.id = id
        self.spec = spec or SandboxSpec()
        check_parts(self.spec)
        self._choice = engine
        self._on_stop = None if on_stop is None else StopCallback(on_stop)
        self._made_parts: tuple[Keeper, WayIn, Changes] | None = None

    # the parts

    def _parts(self) -> tuple[Keeper, WayIn, Changes]:
        if self._made_parts is None:
            keeper = Keeper(
                self.lifecycle,
                self.spec,
                sandbox=self.id,
                open_engine=self._open_engine,
                tells_stops=self._on_stop is not None,
            )
            way = WayIn(keeper)
            self._made_parts = (keeper, way, Changes(keeper, way))
        return self._made_parts

    @property
    def _keeper(self) -> Keeper:
        return self._parts()[0]

    @property
    def _way(self) -> WayIn:
        return self._parts()[1]

    @property
    def _changes(self) -> Changes:
        return self._parts()[2]

    async def _open_engine(self) -> SandboxEngine:
        return await open_engine(self.lifecycle.stand_in("engine") or self._choice or "docker")

    # its life

    async def start(self, snapshot: Snapshot | str | None = None) -> None:
        """Make a new container from the image, or from a snapshot, and start it.

        A stopped container is removed for it, with ``autosave`` after its files were saved. In a job that may run
        again, ``ensure_started`` is what you want.

        Args:
            snapshot: A snapshot or its id; one of another agent of the same store is copied first.

        Raises:
            SandboxRunningError: It runs.
            SnapshotNotFoundError: There is no such snapshot.
            ImageError: The image can't be fetched, or can't host a sandbox.
            EngineUnavailableError: There is no engine; says what was tried.
        """
        await self.lifecycle.apart(self._changes.start(snapshot))

    async def ensure_started(self, *, replace: bool = False) -> None:
        """Go on with what there is: the running container, the stopped one, what was saved of it, else the image.

        Args:
            replace: If it exists with another spec, save its files and start anew from them with this one.

        Raises:
            SpecMismatchError: It exists with another spec, running or stopped.
            ImageError, EngineUnavailableError: As ``start`` does.
        """
        await self.lifecycle.apart(self._changes.ensure_started(replace=replace))

    async def stop(self, grace: Duration = GRACE) -> None:
        """Stop it: SIGTERM to every process, SIGKILL after ``grace`` seconds. Its disk stays; no error if it is off."""
        await self.lifecycle.apart(self._changes.stop(_checked_grace(grace)))

    async def destroy(self) -> None:
        """Remove it at once, with its disk and what was saved by itself; snapshots and volumes stay."""
        await self.lifecycle.apart(self._changes.destroy())

    async def info(self) -> SandboxInfo:
        """Return what there is of it now; this is no use of it."""
        keeper, way, _ = self._parts()

        async def look() -> SandboxInfo:
            async with keeper.lock:
                found = await way.look()
                record = await keeper.ledger.record()
                return SandboxInfo(
                    state="absent" if found is None else "running" if found.is_running else "stopped",
                    engine=(await keeper.engine()).name,
                    name=keeper.name,
                    instance=None if found is None else found.id,
                    created_at=None if found is None else found.created_at,
                    last_stop=record.last,
                    inactivity_timeout=await keeper.inactivity(),
                )

        return await self.lifecycle.apart(look())

    async def set_inactivity_timeout(self, seconds: Duration) -> None:
        """Let it stop after so much inactivity, 1 s to 6 h: now, after restarts, and in later containers."""
        await self.lifecycle.apart(self._changes.set_inactivity(check_inactivity(seconds)))

    async def monitor(self) -> AsyncGenerator[Started | Stopped, None]:
        """Yield each start and stop from now on, a stop that was missed first; ends when the instance is dropped.

        Waiting here is no use of the sandbox.
        """
        keeper, way, _ = self._parts()

        async def look() -> None:
            async with keeper.lock:
                way.hold_on()
                record = await keeper.ledger.record()
                found = await way.look() if record.instance is not None else None
                if found is not None and found.is_running:
                    way.watch(found)

        with keeper.monitors.listening() as changes:
            await self.lifecycle.apart(look())
            while (change := await changes.get()) is not None:
                yield change

    # what is done in it

    async def exec(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        user: str | None = None,
        timeout: Duration | None = 120,
        check: bool = False,
        merge_stderr: bool = False,
        max_output: int = MAX_OUTPUT,
    ) -> ExecResult:
        """Run a command to its end and return what came of it.

        When the timeout is over, or the caller is cancelled, its whole process tree is killed, children that left its
        session included. A child that goes on in the background and holds the output keeps ``exec`` waiting: start
        such things with ``processes.start``.

        Args:
            argv: Program and arguments; nothing is split or expanded.
            shell: Instead of ``argv``, a line for ``sh -c``.
            cwd: Where it starts; a relative path counts from ``/workspace``.
            env: Variables besides the spec's: the place for secrets, which are stored nowhere.
            stdin: All of its input.
            user: ``uid:gid`` or a name that the image knows; None means the spec's.
            timeout: Seconds; None means none.
            check: Raise if it doesn't end with 0.
            merge_stderr: Put errors where the output goes, in the order of the writes.
            max_output: Bytes kept of each stream: the head and the tail, with a line between.

        Raises:
            SandboxStoppedError: The sandbox doesn't run, or stopped meanwhile; says why.
            SandboxConnectionError: The way in broke; the next call opens another.
            CommandNotFoundError: There is no such program.
            SandboxFileError: ``cwd`` is no directory.
            CommandFailedError: With ``check``, it failed or took too long.
        """
        command = command_of(
            argv, shell=shell, cwd=cwd, env=env, stdin=stdin, user=user, timeout=timeout, merge_stderr=merge_stderr
        )
        if max_output < 1:
            raise ConfigurationError(f"max_output must be 1 or more bytes, got {max_output!r}")
        result = await run(self._way, command, max_output=max_output)
        return checked(command, result) if check else result

    def stream(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        user: str | None = None,
        timeout: Duration | None = None,
        merge_stderr: bool = False,
    ) -> Stream:
        """Run a command whose output is read as it comes: ``Stdout`` and ``Stderr``, at last one ``Exit``.

        Use it with ``async with``, or only with ``async for``; leaving early kills the command with all it has started.
        Takes what ``exec`` takes, and has no timeout unless one is given.
        """
        command = command_of(
            argv, shell=shell, cwd=cwd, env=env, stdin=stdin, user=user, timeout=timeout, merge_stderr=merge_stderr
        )
        return Stream(output_of(self._way, command))

    @property
    def files(self) -> Files:
        """Its files."""
        return Files(self._way)

    @property
    def processes(self) -> Processes:
        """Its background processes."""
        return Processes(self._way)

    @property
    def git(self) -> Git:
        """Repositories in it."""
        from agentkit.sandbox.git.git import Git

        return Git(self)

    async def expose(self, port: int) -> str:
        """Return ``http://127.0.0.1:…`` on this machine, which leads to a port inside.

        It stays the same over stops and starts, for as long as the agent's instance is there; while the sandbox runs,
        that isn't evicted. Open connections count as use of the sandbox. Other users of this machine reach it too.

        Raises:
            SandboxStoppedError: The sandbox doesn't run.
            ConfigurationError: The port is not one of ``SandboxSpec.ports``.
        """
        return await self._way.expose(port)

    # snapshots

    async def snapshot(self, name: str | None = None) -> Snapshot:
        """Save its files; commands and file operations wait meanwhile. Durable when it returns.

        Not in it: processes and memory, ``/run``, other tmpfs, volumes and mounts.

        Raises:
            SandboxStoppedError: There is no container.
        """
        return await self.lifecycle.apart(self._changes.snapshot(name))

    @property
    def snapshots(self) -> Snapshots:
        """What was saved."""
        return Snapshots(self._changes)

    async def remove_volume(self, name: str) -> bool:
        """Remove a volume with all that is in it; False if there was none. Other sandboxes of the store share it.

        Raises:
            SandboxError: A container, running or not, still has it.
        """
        engine = await self._keeper.engine()
        return await engine.remove_volume(name, self.lifecycle.store_id)

    # what the lifecycle asks

    async def on_start(self) -> None:
        """See ``Capability``: no input or output, unless there is a mistake to tell."""
        if self._on_stop is not None:
            self._on_stop.found()
        if may_run(self.lifecycle, self.id):
            self._way.listen_for_work()

    async def on_job(self, context: JobContext) -> RescheduleAt | None:
        """Look after the sandbox, or tell of a stop."""
        if context.job.function == STOPPED:
            if self._on_stop is not None:
                await self._on_stop.call(Stopped.from_json(context.job.payload))
            return None
        try:
            tended = await Tending(*self._parts()).tend(context.job.payload.get("unused_since_ms"))
        except SandboxError as error:
            logger.warning("the sandbox of %s can't be looked after: %s", self.lifecycle.agent, error)
            return RescheduleAt(self.lifecycle.clock.now() + _LATER)
        if tended is None:
            return None
        payload = tend_payload(is_running=tended.is_running, unused_since_ms=tended.unused_since_ms)
        return RescheduleAt(tended.moment, payload)

    async def on_job_error(self, context: JobContext, error: Exception) -> RescheduleAt | None:
        """Look after the sandbox later, whatever went wrong; an ``on_stop`` that failed is in the history."""
        if context.job.function == STOPPED:
            return None
        return RescheduleAt(self.lifecycle.clock.now() + _LATER)

    def on_set_aside(self, row: JobRow) -> JobRow | None:
        """Keep the job that looks after the sandbox, whatever else memory-limit protection takes away."""
        if row.function == STOPPED:
            return None
        later_ms = self.lifecycle.clock.now_ms() + int(_LATER.total_seconds() * 1000)
        return row._replace(due_ms=later_ms)

    async def on_destroy(self) -> None:
        """See ``Capability``: the container and its snapshots go with the agent; volumes, which are shared, stay."""
        await self._changes.leave_nothing()


def _checked_grace(grace: Duration) -> timedelta:
    checked_grace = duration_of(grace, "grace")
    if not timedelta(0) <= checked_grace <= _LONGEST_GRACE:
        raise ConfigurationError(f"grace must be from 0 s to {_LONGEST_GRACE}, got {grace!r}")
    return checked_grace
