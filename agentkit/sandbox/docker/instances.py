"""Containers as instances: made, started, found and removed through the ``docker`` package; every call blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound

from agentkit.errors import (
    ImageError,
    NameInUseError,
    SandboxError,
    SandboxStoppedError,
    SnapshotNotFoundError,
    UnsupportedByEngineError,
)
from agentkit.sandbox.docker.client import DockerClient, names
from agentkit.sandbox.docker.images import lineage, tag_of, tidy
from agentkit.sandbox.docker.plan import (
    all_labels,
    bucket_paths,
    container_of,
    directories,
    volume_labels,
    volume_name,
)
from agentkit.sandbox.engine import INSTANCE, MANAGED, STORE, Instance, InstancePlan
from agentkit.sandbox.main_process import whole_seconds
from agentkit.sandbox.spec import HOME, WORKSPACE, Volume

#: Out of memory is told by the kernel's SIGKILL besides the engine's flag, which is set for any process (T14).
_KILLED = 137
_BEING_REMOVED = ("removing", "dead")


def create(client: DockerClient, plan: InstancePlan, *, now: datetime) -> Instance:
    """Make and start a container; one that doesn't start is removed again, with the volumes made for it."""
    _refuse_less(client)
    image = _image(client, plan)
    fresh = _make_volumes(client, plan)
    try:
        id = _make_container(client, plan, image)
        try:
            _require_programs(client, id, image["Id"], plan)
            _own_directories(client, id, plan, fresh, now)
            client.slow.start(id)
        except BaseException:
            client.slow.remove_container(id, v=True, force=True)
            raise
    except BaseException:
        for volume in fresh:
            with contextlib.suppress(APIError):
                client.quick.remove_volume(volume_name(volume.name, plan.labels[STORE]))
        raise
    return _instance(client.quick.inspect_container(id))


def start(client: DockerClient, plan: InstancePlan, *, now: datetime) -> Instance:
    """Start a container that has stopped, or one whose owner died before it could."""
    found = _inspect(client, plan.name)
    if found is None:
        raise SandboxStoppedError("gone")
    if found["State"]["Status"] == "created":
        _own_directories(client, found["Id"], plan, plan.spec.volumes, now)
    try:
        client.slow.start(found["Id"])
    except APIError as error:
        raise SandboxStoppedError(f"it does not start: {error.explanation}") from error
    return _instance(client.quick.inspect_container(found["Id"]))


def stop(client: DockerClient, name: str, *, grace: timedelta) -> None:
    """Ask the watchdog to end everything, and do it after ``grace``."""
    found = _inspect(client, name)
    if found is None or not _is_running(found):
        return
    with contextlib.suppress(NotFound):
        client.slow.stop(found["Id"], timeout=whole_seconds(grace))


def remove(client: DockerClient, name: str) -> None:
    """Remove a container and its anonymous volumes, and an image that only it still held."""
    found = _inspect(client, name, being_removed=True)
    if found is None:
        return
    remove_container(client, found["Id"])
    tidy(client, found["Image"])


def remove_container(client: DockerClient, id: str) -> None:
    """Remove one by its id; it may be gone, or going."""
    try:
        # Without `v` the volumes that an image declares are left behind (T11).
        client.slow.remove_container(id, v=True, force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409 or "already in progress" not in str(error.explanation):
            raise
        with contextlib.suppress(NotFound):
            client.slow.wait(id, condition="removed")


def find(client: DockerClient, name: str) -> Instance | None:
    """Return a container of ours, unless it is being removed."""
    found = _inspect(client, name)
    return None if found is None else _instance(found)


def instances(client: DockerClient) -> list[Instance]:
    """Return all containers of ours; one that vanishes meanwhile is left out (T19)."""
    listed = client.quick.containers(all=True, filters=names({MANAGED: "1"}))
    found = [_inspect_any(client, container["Id"]) for container in listed if _is_ours(container["Labels"])]
    return [_instance(one) for one in found if one is not None and one["State"]["Status"] not in _BEING_REMOVED]


def is_paused(client: DockerClient, name: str) -> bool:
    """Tell whether a container stands still, so that a snapshot can be made of it."""
    found = _inspect(client, name)
    return found is not None and bool(found["State"]["Paused"])


def remove_volume(client: DockerClient, name: str, store: str) -> bool:
    """Remove a volume, if labels say that it is this one."""
    full_name = volume_name(name, store)
    try:
        volume = client.quick.inspect_volume(full_name)
    except NotFound:
        return False
    if (volume.get("Labels") or {}) != volume_labels(name, store):
        raise SandboxError(f"docker has a volume {full_name!r} that isn't ours; it was left alone")
    client.slow.remove_volume(full_name)
    return True


def _refuse_less(client: DockerClient) -> None:
    """Docker leaves out what the kernel can't do; a sandbox without it would be none (SPEC 12.9)."""
    if client.facts.lacks:
        mend = "run a Docker engine with control groups and seccomp, or the engine bubblewrap for what you trust more"
        raise UnsupportedByEngineError("docker", ", ".join(client.facts.lacks), mend)


def _image(client: DockerClient, plan: InstancePlan) -> dict[str, Any]:
    reference = plan.spec.image_reference if plan.source is None else tag_of(plan.source)
    try:
        return client.image(reference)
    except ImageNotFound as error:
        if plan.source is not None:
            raise SnapshotNotFoundError(plan.source) from error
        raise ImageError(reference, "it isn't there; it has to be fetched first") from error


def _make_volumes(client: DockerClient, plan: InstancePlan) -> list[Volume]:
    """Make the volumes that don't exist yet, and return them."""
    fresh = []
    store = plan.labels[STORE]
    for volume in plan.spec.volumes:
        name = volume_name(volume.name, store)
        try:
            client.quick.inspect_volume(name)
        except NotFound:
            client.quick.create_volume(name, labels=volume_labels(volume.name, store))
            fresh.append(volume)
    return fresh


def _make_container(client: DockerClient, plan: InstancePlan, image: Mapping[str, Any]) -> str:
    """Return the id of a new container; its name is the lock against a second one (T18)."""
    labels = all_labels({**plan.labels, **lineage(image)})
    config = container_of(plan, image["Id"], labels, processors=client.facts.processors)
    try:
        return client.new_container(config, plan.name)
    except APIError as error:
        if error.status_code == 409:
            raise NameInUseError(plan.name) from error
        if error.status_code == 400 and "bind source path" in str(error.explanation):
            raise SandboxError(f"a host directory to be mounted does not exist: {error.explanation}") from error
        raise


def _own_directories(client: DockerClient, id: str, plan: InstancePlan, fresh: Iterable[Volume], now: datetime) -> None:
    """Make what must belong to the sandbox's user; what a snapshot holds of it stays as it is."""
    paths = [HOME, WORKSPACE]
    if plan.source is not None:
        paths = [path for path in paths if not _exists(client, id, path)]
    paths += [*(volume.path for volume in fresh), *bucket_paths(plan)]
    if paths:
        client.slow.put_archive(id, "/", directories(paths, plan.spec, made_at=now))


def _exists(client: DockerClient, id: str, path: str) -> bool:
    try:
        content, _ = client.slow.get_archive(id, path)
    except NotFound:
        return False
    content.close()
    return True


def _require_programs(client: DockerClient, id: str, image: str, plan: InstancePlan) -> None:
    """Make sure that the main process can run: with an init before it, Docker itself doesn't notice."""
    if image in client.hosts:
        return
    for program in ("sh", "sleep"):
        if not any(_exists(client, id, f"{folder}/{program}") for folder in ("/bin", "/usr/bin")):
            raise ImageError(plan.spec.image_reference, "it can't host a sandbox: that takes the programs sh and sleep")
    client.hosts.add(image)


def _inspect(client: DockerClient, name: str, *, being_removed: bool = False) -> dict[str, Any] | None:
    """Return what the engine knows of a container of ours.

    Raises:
        SandboxError: It isn't ours.
    """
    found = _inspect_any(client, name)
    # The engine takes the beginning of an id for a name.
    if found is None or found["Name"] != f"/{name}":
        return None
    if not _is_ours(found["Config"].get("Labels") or {}):
        raise SandboxError(f"docker has a container {name!r} that isn't ours; remove or rename it")
    if found["State"]["Status"] in _BEING_REMOVED and not being_removed:
        return None
    return found


def _is_ours(labels: Mapping[str, str]) -> bool:
    """Tell whether we made a container: one that somebody runs from a snapshot has its labels, but no instance's."""
    return labels.get(MANAGED) == "1" and bool(labels.get(INSTANCE))


def _inspect_any(client: DockerClient, name: str) -> dict[str, Any] | None:
    try:
        return dict(client.quick.inspect_container(name))
    except NotFound:
        return None


def _is_running(found: Mapping[str, Any]) -> bool:
    return bool(found["State"]["Running"])


def _instance(found: Mapping[str, Any]) -> Instance:
    """Return a container as an instance; paused ones, of which a snapshot is made, run."""
    state = found["State"]
    has_run = not _is_running(found) and state["Status"] != "created"
    return Instance(
        name=found["Name"].removeprefix("/"),
        is_running=_is_running(found),
        labels=found["Config"].get("Labels") or {},
        exit_code=int(state["ExitCode"]) if has_run else None,
        out_of_memory=has_run and bool(state["OOMKilled"]) and state["ExitCode"] == _KILLED,
        created_at=datetime.fromisoformat(found["Created"]),
        stopped_at=datetime.fromisoformat(state["FinishedAt"]) if has_run else None,
    )
