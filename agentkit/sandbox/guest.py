"""The protocol of a running instance seen from the inside: commands, files, processes, ports, as its user.

Three implementations: ``RunnerGuest`` speaks to the runner inside over one held channel, ``ShellGuest`` uses the
engine's own exec for images that can't host the runner, and there is the in-memory one of ``agentkit.testing``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from agentkit.sandbox.command import Command, Output

#: Where a proxy listens inside, on the loopback interface, for a sandbox with an ``Allowlist``.
PROXY_PORT = 3128

FileType = Literal["file", "directory", "symlink", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file as its directory shows it; a symbolic link is not followed.

    Attributes:
        path: Absolute.
        size: Bytes.
        mode: Permission bits.
        modified_at_ms: Milliseconds since the epoch, by the sandbox's clock.
        target: Where a symbolic link leads.
    """

    path: str
    type: FileType
    size: int
    mode: int
    modified_at_ms: int
    target: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A background process to be started; see ``Command`` for the fields."""

    name: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A background process of this instance.

    Attributes:
        name: What it was started as.
        argv: Program and arguments.
        pid: Its number inside.
        exit_code: None while it runs.
        log: Path of the file that holds what it printed, errors included.
    """

    name: str
    argv: tuple[str, ...]
    pid: int
    exit_code: int | None
    log: str


class Connection(Protocol):
    """A two-way stream of bytes."""

    async def read(self) -> bytes:
        """Return what came next, or nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send; waits while the other side takes nothing."""

    async def end(self) -> None:
        """Send no more; reading goes on."""

    async def close(self) -> None:
        """Drop it."""


class Guest(Protocol):
    """One running instance, from the inside.

    Paths are absolute and mean what they mean to the instance's user. Missing files and refused access raise a
    ``SandboxFileError``. When the instance stops, or the way in breaks, everything under way raises
    ``SandboxStoppedError`` or ``SandboxConnectionError``.
    """

    @property
    def is_open(self) -> bool:
        """The way in still works."""

    def run(self, command: Command) -> AsyncGenerator[Output, None]:
        """Run a command: its output as it comes, at last one ``Exit``.

        Closing the generator before its end kills the command's whole process tree, and so does the death of the owner.

        Raises:
            CommandNotFoundError: There is no such program.
            SandboxFileError: ``cwd`` is no directory.
            ProcessLimitError: The sandbox has as many processes as it may have.
        """

    async def touch(self) -> None:
        """Count as activity: the clock of inactivity starts anew."""

    async def set_inactivity(self, timeout: timedelta) -> None:
        """Set after how much inactivity this instance stops."""

    # files

    def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file's content."""

    async def write(self, path: str, content: AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """Write a file, whole or not at all, making its directory if need be; a link at ``path`` is replaced."""

    async def entries(self, path: str) -> list[FileInfo]:
        """Return what a directory holds, by name."""

    def walk(self, path: str) -> AsyncGenerator[FileInfo, None]:
        """Yield all that is below a directory, following no link; nothing if there is no such directory.

        No order is promised. What vanishes on the way is left out, and so is what the user may not look into.
        """

    async def stat(self, path: str) -> FileInfo | None:
        """Return what is there, or None."""

    async def mkdir(self, path: str) -> None:
        """Make a directory and those above it; no error if it is there."""

    async def move(self, source: str, target: str) -> None:
        """Rename; a file at ``target`` is replaced."""

    async def remove(self, path: str) -> bool:
        """Remove a file or a whole directory, following no link; False if there was none."""

    def pack(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a tar archive of a file or directory, named by its last part."""

    async def unpack(self, path: str, archive: AsyncIterable[bytes]) -> None:
        """Unpack a tar archive into a directory, made if need be; members can't lead out of it.

        Permission bits and times of modification are the archive's, the owner is the instance's user. Links are made
        as they are but never followed: a member below one is refused.
        """

    # background processes

    async def start_process(self, plan: ProcessPlan) -> ProcessInfo:
        """Start a process that outlives every connection; one of the same name that has ended is replaced.

        Raises:
            ProcessExistsError: One of that name runs.
        """

    async def processes(self) -> list[ProcessInfo]:
        """Return those started in this instance, by name."""

    async def wait_process(self, name: str) -> int:
        """Wait for the end of one and return its exit code."""

    async def kill_process(self, name: str, *, grace: timedelta) -> bool:
        """End one and its whole tree: SIGTERM, and SIGKILL after ``grace``; False if none runs."""

    def logs(self, name: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yield what one has printed so far, and with ``follow`` what it prints until it ends."""

    # ports

    async def is_listening(self, port: int) -> bool:
        """Tell whether something inside accepts connections on a port."""

    async def connect(self, port: int) -> Connection:
        """Open a connection to a port inside.

        Raises:
            ConnectionRefusedError: Nothing listens there.
        """

    async def serve_proxy(self, handle: Callable[[Connection], Awaitable[None]]) -> None:
        """Listen inside on ``PROXY_PORT``, handing each connection to ``handle``, for as long as the way in is open."""

    async def close(self) -> None:
        """Close the way in; foreground commands of this owner end, background processes go on."""
