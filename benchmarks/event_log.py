"""What jobs of every peer do: append one line to a file that the driver reads."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import NamedTuple

VARIABLE = "AGENTKIT_BENCHMARK_LOG"
SLOW_SECONDS = 3.0


class Event(NamedTuple):
    """One line: a job's number, when it was written, when the job was due (seconds since the epoch)."""

    number: int
    at: float
    due: float


class _Log:
    descriptor: int | None = None


def record(tag: str, number: int, due: float = 0.0) -> None:
    """Append an event: a single write, a few microseconds."""
    if _Log.descriptor is None:
        _Log.descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_Log.descriptor, f"{tag} {number} {time.time():.6f} {due:.6f}\n".encode())


def ready() -> None:
    """Say that a due job would now be run."""
    record("ready", 0)


def noop(number: int, due: float = 0.0) -> None:
    """Run a job that does nothing."""
    record("run", number, due)


def slow(number: int, due: float = 0.0) -> None:
    """Run a job that takes three seconds."""
    record("run", number, due)
    time.sleep(SLOW_SECONDS)
    record("end", number, due)


async def slow_async(number: int, due: float = 0.0) -> None:
    """Run a job that takes three seconds, in an event loop."""
    record("run", number, due)
    await asyncio.sleep(SLOW_SECONDS)
    record("end", number, due)


def events(path: Path, tag: str) -> list[Event]:
    """Return the events of a tag, in the order of writing."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines()]
    return [Event(int(line[1]), float(line[2]), float(line[3])) for line in lines if line[0] == tag]
