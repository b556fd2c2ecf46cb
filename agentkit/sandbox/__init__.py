"""A named Linux environment for code nobody trusts yet: started, used, left alone, found again (SPEC 12).

Names are loaded when they are first used; no engine's library is, before an engine of its kind is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit.sandbox.command import ExecResult, Exit, Output, Stderr, Stdout
    from agentkit.sandbox.engine import Feature, PullProgress, SandboxEngine
    from agentkit.sandbox.execution import Stream
    from agentkit.sandbox.guest import FileInfo, ProcessInfo
    from agentkit.sandbox.processes import Process
    from agentkit.sandbox.sandbox import Sandbox, SandboxInfo
    from agentkit.sandbox.snapshots import Snapshot
    from agentkit.sandbox.spec import Allowlist, BucketMount, SandboxSpec, Volume
    from agentkit.sandbox.stops import Reason, Started, Stopped

_HOMES = {
    "Allowlist": "spec",
    "BucketMount": "spec",
    "ExecResult": "command",
    "Exit": "command",
    "Feature": "engine",
    "FileInfo": "guest",
    "Output": "command",
    "Process": "processes",
    "ProcessInfo": "guest",
    "PullProgress": "engine",
    "Reason": "stops",
    "Sandbox": "sandbox",
    "SandboxEngine": "engine",
    "SandboxInfo": "sandbox",
    "SandboxSpec": "spec",
    "Snapshot": "snapshots",
    "Started": "stops",
    "Stderr": "command",
    "Stdout": "command",
    "Stopped": "stops",
    "Stream": "execution",
    "Volume": "spec",
}

__all__ = [
    "Allowlist",
    "BucketMount",
    "ExecResult",
    "Exit",
    "Feature",
    "FileInfo",
    "Output",
    "Process",
    "ProcessInfo",
    "PullProgress",
    "Reason",
    "Sandbox",
    "SandboxEngine",
    "SandboxInfo",
    "SandboxSpec",
    "Snapshot",
    "Started",
    "Stderr",
    "Stdout",
    "Stopped",
    "Stream",
    "Volume",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module 'agentkit.sandbox' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(f"agentkit.sandbox.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
