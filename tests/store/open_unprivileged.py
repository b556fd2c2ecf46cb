"""A process without privileges that opens a store: ``python -m tests.store.open_unprivileged PATH``.

Permissions don't bind root, so as root it becomes nobody first. Prints the class and the text of the error.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agentkit.store.sqlite import SqliteStore

NOBODY = 65_534


async def attempt(path: str) -> str:
    """Open the store, and say how that went."""
    store = SqliteStore(path)
    try:
        await store.open()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    await store.close()
    return "opened"


if __name__ == "__main__":
    # Loads every module, which nobody may not be allowed to read.
    asyncio.run(attempt(":memory:"))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    sys.stdout.write(asyncio.run(attempt(sys.argv[1])))
