"""One file of the host, written with what came out of a sandbox: whole, or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncIterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from agentkit.errors import QuotaError

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def write_host_file(local: Path, content: AsyncIterable[bytes], *, mode: int, max_bytes: int) -> int:
    """Write a file beside its place, then put it there; a file or link of that name is replaced.

    Args:
        local: Where; directories above it are made if need be.
        content: What.
        mode: Permission bits.
        max_bytes: How much it may be.

    Returns:
        How many bytes it has.

    Raises:
        QuotaError: It is more.
        OSError: The host refuses, or there is a directory of that name.
    """
    if local.name in ("", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(local))
    unfinished = local.with_name(f".{local.name[:100]}.{secrets.token_hex(6)}.agentkit")
    size = 0
    file = await asyncio.to_thread(_begin, unfinished)
    try:
        with file:
            async for data in content:
                size += len(data)
                if size > max_bytes:
                    raise QuotaError("max_bytes", max_bytes, f"the file for {str(local)!r} is too large")
                await asyncio.to_thread(file.write, data)
            await asyncio.to_thread(file.flush)
            os.fchmod(file.fileno(), mode)
        os.rename(unfinished, local)
    finally:
        with suppress(FileNotFoundError):  # it has been put in its place
            os.unlink(unfinished)
    return size


def _begin(unfinished: Path) -> BinaryIO:
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    return open(os.open(unfinished, _NEW, 0o600), "wb")
