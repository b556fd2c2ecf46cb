"""Where a bubblewrap sandbox's files are on the host: its system, disk, volumes and mounts, made ready for a start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from agentkit.errors import ImageError, SandboxError, SandboxStoppedError, UnsupportedByEngineError
from agentkit.sandbox.bubblewrap.host import HostUser
from agentkit.sandbox.bubblewrap.store import InstanceFolder, Record, StateDirectory
from agentkit.sandbox.bubblewrap.view import DISK, Shown, View, disk_modes, settings_files
from agentkit.sandbox.engine import STORE, InstancePlan
from agentkit.sandbox.spec import SandboxSpec


def image_directory(spec: SandboxSpec) -> str:
    """Return the directory with the system files that a spec asks for; empty means this machine's own.

    Raises:
        ImageError: There is no Linux in it.
        UnsupportedByEngineError: It is the name of an image.
    """
    # $AGENTKIT_SANDBOX_IMAGE is for whatever engine there is, and may name what only Docker knows.
    image = spec.image or spec.image_reference
    if image.startswith("/"):
        if not any(os.path.isdir(f"{image}/{name}") for name in ("bin", "usr/bin")):
            raise ImageError(image, "it is no directory with a root file system")
        return image
    if spec.image:
        mend = "name a directory with a root file system, or no image, which means this machine's own programs"
        raise UnsupportedByEngineError("bubblewrap", f"the image {spec.image!r}", mend)
    return ""


def refuse_nested(spec: SandboxSpec) -> None:
    """Make sure that no volume or mount lies in another, which a sandbox that shares it could lead elsewhere.

    Raises:
        UnsupportedByEngineError: One does.
    """
    places = [volume.path for volume in spec.volumes] + [mount.path for mount in spec.mounts]
    for outer, inner in pairwise(sorted(f"{path.rstrip('/')}/" for path in places)):
        if inner.startswith(outer):
            mend = f"give {inner.rstrip('/')!r} a place outside of {outer.rstrip('/')!r}"
            raise UnsupportedByEngineError("bubblewrap", "a volume or mount inside of another", mend)


def make_disk(folder: InstanceFolder, record: Record) -> None:
    """Make the empty disk of a new instance, and all that lies beside it."""
    # Others may pass through: as root the sandbox's user is somebody else. The directory above keeps them out.
    folder.path.mkdir(mode=0o711)
    folder.path.chmod(0o711)
    user = HostUser(record.uid, record.gid)
    own_directory(folder.disk, user, 0o700)
    for name, mode in disk_modes().items():
        own_directory(folder.disk / name, user, mode)
    folder.buckets.mkdir(mode=0o711)
    for number in range(len(record.buckets)):
        own_directory(folder.buckets / str(number), user, 0o755)


def write_settings(folder: InstanceFolder, spec: SandboxSpec) -> None:
    """Write what of /etc is made for the instance."""
    folder.settings.mkdir(mode=0o755, exist_ok=True)
    for name, content in settings_files(spec.uid, spec.gid).items():
        path = folder.settings / name
        path.write_text(content, encoding="utf-8")
        path.chmod(0o644)


def own_directory(path: Path, user: HostUser, mode: int) -> None:
    """Make a directory of the sandbox's user, unless it is there."""
    if path.is_dir():
        return
    path.mkdir(mode=mode)
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, user.uid, user.gid)


def view_of(state: StateDirectory, folder: InstanceFolder, record: Record, plan: InstancePlan) -> View:
    """Return what an instance sees, once everything that it is to see is there.

    Raises:
        SandboxError: A directory of the host's isn't there.
        SandboxStoppedError: Something else is now where a volume or mount belongs.
    """
    shown = tuple(_shown(state, folder, record, plan))
    for one in shown:
        _make_way(folder.disk, one.path, HostUser(record.uid, record.gid))
    return View(
        uid=plan.spec.uid,
        gid=plan.spec.gid,
        disk=folder.disk,
        settings=folder.settings,
        image=Path(record.image) if record.image else None,
        shown=shown,
        has_network=plan.spec.network == "full",
    )


def _shown(state: StateDirectory, folder: InstanceFolder, record: Record, plan: InstancePlan) -> Iterator[Shown]:
    user = HostUser(record.uid, record.gid)
    for volume in plan.spec.volumes:
        path = state.volume(plan.labels.get(STORE, ""), volume.name)
        path.parent.mkdir(mode=0o711, exist_ok=True)
        own_directory(path, user, 0o755)
        yield Shown(source=path, path=volume.path)
    for mount in plan.spec.mounts:
        if mount.host_directory is None:
            # The owner copies what was changed back, whether that is allowed or not.
            yield Shown(source=folder.buckets / str(record.buckets.index(mount.path)), path=mount.path)
        elif os.path.isdir(mount.host_directory):
            yield Shown(source=Path(mount.host_directory), path=mount.path, read_only=mount.read_only)
        else:
            raise SandboxError(f"the directory {mount.host_directory!r} of a BucketMount isn't there")


def _make_way(disk: Path, path: str, user: HostUser) -> None:
    """Make the directories that something is mounted at, where the sandbox could have put a link in their place."""
    for name, place in DISK.items():
        if path != place and not path.startswith(f"{place}/"):
            continue
        current = disk / name
        for part in filter(None, path[len(place) :].split("/")):
            current /= part
            if current.is_symlink() or (current.exists() and not current.is_dir()):
                raise SandboxStoppedError(f"{path} is to be a volume or mount, but a file or link is in its way")
            own_directory(current, user, 0o755)
