"""Finding and ending every process of a command, those included that left its session or lost their parent.

A process belongs to a command if the environment it was started with has the command's mark, if it is in the session or
group that the command leads, or if its parent belongs to it. One that wiped its environment, left the session and lost
its parent is told by when it began, provided that no other command ran since; the runner has inherited it.
"""

from __future__ import annotations

import os
import re
import signal
import time

from agentkit.sandbox.inside.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: The variables by which the processes of a command, and those of a background process, are found.
COMMAND_MARK = "AGENTKIT_EXEC"
PROCESS_MARK = "AGENTKIT_PROCESS"
MARKS = re.compile(rb"\0AGENTKIT_(EXEC|PROCESS)=")
#: A process that doesn't end within this time after SIGKILL, in seconds, is stuck in the kernel and is left behind.
PATIENCE = 5.0
_STOP_PASSES = 50


class Process:
    """A process as ``/proc`` shows it.

    Attributes:
        started: Ticks since the boot; with the pid it tells a process from a later one of the same number.
        is_alive: It has not ended; one that only waits to be collected has.
    """

    __slots__ = ("group", "is_alive", "parent", "pid", "session", "started")

    def __init__(self, pid: int, fields: Iterable[bytes]) -> None:
        values = list(fields)
        self.pid = pid
        self.is_alive = values[0] not in (b"Z", b"X", b"x")
        self.parent = int(values[1])
        self.group = int(values[2])
        self.session = int(values[3])
        self.started = int(values[19])


def find_process(pid: int) -> Process | None:
    """Return a process, or None."""
    content = read_file(f"/proc/{pid}/stat")
    # The name of a program, in parentheses, may itself hold spaces and parentheses.
    return Process(pid, content[content.rindex(b")") + 2 :].split()) if content else None


def processes() -> Iterator[Process]:
    """Yield all processes that this user may see, living ones only."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = find_process(int(name))
            if process is not None and process.is_alive:
                yield process


def ticks_now() -> int:
    """Return the present moment as ``Process.started`` counts."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def read_file(path: str) -> bytes:
    """Return the content of a small file, or nothing if it can't be read (any more)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts: list[bytes] = []
        while True:
            part = os.read(descriptor, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


class Tree:
    """The processes of one command."""

    def __init__(
        self, mark: str, root: int, *, keeper: int = 0, is_stray: Callable[[Process], bool] | None = None
    ) -> None:
        """Describe them.

        Args:
            mark: What stands in the environment of each, as ``NAME=value``.
            root: The command itself, which leads a session; 0 if it isn't there any more.
            keeper: A process whose children belong to the command, though it doesn't itself.
            is_stray: Tells of a process without a mark that the runner has inherited whether it is the command's.
        """
        self._mark = b"\0" + mark.encode() + b"\0"
        self._root = root
        self._keeper = keeper
        self._is_stray = is_stray
        self._known: set[tuple[int, int]] = set()

    def living(self) -> set[int]:
        """Return those that live now."""
        others = {process.pid: process for process in processes() if process.pid not in (1, os.getpid(), self._keeper)}
        found = {process.pid for process in others.values() if self._is_member(process)}
        grows = True
        while grows:
            more = {pid for pid, process in others.items() if process.parent in found and pid not in found}
            found |= more
            grows = bool(more)
        self._known |= {(pid, others[pid].started) for pid in found}
        return found

    def _is_member(self, process: Process) -> bool:
        if self._root and self._root in (process.pid, process.session, process.group):
            return True
        if (process.pid, process.started) in self._known or (self._keeper and process.parent == self._keeper):
            return True
        environment = b"\0" + read_file(f"/proc/{process.pid}/environ") + b"\0"
        if self._mark in environment:
            return True
        if self._is_stray is None or process.parent != os.getpid() or MARKS.search(environment):
            return False
        return self._is_stray(process)

    def send(self, number: signal.Signals) -> set[int]:
        """Send a signal to those that live; return who they are."""
        found = self.living()
        _send(found, number)
        return found

    async def kill(self, loop: Loop) -> int:
        """End all; return how many are left, which are stuck in the kernel.

        They are all stopped before the first is ended, so that nothing is faster at making new ones.
        """
        stopped: set[int] = set()
        for _ in range(_STOP_PASSES):
            found = self.living() - stopped
            if not found:
                break
            _send(found, signal.SIGSTOP)
            stopped |= found
        give_up_at = time.monotonic() + PATIENCE
        wait = 0.001
        while True:
            found = self.send(signal.SIGKILL)
            if not found or time.monotonic() > give_up_at:
                return len(found)
            await loop.sleep(wait)
            wait = min(wait * 2, 0.1)


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            # It has ended meanwhile, or belongs to another user.
            continue
