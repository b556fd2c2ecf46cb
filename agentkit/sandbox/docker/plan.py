"""From the plan of an instance to what Docker is asked to make: decided here, done in ``instances.py``."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from agentkit.sandbox.engine import AGENT, INSTANCE, MANAGED, SANDBOX, SNAPSHOT, SPEC, STORE, InstancePlan
from agentkit.sandbox.main_process import main_process
from agentkit.sandbox.spec import WORKSPACE, SandboxSpec

#: The repository of tags that say what is a snapshot.
SNAPSHOTS = "agentkit/snapshot"
#: Tags that hold on to a deleted snapshot while containers of it are there, and to an import under way.
HELD = "agentkit/held"
IMPORTS = "agentkit/import"
#: Labels of this engine alone: the id of the image that a chain of snapshots began with; "layers bytes" of its last
#: compact form; and the snapshot that a container helps to write.
BASE = "agentkit.docker.base"
COMPACT = "agentkit.docker.compact"
HELPER = "agentkit.docker.helper"
VOLUME = "agentkit.volume"

_OURS = (MANAGED, STORE, AGENT, SANDBOX, INSTANCE, SPEC, SNAPSHOT, BASE, COMPACT, HELPER)
_RUN_SIZE = 64 << 20


def all_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return ours, complete: what an image carries is passed on unless it is overridden (T11)."""
    return {**dict.fromkeys(_OURS, ""), MANAGED: "1", **labels}


def container_of(plan: InstancePlan, image: str, labels: Mapping[str, str], *, processors: int) -> dict[str, Any]:
    """Return what the engine is asked for; the spec's ``env`` isn't part of it, or a commit would keep it (T11)."""
    return {
        "Image": image,
        "Hostname": "sandbox",
        "User": plan.spec.user,
        "WorkingDir": WORKSPACE,
        "Entrypoint": main_process(plan),
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "Labels": all_labels(labels),
        "HostConfig": {
            **_limits(plan.spec, processors),
            **_protection(),
            "NetworkMode": "bridge" if plan.spec.network == "full" else "none",
            "Tmpfs": {"/run": f"rw,nosuid,nodev,size={_RUN_SIZE},mode=755,uid={plan.spec.uid},gid={plan.spec.gid}"},
            "Mounts": list(_mounts(plan)),
        },
    }


def _limits(spec: SandboxSpec, processors: int) -> dict[str, Any]:
    return {
        "Memory": spec.memory_bytes,
        # Memory and swap together: without it a sandbox may use as much swap again (T14).
        "MemorySwap": spec.memory_bytes,
        "PidsLimit": spec.pids,
        # The engine refuses more than there are.
        "NanoCpus": int(min(spec.cpus, processors) * 1_000_000_000),
        # What the entrypoint prints must not fill the host's disk.
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
    }


def _protection() -> dict[str, Any]:
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Init": True,
        "IpcMode": "private",
        "RestartPolicy": {"Name": "no"},
    }


def _mounts(plan: InstancePlan) -> Iterable[dict[str, Any]]:
    store = plan.labels[STORE]
    for volume in plan.spec.volumes:
        options = {"NoCopy": True, "Labels": volume_labels(volume.name, store)}
        source = volume_name(volume.name, store)
        yield {"Type": "volume", "Source": source, "Target": volume.path, "VolumeOptions": options}
    for mount in plan.spec.mounts:
        if mount.host_directory is None:
            # A copy of a bucket: kept over stop and start, gone with the container, never in a snapshot.
            yield {"Type": "volume", "Target": mount.path, "VolumeOptions": {"NoCopy": True}}
        else:
            source, read_only = mount.host_directory, mount.read_only
            yield {"Type": "bind", "Source": source, "Target": mount.path, "ReadOnly": read_only}


def volume_name(name: str, store: str) -> str:
    """Return the engine's name of a volume, so that two stores never share one."""
    return f"agentkit-{store}-{name}"


def volume_labels(name: str, store: str) -> dict[str, str]:
    """Return what says that a volume is ours, and whose."""
    return {MANAGED: "1", STORE: store, VOLUME: name}


def bucket_paths(plan: InstancePlan) -> list[str]:
    """Return where copies of buckets go."""
    return [mount.path for mount in plan.spec.mounts if mount.host_directory is None]


def directories(paths: Iterable[str], spec: SandboxSpec, *, made_at: datetime) -> bytes:
    """Return an archive of empty directories of the sandbox's user; one that exists keeps its files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            member = tarfile.TarInfo(path.strip("/"))
            member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o755, made_at.timestamp()
            member.uid, member.gid = spec.uid, spec.gid
            archive.addfile(member)
    return buffer.getvalue()
