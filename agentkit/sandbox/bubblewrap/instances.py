"""Instances of the bubblewrap engine: made, started, ended, saved and removed; every call blocks."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentkit.errors import ImageError, NameInUseError, SandboxError, SandboxStoppedError, SnapshotNotFoundError
from agentkit.sandbox.bubblewrap.host import Bubblewrap, HostUser
from agentkit.sandbox.bubblewrap.places import (
    image_directory,
    make_disk,
    refuse_nested,
    view_of,
    write_settings,
)
from agentkit.sandbox.bubblewrap.processes import is_gone, send_signal
from agentkit.sandbox.bubblewrap.store import InstanceFolder, Record, StateDirectory
from agentkit.sandbox.bubblewrap.view import view_arguments
from agentkit.sandbox.engine import STORE, Instance, InstancePlan, SavedImage
from agentkit.sandbox.main_process import main_process

#: Looks at a sandbox that is starting: so many, so far apart, in seconds.
_LOOKS, _LOOK = 4_000, 0.005
#: Limits processes, which the kernel counts by sandbox only within its own namespace; then nobody listens any more.
_BEGINNING = (
    *(
        "sh",
        "-c",
        '[ -z "$1" ] || ulimit -p "$1" 2>/dev/null || ulimit -u "$1" || exit; shift; exec "$@" >/dev/null 2>&1',
    ),
    "beginning",
)
#: How long a killed sandbox may take to be gone, in seconds.
_DEATH = 10.0
#: GNU tar says 1 where a file changed while it was read.
_READ = (0, 1)


def create(host: Bubblewrap, state: StateDirectory, plan: InstancePlan, *, now_ms: int) -> Instance:
    """Make and start an instance; of one that doesn't start nothing is left."""
    refuse_nested(plan.spec)
    image = _image(state, plan)
    user = host.user_for(plan.spec.uid, plan.spec.gid)
    with state.lock(plan.name) as lock:
        folder = state.instance(plan.name)
        if folder.record() is not None:
            raise NameInUseError(plan.name)
        _clear(host, folder)
        record = Record(
            name=plan.name,
            labels=dict(plan.labels),
            created_at_ms=now_ms,
            image=image,
            uid=user.uid,
            gid=user.gid,
            buckets=[mount.path for mount in plan.spec.mounts if mount.host_directory is None],
            volumes=[volume.name for volume in plan.spec.volumes],
        )
        try:
            make_disk(folder, record)
            if plan.source is not None:
                _unpack(host, state, plan.source, folder, user)
            folder.write_record(record)
            _run(host, state, folder, record, plan, lock=lock)
        except BaseException:
            _end(folder)
            folder.forget()
            _clear(host, folder)
            raise
        return folder.instance(record)


def start(host: Bubblewrap, state: StateDirectory, plan: InstancePlan) -> Instance:
    """Start a stopped instance again; one that runs is left as it is."""
    with state.lock(plan.name) as lock:
        folder = state.instance(plan.name)
        record = folder.record()
        if record is None:
            state.unlock_for_good(plan.name)
            raise SandboxStoppedError("it was removed")
        if not folder.living():
            try:
                _run(host, state, folder, record, plan, lock=lock)
            except SandboxStoppedError:
                raise
            except SandboxError as error:
                raise SandboxStoppedError(f"it doesn't start: {error}") from error
        return folder.instance(record)


def _run(
    host: Bubblewrap, state: StateDirectory, folder: InstanceFolder, record: Record, plan: InstancePlan, *, lock: int
) -> None:
    """Start the main process and wait until it is there."""
    write_settings(folder, plan.spec)
    stage = host.stage()
    arguments = view_arguments(view_of(state, folder, record, plan), stage)
    folder.forget_run()
    complaints, writer = os.pipe()
    try:
        host.launch(
            arguments,
            [*_BEGINNING, str(plan.spec.pids) if host.limits_processes else "", *main_process(plan)],
            user=HostUser(record.uid, record.gid),
            stage=stage,
            limits=host.limits(plan.spec.memory_bytes),
            keeper={"identity": folder.keeper, "status": folder.status},
            complaints=writer,
            lock=lock,
        )
        _await_start(folder, record, complaints)
    finally:
        os.close(complaints)
        os.close(writer)


def _await_start(folder: InstanceFolder, record: Record, complaints: int) -> None:
    keeper, said = folder.keeper_identity(), "it says nothing"
    assert keeper is not None
    for _ in range(_LOOKS):
        if folder.find_inner() is not None:
            return
        if is_gone(keeper, _LOOK):
            os.set_blocking(complaints, False)
            with suppress(BlockingIOError):
                said = os.read(complaints, 4096).decode(errors="replace").strip()[-500:] or said
            raise ImageError(record.image, said) if record.image else SandboxError(f"bubblewrap: {said}")
    _end(folder)
    raise SandboxError(f"a sandbox took more than {_LOOKS * _LOOK:g} s to start")


def ask_to_stop(state: StateDirectory, name: str) -> None:
    """Send SIGTERM to the watchdog, which passes it on."""
    found = state.instance(name).find_inner()
    if found is not None:
        send_signal(found.main, signal.SIGTERM)


def kill(state: StateDirectory, name: str) -> None:
    """Kill every process, and wait until that is done."""
    _end(state.instance(name))


def _end(folder: InstanceFolder) -> None:
    found = folder.find_inner()
    if found is not None:
        send_signal(found.first, signal.SIGKILL)
        # Whoever waits for it outside notes how it ended.
        _are_gone(folder, _DEATH)
    # bubblewrap dies with its parent, and everything inside with it.
    for process in folder.living():
        send_signal(process, signal.SIGKILL)
    if not _are_gone(folder, _DEATH):
        raise SandboxError(f"a process of the sandbox in {folder.path} can't be killed")


def _are_gone(folder: InstanceFolder, seconds: float) -> bool:
    return all(is_gone(process, seconds) for process in folder.living())


def remove(host: Bubblewrap, state: StateDirectory, name: str) -> None:
    """End an instance and remove its disk; no error if it is gone."""
    with state.lock(name):
        folder = state.instance(name)
        _end(folder)
        folder.forget()
        _clear(host, folder)
        state.unlock_for_good(name)


def _clear(host: Bubblewrap, folder: InstanceFolder) -> None:
    """Remove what there is of an instance that doesn't run."""
    for directory in (folder.disk, folder.buckets):
        for part in directory.iterdir() if directory.is_dir() else ():
            empty(host, part)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder.path)


def empty(host: Bubblewrap, directory: Path) -> None:
    """Remove all that a sandbox has put into a directory of its user's, however it has barred it."""
    found = directory.stat()
    command = ["find", "/emptied", "-mindepth", "1", "-delete"]
    host.run_tool(command, {"/emptied": directory}, HostUser(found.st_uid, found.st_gid))


def save(
    host: Bubblewrap, state: StateDirectory, name: str, snapshot: str, labels: Mapping[str, str], *, now_ms: int
) -> SavedImage:
    """Save the disk of an instance, which may run."""
    folder = state.instance(name)
    record = folder.record()
    if record is None:
        raise SandboxStoppedError("it was removed")
    with state.new_snapshot(snapshot, record.image, labels, now_ms) as path, path.open("xb") as archive:
        host.run_tool(
            ["tar", "--create", "--directory=/disk", "--sparse", "--numeric-owner", "."],
            {"/disk": folder.disk},
            HostUser(record.uid, record.gid),
            stdout=archive,
            allowed=_READ,
        )
        os.fsync(archive.fileno())
    return state.saved_one(snapshot)


def _unpack(host: Bubblewrap, state: StateDirectory, snapshot: str, folder: InstanceFolder, user: HostUser) -> None:
    archive = state.snapshot_disk(snapshot)
    if archive is None:
        raise SnapshotNotFoundError(snapshot)
    with archive.open("rb") as file:
        options = ["--same-permissions", "--no-same-owner", "--numeric-owner"]
        host.run_tool(["tar", "--extract", "--directory=/disk", *options], {"/disk": folder.disk}, user, stdin=file)


def copy_saved(
    state: StateDirectory, snapshot: str, copy: str, labels: Mapping[str, str], *, now_ms: int
) -> SavedImage:
    """Make another snapshot of the same archive, which is there until the last of them is deleted."""
    archive = state.snapshot_disk(snapshot)
    if archive is None:
        raise SnapshotNotFoundError(snapshot)
    with state.new_snapshot(copy, state.snapshot_image(snapshot), labels, now_ms) as path:
        os.link(archive, path)
    return state.saved_one(copy)


def remove_volume(host: Bubblewrap, state: StateDirectory, name: str, store: str) -> bool:
    """Remove a volume; False if there was none."""
    path = state.volume(store, name)
    if not path.is_dir():
        return False
    for _, record in state.instances():
        if name in record.volumes and record.labels.get(STORE, "") == store:
            raise SandboxError(f"the volume {name!r} is in use by the instance {record.name!r}; remove that first")
    empty(host, path)
    path.rmdir()
    with suppress(OSError):
        path.parent.rmdir()
    return True


def _image(state: StateDirectory, plan: InstancePlan) -> str:
    """Return the directory of system files that an instance starts with: a snapshot's own, else the spec's."""
    if plan.source is None:
        return image_directory(plan.spec)
    if state.snapshot_disk(plan.source) is None:
        raise SnapshotNotFoundError(plan.source)
    return state.snapshot_image(plan.source)
