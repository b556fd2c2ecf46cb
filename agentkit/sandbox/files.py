"""Files of a sandbox, as its user sees them (SPEC 12.4). Paths are absolute, or count from ``/workspace``."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit.errors import QuotaError
from agentkit.sandbox.execution import path_of
from agentkit.sandbox.guest import FileInfo
from agentkit.sandbox.spec import WORKSPACE
from agentkit.sandbox.way_in import WayIn

if TYPE_CHECKING:
    from agentkit.sandbox.transfer.extract import TransferLimits, Transferred

#: What ``read`` returns at most, unless told otherwise.
MAX_READ = 64 << 20
_PIECE = 262_144


class Files:
    """See the module. Missing files and refused access raise a ``SandboxFileError``, which is an ``OSError`` too."""

    def __init__(self, way: WayIn) -> None:
        self._way = way

    async def read(self, path: str, *, max_bytes: int = MAX_READ) -> bytes:
        """Return a file's content.

        Args:
            path: Which.
            max_bytes: A longer one is refused: what runs inside must not fill the owner's memory.

        Raises:
            QuotaError: It is longer; ``download`` takes it to the disk.
        """
        content = bytearray()
        async with self._way.used() as guest, aclosing(guest.read(path_of(path))) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > max_bytes:
                    raise QuotaError("max_bytes", max_bytes, f"{path!r} of the sandbox is longer")
        return bytes(content)

    async def read_text(self, path: str, encoding: str = "utf-8", *, max_bytes: int = MAX_READ) -> str:
        """Return a file's content as text; see ``read``."""
        return (await self.read(path, max_bytes=max_bytes)).decode(encoding)

    async def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Write a file, whole or not at all; directories above it are made if need be.

        Args:
            path: Where; a symbolic link there is replaced, not followed.
            content: Text goes as UTF-8.
            mode: Permission bits; by default those the file had, or the usual ones.
        """
        data = content.encode() if isinstance(content, str) else content
        async with self._way.used() as guest:
            await guest.write(path_of(path), _pieces(data), mode=mode)

    async def list(self, path: str = WORKSPACE) -> builtins.list[FileInfo]:
        """Return what a directory holds, by name; links aren't followed."""
        async with self._way.used() as guest:
            return await guest.entries(path_of(path))

    async def stat(self, path: str) -> FileInfo | None:
        """Return what is there, without following a link; None if nothing is."""
        async with self._way.used() as guest:
            return await guest.stat(path_of(path))

    async def mkdir(self, path: str) -> None:
        """Make a directory and those above it; no error if it is there."""
        async with self._way.used() as guest:
            await guest.mkdir(path_of(path))

    async def move(self, source: str, target: str) -> None:
        """Rename a file or directory; a file at ``target`` is replaced."""
        async with self._way.used() as guest:
            await guest.move(path_of(source), path_of(target))

    async def remove(self, path: str) -> bool:
        """Remove a file, or a directory with all that is in it; links aren't followed. False if there was none."""
        async with self._way.used() as guest:
            return await guest.remove(path_of(path))

    async def upload(self, source: str | Path, target: str) -> None:
        """Copy a file or directory of the host into the sandbox; ``target`` is what it is to be.

        A directory that is there already is added to. Links are copied as links.

        Raises:
            OSError: ``source`` can't be read.
        """
        from agentkit.sandbox.transfer.transfer import upload

        async with self._way.used() as guest:
            await upload(guest, Path(source), path_of(target))

    async def download(self, source: str, target: str | Path, *, limits: TransferLimits | None = None) -> Transferred:
        """Copy a file or directory of the sandbox onto the host; ``target`` is what it is to be.

        Whatever is in the sandbox, nothing but ``target`` and what is below it is written.

        Raises:
            QuotaError: It is more than ``limits`` allow.
            OSError: The host refuses.
        """
        from agentkit.sandbox.transfer.transfer import download

        async with self._way.used() as guest:
            return await download(guest, path_of(source), Path(target), limits=limits)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(view), _PIECE):
        yield bytes(view[start : start + _PIECE])
