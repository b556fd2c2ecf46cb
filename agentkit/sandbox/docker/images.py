"""Images: fetched, and made of containers as snapshots that neither grow without bound nor meet the limit of layers.

A snapshot is an image with a tag of ours. Labels say where its chain began, so that each knows by itself when it is to
be written anew as a single layer. Every call blocks.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import parse_repository_tag

from agentkit.errors import ImageError, SandboxError, SandboxStoppedError, SnapshotNotFoundError
from agentkit.sandbox.docker.client import DockerClient, names
from agentkit.sandbox.docker.plan import BASE, COMPACT, HELD, HELPER, IMPORTS, SNAPSHOTS, all_labels
from agentkit.sandbox.docker.pull import Layers
from agentkit.sandbox.engine import INSTANCE, MANAGED, SNAPSHOT, PullProgress, SavedImage

logger = logging.getLogger(__name__)

#: A chain with so many layers more than where it began, or so many times its size, is written anew.
MAX_ADDED_LAYERS = 20
MAX_GROWTH = 2
#: The engine takes 125; an image may come with many of its own.
MAX_LAYERS = 110
#: Whatever helps to write an image is removed in the same call, unless its process is killed.
STALE = timedelta(hours=1)


def tag_of(snapshot: str) -> str:
    """Return the image name of a snapshot."""
    return f"{SNAPSHOTS}:{snapshot}"


def prepare(client: DockerClient, image: str, on_progress: Callable[[PullProgress], object]) -> None:
    """Fetch an image unless it is there (T17).

    Raises:
        ImageError: There is none, or it can't be fetched.
    """
    if not is_there(client, image):
        _pull(client, image, on_progress)


def is_there(client: DockerClient, image: str) -> bool:
    """Tell whether an image need not be fetched.

    Raises:
        ImageError: No image can have such a name.
    """
    try:
        client.image(image)
    except ImageNotFound:
        return False
    except APIError as error:
        if error.status_code != 400:
            raise
        raise ImageError(image, f"no image can be named so: {error.explanation}") from error
    return True


def _pull(client: DockerClient, image: str, on_progress: Callable[[PullProgress], object]) -> None:
    repository, tag = parse_repository_tag(image)
    layers = Layers(image)
    try:
        for line in client.slow.pull(repository, tag=tag or "latest", stream=True, decode=True):
            if "error" in line:
                raise ImageError(image, f"it can't be fetched: {line['error']}")
            layers.note(line)
            on_progress(layers.progress())
        client.image(image)
    except APIError as error:
        raise ImageError(image, f"it can't be fetched: {error.explanation}") from error


def lineage(image: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels for a container of an image: what its chain began with, and what its last compact form was."""
    labels = image["Config"].get("Labels") or {}
    if not labels.get(BASE):
        return {BASE: image["Id"], COMPACT: ""}
    return {BASE: labels[BASE], COMPACT: labels.get(COMPACT) or f"{len(_layers(image))} {image['Size']}"}


def save(client: DockerClient, name: str, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
    """Make an image of a container's disk; a running one is paused meanwhile.

    Raises:
        SandboxStoppedError: It is gone.
    """
    try:
        container = client.quick.inspect_container(name)
    except NotFound as error:
        raise SandboxStoppedError("gone") from error
    inherited = container["Config"]["Labels"]
    marks = {**labels, SNAPSHOT: snapshot, **{key: inherited.get(key, "") for key in (BASE, COMPACT)}}
    _commit(client, container["Id"], snapshot, marks)
    image = client.image(tag_of(snapshot))
    if _is_overgrown(image, marks[COMPACT]):
        try:
            _flatten(client, image, snapshot, {**marks, COMPACT: ""})
        except (APIError, SandboxError):
            # It is whole as it is; the next one tries again.
            logger.warning("docker: snapshot %s could not be written anew as one layer", snapshot, exc_info=True)
    return _saved(client, client.image(tag_of(snapshot)), snapshot)


def saved(client: DockerClient) -> list[SavedImage]:
    """Return all snapshots of ours."""
    found = []
    for listed in client.quick.images(name=SNAPSHOTS, filters=names({MANAGED: "1"})):
        with contextlib.suppress(ImageNotFound):
            image = client.image(listed["Id"])
            found += [_saved(client, image, snapshot) for snapshot in _snapshots(image)]
    return found


def copy_saved(client: DockerClient, snapshot: str, copy: str, labels: Mapping[str, str]) -> SavedImage:
    """Make another image of the same content, with labels of its own."""
    image = _find(client, tag_of(snapshot))
    if image is None:
        raise SnapshotNotFoundError(snapshot)
    kept = {key: image["Config"]["Labels"].get(key, "") for key in (BASE, COMPACT)}
    with _helper(client, image["Id"], copy) as container:
        # Docker adds no layer where nothing differs.
        _commit(client, container, copy, {**labels, **kept, SNAPSHOT: copy})
    return _saved(client, client.image(tag_of(copy)), copy)


def delete_saved(client: DockerClient, snapshot: str, *, now: datetime) -> bool:
    """Take a snapshot's tag away, and the image once nothing needs it any more; also what was left of one half made."""
    _remove_helpers(client, names({HELPER: snapshot}))
    _remove_import(client, f"{IMPORTS}:{snapshot}")
    image = _find(client, tag_of(snapshot))
    held = image or _find(client, f"{HELD}:{snapshot}")
    if image is not None:
        # A single tag can't be taken from an image with containers, and by force the image would go from under them.
        client.quick.tag(image["Id"], HELD, snapshot)
        client.quick.remove_image(tag_of(snapshot), noprune=True)
    if held is not None:
        tidy(client, held["Id"])
    remove_stale(client, before=now - STALE)
    return image is not None


def tidy(client: DockerClient, id: str) -> None:
    """Remove an image of ours, and those it was made from, as far as no snapshot, container or image needs them.

    Docker's own pruning would go on to images that aren't ours.
    """
    while id:
        try:
            image = client.image(id)
            tags = image["RepoTags"] or []
            if not _is_ours(image) or not all(tag.startswith(f"{HELD}:") for tag in tags):
                return
            for reference in tags or [id]:
                client.slow.remove_image(reference, noprune=True)
        except ImageNotFound:
            return
        except APIError as error:
            if error.status_code != 409:
                raise
            return
        id = image.get("Parent", "")


def remove_stale(client: DockerClient, *, before: datetime) -> None:
    """Remove what calls left behind whose process or engine was killed: helpers, imports, images without a name.

    Only what was made before a moment that lies well back: younger ones may be somebody's work under way.
    """
    _remove_helpers(client, {"label": HELPER}, before=before)
    for image in client.quick.images(name=IMPORTS, filters=names({MANAGED: "1"})):
        if datetime.fromtimestamp(image["Created"], UTC) < before:
            for tag in image["RepoTags"] or ():
                _remove_import(client, tag)
    nameless: dict[str, Any] = {**names({MANAGED: "1"}), "dangling": True}
    for image in client.quick.images(filters=nameless):
        if datetime.fromtimestamp(image["Created"], UTC) < before:
            tidy(client, image["Id"])
    for image in client.quick.images(name=HELD, filters=names({MANAGED: "1"})):
        tidy(client, image["Id"])


def _is_overgrown(image: Mapping[str, Any], compact: str) -> bool:
    """Tell whether a chain is to be written anew; the first snapshot of an image or of a compact one never wastes."""
    if len(_layers(image)) >= MAX_LAYERS:
        return True
    if not compact:
        return False
    layers, size = (int(number) for number in compact.split())
    return len(_layers(image)) - layers >= MAX_ADDED_LAYERS or int(image["Size"]) > MAX_GROWTH * size


def _flatten(client: DockerClient, image: Mapping[str, Any], snapshot: str, marks: Mapping[str, str]) -> None:
    """Write an image anew as one layer, under the same tag and with the same settings, and remove the old one."""
    with _helper(client, image["Id"], snapshot) as container:
        imported = _import(client, client.slow.export(container), snapshot)
    try:
        with _helper(client, imported, snapshot) as container:
            _commit(client, container, snapshot, marks, settings=image["Config"])
    finally:
        client.slow.remove_image(f"{IMPORTS}:{snapshot}", noprune=True)
    tidy(client, image["Id"])


def _import(client: DockerClient, content: Iterator[bytes], snapshot: str) -> str:
    """Return the id of an image of one layer; it carries our label, so that it can be removed with its child."""
    answer = client.slow.import_image_from_stream(content, IMPORTS, snapshot, changes=[f"LABEL {MANAGED}=1"])
    lines = [json.loads(line) for line in str(answer).splitlines() if line.strip()]
    failures = [line["error"] for line in lines if "error" in line]
    if failures or not lines:
        raise SandboxError(f"docker can't import an image: {'; '.join(failures)}")
    return str(client.image(f"{IMPORTS}:{snapshot}")["Id"])


def _commit(
    client: DockerClient,
    container: str,
    snapshot: str,
    labels: Mapping[str, str],
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Make an image of a container. What it was told to run isn't for the image, and all our labels are replaced."""
    marks = all_labels({**labels, INSTANCE: ""})
    config = {**(settings or {}), "Labels": marks, "Entrypoint": [], "Cmd": ["sh"]}
    client.slow.commit(container, SNAPSHOTS, snapshot, conf=config)


@contextlib.contextmanager
def _helper(client: DockerClient, image: str, snapshot: str) -> Iterator[str]:
    """Yield a container that never runs, for writing a snapshot; its label says which, should we be killed."""
    config = {"Image": image, "Entrypoint": ["sh"], "Labels": {**dict.fromkeys(all_labels({}), ""), HELPER: snapshot}}
    id = client.new_container(config)
    try:
        yield id
    finally:
        client.slow.remove_container(id, v=True, force=True)


def _remove_helpers(client: DockerClient, filters: Mapping[str, Any], *, before: datetime | None = None) -> None:
    """Remove containers that helped to write a snapshot, and what only they still held."""
    for container in client.quick.containers(all=True, filters=filters):
        is_young = before is not None and datetime.fromtimestamp(container["Created"], UTC) >= before
        if is_young or not container["Labels"].get(HELPER):
            continue
        with contextlib.suppress(NotFound):
            client.slow.remove_container(container["Id"], v=True, force=True)
        tidy(client, container["ImageID"])


def _remove_import(client: DockerClient, tag: str) -> None:
    """Take an import's tag away, and the image if no snapshot was made of it."""
    with contextlib.suppress(ImageNotFound):
        id = client.image(tag)["Id"]
        client.slow.remove_image(tag, noprune=True)
        tidy(client, id)


def _find(client: DockerClient, reference: str) -> dict[str, Any] | None:
    """Return an image of ours.

    Raises:
        SandboxError: It has a name of ours, but no label says that it is.
    """
    try:
        image = client.image(reference)
    except ImageNotFound:
        return None
    if not _is_ours(image):
        raise SandboxError(f"docker has an image {reference!r} that isn't ours; it was left alone")
    return image


def _saved(client: DockerClient, image: Mapping[str, Any], snapshot: str) -> SavedImage:
    labels = image["Config"]["Labels"]
    try:
        base = client.image(labels[BASE])["Size"] if labels.get(BASE) else 0
    except ImageNotFound:
        base = 0
    size = max(int(image["Size"]) - int(base), 0)
    return SavedImage(id=snapshot, labels=labels, size=size, saved_at=datetime.fromisoformat(image["Created"]))


def _snapshots(image: Mapping[str, Any]) -> list[str]:
    """Return the snapshots that an image is."""
    prefix = f"{SNAPSHOTS}:"
    return [tag.removeprefix(prefix) for tag in image["RepoTags"] or () if tag.startswith(prefix)]


def _is_ours(image: Mapping[str, Any]) -> bool:
    return (image["Config"].get("Labels") or {}).get(MANAGED) == "1"


def _layers(image: Mapping[str, Any]) -> list[str]:
    return list(image["RootFS"].get("Layers") or ())
