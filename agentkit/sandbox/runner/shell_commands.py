"""A command under way in a shell script of ``ShellGuest``: what goes in, and what comes out of it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections.abc import AsyncIterator
from datetime import timedelta

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.command import Command, Exit, Output, Stderr, Stdout
from agentkit.sandbox.runner.replies import unreadable
from agentkit.sandbox.runner.shell_scripts import RunningScript

#: How long after a command's end, in seconds, something that it left in the background may still print.
_LINGER = 0.5
#: So much later than its time limit, in seconds, a command has ended, or the connection counts as dead.
_OVERDUE = 15.0
_EXIT = re.compile(r"exit (\d{1,3}),(late)?,(memory)?", re.ASCII)


async def feed(script: RunningScript, stdin: bytes) -> None:
    """Send a command's input."""
    # Its end is what tells that the owner is gone; the script knows how much of it is the command's.
    if stdin:
        with contextlib.suppress(SandboxConnectionError):
            await script.one_off.write(stdin)


async def outputs(script: RunningScript, command: Command, begun_at: float) -> AsyncIterator[Output]:
    """Yield what a command prints, and its end."""
    decoders = {1: _decoder(), 2: _decoder()}
    waiting = b""
    loop = asyncio.get_running_loop()
    ended_at = None
    while (piece := await _next(script, command, begun_at, ended_at)) is not None:
        stream, data = piece
        if not script.told:
            # Until the script has begun, an engine may speak in its place.
            waiting += data
            continue
        if (error := script.error(command.cwd, command.argv[0])) is not None:
            raise error
        if ended_at is None and script.told[-1].startswith("exit "):
            ended_at = loop.time()
        if waiting:
            yield _piece(1, waiting, decoders[1].decode(waiting))
            waiting = b""
        if data:
            yield _piece(stream, data, decoders[stream].decode(data))
    await script.check(waiting)
    if waiting:
        yield _piece(1, waiting, decoders[1].decode(waiting))
    for stream, decoder in decoders.items():
        if rest := decoder.decode(b"", final=True):
            yield _piece(stream, b"", rest)
    yield _exit(script.told[-1], timedelta(seconds=(ended_at or loop.time()) - begun_at))


def _exit(told: str, duration: timedelta) -> Exit:
    found = _EXIT.fullmatch(told)
    if found is None:
        raise unreadable()
    return Exit(exit_code=int(found[1]), timed_out=bool(found[2]), out_of_memory=bool(found[3]), duration=duration)


async def _next(
    script: RunningScript, command: Command, begun_at: float, ended_at: float | None
) -> tuple[int, bytes] | None:
    """Return the next piece; None at the end, or a moment after the command's."""
    now = asyncio.get_running_loop().time()
    timeout = None
    if ended_at is not None:
        timeout = max(0.0, ended_at + _LINGER - now)
    elif command.timeout is not None:
        timeout = max(0.0, begun_at + command.timeout.total_seconds() - now) + _OVERDUE
    try:
        async with asyncio.timeout(timeout):
            return await script.read()
    except TimeoutError:
        if ended_at is not None:
            return None
        raise SandboxConnectionError(f"a command didn't end within {_OVERDUE:g} s of its time limit") from None


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _piece(stream: int, data: bytes, text: str) -> Stdout | Stderr:
    return Stdout(data, text) if stream == 1 else Stderr(data, text)
