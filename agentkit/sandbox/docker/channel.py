"""Programs inside a container, each over one upgraded connection to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.channel import STDERR, STDOUT
from agentkit.sandbox.docker.connection import BUFFER, DockerStream

_HEADER = 8


class DockerProgram:
    """See ``OneOff``."""

    def __init__(self, stream: DockerStream, ask_exit_code: Callable[[], Awaitable[int]]) -> None:
        self._stream = stream
        self._ask_exit_code = ask_exit_code
        self._kind: Literal[1, 2] = STDOUT
        self._left = 0

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        """See ``OneOff``.

        Raises:
            SandboxConnectionError: The connection broke in the middle of something.
        """
        data = await self._data()
        return (self._kind, data) if data else None

    async def _data(self) -> bytes:
        """Return the next bytes of the frame under way, or of the next one that isn't empty; nothing at the end."""
        reader = self._stream.reader
        try:
            while not self._left:
                header = await reader.readexactly(_HEADER)
                self._kind = STDERR if header[0] == STDERR else STDOUT
                self._left = int.from_bytes(header[4:])
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
        """See ``OneOff``."""
        if self._stream.writer.is_closing():
            raise SandboxConnectionError("the connection to a program in the sandbox is closed")
        try:
            self._stream.writer.write(data)
            await self._stream.writer.drain()
        except OSError as error:
            raise SandboxConnectionError(f"the connection to a program in the sandbox broke: {error}") from error

    async def end(self) -> None:
        """See ``OneOff``."""
        if self._stream.writer.can_write_eof():
            self._stream.writer.write_eof()

    async def exit_code(self) -> int:
        """See ``OneOff``."""
        return await self._ask_exit_code()

    async def close(self) -> None:
        """See ``OneOff``."""
        await self._stream.close()
