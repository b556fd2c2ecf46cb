"""The variables that a run of an instance was started with, kept in its memory: a deploy must not change them under it.

They may be secrets, so they are in no image, no label and no store: ``/run`` is memory, and goes with the run. Whatever
code inside makes of the file is only what that code could set for itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from agentkit.errors import SandboxFileError
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.main_process import NOTES

_FILE = f"{NOTES}/variables.json"
_LONGEST = 4 << 20


async def remember(guest: Guest, variables: Mapping[str, str]) -> None:
    """Note what a run has just been started with."""

    async def content() -> AsyncIterator[bytes]:
        yield json.dumps(dict(variables)).encode()

    await guest.write(_FILE, content(), mode=0o600)


async def remembered(guest: Guest) -> dict[str, str] | None:
    """Return what a run was started with; None if that can't be told."""
    content = bytearray()
    try:
        async with aclosing(guest.read(_FILE)) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > _LONGEST:
                    return None
        found: Any = json.loads(content)
    except (SandboxFileError, ValueError, RecursionError):
        return None
    is_good = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if is_good else None
