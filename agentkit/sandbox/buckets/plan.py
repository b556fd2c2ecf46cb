"""Decide what a bucket and its copy in a sandbox have to be told of each other; plain functions.

A change made inside is pushed, whatever became of the object meanwhile: the last writer wins. Only what was pulled or
pushed before, and is still that in the bucket, is ever deleted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentkit.sandbox.buckets.client import RemoteObject
from agentkit.sandbox.buckets.manifest import NAME, Manifest, Synced, is_fit, is_own
from agentkit.sandbox.guest import FileInfo


@dataclass(slots=True)
class Local:
    """What is below a mount.

    Attributes:
        files: By path below the mount.
        directories: Likewise, without a final slash.
        others: Links, pipes and what else is no file.
        has_manifest: The list of what is synced is where it was left.
    """

    files: dict[str, FileInfo] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    has_manifest: bool = False

    def add(self, path: str, info: FileInfo) -> None:
        """Take an entry of the walk."""
        if path == NAME:
            self.has_manifest = info.type == "file"
        elif not is_own(info.name):
            if info.type == "file":
                self.files[path] = info
            else:
                (self.directories if info.type == "directory" else self.others).add(path)

    def has(self, path: str) -> bool:
        """Tell whether a file, or the directory of a marker, is there."""
        return path in self.files or (path.endswith("/") and path[:-1] in self.directories)

    def is_as(self, path: str, synced: Synced) -> bool:
        """Tell whether it hasn't changed since it was synced."""
        if path.endswith("/"):
            return path[:-1] in self.directories
        info = self.files.get(path)
        return info is not None and (info.size, info.modified_at_ms) == (synced.size, synced.modified_at_ms)


@dataclass(slots=True)
class Plan:
    """What to do, by path below the mount.

    Attributes:
        push: Files to write to the bucket.
        delete: Objects to remove from it.
        pull: Objects to write inside.
        remove: Files to remove inside.
        adopt: What is the same on both sides, though it isn't listed so.
        forget: What is on neither side any more.
        leave: What can't be on both sides, and why.
    """

    push: list[str] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    pull: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    adopt: list[str] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    leave: dict[str, str] = field(default_factory=dict)


def plan_push(manifest: Manifest, local: Local) -> Plan:
    """Return what was changed inside; what is in the bucket isn't looked at."""
    plan = Plan()
    for path in local.files:
        synced = manifest.files.get(path)
        if not is_fit(path):
            plan.leave[path] = "no key can have this name"
        elif synced is None or not local.is_as(path, synced):
            plan.push.append(path)
    gone = [path for path in manifest.files if not local.has(path) and path.rstrip("/") not in local.others]
    # Without the list somebody emptied the whole directory, or it is another one: it doesn't say what was deleted.
    (plan.delete if local.has_manifest else plan.forget).extend(gone)
    return plan


def plan_sync(manifest: Manifest, local: Local, remote: Mapping[str, RemoteObject], *, read_only: bool) -> Plan:
    """Return what makes both sides the same."""
    plan = Plan()
    wanted = _wanted(remote, plan)
    for path in sorted({*manifest.files, *local.files, *wanted}):
        if not is_fit(path):
            plan.leave[path] = "no key can have this name"
        elif path.rstrip("/") not in local.others:
            decide = _decide_read_only if read_only else _decide
            decide(plan, path, manifest, local, wanted.get(path))
    _leave_what_is_in_the_way(plan, local)
    return plan


def _decide(plan: Plan, path: str, manifest: Manifest, local: Local, there: RemoteObject | None) -> None:
    synced = manifest.files.get(path)
    is_same_here = synced is not None and local.is_as(path, synced)
    is_same_there = synced is not None and there is not None and there.etag == synced.etag
    if there is not None and not is_same_here and not is_same_there and _is_copy(path, local, there):
        plan.adopt.append(path)
    elif not local.has(path):
        if there is None:
            plan.forget.append(path)
        elif is_same_there and manifest.is_complete and local.has_manifest:
            plan.delete.append(path)
        else:
            plan.pull.append(path)
    elif is_same_here:
        if there is None:
            plan.remove.append(path)
        elif not is_same_there:
            plan.pull.append(path)
    elif synced is None and there is not None and _is_newer(there, local.files.get(path)):
        plan.pull.append(path)
    else:
        plan.push.append(path)


def _decide_read_only(plan: Plan, path: str, manifest: Manifest, local: Local, there: RemoteObject | None) -> None:
    synced = manifest.files.get(path)
    is_same_here = synced is not None and local.is_as(path, synced)
    if there is None:
        if is_same_here:
            plan.remove.append(path)
        elif synced is not None:
            plan.forget.append(path)
    elif not is_same_here and _is_copy(path, local, there):
        plan.adopt.append(path)
    elif synced is None or there.etag != synced.etag or not is_same_here:
        plan.pull.append(path)


def _is_copy(path: str, local: Local, there: RemoteObject) -> bool:
    """Tell whether a file is what was pulled from an object: a pull gives it the object's time."""
    if path.endswith("/"):
        return path[:-1] in local.directories
    here = local.files.get(path)
    return here is not None and (here.size, here.modified_at_ms) == (there.size, there.modified_at * 1000)


def _is_newer(there: RemoteObject, here: FileInfo | None) -> bool:
    return here is None or there.modified_at * 1000 >= here.modified_at_ms


def _wanted(remote: Mapping[str, RemoteObject], plan: Plan) -> dict[str, RemoteObject]:
    """Return the objects that can be files of one tree."""
    directories = {above for path in remote for above in _above(path)}
    wanted = {}
    for path, found in remote.items():
        if not is_fit(path):
            plan.leave[path] = "no file can have this name"
        elif path in directories:
            plan.leave[path] = "there are objects below it, so it can't be a file"
        else:
            wanted[path] = found
    return wanted


def _leave_what_is_in_the_way(plan: Plan, local: Local) -> None:
    """Pull nothing to where something else is: the guest would refuse the rest as well."""
    removed = set(plan.remove)
    in_the_way = (local.files.keys() | local.others) - removed
    kept = []
    for path in plan.pull:
        place = path.rstrip("/")
        if (place in local.directories and not path.endswith("/")) or any(
            above in in_the_way for above in _above(path)
        ):
            plan.leave[path] = "there is something else in its place inside"
        else:
            kept.append(path)
    plan.pull = kept


def _above(path: str) -> Iterable[str]:
    parts = path.rstrip("/").split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
