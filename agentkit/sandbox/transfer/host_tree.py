"""A directory of the host that is filled with what came out of a sandbox: nothing is ever written outside of it.

Every step goes from an open directory to the next and follows no link, so that neither what the archive made before nor
somebody who changes the directory meanwhile can lead a write elsewhere.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

Parts = tuple[str, ...]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class HostTree:
    """Writes below one directory; use it in a ``with`` block, in one thread.

    Parts of paths are names: neither empty nor ``.`` nor ``..``, and without a slash.
    """

    def __init__(self, root: Path) -> None:
        """Open a directory, made if need be.

        Args:
            root: The one that was named by the user; links on the way to it are the user's and are followed.
        """
        root.mkdir(parents=True, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Archives go directory by directory: the latest stays open.
        self._latest: tuple[Parts, int] = ((), self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._root)

    def mkdir(self, parts: Parts) -> None:
        """Make a directory and those above it; no error if it is there.

        Raises:
            NotADirectoryError: Something on the way is a file or a link.
        """
        self._enter(parts)

    def write(self, parts: Parts, content: Iterable[bytes], *, mode: int, modified_at: float) -> None:
        """Write a file, whole or not at all; a file or link of that name is replaced.

        Args:
            parts: Where.
            content: What.
            mode: Permission bits.
            modified_at: Seconds since the epoch.

        Raises:
            IsADirectoryError: There is a directory of that name.
        """

        def fill(name: str, directory: int) -> None:
            descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
            with open(descriptor, "wb") as file:
                for data in content:
                    file.write(data)
                file.flush()
                os.fchmod(descriptor, mode)
                os.utime(descriptor, (modified_at, modified_at))

        self._put(parts, fill)

    def link(self, parts: Parts, target: str) -> None:
        """Make a symbolic link; a file or link of that name is replaced.

        Raises:
            IsADirectoryError: There is a directory of that name.
        """
        self._put(parts, lambda name, directory: os.symlink(target, name, dir_fd=directory))

    def read(self, parts: Parts) -> int:
        """Open a file, following no link; return its descriptor."""
        directory = self._enter(parts[:-1])
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)

    def _put(self, parts: Parts, fill: Callable[[str, int], None]) -> None:
        directory, name = self._enter(parts[:-1]), parts[-1]
        unfinished = f".{name[:100]}.{secrets.token_hex(6)}.agentkit"
        try:
            fill(unfinished, directory)
            os.rename(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            with suppress(FileNotFoundError):  # it has been put in its place
                os.unlink(unfinished, dir_fd=directory)

    def _enter(self, parts: Parts) -> int:
        latest, descriptor = self._latest
        if parts == latest:
            return descriptor
        self._leave()
        descriptor = self._root
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=descriptor)
            try:
                below = os.open(part, _DIRECTORY, dir_fd=descriptor)
            finally:
                if descriptor != self._root:
                    os.close(descriptor)
            descriptor = below
        self._latest = (parts, descriptor)
        return descriptor

    def _leave(self) -> None:
        _, descriptor = self._latest
        self._latest = ((), self._root)
        if descriptor != self._root:
            os.close(descriptor)
