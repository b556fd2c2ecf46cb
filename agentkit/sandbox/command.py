"""A command for a sandbox, and what comes back of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, checked and complete; what ``exec`` and ``stream`` hand to a guest.

    Attributes:
        argv: Program and arguments, never split again.
        cwd: Where it starts, absolute.
        env: Variables besides those of the guest's own; the only place where a secret may be.
        stdin: What it reads; it sees the end after that.
        timeout: After this long its whole process tree is killed; None means never.
        merge_stderr: Errors are written where the output goes, in the order of the writes.
        user: ``uid:gid`` or a name that the image knows; None means the sandbox's user.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout: timedelta | None = None
    merge_stderr: bool = False
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Stdout:
    """A piece of what a command printed; ``data`` may end inside a character, ``text`` never does."""

    data: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Stderr:
    """A piece of a command's errors; no order between these and ``Stdout`` is promised."""

    data: bytes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a command.

    Attributes:
        exit_code: As a shell shows it: 128 + signal for one that was killed.
        timed_out: It was killed for its ``timeout``.
        out_of_memory: The kernel killed a process of the sandbox for its memory while it ran, and it failed.
        duration: From its start to its end.
    """

    exit_code: int
    timed_out: bool = False
    out_of_memory: bool = False
    duration: timedelta = timedelta(0)


Output = Stdout | Stderr | Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What ``exec`` gives (SPEC 12.2).

    Attributes:
        exit_code: As a shell shows it: 128 + signal for one that was killed.
        stdout: What it printed; with ``truncated`` its head and tail, with a line between that counts what is missing.
        stderr: Its errors, likewise.
        timed_out: It was killed for its ``timeout``; the output is what came before.
        out_of_memory: It failed because the sandbox's memory was used up.
        truncated: There was more than ``max_output`` of a stream.
        duration: From its start to its end.
    """

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    out_of_memory: bool = False
    truncated: bool = False
    duration: timedelta = timedelta(0)

    @property
    def ok(self) -> bool:
        """It ended with 0, in time."""
        return self.exit_code == 0 and not self.timed_out
