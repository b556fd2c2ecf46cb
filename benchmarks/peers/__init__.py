"""The schedulers that are compared, each behind the same few methods."""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks.peers.peer import Peer

_MODULES = {
    "floor-full": "floor",
    "floor-normal": "floor",
    "floor-slow": "floor",
    "agentkit-full": "agentkit_peer",
    "agentkit-process": "agentkit_peer",
    "agentkit-slow": "agentkit_peer",
    "apscheduler": "apscheduler_peer",
    "huey": "huey_peer",
    "dbos-sqlite": "dbos_peer",
}


def peer_class(name: str) -> type[Peer]:
    """Return a peer's class by name."""
    module = importlib.import_module(f"benchmarks.peers.{_MODULES[name]}")
    found: type[Peer] = module.PEERS[name]
    return found


def open_peer(name: str, folder: Path) -> Peer:
    """Return a peer whose store lies in the folder."""
    return peer_class(name)(folder)
