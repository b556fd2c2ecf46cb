"""What a runner tells of a call that failed, as the error to raise."""

from __future__ import annotations

import errno
import os
from typing import Any

from agentkit.errors import (
    CommandNotFoundError,
    ProcessExistsError,
    ProcessLimitError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileError,
)


def error_of(reply: dict[str, Any]) -> Exception:
    """Return the error for a reply that has one."""
    match reply["error"]:
        case "file":
            return SandboxFileError.of(reply["path"], reply["number"], reply["reason"])
        case "program":
            return CommandNotFoundError(reply["program"])
        case "processes":
            return ProcessLimitError()
        case "exists":
            return ProcessExistsError(reply["name"])
        case "unknown":
            return LookupError(f"no background process {reply['name']!r} was started in this instance")
        case "refused":
            number = errno.ECONNREFUSED
            return ConnectionRefusedError(number, f"{os.strerror(number)}: port {reply['port']} inside the sandbox")
        case "cancelled":
            return SandboxConnectionError("it was cancelled")
        case _:
            return SandboxError(reply["reason"])
