"""Host directories are what they are called: nothing that a sandbox wrote leads a mount elsewhere (report 23)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentkit.errors import SandboxError
from agentkit.sandbox.spec import BucketMount


def check_host_directories(mounts: Sequence[BucketMount]) -> None:
    """Look at the directories before an engine mounts them, at each start; what isn't on this machine is left to it.

    Raises:
        SandboxError: One is reached through a link. Code in a sandbox that may write above it could have put it there.
    """
    for mount in mounts:
        path = mount.host_directory
        if path is None or not os.path.lexists(path):
            continue
        real = os.path.realpath(path)
        if real != os.path.normpath(path):
            raise SandboxError(f"host directory {path!r} is reached through a link; if that is yours, name {real!r}")
