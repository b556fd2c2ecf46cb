"""What a runner says, read with suspicion: all that is inside has one user, so code in there may speak in its place."""

from __future__ import annotations

import errno
import json
import os
from datetime import timedelta

from agentkit.errors import (
    CommandNotFoundError,
    ProcessExistsError,
    ProcessLimitError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileError,
)
from agentkit.sandbox.command import Exit
from agentkit.sandbox.guest import FileInfo, ProcessInfo

Reply = dict[str, object]

#: Directories with more entries than this are walked, not listed.
MOST_ENTRIES = 200_000
_LONGEST = timedelta(days=36_500).total_seconds()


def parse(payload: bytes) -> Reply:
    """Return the object that a payload holds.

    Raises:
        ValueError: It holds none.
    """
    try:
        value = json.loads(payload)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def unreadable() -> SandboxConnectionError:
    """Return the error for an answer that no runner gives."""
    return SandboxConnectionError("an answer from inside the sandbox can't be read")


def error_of(reply: Reply) -> Exception:
    """Return the error that a reply tells of."""
    match reply:
        case {"error": "file", "path": str(path), "number": int(number), "reason": str(reason)}:
            return SandboxFileError.of(path, number, reason)
        case {"error": "program", "program": str(program)}:
            return CommandNotFoundError(program)
        case {"error": "processes"}:
            return ProcessLimitError()
        case {"error": "exists", "name": str(name)}:
            return ProcessExistsError(name)
        case {"error": "unknown", "name": str(name)}:
            return LookupError(f"no background process {name!r} was started in this instance")
        case {"error": "refused", "port": int(port)}:
            number = errno.ECONNREFUSED
            return ConnectionRefusedError(number, f"{os.strerror(number)}: port {port} inside the sandbox")
        case {"error": "cancelled"}:
            return SandboxConnectionError("it was cancelled")
        case {"error": "other", "reason": str(reason)}:
            return SandboxError(reason)
        case _:
            return unreadable()


def flag(reply: Reply, name: str) -> bool:
    """Return a yes or no of a reply.

    Raises:
        SandboxConnectionError: There is none.
    """
    value = reply.get(name)
    if not isinstance(value, bool):
        raise unreadable()
    return value


def exit_code(reply: Reply) -> int:
    """Return the exit code of a background process.

    Raises:
        SandboxConnectionError: There is none.
    """
    match reply:
        case {"exit_code": int(code)}:
            return code
        case _:
            raise unreadable()


def exit_of(reply: Reply) -> tuple[Exit, int]:
    """Return the end of a command, and how many of its processes couldn't be ended.

    Raises:
        SandboxConnectionError: It isn't one.
    """
    match reply:
        case {
            "exit_code": int(code),
            "timed_out": bool(timed_out),
            "out_of_memory": bool(out_of_memory),
            "duration": int() | float() as seconds,
            "left": int(left),
        } if 0 <= seconds < _LONGEST:
            duration = timedelta(seconds=seconds)
            return Exit(exit_code=code, timed_out=timed_out, out_of_memory=out_of_memory, duration=duration), left
        case _:
            raise unreadable()


def file_info(value: object) -> FileInfo:
    """Return a file.

    Raises:
        SandboxConnectionError: It isn't one.
    """
    match value:
        case {
            "path": str(path),
            "type": "file" | "directory" | "symlink" | "other" as kind,
            "size": int(size),
            "mode": int(mode),
            "modified_at_ms": int(modified_at_ms),
            "target": str() | None as target,
        }:
            return FileInfo(path=path, type=kind, size=size, mode=mode, modified_at_ms=modified_at_ms, target=target)
        case _:
            raise unreadable()


def file_infos(line: bytes) -> list[FileInfo]:
    """Return the files of one line of a listing.

    Raises:
        SandboxConnectionError: It isn't one.
    """
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise unreadable() from None
    if not isinstance(values, list):
        raise unreadable()
    return [file_info(value) for value in values]


def process_info(value: object) -> ProcessInfo:
    """Return a background process.

    Raises:
        SandboxConnectionError: It isn't one.
    """
    match value:
        case {
            "name": str(name),
            "argv": [*words],
            "pid": int(pid),
            "exit_code": int() | None as code,
            "log": str(log),
        }:
            return ProcessInfo(name=name, argv=tuple(str(word) for word in words), pid=pid, exit_code=code, log=log)
        case _:
            raise unreadable()


def process_infos(reply: Reply) -> list[ProcessInfo]:
    """Return the background processes of a reply.

    Raises:
        SandboxConnectionError: It has none.
    """
    match reply:
        case {"processes": [*values]}:
            return [process_info(value) for value in values]
        case _:
            raise unreadable()
