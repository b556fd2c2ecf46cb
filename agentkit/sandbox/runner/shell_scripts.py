"""The scripts of ``ShellGuest``, each run by an engine's exec, and what they tell between a command's errors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from agentkit.errors import (
    CommandNotFoundError,
    ProcessExistsError,
    ProcessLimitError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileError,
)
from agentkit.sandbox.channel import OneOff, OpenOneOff
from agentkit.sandbox.runner.replies import unreadable

_INSIDE = Path(__file__).parents[1] / "inside"

Script = Literal["run", "files", "processes"]

#: A script tells no more words than this, and none that is longer.
_MOST_TOLD = 16
_LONGEST_TOLD = 4096


@cache
def _source(script: Script) -> str:
    parts = [_INSIDE / "shell_tree.sh", _INSIDE / f"shell_{script}.sh"]
    return "".join(part.read_text(encoding="utf-8") for part in parts)


class Told:
    """Takes what a script tells out of the standard error that it shares with a command.

    It is told between a byte 1, the script's own id, and a newline; a command can't know the id.
    """

    def __init__(self, script_id: str) -> None:
        self._begin = b"\x01agentkit:" + script_id.encode() + b":"
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, list[str]]:
        """Return what is the command's of these bytes and those held back, and what was told."""
        self._held += data
        clean = b""
        told: list[str] = []
        while self._begin in self._held:
            before, _, rest = self._held.partition(self._begin)
            line, newline, after = rest.partition(b"\n")
            if not newline:
                self._held = self._begin + line
                return clean + before, told
            clean += before
            told.append(line.decode(errors="replace"))
            self._held = after
        # The end may be the beginning of something told.
        keep = next((n for n in range(len(self._begin) - 1, 0, -1) if self._held.endswith(self._begin[:n])), 0)
        cut = len(self._held) - keep
        clean, self._held = clean + self._held[:cut], self._held[cut:]
        return clean, told

    @property
    def held(self) -> int:
        """How many bytes are held back."""
        return len(self._held)

    def rest(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return held


class RunningScript:
    """One script under way.

    Attributes:
        id: What it was given to mark its words with.
        told: What it has told so far.
    """

    def __init__(self, one_off: OneOff, script_id: str) -> None:
        self.one_off = one_off
        self.id = script_id
        self.told: list[str] = []
        self._filter = Told(script_id)
        self._is_at_end = False

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        """Return what came next of its output (1) or error (2), without what was told; None at the end."""
        if self._is_at_end:
            return None
        piece = await self.one_off.read()
        if piece is None:
            self._is_at_end = True
            return 2, self._filter.rest()
        stream, data = piece
        if stream == 2:
            data, told = self._filter.feed(data)
            self.told += told
            if len(self.told) > _MOST_TOLD or self._filter.held > _LONGEST_TOLD:
                # Not the script's: whatever has its user's rights inside can write to its pipes.
                raise unreadable()
        return stream, data

    async def output(self) -> AsyncIterator[bytes]:
        """Yield its output to the end.

        Raises:
            SandboxError: It told of an error, or didn't come to its end.
        """
        said = b""
        while (piece := await self.read()) is not None:
            stream, data = piece
            if stream == 1 and data:
                yield data
            said = (said + data[-500:])[-500:]
        await self.check(said)

    async def check(self, said: bytes = b"") -> None:
        """Make sure that it came to its end; ``said`` is what to show if not.

        Raises:
            ProcessLimitError: It couldn't start a process that it needs.
            SandboxError: The engine couldn't start it.
            SandboxConnectionError: It was cut off.
        """
        if any(word == "done" or word.startswith(("error ", "exit ")) for word in self.told):
            return
        code = await self.one_off.exit_code()
        if code in (126, 127):
            raise SandboxError(f"no shell could be started: {said.decode(errors='replace').strip()[-500:]}")
        if 0 < code < 126:
            # What a shell ends with that can't fork.
            raise ProcessLimitError
        raise SandboxConnectionError("a command was cut off before its end was known")

    def error(self, path: str, target: str = "") -> Exception | None:
        """Return the error that was told, if any, as one about these paths."""
        for word in self.told:
            if word.startswith("error "):
                return _error_of(word.removeprefix("error "), path, target)
        return None


def _error_of(name: str, path: str, target: str) -> Exception:
    name, _, where = name.partition("-")
    if name == "PROGRAM":
        return CommandNotFoundError(target)
    if name == "EXISTS":
        return ProcessExistsError(path)
    if name == "UNKNOWN":
        return LookupError(f"no background process {path!r} was started in this instance")
    if name == "EAGAIN":
        return ProcessLimitError()
    number = getattr(errno, name, errno.EIO)
    reason = "is no regular file" if name == "EINVAL" else os.strerror(number)
    return SandboxFileError.of(target if where else path, number, reason)


class Scripts:
    """Starts scripts."""

    def __init__(self, open_one_off: OpenOneOff) -> None:
        self._open = open_one_off
        self._running: set[RunningScript] = set()

    @contextlib.asynccontextmanager
    async def start(
        self, script: Script, *arguments: str, env: Mapping[str, str], user: str | None = None
    ) -> AsyncIterator[RunningScript]:
        """Start a script for as long as the block runs; then it sees the end of its input.

        Raises:
            SandboxStoppedError: The instance doesn't run.
            SandboxConnectionError: The engine can't be reached.
        """
        script_id = secrets.token_hex(8)
        argv = ("sh", "-c", _source(script), "agentkit", script_id, *arguments)
        running = RunningScript(await self._open(argv, env=env, user=user), script_id)
        self._running.add(running)
        try:
            yield running
        finally:
            self._running.discard(running)
            await running.one_off.close()

    async def close(self) -> None:
        """Let all see the end of their input."""
        await asyncio.gather(*(running.one_off.close() for running in list(self._running)))
