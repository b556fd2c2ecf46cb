"""One simulated instance: its disk, its processes, its ports, and when it stops, all on the agent's clock."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from functools import partial
from itertools import count

from agentkit.clock import Clock, Timer, duration_of
from agentkit.context import outside
from agentkit.errors import CommandNotFoundError, SandboxStoppedError
from agentkit.sandbox.engine import EXIT_ASKED, EXIT_INACTIVE, EXIT_LIFETIME, Instance, InstancePlan
from agentkit.sandbox.guest import Connection
from agentkit.sandbox.spec import WORKSPACE
from agentkit.testing.fake_clock import resting
from agentkit.testing.in_memory.disk import SEARCH, Directory, Disk, User, failure, join
from agentkit.testing.in_memory.image import PATH, PROGRAM_DIRECTORIES, furnish, new_directory
from agentkit.testing.in_memory.ports import InMemoryConnection, connection_pair
from agentkit.testing.in_memory.process import (
    KILLED,
    InMemoryProcess,
    Input,
    Program,
    Running,
    Serve,
    Write,
    unsupported,
)

logger = logging.getLogger(__name__)

#: How long processes have after SIGTERM when the main process stops by itself (SPEC 12.5).
_GRACE = timedelta(seconds=10)
_REASONS = {EXIT_INACTIVE: "inactivity", EXIT_LIFETIME: "max_lifetime", EXIT_ASKED: "stopped", KILLED: "killed"}
_MILLISECOND = timedelta(milliseconds=1)


class InMemoryMachine:
    """See the module.

    Attributes:
        plan: What it was last started with.
        labels: Those it was made with.
        disk: Its file system; what is mounted in it is in no snapshot.
        exit_code: None while it runs.
        stopped: Set while it doesn't run.
        on_stop: Called at its end by each guest.
    """

    def __init__(
        self, plan: InstancePlan, root: Directory, mounts: dict[str, Directory], *, programs: Mapping[str, Program]
    ) -> None:
        self.plan = plan
        self.labels = dict(plan.labels)
        self.clock: Clock
        self.disk = Disk(root, lambda: self.clock.now_ms())
        self.disk.mounts = mounts
        self.exit_code: int | None = None
        self.stopped = asyncio.Event()
        self.on_stop: set[Callable[[], None]] = set()
        self.created_at: datetime | None = None
        self._stopped_at: datetime | None = None
        self._out_of_memory = False
        self._programs = programs
        self._running: set[Running] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._timers: dict[str, Timer] = {}
        self._last_active_ms = 0
        self._inactivity = plan.inactivity
        self._stop_code: int | None = None
        self._ports: dict[int, tuple[Context, set[asyncio.Task[None]], Serve]] = {}
        self._pids = count(10)

    # its life

    def boot(self, plan: InstancePlan, clock: Clock) -> None:
        """Start the main process."""
        self.plan, self.clock = plan, clock
        self.created_at = self.created_at or clock.now()
        self.exit_code = self._stopped_at = self._stop_code = None
        self._out_of_memory = False
        self.stopped.clear()
        user = User(plan.spec.uid, plan.spec.gid)
        self.disk.mounts["/run"] = new_directory(clock.now_ms(), user)
        furnish(self.disk, user)
        lifetime = duration_of(plan.spec.max_lifetime, "max_lifetime")
        self._arm("lifetime", self._later(lifetime), partial(self.end, EXIT_LIFETIME, _GRACE))
        self._inactivity = plan.inactivity
        self.touch()
        self._watch_inactivity()
        if plan.spec.entrypoint is not None:
            self._start_entrypoint(tuple(plan.spec.entrypoint))

    def _start_entrypoint(self, argv: tuple[str, ...]) -> None:
        def ended(running: Running) -> None:
            if running.error is not None:
                logger.error("the entrypoint of %s failed", self.plan.name, exc_info=running.error)
            code = running.exit_code or 0
            # These have a meaning as the main process's own.
            self.end(1 if code in _REASONS else code, _GRACE)

        try:
            self.launch(argv, write=_discard, write_error=_discard, on_end=ended, context=outside())
        except CommandNotFoundError:
            self.end(127, _GRACE)

    @property
    def instance(self) -> Instance:
        """What an engine tells of it."""
        assert self.created_at is not None
        return Instance(
            name=self.plan.name,
            is_running=self.exit_code is None,
            labels=dict(self.labels),
            exit_code=self.exit_code,
            out_of_memory=self._out_of_memory,
            created_at=self.created_at,
            stopped_at=self._stopped_at,
        )

    def require_running(self) -> None:
        """Make sure that it runs and isn't about to stop.

        Raises:
            SandboxStoppedError: It isn't so.
        """
        code = self.exit_code if self.exit_code is not None else self._stop_code
        if code is not None:
            raise SandboxStoppedError(_REASONS.get(code, f"its main process ended with {code}"))

    def touch(self) -> None:
        """Count as activity."""
        self._last_active_ms = self.clock.now_ms()

    def set_inactivity(self, timeout: timedelta) -> None:
        """Set after how much inactivity it stops."""
        self._inactivity = timeout
        self._watch_inactivity()

    def _watch_inactivity(self) -> None:
        due_ms = self._last_active_ms + self._inactivity // _MILLISECOND
        if self.clock.now_ms() >= due_ms:
            self.end(EXIT_INACTIVE, _GRACE)
            return
        self._arm("inactivity", due_ms, self._watch_inactivity)

    def _arm(self, name: str, due_ms: int, callback: Callable[[], None]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self.clock.call_at(due_ms, callback)

    def _later(self, duration: timedelta) -> int:
        return self.clock.now_ms() + -(-duration // _MILLISECOND)

    def end(self, exit_code: int, grace: timedelta, *, overdue: int | None = None) -> None:
        """Send SIGTERM to every process, and stop when none is left, or when ``grace`` is over.

        Args:
            exit_code: Of the main process.
            grace: How long processes have.
            overdue: The exit code if some are still there then; None means ``exit_code``, too.
        """
        if self._stop_code is not None or self.exit_code is not None:
            return
        self._stop_code = exit_code
        last_code = exit_code if overdue is None else overdue
        self._arm("grace", self._later(grace), partial(self.stop_now, last_code))
        for running in list(self._running):
            running.terminate()
        if not self._running:
            self.stop_now(exit_code)
        elif grace <= timedelta(0):
            self.stop_now(last_code)

    def stop_now(self, exit_code: int, *, out_of_memory: bool = False) -> None:
        """Stop at once, as SIGKILL to the main process does; no error if it doesn't run."""
        if self.exit_code is not None:
            return
        self.exit_code, self._stopped_at, self._out_of_memory = exit_code, self.clock.now(), out_of_memory
        for timer in self._timers.values():
            timer.cancel()
        for running in list(self._running):
            running.kill()
        for follow in list(self.on_stop):
            follow()
        self._ports.clear()
        self.stopped.set()

    async def settle(self) -> None:
        """Wait until the tasks of all that was killed have ended."""
        while self._ending:
            await asyncio.wait(self._ending)

    # its processes

    def launch(
        self,
        argv: tuple[str, ...],
        *,
        write: Write,
        write_error: Write,
        on_end: Callable[[Running], None],
        context: Context | None,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        user: str | None = None,
    ) -> Running:
        """Start a command.

        Args:
            argv: Program and arguments.
            write: Takes its output.
            write_error: Takes its errors.
            on_end: Called at its end.
            context: Whose work it is; None means the caller's.
            cwd: Where it starts.
            env: Variables besides the plan's.
            stdin: All of its input.
            user: As whom it runs, as in ``Command``.

        Raises:
            CommandNotFoundError: There is no such program.
            SandboxFileError: ``cwd`` is no directory.
        """
        self.require_running()
        identity = self._user(user)
        self.disk.directory(cwd, identity)
        self.disk.check(cwd, identity, SEARCH)
        program = self.program(argv[0], identity, cwd)
        process = InMemoryProcess(
            self,
            argv,
            cwd=cwd,
            env={"PATH": PATH, **self.plan.env, **(env or {})},
            user=identity,
            write=write,
            write_error=write_error,
            stdin=Input(stdin),
        )
        running = Running(process, program, partial(self._ended, on_end), context)
        self._running.add(running)
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)
        return running

    def _ended(self, on_end: Callable[[Running], None], running: Running) -> None:
        self._running.discard(running)
        on_end(running)
        if self._stop_code is not None and not self._running:
            self.stop_now(self._stop_code)

    def new_pid(self) -> int:
        """Return a number for a process."""
        return next(self._pids)

    def _user(self, user: str | None) -> User:
        if user is None:
            return User(self.plan.spec.uid, self.plan.spec.gid)
        if user == "root":
            return User(0, 0)
        uid, _, gid = user.partition(":")
        if not uid.isdigit() or not (gid or "0").isdigit():
            raise unsupported(f"the user {user!r}; it knows 'root' and numbers")
        return User(int(uid), int(gid or 0))

    def program(self, name: str, user: User, cwd: str) -> Program:
        """Return the program of a name, or of a path.

        Raises:
            CommandNotFoundError: There is none.
            SandboxFileError: It is no program.
        """
        directory, slash, last = name.rpartition("/")
        if (not slash or directory in PROGRAM_DIRECTORIES) and last in self._programs:
            return self._programs[last]
        path = join(cwd, name)
        if slash and self.disk.exists(path, user):
            node = self.disk.find(path, user)
            if isinstance(node, Directory) or not node.mode & 0o111:
                raise failure(name, errno.EACCES)
            raise unsupported(f"running the file {name}")
        error = CommandNotFoundError(name)
        error.add_note(
            f"InMemoryEngine has these, and what InMemoryEngine(commands=…) is given: {_listed(self._programs)}"
        )
        raise error

    # its ports

    @property
    def ports(self) -> set[int]:
        """What something inside listens on."""
        return set(self._ports)

    async def listen(self, running: Running, port: int, serve: Serve) -> None:
        """Serve a port until cancelled.

        Raises:
            OSError: Something listens there already.
        """
        if port in self._ports:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        tasks: set[asyncio.Task[None]] = set()
        self._ports[port] = (copy_context(), tasks, serve)
        try:
            with resting(self.clock):
                await asyncio.get_running_loop().create_future()
        finally:
            self._ports.pop(port, None)
            for task in tasks:
                task.cancel()

    def serve_from_outside(self, port: int, serve: Serve) -> Callable[[], None]:
        """Let the owner's process serve a port; returns what ends that."""
        tasks: set[asyncio.Task[None]] = set()
        entry = (outside(), tasks, serve)
        self._ports[port] = entry

        def end() -> None:
            if self._ports.get(port) is entry:
                del self._ports[port]
            for task in tasks:
                task.cancel()

        return end

    async def connect(self, running: Running | None, port: int) -> Connection:
        """Open a connection to a port inside.

        Raises:
            ConnectionRefusedError: Nothing listens there.
        """
        if port not in self._ports:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing listens on port {port} of the sandbox")
        context, tasks, serve = self._ports[port]
        here, there = connection_pair(self.clock)
        task = asyncio.get_running_loop().create_task(_serve(serve, there), context=context.copy())
        for collection in (tasks, self._ending):
            collection.add(task)
            task.add_done_callback(collection.discard)
        task.add_done_callback(partial(_log_failure, f"what serves port {port}"))
        return here


async def _serve(serve: Serve, connection: InMemoryConnection) -> None:
    try:
        await serve(connection)
    except ConnectionError:
        # The other side went away, as a real server finds out one day.
        logger.debug("a connection broke", exc_info=True)
    finally:
        connection.drop()


def _log_failure(what: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s failed", what, exc_info=error)


def _discard(data: bytes) -> None:
    """Take what nobody reads."""


def _listed(programs: Mapping[str, Program]) -> str:
    return ", ".join(sorted(programs))
