"""The runner as it is sent into an instance: its modules, its settings, and the command that takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_INSIDE = Path(__file__).parents[1] / "inside"
_PACKAGE = "agentkit.sandbox.inside"
# Each after those that it imports.
_MODULES = (
    "frames",
    "loop",
    "signals",
    "calls",
    "streams",
    "tree",
    "memory",
    "spawn",
    "commands",
    "files",
    "archives",
    "activity",
    "processes",
    "ports",
    "runner",
)
# -I and -S: nothing that the sandbox's user has written is imported.
_COMMAND = 'command -v python3 >/dev/null 2>&1 && exec python3 -I -S -X utf8 -c "$1"; echo agentkit-no-python'


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """What a runner is told at its start.

    Attributes:
        env: Variables of every command, besides those that the runner itself was started with.
        run_directory: Where the watchdog's files and the state of background processes are; gone when the
            instance stops.
        log_directory: Where background processes write what they print; on disk.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    run_directory: str = "/run/agentkit"
    log_directory: str = "/home/agent/.agentkit/processes"


def runner_command() -> tuple[str, ...]:
    """Return what an engine runs inside, as the sandbox's user, with its standard input and output as the channel."""
    return ("sh", "-c", _COMMAND, "agentkit-runner", _source("bootstrap"))


def runner_bundle(settings: RunnerSettings, name: str) -> bytes:
    """Return what is sent first.

    Args:
        settings: What the runner is told.
        name: What the runner is called by those of its commands; another for each.
    """
    modules = [["agentkit", ""], ["agentkit.sandbox", ""], [_PACKAGE, ""]]
    modules += [[f"{_PACKAGE}.{module}", _source(module)] for module in _MODULES]
    told = {
        "env": dict(settings.env),
        "run_directory": settings.run_directory,
        "log_directory": settings.log_directory,
        "name": name,
    }
    bundle = json.dumps({"modules": modules, "settings": told}).encode()
    return b"%10d" % len(bundle) + bundle


@cache
def _source(module: str) -> str:
    return (_INSIDE / f"{module}.py").read_text(encoding="utf-8")
