"""A real runner as a local process, its pipes as the channel: what every engine has, without an engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.command import Command, Exit, Output, Stderr, Stdout
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.link import Patience
from agentkit.sandbox.runner.runner_guest import RUNNER, RunnerGuest, open_runner

#: An ordinary user, as in a sandbox; nothing else of this machine runs as it.
USER = 61_234


class LocalChannel:
    """Pipes to a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._said = bytearray()

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(1 << 18)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data)
            await self.process.stdin.drain()
        except ConnectionError as error:
            raise SandboxConnectionError("the runner's process is gone") from error

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        # It ends what it has started, then itself.
        await asyncio.wait_for(self.process.wait(), 20)

    def errors(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that belongs to the runner's user, and stands for the instance.

    Attributes:
        root: Absolute.
        user: Who the runner is; None for whoever runs the tests.
        limit: How many processes that user may have.
        path: Where programs are looked for; None means the usual places.
    """

    root: Path
    user: int | None
    limit: int | None = None
    path: str | None = None
    guests: list[RunnerGuest] = field(default_factory=list)

    async def channel(self, argv: Sequence[str] = RUNNER) -> LocalChannel:
        """Start a program as the user."""
        if self.limit is not None:
            argv = ["prlimit", f"--nproc={self.limit}", *argv]
        identity: dict[str, Any] = {} if self.user is None else {"user": self.user, "group": self.user}
        if self.user is not None:
            identity["extra_groups"] = []
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={"PATH": self.path or _path()},
            limit=1 << 20,
            **identity,
        )
        return LocalChannel(process)

    async def open(self, **options: Any) -> RunnerGuest:
        """Start a runner; ``options`` are those of ``open_runner``."""
        settings = RunnerSettings(
            env={"HOME": str(self.root), "LANG": "C.UTF-8"},
            run_directory=str(self.root / "run"),
            log_directory=str(self.root / "logs"),
        )
        guest = await open_runner(await self.channel(), settings, **options)
        assert guest is not None
        self.guests.append(guest)
        return guest

    def command(self, *argv: str, **options: Any) -> Command:
        """Return a command that starts here."""
        return Command(argv=argv, **{"cwd": str(self.root), **options})

    def write(self, name: str, content: str, mode: int = 0o644) -> str:
        """Write a file of the user's; return its path."""
        path = self.root / name
        path.write_text(content)
        path.chmod(mode)
        if self.user is not None:
            os.chown(path, self.user, self.user)
        return str(path)


def _path() -> str:
    return "/usr/local/bin:/usr/bin:/bin" if os.geteuid() == 0 else os.environ["PATH"]


@contextmanager
def a_place(limit: int | None = None) -> Iterator[Place]:
    """Make a place; at its end nothing of its user is left."""
    root = Path(tempfile.mkdtemp(prefix="agentkit-"))
    user = USER if os.geteuid() == 0 else None
    root.chmod(0o755)
    if user is not None:
        os.chown(root, user, user)
    try:
        yield Place(root, user, limit)
    finally:
        for pid in processes_with(str(root)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Keepers write down how their processes ended.
        while root.exists():
            shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def a_guest(place: Place, **options: Any) -> AsyncIterator[RunnerGuest]:
    """Open a runner for a while."""
    guest = await place.open(**options)
    try:
        yield guest
    finally:
        await guest.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that came of a command."""

    stdout: str
    stderr: str
    data: bytes
    exit: Exit
    pieces: list[Output]


async def run(guest: Guest, command: Command) -> Result:
    """Run a command to its end."""
    pieces = [piece async for piece in guest.run(command)]
    assert isinstance(pieces[-1], Exit)
    out = [piece for piece in pieces if isinstance(piece, Stdout)]
    errors = [piece for piece in pieces if isinstance(piece, Stderr)]
    return Result(
        stdout="".join(piece.text for piece in out),
        stderr="".join(piece.text for piece in errors),
        data=b"".join(piece.data for piece in out),
        exit=pieces[-1],
        pieces=pieces,
    )


def processes_with(text: str) -> list[int]:
    """Return the living processes of this machine whose arguments or environment hold a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            holds = text.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            is_alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
        if holds and is_alive and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


async def eventually(holds: Callable[[], object], seconds: float = 15) -> None:
    """Wait until something holds; fail if it doesn't within so many seconds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def content(*parts: bytes) -> AsyncIterator[bytes]:
    """Yield the parts."""
    for part in parts:
        yield part


SECOND = timedelta(seconds=1)
IMPATIENT = Patience(ping=0.05, silence=0.4, overdue=0.3, cancel=5)
PYTHON = sys.executable
