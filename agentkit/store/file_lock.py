"""An operating-system lock beside the store's file: held means alive, free means its holder is dead."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agentkit.errors import StoreInUseError


class FileLock:
    """One process at a time; freed by the system when the holder dies, however it dies."""

    def __init__(self, path: Path) -> None:
        """Name the file to lock; a symbolic link to it is the same file."""
        self._path = os.path.realpath(path) + ".lock"
        self._descriptor: int | None = None

    def acquire(self, location: str) -> None:
        """Take the lock.

        Raises:
            StoreInUseError: Another process holds it.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
        except OSError:
            os.close(descriptor)
            raise StoreInUseError(location) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes hold two locks of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
