"""The bare stream to a program that runs inside an instance: what an engine gives, and the runner's frames go over."""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    """Standard input and output of one program inside."""

    async def read(self) -> bytes:
        """Return what came next on its standard output, or nothing once it has ended."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input; waits while the other side takes nothing.

        Raises:
            SandboxConnectionError: The program, the instance or the engine is gone.
        """

    async def close(self) -> None:
        """Close both; the program sees the end of its input."""

    def errors(self) -> str:
        """Return the last of what it wrote to its standard error, for messages."""
