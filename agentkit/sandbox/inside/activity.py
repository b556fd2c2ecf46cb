"""What the watchdog goes by: when the sandbox was used last, and how long it may be unused (SPEC 12.5)."""

from __future__ import annotations

import os

from agentkit.sandbox.inside.calls import Call
from agentkit.sandbox.inside.tree import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Activity:
    """Writes the files that ``watchdog.sh`` reads."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    async def touch(self, call: Call) -> dict[str, Any]:
        """Note that the sandbox is used now, by the clock that counts while the machine sleeps too."""
        self._write("lease", read_file("/proc/uptime").split()[0])
        return {}

    async def set_inactivity(self, call: Call) -> dict[str, Any]:
        """Note how long it may be unused."""
        self._write("inactivity", b"%.3f" % call.request["seconds"])
        return {}

    def _write(self, name: str, content: bytes) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        path = os.path.join(self._directory, name)
        # Whoever reads meanwhile finds the old number or the new one, never half of it.
        with open(path + ".new", "wb") as file:
            file.write(content + b"\n")
        os.rename(path + ".new", path)
