"""The first lines of the runner: takes its modules and settings from standard input, and begins.

Given to ``python3 -c``, so nothing of it lies on the sandbox's disk. Any Python 3 must be able to read it, if only to
say that it is too old.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036  # the sandbox's Python is not ours
    sys.stdout.write("agentkit-no-python\n")
    sys.exit()

import os

# What the kernel goes by when memory runs out; opened first, since what follows closes it to this process too.
try:
    oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
except OSError:
    oom_score = -1
# As early as can be: no other process of the user may look into this one's memory, through which the secrets of
# commands go, or open its pipes. Where there is no ctypes they can, as they could until now; the owner trusts nothing.
try:
    import ctypes

    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    PR_SET_DUMPABLE = -1

import json


def take(count: int) -> bytes:
    """Return so many bytes, and none of those after them."""
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            sys.exit("the owner was gone before the runner began")
        data += part
    return data


def begin() -> None:
    """Make the modules, each after those that it imports, and run the last."""
    bundle = json.loads(take(int(take(10))).decode())
    for name, source in bundle["modules"]:
        module = sys.modules[name] = type(sys)(name)
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
        exec(compile(source, name, "exec"), module.__dict__)
    sys.modules["agentkit.sandbox.inside.runner"].main({**bundle["settings"], "oom_score": oom_score})


if __name__ == "__main__":
    begin()
