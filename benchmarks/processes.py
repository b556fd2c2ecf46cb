"""What running processes use, through ``psutil``."""

from __future__ import annotations

import importlib
from typing import Any


def resident_bytes(pid: int | None = None, *, children: bool = False) -> int:
    """Return the resident memory of a process (this one, if None), with its children's if asked."""
    return sum(process.memory_info().rss for process in _processes(pid, children=children))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far."""
    times = [process.cpu_times() for process in _processes(pid, children=True)]
    return float(sum(spent.user + spent.system for spent in times))


def _processes(pid: int | None, *, children: bool) -> list[Any]:
    # Only those who ask pay for the import: a worker is timed from its launch.
    process = importlib.import_module("psutil").Process(pid)
    return [process, *process.children(recursive=True)] if children else [process]
