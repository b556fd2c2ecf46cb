"""What `doctor` says of the engines for sandboxes: found out by using them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agentkit.errors import EngineUnavailableError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheck:
    """One engine.

    Attributes:
        found: What it is, and what it means; or what was tried.
        fix: What to do about it; empty if nothing.
    """

    name: str
    works: bool
    found: str
    fix: str = ""


def looked_at() -> list[EngineCheck]:
    """Try Docker and bubblewrap, in a thread: whoever asks may run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_look())).result()


async def _look() -> list[EngineCheck]:
    from agentkit.sandbox.engines import close_engines

    try:
        return [await _docker(), await _bubblewrap()]
    finally:
        await close_engines()


async def _docker() -> EngineCheck:
    from agentkit.sandbox.engines import open_engine
    from agentkit.sandbox.spec import SandboxSpec

    try:
        engine = await open_engine("docker")
    except EngineUnavailableError as error:
        return _missing("docker", error)
    from agentkit.sandbox.docker_engine import DockerEngine

    assert isinstance(engine, DockerEngine)
    image = SandboxSpec().image_reference
    is_there = await engine.has_image(image)
    network = 'SandboxSpec(network="full") reaches whatever this machine reaches'
    found = f"{await engine.description()}; image {image}{'' if is_there else ' is not there yet'}; {network}"
    fix = (
        ""
        if is_there
        else f"fetched at the first start; sooner with: docker pull {image}; AGENTKIT_SANDBOX_IMAGE names another"
    )
    return EngineCheck(name="docker", works=True, found=found, fix=fix)


async def _bubblewrap() -> EngineCheck:
    from agentkit.sandbox.engines import missing_in, open_engine

    try:
        engine = await open_engine("bubblewrap")
    except EngineUnavailableError as error:
        return _missing("bubblewrap", error)
    return EngineCheck(name="bubblewrap", works=True, found=f"works; it has no: {missing_in(engine)}")


def _missing(name: str, error: EngineUnavailableError) -> EngineCheck:
    return EngineCheck(name=name, works=False, found="; ".join(error.tried), fix=" ".join(error.mends))
