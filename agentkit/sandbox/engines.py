"""Which engine sandboxes run on: one object of each kind in a process, checked by using it before it is handed out."""

from __future__ import annotations

import logging
import sys
from typing import Literal, TypeAlias

from agentkit.errors import ConfigurationError, EngineUnavailableError
from agentkit.sandbox.engine import Feature, SandboxEngine

logger = logging.getLogger(__name__)

EngineName: TypeAlias = Literal["docker", "bubblewrap", "auto"]
EngineChoice: TypeAlias = SandboxEngine | EngineName

#: What may be missing, in the words of the warning.
_WORDS: dict[Feature, str] = {
    "images": "images (programs are this machine's, read-only)",
    "memory_limit": "a limit of the memory of all processes together",
    "memory_report": "telling a command that ran out of memory from one that was killed",
    "process_limit": "a limit of processes",
    "cpu_limit": "a limit of processors",
    "other_users": "exec(user=…)",
    "isolation": "a filter of system calls, and so protection from code that nobody trusts",
}

_checked: dict[str, SandboxEngine] = {}
_warned: set[str] = set()


async def open_engine(choice: EngineChoice = "docker") -> SandboxEngine:
    """Return the engine that is meant, which was found to work.

    ``"auto"`` means Docker, or else bubblewrap, with one warning that names what it can't do. There is no third choice:
    code that nobody trusts never runs unprotected.

    Args:
        choice: A name, or an engine, which is returned as it is.

    Raises:
        EngineUnavailableError: It doesn't work; names what was tried and what may help.
        ConfigurationError: There is no engine of that name.
    """
    if not isinstance(choice, str):
        return choice
    if choice != "auto":
        return await _open(choice)
    try:
        return await _open("docker")
    except EngineUnavailableError as docker:
        try:
            engine = await _open("bubblewrap")
        except EngineUnavailableError as bubblewrap:
            tried, mends = docker.tried + bubblewrap.tried, docker.mends + bubblewrap.mends
            raise EngineUnavailableError(tried, mends) from bubblewrap
        _warn(engine, docker)
        return engine


async def close_engines() -> None:
    """Let go of all that were opened by name; instances go on, and an engine opened again is a new one."""
    _warned.clear()
    while _checked:
        _, engine = _checked.popitem()
        await engine.close()


async def _open(name: str) -> SandboxEngine:
    if name not in _checked:
        engine = _new(name)
        try:
            await engine.check()
        except BaseException:
            await engine.close()
            raise
        # Somebody may have been faster.
        if _checked.setdefault(name, engine) is not engine:
            await engine.close()
    return _checked[name]


def _new(name: str) -> SandboxEngine:
    if name == "docker":
        try:
            from agentkit.sandbox.docker_engine import DockerEngine
        except ModuleNotFoundError as error:
            mend = "Install what it needs: pip install 'agentkit[docker]'."
            raise EngineUnavailableError([f"docker: the package {error.name!r} isn't installed"], [mend]) from error
        return DockerEngine()
    if name == "bubblewrap":
        if sys.platform != "linux":
            raise EngineUnavailableError(["bubblewrap: it is for Linux"], [])
        from agentkit.sandbox.bubblewrap_engine import BubblewrapEngine

        return BubblewrapEngine()
    raise ConfigurationError(f"an engine for sandboxes is 'docker', 'bubblewrap', 'auto' or an object, got {name!r}")


def _warn(engine: SandboxEngine, reason: EngineUnavailableError) -> None:
    if engine.name not in _warned:
        _warned.add(engine.name)
        logger.warning("sandboxes run in %s, which has no: %s. %s", engine.name, missing_in(engine), reason)


def missing_in(engine: SandboxEngine) -> str:
    """Return what an engine can't do, in words."""
    return "; ".join(words for feature, words in _WORDS.items() if feature not in engine.features)
