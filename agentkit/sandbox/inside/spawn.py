"""Starting processes and collecting them; what stands in a program's way is told apart first (SPEC 12.2)."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
import traceback

from agentkit.sandbox.inside.calls import RefusedError, refused_file
from agentkit.sandbox.inside.loop import Event, Loop
from agentkit.sandbox.inside.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What the kernel adds to how fit a command is for being killed when memory runs out; the runner itself has 0.
_OOM_SCORE = b"500"


class Child:
    """A process that the runner started.

    Attributes:
        pid: Its number.
        ended: Set once it has ended and was collected.
        ended_at: When that was.
        exit_code: As a shell shows it.
    """

    def __init__(self, loop: Loop, pid: int) -> None:
        self.pid = pid
        self.ended = Event(loop)
        self.ended_at = 0.0
        self.exit_code = 0

    async def end(self) -> None:
        """End it, if it hasn't: it is asked first. Its number is its own until it is collected."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.ended.is_set:
                os.kill(self.pid, number)
                await self.ended.wait(time.monotonic() + 1.0)


class Children:
    """The processes that the runner started, and the orphans that it inherits: all are collected."""

    def __init__(self, loop: Loop, signals: Signals, oom_score: int) -> None:
        """Begin with none; ``oom_score`` is the runner's own file of that name, open, or -1."""
        self._loop = loop
        self._children: dict[int, Child] = {}
        self._oom_score = oom_score
        signals.on(signal.SIGCHLD, self._collect)

    def __contains__(self, pid: int) -> bool:
        return pid in self._children

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is not None:
                child.exit_code = exit_code_of(status)
                child.ended_at = time.monotonic()
                child.ended.set()

    def start(self, argv: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> Child:
        """Start a program in a session of its own, with these as its standard input, output and error.

        Raises:
            RefusedError: The directory or the program doesn't exist or isn't to be used, or no process can be started.
        """
        self._score(_OOM_SCORE)
        try:
            return self._add(start_program(argv, cwd, env, streams))
        finally:
            self._score(b"0")

    def fork(
        self, function: Callable[[], dict[str, Any]], kept: list[int], then: Callable[[], None] | None = None
    ) -> tuple[Child, int]:
        """Run a function in a process of its own, which keeps these descriptors, and then another.

        Returns:
            The process, and a pipe from which ``read_report`` reads what the function returned.

        Raises:
            RefusedError: No process can be started.
        """
        reading, report = os.pipe2(os.O_CLOEXEC)
        self._score(_OOM_SCORE)
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(report)
            raise refused_start(error, "", "") from error
        finally:
            # A forked process can't set its own any more: it keeps that of commands.
            self._score(b"0")
        if pid == 0:
            _run_apart(function, report, kept, then)
        os.close(report)
        return self._add(pid), reading

    def _add(self, pid: int) -> Child:
        child = self._children[pid] = Child(self._loop, pid)
        return child

    def _score(self, score: bytes) -> None:
        # Children inherit it. Where it may not be lowered again, all have the same, as they would without this.
        if self._oom_score >= 0:
            try:
                os.write(self._oom_score, score)
            except OSError:
                self._oom_score = -1


def _run_apart(
    function: Callable[[], dict[str, Any]], report: int, kept: list[int], then: Callable[[], None] | None
) -> None:
    """Be a forked process: run the function, tell what it returned, run the other, and end."""
    code = 1
    try:
        _leave_parent({report, *kept})
        view = memoryview(json.dumps(function()).encode())
        while view:
            view = view[os.write(report, view) :]
        os.close(report)
        if then is not None:
            then()
        code = 0
    except SystemExit:
        # Asked to end, it has cleaned up.
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def _leave_parent(kept: set[int]) -> None:
    """Let go, in a forked process, of what belongs to the runner: its descriptors, signals and session."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                # The one by which the list was read.
                continue


def exit_code_of(status: int) -> int:
    """Return what a shell shows for a process that ended with this status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def start_program(argv: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> int:
    """Start a program in a session of its own and return its number; it is up to the caller to collect it.

    Raises:
        RefusedError: The directory or the program doesn't exist or isn't to be used, or no process can be started.
    """
    check_directory(cwd)
    path = find_program(argv[0], cwd, env)
    try:
        try:
            return _popen(argv, path, cwd, env, streams)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without a first line that names its interpreter: shells run it too.
            return _popen(["sh", path, *argv[1:]], "/bin/sh", cwd, env, streams)
    except OSError as error:
        raise refused_start(error, argv[0], path) from error


def _popen(argv: list[str], path: str, cwd: str, env: dict[str, str], streams: list[int]) -> int:
    source, output, errors = streams
    process = subprocess.Popen(
        argv, executable=path, cwd=cwd, env=env, stdin=source, stdout=output, stderr=errors, start_new_session=True
    )
    # It is collected by its number, with all others.
    process.returncode = 0
    return process.pid


def check_directory(path: str) -> None:
    """Make sure that a program may start there.

    Raises:
        RefusedError: It is no directory, or the user may not enter it.
    """
    try:
        if not os.path.isdir(path):
            os.stat(path)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(path, os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise refused_file(error, path) from error


def find_program(name: str, cwd: str, env: dict[str, str]) -> str:
    """Return the path of a program, looked for as a shell does.

    Raises:
        RefusedError: There is none, or the user may not run it.
    """
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        directories = env.get("PATH", os.defpath).split(":")
        candidates = [os.path.join(cwd, directory, name) for directory in directories] if name else []
    refused = ""
    for candidate in candidates:
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = refused or candidate
    if refused:
        raise RefusedError("file", path=refused, number=errno.EACCES, reason=os.strerror(errno.EACCES))
    raise RefusedError("program", program=name)


def refused_start(error: OSError, program: str, path: str) -> RefusedError:
    """Return what the owner is told of a process that couldn't be started."""
    if error.errno == errno.EAGAIN:
        return RefusedError("processes")
    if error.errno == errno.ENOENT:
        return RefusedError("program", program=f"{program} (the interpreter that its first line names)")
    return refused_file(error, path)
