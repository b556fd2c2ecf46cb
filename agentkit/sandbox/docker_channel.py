"""A program inside a container: its input and output over one upgraded connection to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.docker_connection import BUFFER, DockerStream

STDOUT = 1
STDERR = 2
_HEADER = 8
#: Of its standard error only so much is kept, for messages.
_LAST_ERRORS = 8 << 10


class DockerChannel:
    """See ``Channel``; beside it, ``piece`` tells its two outputs apart, and ``exit_code`` tells how it ended."""

    def __init__(self, stream: DockerStream, ask_exit_code: Callable[[], Awaitable[int]]) -> None:
        self._stream = stream
        self._ask_exit_code = ask_exit_code
        self._kind = STDOUT
        self._left = 0
        self._errors = b""

    async def read(self) -> bytes:
        """See ``Channel``."""
        while piece := await self.piece():
            if piece[0] == STDOUT:
                return piece[1]
        return b""

    async def piece(self) -> tuple[int, bytes] | None:
        """Return what it wrote next, as ``STDOUT`` or ``STDERR`` and the bytes, or None at the end.

        Raises:
            SandboxConnectionError: The connection broke in the middle of something.
        """
        data = await self._data()
        if not data:
            return None
        if self._kind == STDERR:
            self._errors = (self._errors + data)[-_LAST_ERRORS:]
        return self._kind, data

    async def _data(self) -> bytes:
        """Return the next bytes of the frame under way, or of the next one that isn't empty; nothing at the end."""
        reader = self._stream.reader
        try:
            while not self._left:
                header = await reader.readexactly(_HEADER)
                self._kind, self._left = header[0], int.from_bytes(header[4:])
            data = await reader.read(min(self._left, BUFFER))
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return b""
            raise SandboxConnectionError("the connection to a program in the sandbox broke") from error
        except OSError as error:
            raise SandboxConnectionError(f"the connection to a program in the sandbox broke: {error}") from error
        if not data:
            raise SandboxConnectionError("the connection to a program in the sandbox broke")
        self._left -= len(data)
        return data

    async def write(self, data: bytes) -> None:
        """See ``Channel``."""
        if self._stream.writer.is_closing():
            raise SandboxConnectionError("the connection to a program in the sandbox is closed")
        try:
            self._stream.writer.write(data)
            await self._stream.writer.drain()
        except OSError as error:
            raise SandboxConnectionError(f"the connection to a program in the sandbox broke: {error}") from error

    def end(self) -> None:
        """Let it see the end of its input, and go on reading."""
        if self._stream.writer.can_write_eof():
            self._stream.writer.write_eof()

    async def exit_code(self) -> int:
        """Return how it ended, as a shell shows it; call it at the end of its output."""
        return await self._ask_exit_code()

    async def close(self) -> None:
        """See ``Channel``."""
        await self._stream.close()

    def errors(self) -> str:
        """See ``Channel``."""
        return self._errors.decode(errors="replace")
