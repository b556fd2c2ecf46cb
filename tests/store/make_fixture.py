"""Writes the fixture of the newest schema: ``python -m tests.store.make_fixture``; run once a release, before it.

A fixture that exists is never written again: it is what users of that release have.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from agentkit.store.schema import MIGRATIONS
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime
from tests.store.released import Plain, Reminder

ROOT = Path(__file__).parent.parent.parent
FIXTURES = Path(__file__).parent / "fixtures"


async def fill(path: Path) -> None:
    """Make a store that has something of everything, an hour old."""
    async with ManualRuntime(Reminder, Plain, store=SqliteStore(path)) as runtime:
        await runtime.get(Reminder, "ada").fill()
        await runtime.get(Plain, "ünï😀").fill()
        await runtime.advance(timedelta(hours=1))


def dump(path: Path) -> Iterator[str]:
    """Yield the SQL that makes the store again."""
    with sqlite3.connect(path) as connection:
        yield f"-- A store of schema version {len(MIGRATIONS)}, one hour old. Never changed: users have such files."
        for pragma in ("application_id", "user_version"):
            yield f"pragma {pragma} = {connection.execute(f'pragma {pragma}').fetchone()[0]};"
        yield from connection.iterdump()
    connection.close()


def main() -> None:
    """Write the fixture, unless there is one."""
    target = FIXTURES / f"v{len(MIGRATIONS)}.sql"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agents.db"
        asyncio.run(fill(path))
        text = "\n".join(dump(path)) + "\n"
    # Tracebacks in the history name the files of this checkout.
    target.open("x", encoding="utf-8").write(text.replace(str(ROOT), "/srv"))
    sys.stdout.write(f"wrote {target}\n")


if __name__ == "__main__":
    main()
