"""Starting a program: what stands in the way is told apart before it is tried (SPEC 12.2)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time

from agentkit.sandbox.inside.calls import RefusedError, refused_file
from agentkit.sandbox.inside.loop import Event, Loop

#: What the kernel adds to how fit a command is for being killed when memory runs out; the runner itself has 0.
_OOM_SCORE = b"500"


class Children:
    """Notices when processes that the runner started, or inherited, have ended, and collects them."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._children: dict[int, Child] = {}
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        # Read once and for all: a process that can't be looked into by others can't open this file itself.
        try:
            self._oom_score: int | None = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._oom_score = None

    def add(self, pid: int) -> Child:
        """Watch a process that was just started."""
        child = self._children[pid] = Child(self._loop, pid)
        return child

    async def collect(self) -> None:
        """Collect what has ended, for ever."""
        while True:
            await self._loop.readable(self._reading)
            try:
                os.read(self._reading, 4096)
            except BlockingIOError:
                continue
            self._collect_all()

    def _collect_all(self) -> None:
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

    def start(
        self,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        streams: list[int],
    ) -> Child:
        """Start a program in a session of its own, with these as its standard input, output and error.

        Raises:
            RefusedError: The directory or the program doesn't exist or isn't to be used, or no process can be started.
        """
        check_directory(cwd)
        path = find_program(argv[0], cwd, env)
        self._score(_OOM_SCORE)
        try:
            try:
                pid = _popen(argv, path, cwd, env, streams)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a first line that names its interpreter: shells run it too.
                pid = _popen(["sh", path, *argv[1:]], "/bin/sh", cwd, env, streams)
        except OSError as error:
            raise _refusal(error, argv[0], path) from error
        finally:
            self._score(b"0")
        return self.add(pid)

    def _score(self, score: bytes) -> None:
        # Children inherit it. Where it may not be lowered again, all have the same, as they would without this.
        if self._oom_score is not None:
            try:
                os.write(self._oom_score, score)
            except OSError:
                self._oom_score = None


class Child:
    """A process that the runner started.

    Attributes:
        ended: Set once it has ended and was collected.
        ended_at: When that was.
        exit_code: As a shell shows it.
    """

    def __init__(self, loop: Loop, pid: int) -> None:
        self.pid = pid
        self.ended = Event(loop)
        self.ended_at = 0.0
        self.exit_code = 0


def exit_code_of(status: int) -> int:
    """Return what a shell shows for a process that ended with this status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


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


def _popen(argv: list[str], path: str, cwd: str, env: dict[str, str], streams: list[int]) -> int:
    process = subprocess.Popen(
        argv,
        executable=path,
        cwd=cwd,
        env=env,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        start_new_session=True,
    )
    # It is collected by its number, with all others.
    process.returncode = 0
    return process.pid


def _refusal(error: OSError, program: str, path: str) -> RefusedError:
    if error.errno == errno.EAGAIN:
        return RefusedError("processes")
    if error.errno == errno.ENOENT:
        return RefusedError("program", program=f"{program} (the interpreter that its first line names)")
    return refused_file(error, path)
