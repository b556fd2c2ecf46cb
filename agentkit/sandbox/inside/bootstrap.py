"""The first lines of the runner: takes its modules and settings from standard input, and begins.

Given to ``python3 -c``, so nothing of it lies on the sandbox's disk. Any Python 3 must be able to read it, if only to
say that it is too old.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036  # the sandbox's Python is not ours
    sys.stdout.write("agentkit-no-python\n")
    sys.exit()

import json
import os


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
    sys.modules["agentkit.sandbox.inside.runner"].main(bundle["settings"])


if __name__ == "__main__":
    begin()
