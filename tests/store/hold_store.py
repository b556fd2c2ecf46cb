"""A process that has a store open, as ``python -m tests.store.hold_store PATH``: says so, then waits for its end."""

from __future__ import annotations

import asyncio
import sys

from agentkit.store.sqlite import SqliteStore


async def hold(path: str) -> None:
    """Open the store and keep it until standard input ends."""
    store = SqliteStore(path)
    await store.open()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await store.close()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1]))
