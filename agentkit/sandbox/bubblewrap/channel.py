"""Programs inside a bubblewrap sandbox: each the child of one that has joined the sandbox's namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.bubblewrap.host import ENTER, helper_environment
from agentkit.sandbox.channel import STDERR, STDOUT

_BUFFER = 256 << 10
#: How long a program may take to end once its input has ended, in seconds.
_PATIENCE = 5.0


class BubblewrapProgram:
    """See ``OneOff``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        self._process = process
        self._stdin = process.stdin
        self._pieces: asyncio.Queue[tuple[Literal[1, 2], bytes] | None] = asyncio.Queue(maxsize=2)
        self._readers = asyncio.create_task(self._read_both())

    async def _read_both(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async with asyncio.TaskGroup() as group:
            _ = group.create_task(self._read_one(STDOUT, self._process.stdout))
            _ = group.create_task(self._read_one(STDERR, self._process.stderr))
        await self._pieces.put(None)

    async def _read_one(self, kind: Literal[1, 2], stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_BUFFER):
            await self._pieces.put((kind, data))

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        """See ``OneOff``."""
        piece = await self._pieces.get()
        if piece is None:
            # Whoever asks again is told the same.
            self._pieces.put_nowait(None)
        return piece

    async def write(self, data: bytes) -> None:
        """See ``OneOff``."""
        if self._stdin.is_closing():
            raise SandboxConnectionError("the connection to a program in the sandbox is closed")
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except OSError as error:
            raise SandboxConnectionError(f"the connection to a program in the sandbox broke: {error}") from error

    async def end(self) -> None:
        """See ``OneOff``."""
        self._stdin.close()

    async def exit_code(self) -> int:
        """See ``OneOff``."""
        return await self._process.wait()

    async def close(self) -> None:
        """See ``OneOff``: what waits for it outside is ended too, should it go on without its input."""
        self._stdin.close()
        self._readers.cancel()
        await asyncio.wait([self._readers])
        self._pieces = asyncio.Queue()
        self._pieces.put_nowait(None)
        try:
            async with asyncio.timeout(_PATIENCE):
                # Its output is read no more, so it may hang in writing.
                await self._drain()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _drain(self) -> None:
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            while await stream.read(_BUFFER):
                pass
        await self._process.wait()


async def open_program(config: Mapping[str, Any], argv: Sequence[str], env: Mapping[str, str]) -> BubblewrapProgram:
    """Start a program inside; see ``enter.py`` for ``config``."""
    # A file in memory: variables may be secret, and of any size.
    settings = os.memfd_create("agentkit")
    try:
        os.write(settings, json.dumps({**config, "argv": list(argv), "env": dict(env)}).encode())
        os.lseek(settings, 0, os.SEEK_SET)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(ENTER), str(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=helper_environment(),
            cwd="/",
            pass_fds=(settings,),
            start_new_session=True,
            limit=_BUFFER,
        )
    finally:
        os.close(settings)
    return BubblewrapProgram(process)
