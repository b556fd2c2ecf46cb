"""Unpack an archive that came out of a sandbox onto the host: whoever made it is not trusted (SPEC 12.4).

Names that lead out of the target, links that do, devices, endless headers and endless content are all expected.
"""

from __future__ import annotations

import asyncio
import os
import queue
import tarfile
from collections.abc import AsyncIterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

from agentkit.errors import QuotaError, SandboxError
from agentkit.sandbox.transfer.host_tree import HostTree, Parts

_PIECE: Final = 256 << 10
#: How much an archive may hold between one member's content and the next: headers, long names, padding.
_MAX_HEADER: Final = 1 << 20
#: As long as a path may be for Linux; one of megabytes would be as many directories.
_LONGEST_PATH: Final = 4096
_MOST_TOLD: Final = 1_000
#: Pieces that wait for the thread.
_WAITING: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """What a download may bring at most.

    Attributes:
        max_files: Files, directories and links.
        max_bytes: Content of all files together.
    """

    max_files: int = 200_000
    max_bytes: int = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What a download brought.

    Attributes:
        files: How many files were written.
        size: Bytes in them.
        left_out: Paths in the sandbox's tree that were not written: links that lead out of it, pipes, devices. At most
            a thousand of them.
    """

    files: int
    size: int
    left_out: tuple[str, ...] = ()


async def extract(archive: AsyncIterable[bytes], target: Path, *, limits: TransferLimits | None = None) -> Transferred:
    """Unpack a tar archive of a directory onto the host, in a thread and a piece at a time.

    Each file appears whole or not at all; files and links of the same name are replaced, everything else stays. No link
    in the target is followed, and none is made that leads out of it.

    Args:
        archive: What came out of the sandbox.
        target: What the directory is to be, whatever the archive calls it; made if need be.
        limits: How much it may be.

    Raises:
        SandboxError: The archive is none, or a member's name leads out of the target. What came before is written.
        QuotaError: There is more than ``limits`` allow.
        OSError: The host's disk refuses, or has something else where a directory is needed.
    """
    pipe = _Pipe()
    extraction = _Extraction(pipe, limits or TransferLimits())
    work = asyncio.ensure_future(asyncio.to_thread(extraction.run, target))
    work.add_done_callback(lambda _: pipe.open_wide())
    try:
        async for piece in archive:
            await pipe.put(piece)
            if work.done():
                break
        await pipe.put(b"")
        return await asyncio.shield(work)
    finally:
        pipe.break_off()
        await asyncio.wait([work])


class _Pipe:
    """Pieces on their way from the loop to a thread; few wait at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(_WAITING)
        self._rest = memoryview(b"")
        self._has_ended = False
        self.allowed = 0

    async def put(self, piece: bytes) -> None:
        """Hand a piece over; an empty one is the end."""
        await self._room.acquire()
        self._pieces.put(piece)

    def open_wide(self) -> None:
        """Let nobody wait any more: nothing is read from now on."""
        for _ in range(2):
            self._room.release()

    def break_off(self) -> None:
        """End it early, unless it has ended."""
        self._pieces.put(None)

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, in the thread, like a file.

        Raises:
            SandboxError: More is read than is ``allowed`` for now, or it was broken off.
        """
        if not self._rest and not self._has_ended:
            piece = self._pieces.get()
            if piece is None:
                raise SandboxError("the archive was broken off")
            self._has_ended = not piece
            self._rest = memoryview(piece)
            self._loop.call_soon_threadsafe(self._room.release)
        data = bytes(self._rest[:size])
        self._rest = self._rest[len(data) :]
        self.allowed -= len(data)
        if self.allowed < 0:
            raise SandboxError("the archive has a header without end")
        return data


class _Header(tarfile.TarInfo):
    """A header whose size can be believed."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """See ``TarInfo``."""
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0:
            raise tarfile.ReadError("negative size")
        return header


@dataclass(slots=True)
class _Extraction:
    """One archive on its way to the disk; everything here runs in a thread."""

    pipe: _Pipe
    limits: TransferLimits
    members: int = 0
    size: int = 0
    written: set[Parts] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)

    def run(self, target: Path) -> Transferred:
        """Unpack it."""
        try:
            with HostTree(target) as tree:
                self._unpack(tree)
        except tarfile.TarError as error:
            raise SandboxError(f"what came out of the sandbox is no whole archive: {error}") from error
        return Transferred(files=len(self.written), size=self.size, left_out=tuple(self.left_out))

    def _unpack(self, tree: HostTree) -> None:
        self.pipe.allowed = _MAX_HEADER
        with tarfile.open(
            fileobj=cast(IO[bytes], self.pipe), mode="r|", tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            while (member := archive.next()) is not None:
                # It keeps every one it has read.
                archive.members.clear()  # type: ignore[attr-defined]  # the stubs leave it out
                self._check_count()
                self._put(tree, archive, member)
                self.pipe.allowed = _MAX_HEADER

    def _put(self, tree: HostTree, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = self._parts(member.name)
        if member.isdir():
            tree.mkdir(parts)
        elif not parts:
            raise SandboxError(f"the archive has a file without a name: {member.name!r}")
        elif member.isreg() and not member.issparse():
            self._check_size(member)
            content = archive.extractfile(member)
            assert content is not None
            self.pipe.allowed = member.size + _MAX_HEADER
            tree.write(parts, _pieces(content), mode=member.mode & 0o755 | 0o600, modified_at=member.mtime)
            self.written.add(parts)
        elif member.islnk():
            self._copy(tree, member, parts)
        elif member.issym() and stays_inside(member.linkname, depth=len(parts) - 1):
            tree.link(parts, member.linkname)
        elif len(self.left_out) < _MOST_TOLD:
            self.left_out.append("/".join(parts))

    def _copy(self, tree: HostTree, member: tarfile.TarInfo, parts: Parts) -> None:
        """Write a file that is the same as an earlier one, as a copy."""
        source = self._parts(member.linkname)
        if source not in self.written:
            raise SandboxError(f"the archive links {member.name!r} to what isn't in it")
        with open(tree.read(source), "rb") as content:
            information = os.fstat(content.fileno())
            member.size = information.st_size
            self._check_size(member)
            tree.write(
                parts, _pieces(content), mode=information.st_mode & 0o755 | 0o600, modified_at=information.st_mtime
            )
        self.written.add(parts)

    def _parts(self, name: str) -> Parts:
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if len(name) > _LONGEST_PATH:
            raise SandboxError(f"the archive has a path of {len(name):,} characters")
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise SandboxError(f"the archive leads out of its directory: {name!r}")
        return parts[1:]

    def _check_count(self) -> None:
        self.members += 1
        if self.members > self.limits.max_files:
            raise QuotaError("max_files", self.limits.max_files, "the archive has too many files")

    def _check_size(self, member: tarfile.TarInfo) -> None:
        self.size += member.size
        if self.size > self.limits.max_bytes:
            raise QuotaError("max_bytes", self.limits.max_bytes, f"the archive's files are too large ({member.name!r})")


def stays_inside(link: str, *, depth: int) -> bool:
    """Tell whether a symbolic link can't lead out of a tree in which no other does.

    Args:
        link: What it points at.
        depth: How many directories below the tree's root it is.

    >>> stays_inside("../other/file", depth=1), stays_inside("../../file", depth=1), stays_inside("a/../b", depth=1)
    (True, False, False)
    """
    parts = [part for part in link.split("/") if part not in ("", ".")]
    ascents = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    # After a name, "..", leads to the parent of wherever that name leads, if it is a link itself.
    return not link.startswith("/") and ascents <= depth and ".." not in parts[ascents:]


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    while data := content.read(_PIECE):
        yield data
