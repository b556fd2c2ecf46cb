"""What a simulated command is handed, and the task that runs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import Protocol

from agentkit.clock import Clock, Duration, duration_of
from agentkit.errors import UnsupportedByEngineError
from agentkit.sandbox.guest import Connection
from agentkit.testing.fake_clock import resting
from agentkit.testing.in_memory.disk import Disk, User, join

logger = logging.getLogger(__name__)

Write = Callable[[bytes], None]
Serve = Callable[[Connection], Awaitable[None]]

KILLED = 137
TERMINATED = 143


class Machine(Protocol):
    """What a process needs of the instance it runs in."""

    @property
    def clock(self) -> Clock:
        """Whose time passes."""

    @property
    def disk(self) -> Disk:
        """Its file system."""

    def program(self, name: str, user: User, cwd: str) -> Program:
        """Return the program of a name.

        Raises:
            CommandNotFoundError: There is none.
        """

    async def listen(self, running: Running, port: int, serve: Serve) -> None:
        """Serve a port until cancelled."""

    async def connect(self, running: Running, port: int) -> Connection:
        """Open a connection to a port of this instance."""


class ProcessFiles:
    """The instance's files as a process sees them, relative paths by its directory; errors are ``SandboxFileError``."""

    def __init__(self, disk: Disk, cwd: str, user: User) -> None:
        self.disk = disk
        self.user = user
        self._cwd = cwd

    def path(self, path: str) -> str:
        """Return a path as an absolute one."""
        return join(self._cwd, path)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        return self.disk.read(self.path(path), self.user)

    def read_text(self, path: str) -> str:
        """Return a file's content as text."""
        return self.read(path).decode(errors="replace")

    def write(self, path: str, content: str | bytes, *, append: bool = False) -> None:
        """Write a file, whose directory must be there."""
        data = content.encode() if isinstance(content, str) else content
        self.disk.write(self.path(path), self.user, data, append=append)

    def exists(self, path: str) -> bool:
        """Tell whether something is there."""
        return self.disk.exists(self.path(path), self.user)

    def list(self, path: str = ".") -> list[str]:
        """Return the names in a directory."""
        return [entry.name for entry in self.disk.entries(self.path(path), self.user)]

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; no error if it is there."""
        self.disk.make_directories(self.path(path), self.user)

    def remove(self, path: str) -> bool:
        """Remove a file or a whole directory; False if there was none."""
        return self.disk.remove(self.path(path), self.user)


class Input:
    """What a command and its children may read: whoever reads first gets all."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self) -> bytes:
        """Return what nobody has read."""
        data, self._data = self._data, b""
        return data


class InMemoryProcess:
    """A simulated command, as the coroutine sees it that plays it.

    >>> async def pytest(process: InMemoryProcess) -> int:      # doctest: +SKIP
    ...     process.print("collected", len(process.files.list("tests")), "items")
    ...     await process.sleep(5)
    ...     return 0

    What the coroutine returns is the exit code. A ``MemoryError`` it raises plays a command that the kernel killed for
    its memory; any other error reaches the caller of ``exec``, or the log of a background process.

    Attributes:
        argv: Program and arguments.
        cwd: Where it was started.
        env: All its variables.
        files: The instance's files, relative paths by ``cwd``.
        user: As whom it runs.
        on_terminate: Called at SIGTERM in place of ending at once; the coroutine then has until the grace is over.
    """

    def __init__(
        self,
        machine: Machine,
        argv: tuple[str, ...],
        *,
        cwd: str,
        env: Mapping[str, str],
        user: User,
        write: Write,
        write_error: Write,
        stdin: Input,
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = dict(env)
        self._input = stdin
        self._stdin: bytes | None = None
        self.user = user
        self.files = ProcessFiles(machine.disk, cwd, user)
        self.on_terminate: Callable[[], None] | None = None
        self.write: Write = write
        self._write_error = write_error
        self._machine = machine
        self.running: Running | None = None

    @property
    def clock(self) -> Clock:
        """Whose time passes in the instance."""
        return self._machine.clock

    @property
    def stdin(self) -> bytes:
        """All of its input."""
        if self._stdin is None:
            self._stdin = self._input.take()
        return self._stdin

    def print(self, *values: object, sep: str = " ", end: str = "\n") -> None:
        """Print to its standard output."""
        self.write((sep.join(map(str, values)) + end).encode())

    def write_error(self, text: str | bytes) -> None:
        """Write to its standard error, adding no end of line."""
        self._write_error(text.encode() if isinstance(text, str) else text)

    async def sleep(self, duration: Duration) -> None:
        """Wait, by the instance's clock."""
        await self.clock.sleep(duration_of(duration, "duration"))

    async def forever(self) -> None:
        """Wait until killed."""
        with resting(self.clock):
            await asyncio.get_running_loop().create_future()

    async def listen(self, port: int, handler: Serve) -> None:
        """Serve a port until killed, each connection in a task of its own, and closed when ``handler`` returns.

        Raises:
            OSError: Something listens there already.
        """
        assert self.running is not None
        await self._machine.listen(self.running, port, handler)

    async def connect(self, port: int) -> Connection:
        """Open a connection to a port of this instance, its proxy included.

        Raises:
            ConnectionRefusedError: Nothing listens there.
        """
        assert self.running is not None
        return await self._machine.connect(self.running, port)

    async def run(
        self,
        *argv: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        write: Write | None = None,
        write_error: Write | None = None,
    ) -> int:
        """Run another command as a part of this one, and return its exit code.

        Args:
            argv: Program and arguments.
            cwd: By default that of this one, as ``env``.
            env: All its variables.
            stdin: Its input; by default it reads on where this one stopped.
            write: Takes its output; by default it goes where this one's goes, as with ``write_error``.
            write_error: Takes its errors.

        Raises:
            CommandNotFoundError: There is no such program.
        """
        directory = cwd or self.cwd
        program = self._machine.program(argv[0], self.user, directory)
        child = InMemoryProcess(
            self._machine,
            argv,
            cwd=directory,
            env=self.env if env is None else env,
            user=self.user,
            write=write or self.write,
            write_error=write_error or self._write_error,
            stdin=self._input if stdin is None else Input(stdin),
        )
        child.running = self.running
        return await program(child) or 0


Program = Callable[[InMemoryProcess], Awaitable[int | None]]


class Running:
    """A command under way: one task, whose end is a process's end.

    Attributes:
        process: What the command sees.
        exit_code: None while it runs.
        out_of_memory: It was killed for its memory.
        error: What the coroutine raised; a mistake of the test, not of the command.
        ended: Set at the end.
    """

    def __init__(
        self, process: InMemoryProcess, program: Program, on_end: Callable[[Running], None], context: Context | None
    ) -> None:
        self.process = process
        self.exit_code: int | None = None
        self.out_of_memory = False
        self.error: Exception | None = None
        self.ended = asyncio.Event()
        self._on_end = on_end
        process.running = self
        self.task = asyncio.get_running_loop().create_task(self._run(program), context=context)

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.exit_code is None and self.process.on_terminate is not None:
            self.process.on_terminate()
        else:
            self.kill(TERMINATED)

    def kill(self, exit_code: int = KILLED) -> None:
        """End it at once; no error if it has ended."""
        if self.exit_code is None:
            self._end(exit_code)
            self.task.cancel()

    async def _run(self, program: Program) -> None:
        try:
            exit_code = await program(self.process)
        except asyncio.CancelledError:
            self._end(KILLED)
            raise
        except MemoryError:
            self.out_of_memory = True
            self._end(KILLED)
        except Exception as error:
            self.error = error
            self._end(1)
        else:
            self._end(exit_code or 0)

    def _end(self, exit_code: int) -> None:
        if self.exit_code is None:
            self.exit_code = exit_code
            self.process.write = self.process._write_error = _nowhere
            self.ended.set()
            self._on_end(self)


def _nowhere(data: bytes) -> None:
    """Take what a dead command still prints."""


def unsupported(what: str) -> UnsupportedByEngineError:
    """Return the error for what no built-in command does."""
    mend = "play the command yourself, with InMemoryEngine(commands={name: coroutine function}), or use a real engine"
    return UnsupportedByEngineError("memory", what, mend)
