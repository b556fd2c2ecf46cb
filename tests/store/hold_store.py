"""A process that has a store open: ``python -m tests.store.hold_store PATH [fork]``; says so, then waits for its end.

With ``fork`` it has a child, as process pools do, that outlives it until standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agentkit.store.sqlite import SqliteStore


def say_open() -> None:
    """Tell whoever started this process."""
    sys.stdout.write("open\n")
    sys.stdout.flush()


async def hold(path: str, *, has_child: bool) -> None:
    """Open the store and keep it until standard input ends."""
    store = SqliteStore(path)
    await store.open()
    if not has_child:
        say_open()
    elif os.fork() == 0:
        say_open()
        sys.stdin.read()
        os._exit(0)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], has_child="fork" in sys.argv))
