"""The protocol of what runs sandboxes: Docker, bubblewrap, and the in-memory one of ``agentkit.testing``.

An engine knows instances by name and nothing of agents: what an instance is for stands in its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from agentkit.clock import Clock
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import SandboxSpec

# Labels that tell what is ours. Every one is set on each instance and snapshot, so that an image passes none on.
MANAGED = "agentkit.managed"  # "1"
STORE = "agentkit.store"  # id of the store whose agent it belongs to
AGENT = "agentkit.agent"  # Class/name
SANDBOX = "agentkit.sandbox"  # id of the agent's capability
INSTANCE = "agentkit.instance"  # id of one container
SPEC = "agentkit.spec"  # fingerprint of the spec
SNAPSHOT = "agentkit.snapshot"  # id of a saved one; on an instance, what it was started from

#: What the main process ends with (``watchdog.sh``).
EXIT_INACTIVE = 75
EXIT_LIFETIME = 76
EXIT_ASKED = 143

#: What engines differ in; the README's table and the conformance suite go by these.
Feature = Literal[
    "images",  # starts from an image of the user's choice, pulled if need be
    "owner_may_die",  # goes on running when the owner's process ends
    "process_tree",  # real processes: trees, signals, sessions, stdin
    "memory_limit",  # the memory of all processes together is bounded
    "memory_report",  # tells whether a command failed for want of memory
    "process_limit",
    "cpu_limit",
    "network",  # "full"
    "allowlist",
    "other_users",  # exec(user=…)
    "volumes",
    "host_directories",
    "isolation",  # fit for code nobody trusts
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan:
    """What an instance is to be made as.

    Attributes:
        name: The engine's name for it; one at a time exists under it.
        source: A snapshot's id, or None for the spec's image.
        spec: Limits, user, network, volumes, host directories, entrypoint.
        env: The environment of every command and of the entrypoint; kept in memory only.
        labels: All of ours.
        inactivity: After how much inactivity it stops.
    """

    name: str
    source: str | None
    spec: SandboxSpec
    env: Mapping[str, str]
    labels: Mapping[str, str]
    inactivity: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance as the engine sees it now.

    Attributes:
        name: The engine's name for it.
        is_running: Its main process runs.
        labels: Ours and those of others.
        exit_code: Of the main process, once it has stopped.
        out_of_memory: The engine says that it ended for want of memory.
        created_at: By the engine's clock.
        stopped_at: By the engine's clock, once it has stopped.
    """

    name: str
    is_running: bool
    labels: Mapping[str, str]
    exit_code: int | None = None
    out_of_memory: bool = False
    created_at: datetime
    stopped_at: datetime | None = None

    @property
    def id(self) -> str:
        """What tells it from earlier ones of its name; empty if it isn't ours."""
        return self.labels.get(INSTANCE, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedImage:
    """A saved root file system.

    Attributes:
        id: The snapshot's id.
        labels: Ours.
        size: Bytes, of what differs from the image it was started from where the engine can tell, else of all.
        saved_at: When it was made.
    """

    id: str
    labels: Mapping[str, str]
    size: int
    saved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far the download of an image is.

    Attributes:
        image: What is downloaded.
        done: Bytes so far.
        total: Bytes in all, as far as is known yet.
        status: What the registry's client says, such as ``Extracting``.
    """

    image: str
    done: int
    total: int
    status: str


OnProgress = Callable[[PullProgress], None]


class SandboxEngine(Protocol):
    """Runs instances. One conformance suite runs on every engine; blocking libraries go through threads.

    Every method raises ``EngineUnavailableError`` when the engine can't be reached, naming what was tried.

    Attributes:
        name: ``docker``, ``bubblewrap``, ``memory``.
        features: What it can do.
        clock: Whose time passes inside; None means the agent's own.
    """

    name: str
    features: frozenset[Feature]
    clock: Clock | None

    async def check(self) -> None:
        """Make sure that it works, by using it."""

    async def prepare(self, image: str, on_progress: OnProgress | None = None) -> None:
        """Fetch an image unless it is there.

        Raises:
            ImageError: There is none, or it can't be fetched.
        """

    async def create(self, plan: InstancePlan) -> Instance:
        """Make and start an instance; a start that fails leaves nothing.

        Raises:
            NameInUseError: One of this name exists.
            ImageError: The image doesn't exist or can't host a sandbox.
            SnapshotNotFoundError: The snapshot doesn't exist.
            UnsupportedByEngineError: The plan asks for what this engine can't do.
        """

    async def start(self, plan: InstancePlan) -> Instance:
        """Start a stopped instance again, with its disk.

        Raises:
            SandboxStoppedError: It is gone, or doesn't start.
        """

    async def stop(self, name: str, *, grace: timedelta) -> None:
        """Send SIGTERM to every process, SIGKILL after ``grace``; no error if it doesn't run or is gone."""

    async def remove(self, name: str) -> None:
        """End an instance at once and remove its disk, never its volumes; no error if it is gone."""

    async def find(self, name: str) -> Instance | None:
        """Return an instance of ours, or None.

        Raises:
            SandboxError: Something of that name exists that no label says is ours.
        """

    async def instances(self) -> list[Instance]:
        """Return all instances of ours, of every store."""

    async def wait(self, name: str) -> None:
        """Return as soon as the instance doesn't run, or isn't there."""

    async def enter(self, name: str, plan: InstancePlan) -> Guest:
        """Open the way into a running instance.

        Raises:
            SandboxStoppedError: It doesn't run.
        """

    async def save(self, name: str, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
        """Save the disk of an instance, running or not; nothing is left of one that fails.

        Repeated saving and starting neither grows without bound nor meets the engine's limit of layers.
        """

    async def saved(self) -> list[SavedImage]:
        """Return all snapshots of ours, of every store."""

    async def copy_saved(self, snapshot: str, copy: str, labels: Mapping[str, str]) -> SavedImage:
        """Make another snapshot of the same content, with a life of its own.

        Raises:
            SnapshotNotFoundError: There is none of that id.
        """

    async def delete_saved(self, snapshot: str) -> bool:
        """Delete a snapshot; False if there was none. What was made or started from it stays whole."""

    async def remove_volume(self, name: str, store: str) -> bool:
        """Remove a volume of a store; False if there was none."""

    async def close(self) -> None:
        """Let go of connections and threads; instances go on."""
