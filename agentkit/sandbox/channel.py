"""The bare stream to a program that runs inside an instance: what an engine gives, and the runner's frames go over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol


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


class OneOff(Protocol):
    """One program run inside by the engine's own exec, its two streams apart; ``ShellGuest`` is made of these."""

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        """Return what came next on its standard output (1) or error (2), or None at the end of both."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input; waits while the other side takes nothing.

        Raises:
            SandboxConnectionError: The program, the instance or the engine is gone.
        """

    async def end(self) -> None:
        """Let the program see the end of its input; reading goes on."""

    async def exit_code(self) -> int:
        """Return what it ended with, once ``read`` gave None; engines use 126 and 127 for one they couldn't start."""

    async def close(self) -> None:
        """Close its streams; it sees the end of its input and is not killed."""


class OpenOneOff(Protocol):
    """How an engine runs a program inside by its own exec."""

    async def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], user: str | None = None) -> OneOff:
        """Start a program in ``/``, with these variables besides the image's.

        Raises:
            SandboxStoppedError: The instance doesn't run.
            SandboxConnectionError: The engine can't be reached.
        """


#: The streams of a ``OneOff``.
STDOUT: Final = 1
STDERR: Final = 2
#: Bytes of a program's errors that are kept for messages.
_LAST_ERRORS: Final = 8 << 10


class OneOffChannel:
    """A one-off program as a ``Channel``: its errors are only for messages."""

    def __init__(self, program: OneOff) -> None:
        self._program = program
        self._errors = b""

    async def read(self) -> bytes:
        """See ``Channel``."""
        while (piece := await self._program.read()) is not None:
            kind, data = piece
            if kind == STDOUT:
                return data
            self._errors = (self._errors + data)[-_LAST_ERRORS:]
        return b""

    async def write(self, data: bytes) -> None:
        """See ``Channel``."""
        await self._program.write(data)

    async def close(self) -> None:
        """See ``Channel``."""
        await self._program.close()

    def errors(self) -> str:
        """See ``Channel``."""
        return self._errors.decode(errors="replace")
