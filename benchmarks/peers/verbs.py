"""The entry points of a peer's processes: plain arguments in, plain values out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers import open_peer
from benchmarks.peers.peer import Load


def enqueue(peer: str, load: list[Any]) -> tuple[int, float]:
    """Run one enqueue measurement on an empty store."""
    opened = open_peer(peer, Path.cwd())
    opened.reset()
    return opened.enqueue(Load(*load))


def put(peer: str, jobs: list[Any], function: str = "noop") -> None:
    """Store jobs in an empty store."""
    opened = open_peer(peer, Path.cwd())
    opened.reset()
    opened.put(jobs, function)


def fill(peer: str, count: int) -> None:
    """Store many jobs in an empty store."""
    opened = open_peer(peer, Path.cwd())
    opened.reset()
    if count:
        opened.fill(count)


def unfinished(peer: str) -> int:
    """Count what is not yet recorded as done."""
    return open_peer(peer, Path.cwd()).unfinished()


def work(peer: str) -> None:
    """Serve until killed."""
    open_peer(peer, Path.cwd()).work()
