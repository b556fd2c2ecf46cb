"""What a sandbox is made of: the settings a user writes, checked when they are given."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Literal
from urllib.parse import unquote

from agentkit.clock import Duration, duration_of
from agentkit.errors import ConfigurationError
from agentkit.json_value import to_text

#: Used when neither the spec nor ``$AGENTKIT_SANDBOX_IMAGE`` names one: Debian with Python and git.
PUBLIC_IMAGE = "docker.io/library/python:3.12-bookworm"
HOME = "/home/agent"
WORKSPACE = "/workspace"
#: The longest inactivity timeout (SPEC 12.5).
MAX_INACTIVITY = timedelta(hours=6)

_MEMORY = re.compile(r"(\d+)([bkmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_VOLUME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
#: Where nothing lasting can be: what is there is made anew at each start.
_SYSTEM = frozenset({"run", "proc", "sys", "dev"})
_LAST_ID = (1 << 31) - 1
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Hosts that a sandbox may reach, over HTTP and HTTPS, through a proxy in the owner's process (SPEC 12.9).

    Attributes:
        hosts: Names such as ``pypi.org``, or ``*.pythonhosted.org`` for every name below one.
    """

    hosts: Sequence[str]

    def __post_init__(self) -> None:
        hosts = tuple(str(host).lower().rstrip(".") for host in self.hosts)
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ConfigurationError(f"Allowlist takes names of hosts such as 'pypi.org', got {host!r}")
        object.__setattr__(self, "hosts", hosts)


@dataclass(frozen=True, slots=True)
class Volume:
    """A disk that outlives every instance and is never part of a snapshot.

    Attributes:
        name: Shared by all sandboxes of this store that name it.
        path: Where it appears.
    """

    name: str
    path: str

    def __post_init__(self) -> None:
        if not _VOLUME.fullmatch(self.name):
            raise ConfigurationError(f"a volume's name has letters, digits, '_', '.' and '-', got {self.name!r}")
        _check_path(self.path, "Volume.path")


@dataclass(frozen=True, slots=True)
class BucketMount:
    """A bucket or a host directory that is there again after each start (SPEC 12.11).

    Attributes:
        url: ``s3://bucket/prefix``, or a directory of the host, absolute or as ``file:///path``: naming it lets the
            sandbox read and write it.
        path: Where it appears.
        endpoint: Address of an S3-compatible server; None means AWS.
        read_only: Changes made inside are not written back.
        max_file_size: Larger files are not pushed to a bucket, in bytes: an empty one of a terabyte is made in no time.
    """

    url: str
    path: str
    endpoint: str | None = None
    read_only: bool = False
    max_file_size: int = 10 << 30

    def __post_init__(self) -> None:
        _check_path(self.path, "BucketMount.path")
        if not self.url.startswith(("s3://", "file:///", "/")):
            raise ConfigurationError(f"BucketMount.url must be s3://… or an absolute directory, got {self.url!r}")
        directory = self.host_directory
        if directory is not None and (".." in directory.split("/") or any(ord(letter) < 32 for letter in directory)):
            raise ConfigurationError(f"BucketMount.url must be a plain path, got {self.url!r}")

    @property
    def host_directory(self) -> str | None:
        """The directory of the host, or None for a bucket."""
        if self.url.startswith("s3://"):
            return None
        return unquote(self.url.removeprefix("file://")) if self.url.startswith("file://") else self.url


Network = Literal["none", "full"] | Allowlist


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What a sandbox is made of (SPEC 12.1). Durations are seconds or ``timedelta``.

    Attributes:
        image: What to start from; None means ``$AGENTKIT_SANDBOX_IMAGE``, else a public image with Python and git.
        entrypoint: A program that runs for as long as the sandbox does; None means none.
        env: Variables of every command. Secrets go to ``exec(env=…)`` instead.
        user: Numeric ``uid:gid`` that commands run as.
        cpus: Processors, in fractions.
        memory: Bytes, or text such as ``"512m"``; swap included.
        pids: Processes and threads at one time.
        network: ``"none"``, ``"full"`` (whatever the host reaches), or an ``Allowlist``.
        volumes: Disks that outlive the instance.
        mounts: Buckets and host directories.
        ports: The only ports that ``expose`` may open; empty means any.
        inactivity_timeout: Unused for this long, the sandbox stops; at most 6 h.
        max_lifetime: A container that has run for this long since its start stops.
        keep_stopped: A container stopped for this long is removed.
        autosave: Save a snapshot before a container is removed by anything but ``destroy()``.
    """

    image: str | None = None
    entrypoint: Sequence[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "1000:1000"
    cpus: float = 1
    memory: str | int = "1g"
    pids: int = 256
    network: Network = "none"
    volumes: Sequence[Volume] = ()
    mounts: Sequence[BucketMount] = ()
    ports: Sequence[int] = ()
    inactivity_timeout: Duration = 600
    max_lifetime: Duration = 86_400
    keep_stopped: Duration = 86_400
    autosave: bool = True

    def __post_init__(self) -> None:
        check_inactivity(self.inactivity_timeout)
        for name in ("max_lifetime", "keep_stopped"):
            if duration_of(getattr(self, name), name) <= timedelta(0):
                raise ConfigurationError(f"SandboxSpec.{name} must be more than 0 s")
        words: object = self.entrypoint
        if isinstance(words, str):
            raise ConfigurationError("SandboxSpec.entrypoint is a list of words, such as ['python', 'serve.py']")
        if not re.fullmatch(r"\d+:\d+", self.user):
            raise ConfigurationError(f"SandboxSpec.user must be 'uid:gid' in numbers, got {self.user!r}")
        if max(self.uid, self.gid) > _LAST_ID:
            raise ConfigurationError(f"SandboxSpec.user goes up to {_LAST_ID}, got {self.user!r}")
        if not math.isfinite(self.cpus) or self.cpus <= 0:
            raise ConfigurationError(f"SandboxSpec.cpus must be more than 0, got {self.cpus!r}")
        if self.pids < 8:
            raise ConfigurationError(f"SandboxSpec.pids must be 8 or more, got {self.pids!r}")
        if self.memory_bytes < 16 << 20:
            raise ConfigurationError(f"SandboxSpec.memory must be 16 MiB or more, got {self.memory!r}")
        if not isinstance(self.network, Allowlist) and self.network not in ("none", "full"):
            raise ConfigurationError(f"SandboxSpec.network must be 'none', 'full' or Allowlist, got {self.network!r}")
        for name in self.env:
            check_variable(name, "SandboxSpec.env")
        for port in self.ports:
            check_port(port)
        self._check_places()

    def _check_places(self) -> None:
        places = [volume.path for volume in self.volumes] + [mount.path for mount in self.mounts]
        if len(set(places)) != len(places):
            raise ConfigurationError("SandboxSpec: two volumes or mounts have the same path")
        buckets = [mount.path for mount in self.mounts if mount.host_directory is None]
        for outer, inner in [*product(buckets, places), *product(places, buckets)]:
            # All that is below a bucket's path is copied to it, a volume's files too.
            if inner.rstrip("/").startswith(outer.rstrip("/") + "/"):
                raise ConfigurationError(f"SandboxSpec: {inner!r} is below {outer!r}; a bucket needs a path of its own")
        writable = [mount.host_directory for mount in self.mounts if not mount.read_only]
        for above, below in product(writable, (mount.host_directory for mount in self.mounts)):
            # A link in its place would be followed at the next start, to anywhere on the host.
            if _is_below(below, above):
                raise ConfigurationError(
                    f"SandboxSpec: {below!r} is below {above!r}, which the sandbox may write to; mount one of them, or "
                    "the outer one with read_only=True"
                )

    @property
    def image_reference(self) -> str:
        """The image that is meant, whoever named it."""
        return self.image or os.environ.get("AGENTKIT_SANDBOX_IMAGE") or PUBLIC_IMAGE

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        if isinstance(self.memory, int):
            return self.memory
        found = _MEMORY.fullmatch(self.memory.strip())
        if found is None:
            raise ConfigurationError(f"SandboxSpec.memory must be bytes or text such as '512m', got {self.memory!r}")
        return int(found[1]) * _UNITS[found[2].lower()]

    @property
    def uid(self) -> int:
        """The user's number."""
        return int(self.user.partition(":")[0])

    @property
    def gid(self) -> int:
        """The group's number."""
        return int(self.user.partition(":")[2])

    @property
    def variables(self) -> dict[str, str]:
        """The environment of every command."""
        return {"HOME": HOME, **self.env}

    @property
    def fingerprint(self) -> str:
        """A hash of what can't change while a container lives."""
        parts = {
            "image": self.image_reference,
            "entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "env": dict(sorted(self.env.items())),
            "limits": [self.user, float(self.cpus), self.memory_bytes, self.pids],
            "network": "allowlist" if isinstance(self.network, Allowlist) else self.network,
            "volumes": sorted((volume.path, volume.name) for volume in self.volumes),
            "mounts": sorted((mount.path, mount.url, mount.read_only) for mount in self.mounts),
            "lifetime": duration_of(self.max_lifetime, "max_lifetime").total_seconds(),
        }
        return hashlib.sha256(to_text(parts, "spec").encode()).hexdigest()[:24]


def _is_below(inner: str | None, outer: str | None) -> bool:
    if inner is None or outer is None:
        return False
    return os.path.normpath(inner).startswith(os.path.normpath(outer).rstrip("/") + "/")


def check_inactivity(value: Duration) -> timedelta:
    """Return an inactivity timeout.

    Raises:
        ConfigurationError: It isn't between a second and 6 hours.
    """
    timeout = duration_of(value, "inactivity_timeout")
    if not timedelta(seconds=1) <= timeout <= MAX_INACTIVITY:
        raise ConfigurationError(f"inactivity_timeout must be from 1 s to 6 h, got {value!r}")
    return timeout


def check_variable(name: object, where: str) -> None:
    """Make sure that something is the name of an environment variable.

    Raises:
        ConfigurationError: No variable can have it.
    """
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise ConfigurationError(f"{where}: {name!r} is no name of a variable")


def check_port(port: int) -> int:
    """Return a port's number.

    Raises:
        ConfigurationError: There is no such port.
    """
    if type(port) is not int or not 0 < port < 65_536:
        raise ConfigurationError(f"a port is a number from 1 to 65535, got {port!r}")
    return port


def _check_path(path: str, name: str) -> None:
    if not path.startswith("/") or path == "/" or ".." in path.split("/") or any(ord(letter) < 32 for letter in path):
        raise ConfigurationError(f"{name} must be an absolute path inside the sandbox, got {path!r}")
    if path.split("/")[1] in _SYSTEM:
        raise ConfigurationError(f"{name} can't be below /{path.split('/')[1]}, which is the system's, got {path!r}")
