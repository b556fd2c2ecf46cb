"""The engines that tests of sandboxes run on: what each can do, whether it is here, and how a test gets one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

from agentkit.errors import AgentKitError
from agentkit.sandbox.bubblewrap_engine import BubblewrapEngine
from agentkit.sandbox.docker_engine import DockerEngine
from agentkit.sandbox.engine import Feature, SandboxEngine
from agentkit.testing import InMemoryEngine

#: What Docker's containers are made of, unless $AGENTKIT_SANDBOX_IMAGE names something else.
LOCAL_IMAGE = "agentkit-test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An engine that tests may run on.

    Attributes:
        features: What it can do; a test that needs more isn't for it.
        make: Returns one, given a folder of the test's.
        image: What its instances start from.
        is_real: It may be missing on a machine, and is then named in what a run of the tests says at its end.
    """

    features: frozenset[Feature]
    make: Callable[[Path], SandboxEngine]
    image: str
    is_real: bool = True


CANDIDATES: Mapping[str, Candidate] = {
    "docker": Candidate(
        features=DockerEngine.features,
        make=lambda folder: DockerEngine(),
        image=os.environ.get("AGENTKIT_SANDBOX_IMAGE", LOCAL_IMAGE),
    ),
    "bubblewrap": Candidate(
        features=BubblewrapEngine.features,
        make=lambda folder: BubblewrapEngine(folder / "bubblewrap"),
        image="",
    ),
    "memory": Candidate(
        features=InMemoryEngine.features,
        make=lambda folder: InMemoryEngine(images={"any": {}}),
        image="any",
        is_real=False,
    ),
}


def needs(*features: Feature) -> pytest.MarkDecorator:
    """Let a test run on those engines only that have these features."""
    return pytest.mark.needs(*features)


def required() -> set[str]:
    """Return the engines whose absence is a failure."""
    return set(os.environ.get("AGENTKIT_REQUIRE_ENGINES", "").replace(",", " ").split())


@cache
def absence(name: str) -> str | None:
    """Return why an engine can't be used on this machine, or None if it can."""

    if name not in CANDIDATES:
        return "no test knows it"
    candidate = CANDIDATES[name]

    async def check() -> None:
        engine = candidate.make(Path(os.devnull))
        try:
            await engine.check()
            if name == "docker":
                _find_image(candidate.image)
        finally:
            await engine.close()

    try:
        asyncio.run(check())
    except AgentKitError as error:
        return str(error)
    return None


def _find_image(image: str) -> None:
    """Make sure that an image is there; tests fetch none."""
    client = docker.from_env()
    try:
        client.images.get(image)
    except ImageNotFound as error:
        raise AgentKitError(f"there is no image {image!r}; tools/sandbox_image.sh makes one") from error
    finally:
        client.close()


async def eventually(condition: Callable[[], Awaitable[Any]], *, within: float = 30) -> Any:
    """Wait until a condition holds and return what it said."""
    async with asyncio.timeout(within):
        while not (answer := await condition()):
            await asyncio.sleep(0.02)
    return answer
