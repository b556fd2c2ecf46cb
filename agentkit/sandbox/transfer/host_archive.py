"""Files and directories of the host, read piece by piece in threads, for ``files.upload``."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import tarfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

_PIECE: Final = 256 << 10
_BLOCK: Final = tarfile.BLOCKSIZE
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def archive_of(local: Path, name: str) -> AsyncGenerator[bytes, None]:
    """Yield a tar archive of a directory; it is read in a thread, and held in memory a piece at a time.

    Links below are packed as links, never followed; sockets, pipes and devices are left out. The owner is nobody in
    particular, permission bits and times are kept.

    Args:
        local: The directory; if it is a link, what that leads to.
        name: What it is called in the archive.

    Raises:
        OSError: It isn't there, can't be read, or a file shrank meanwhile.
    """
    async with aclosing(_stepwise(_pieces(_parts(local, name)))) as pieces:
        async for piece in pieces:
            yield piece
    # Two empty blocks end an archive.
    yield bytes(2 * _BLOCK)


async def content_of(local: Path) -> AsyncGenerator[bytes, None]:
    """Yield what is in a file of the host, likewise.

    Raises:
        OSError: It isn't there, can't be read, or is no file.
    """
    async with aclosing(_stepwise(_content(local))) as pieces:
        async for piece in pieces:
            yield piece


async def _stepwise(pieces: Generator[bytes, None, None]) -> AsyncGenerator[bytes, None]:
    """Yield pieces, each made in a thread."""
    reading = _next(pieces)
    try:
        while piece := await asyncio.shield(reading):
            yield piece
            reading = _next(pieces)
    finally:
        # A thread can't be cancelled: only when it is done, what it has open can be closed.
        reading.add_done_callback(lambda _: pieces.close())


def _next(pieces: Iterator[bytes]) -> asyncio.Future[bytes]:
    return asyncio.ensure_future(asyncio.to_thread(next, pieces, b""))


def _content(local: Path) -> Generator[bytes, None, None]:
    with open(os.open(local, _OPEN & ~os.O_NOFOLLOW), "rb") as file:
        _check_regular(os.fstat(file.fileno()), str(local))
        while data := file.read(_PIECE):
            yield data


def _check_regular(information: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(information.st_mode):
        raise OSError(errno.EINVAL, "is neither a file nor a directory", shown)


def _pieces(parts: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Yield the same in pieces of a good size."""
    buffer = bytearray()
    for part in parts:
        buffer += part
        if len(buffer) >= _PIECE:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def _parts(local: Path, name: str) -> Iterator[bytes]:
    top = os.path.realpath(local)
    yield _header(name, os.stat(top), tarfile.DIRTYPE)
    for place, directories, files, descriptor in os.fwalk(top, onerror=_raise):
        directories.sort()
        relative = os.path.relpath(place, top)
        above = name if relative == "." else f"{name}/{relative}"
        for entry in sorted([*directories, *files]):
            yield from _entry(descriptor, entry, f"{above}/{entry}")


def _entry(directory: int, entry: str, name: str) -> Iterator[bytes]:
    try:
        information = os.stat(entry, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:  # removed since the directory was read
        return
    if stat.S_ISLNK(information.st_mode):
        yield _header(name, information, tarfile.SYMTYPE, target=os.readlink(entry, dir_fd=directory))
    elif stat.S_ISDIR(information.st_mode):
        yield _header(name, information, tarfile.DIRTYPE)
    elif stat.S_ISREG(information.st_mode):
        yield from _file(os.open(entry, _OPEN, dir_fd=directory), name, entry)


def _file(descriptor: int, name: str, shown: str) -> Iterator[bytes]:
    with open(descriptor, "rb") as file:
        information = os.fstat(descriptor)
        _check_regular(information, shown)
        yield _header(name, information, tarfile.REGTYPE)
        left = information.st_size
        while left:
            data = file.read(min(left, _PIECE))
            if not data:
                raise OSError(f"{shown} became shorter while it was read")
            left -= len(data)
            yield data
        yield bytes(-information.st_size % _BLOCK)


def _header(name: str, information: os.stat_result, kind: bytes, *, target: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    member.size = information.st_size if kind == tarfile.REGTYPE else 0
    member.mode = information.st_mode & 0o777
    member.mtime = int(information.st_mtime)
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _raise(error: OSError) -> None:
    raise error
