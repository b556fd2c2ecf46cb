"""Files and directories between the host and a sandbox, for ``files.upload`` and ``files.download`` (SPEC 12.4)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import posixpath
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Final

from agentkit.errors import SandboxFileError
from agentkit.sandbox.guest import FileInfo, Guest
from agentkit.sandbox.transfer.extract import TransferLimits, Transferred, extract
from agentkit.sandbox.transfer.host_archive import archive_of, content_of
from agentkit.sandbox.transfer.host_file import write_host_file

logger = logging.getLogger(__name__)

#: As many as Linux follows.
_MAX_LINKS: Final = 40


async def upload(guest: Guest, local: Path, remote: str) -> None:
    """Copy a file or directory of the host into a sandbox, as its user.

    A file at ``remote`` is replaced, whole or not at all; a directory there is added to. Links below ``local`` are
    copied as links, sockets, pipes and devices are left out.

    Args:
        guest: The instance.
        local: What to copy.
        remote: What it is to be, not the directory to put it into; absolute.

    Raises:
        OSError: ``local`` isn't there or can't be read.
        SandboxFileError: The sandbox refuses it.
    """
    above, name = posixpath.split(posixpath.normpath(remote))
    if not name:
        raise SandboxFileError.of(remote, errno.EISDIR, "upload takes the path of a file or directory")
    information = await asyncio.to_thread(local.stat)
    if not stat.S_ISDIR(information.st_mode):
        async with aclosing(content_of(local)) as content:
            return await guest.write(remote, content, mode=information.st_mode & 0o777)
    there = await guest.stat(remote)
    if there is not None and there.type != "directory":
        raise SandboxFileError.of(remote, errno.ENOTDIR, "there is something else already")
    async with aclosing(archive_of(local, name)) as archive:
        await guest.unpack(above, archive)


async def download(guest: Guest, remote: str, local: Path, *, limits: TransferLimits | None = None) -> Transferred:
    """Copy a file or directory out of a sandbox onto the host.

    Nothing is written but ``local`` and what is below it, whatever is in the sandbox. Each file appears whole or not at
    all; a directory that is there already is added to. Links that would lead out of ``local``, pipes and devices are
    left out, and a warning counts them.

    Args:
        guest: The instance.
        remote: What to copy; if it is a link, what that leads to, inside.
        local: What it is to be, not the directory to put it into.
        limits: How much it may be.

    Raises:
        SandboxFileError: ``remote`` isn't there or can't be read.
        QuotaError: It is more than ``limits`` allow.
        OSError: The host refuses.
    """
    source, there = await _followed(guest, remote)
    if there.type != "directory":
        bounds, mode = limits or TransferLimits(), there.mode & 0o755 | 0o600
        async with aclosing(guest.read(source)) as content:
            size = await write_host_file(local, content, mode=mode, max_bytes=bounds.max_bytes)
        return Transferred(files=1, size=size)
    async with aclosing(guest.pack(source)) as archive:
        result = await extract(archive, local, limits=limits)
    if result.left_out:
        count, first = len(result.left_out), result.left_out[0]
        logger.warning("%d links and special files below %s were left out, such as %r", count, remote, first)
    return result


async def _followed(guest: Guest, path: str) -> tuple[str, FileInfo]:
    """Return where a path leads, inside, and what is there."""
    for _ in range(_MAX_LINKS):
        there = await guest.stat(path)
        if there is None:
            raise SandboxFileError.of(path, errno.ENOENT, os.strerror(errno.ENOENT))
        if there.target is None:
            return path, there
        path = posixpath.join(posixpath.dirname(path), there.target)
    raise SandboxFileError.of(path, errno.ELOOP, os.strerror(errno.ELOOP))
