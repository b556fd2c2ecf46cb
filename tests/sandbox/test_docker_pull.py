"""Images are fetched explicitly, with their progress, and what goes wrong is told (trap T17)."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.errors import EngineUnavailableError, ImageError, UnsupportedByEngineError
from agentkit.sandbox.docker_engine import DockerEngine
from agentkit.sandbox.engine import PullProgress
from tests.sandbox.box import Boxes
from tests.sandbox.docker_stub import INFO, Stub, docker_stub

LINES: list[dict[str, Any]] = [
    {"status": "Pulling from library/python", "id": "3.12"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "a"},
    {"status": "Already exists", "progressDetail": {}, "id": "c"},
    {"status": "Downloading", "progressDetail": {"current": 10, "total": 100}, "id": "a"},
    {"status": "Downloading", "progressDetail": {"current": 50, "total": 900}, "id": "b"},
    {"status": "Downloading", "progressDetail": {"current": 80, "total": 100}, "id": "a"},
    {"status": "Verifying Checksum", "progressDetail": {}, "id": "a"},
    {"status": "Download complete", "progressDetail": {}, "id": "a"},
    {"status": "Extracting", "progressDetail": {"current": 5, "total": 100}, "id": "a"},
    {"status": "Pull complete", "progressDetail": {}, "id": "a"},
    {"status": "Pull complete", "progressDetail": {}, "id": "b"},
    {"status": "Status: Downloaded newer image"},
]
IMAGE = "registry.test/team/python:3.12"
INSPECT = f"GET /images/{IMAGE}/json"


def fetched(stub: Stub) -> tuple[int, object]:
    """Answer that the image is there once somebody has asked for it to be fetched."""
    return (200, {"Id": "sha256:1"}) if "POST /images/create" in stub.asked else (404, {"message": "No such image"})


async def prepare(stub: Stub) -> list[PullProgress]:
    """Fetch the image and return what was told meanwhile."""
    engine = DockerEngine(stub.url)
    told: list[PullProgress] = []
    try:
        await engine.prepare(IMAGE, told.append)
    finally:
        await engine.close()
    return told


async def test_progress_of_a_download_is_told() -> None:
    """Bytes of all layers together, growing to the whole, and the engine's own word for what it does."""
    with docker_stub({"POST /images/create": (200, LINES), INSPECT: fetched}) as stub:
        told = await prepare(stub)

    assert [(one.done, one.total) for one in told[3:]] == [
        (10, 100),
        (60, 1000),
        (130, 1000),
        (130, 1000),
        (150, 1000),
        (150, 1000),
        (150, 1000),
        (1000, 1000),
        (1000, 1000),
    ]
    assert [one.status for one in told] == [line["status"] for line in LINES]
    assert {one.image for one in told} == {IMAGE}


async def test_image_that_is_there_is_not_fetched() -> None:
    """No registry is asked about an image that the engine has."""
    with docker_stub({INSPECT: (200, {"Id": "sha256:1"})}) as stub:
        told = await prepare(stub)

        assert told == []
        assert "POST /images/create" not in stub.asked


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((404, {"message": "manifest for python:9 not found"}), "manifest for python:9 not found"),
        ((500, {"message": "Get https://registry.test: dial tcp: no such host"}), "no such host"),
        ((200, [LINES[0], {"error": "unexpected EOF"}]), "unexpected EOF"),
        ((200, LINES[:3]), "No such image"),
    ],
)
async def test_failed_download_is_told(answer: tuple[int, object], reason: str) -> None:
    """Refused at once, broken off in the middle, or ended without an image: an error with the image and the reason."""
    answers = {"POST /images/create": answer, INSPECT: (404, {"message": "No such image"})}
    with docker_stub(answers) as stub, pytest.raises(ImageError, match=reason) as told:
        await prepare(stub)

    assert told.value.image == IMAGE


async def test_engine_that_would_leave_limits_out_is_refused() -> None:
    """Where the kernel can't bound memory, Docker goes on without; agentkit doesn't (SPEC 12.9, 12.10)."""
    info = {**INFO, "MemoryLimit": False, "SecurityOptions": []}
    with docker_stub({"GET /info": (200, info)}) as stub:
        engine = DockerEngine(stub.url)
        box = Boxes(engine, store="1", image=IMAGE).box()

        with pytest.raises(EngineUnavailableError, match=r"memory limit, system call filter"):
            await engine.check()
        with pytest.raises(UnsupportedByEngineError, match="memory limit"):
            await engine.create(box.plan)
        await engine.close()

    assert "POST /containers/create" not in stub.asked
