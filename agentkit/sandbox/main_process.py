"""The main process of an instance, the same on every real engine: a watchdog, and what it is told once it runs."""

from __future__ import annotations

import math
import shlex
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

from agentkit.clock import duration_of
from agentkit.sandbox.engine import InstancePlan
from agentkit.sandbox.guest import Guest

#: Where the watchdog, the runner and the owner leave each other notes; in memory, empty after each start.
NOTES = "/run/agentkit"
_ENVIRONMENT = f"{NOTES}/environment"
_WATCHDOG = Path(__file__).with_name("inside") / "watchdog.sh"


def main_process(plan: InstancePlan) -> list[str]:
    """Return program and arguments of the watchdog."""
    lines = _WATCHDOG.read_text(encoding="utf-8").splitlines()
    # Its comments would fill every list of processes.
    script = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    lifetime = duration_of(plan.spec.max_lifetime, "max_lifetime")
    seconds = [str(whole_seconds(plan.inactivity)), str(whole_seconds(lifetime))]
    return ["sh", "-c", script, "agentkit", NOTES, *seconds, *(plan.spec.entrypoint or ())]


async def hand_over(guest: Guest, plan: InstancePlan) -> None:
    """Tell the watchdog what it isn't told at its start: what may change, and what must not be in any image (T11)."""
    await guest.set_inactivity(plan.inactivity)
    await guest.touch()
    if plan.spec.entrypoint is not None and await guest.stat(_ENVIRONMENT) is None:
        await guest.write(_ENVIRONMENT, _environment_of(plan), mode=0o600)


async def _environment_of(plan: InstancePlan) -> AsyncIterator[bytes]:
    """Yield what the entrypoint's shell reads its variables from."""
    for name, value in plan.env.items():
        yield f"export {name}={shlex.quote(value)}\n".encode()


def whole_seconds(duration: timedelta) -> int:
    """Return a duration in seconds, rounded up."""
    return math.ceil(duration.total_seconds())
