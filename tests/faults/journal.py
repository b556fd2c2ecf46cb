"""A file to which processes append a line at a time: what they wrote before a kill stays written."""

from __future__ import annotations

import os
from pathlib import Path


class Journal:
    """Appends lines, each in one write, so that no kill leaves half of one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words: object) -> None:
        """Append a line."""
        os.write(self._descriptor, (" ".join(map(str, words)) + "\n").encode())

    def read(self) -> list[list[str]]:
        """Return the lines so far, as words."""
        return [line.split() for line in self._path.read_text().splitlines()]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
