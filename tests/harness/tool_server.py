"""A server of tools that speaks the Model Context Protocol over its standard streams, for tests.

It writes what it did into the file that it is given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server import MCPServer

# The last word, so that whoever looks for examples in all modules can import this one.
JOURNAL = Path(sys.argv[-1])
server = MCPServer("notes", log_level="CRITICAL")


def note(line: str) -> None:
    """Write a line that outlives the process."""
    with JOURNAL.open("a", encoding="utf-8") as journal:
        journal.write(line + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    note(f"add {a} {b}")
    return a + b


@server.tool()
def die_once(word: str) -> str:
    """End the process, the first time."""
    is_first = f"die {word}" not in JOURNAL.read_text(encoding="utf-8").splitlines()
    note(f"die {word}")
    if is_first:
        os._exit(1)
    return f"{word} lives"


if __name__ == "__main__":
    note("started")
    server.run("stdio")
