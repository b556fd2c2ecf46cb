"""An operating-system lock beside the store's file: held means alive, free means its holder is dead."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from weakref import WeakSet

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
            OSError: The file can't be made, or its file system knows no locks.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError):  # Windows says the latter
            os.close(descriptor)
            raise StoreInUseError(location) from None
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes hold two locks of one name."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


#: A child made by ``fork`` shares its parent's locks and would hold them beyond the parent's death.
_held: WeakSet[FileLock] = WeakSet()


def _let_go_in_child() -> None:
    for lock in list(_held):
        lock.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    os.register_at_fork(after_in_child=_let_go_in_child)

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
