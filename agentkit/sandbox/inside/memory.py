"""How often the kernel ended a process of this sandbox for its memory: the one sign that a command failed for it."""

from __future__ import annotations

from agentkit.sandbox.inside.tree import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def _candidates() -> Iterator[str]:
    """Yield where the counter may be: our own group's, as far as it can be seen, then that of the whole sandbox."""
    for line in read_file("/proc/self/cgroup").decode(errors="replace").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield f"/sys/fs/cgroup{path}/memory.events"
        elif "memory" in controllers.split(","):
            yield f"/sys/fs/cgroup/memory{path}/memory.oom_control"
    yield "/sys/fs/cgroup/memory.events"
    yield "/sys/fs/cgroup/memory/memory.oom_control"


class MemoryCounter:
    """The counter of the group that bounds the sandbox's memory."""

    def __init__(self) -> None:
        self._path = next((path for path in _candidates() if b"oom_kill " in read_file(path)), None)

    def kills(self) -> int:
        """Return how many processes were ended so far; always 0 where that can't be seen."""
        if self._path is None:
            return 0
        for line in read_file(self._path).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0
