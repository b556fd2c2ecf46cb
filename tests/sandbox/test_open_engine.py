"""How an engine is chosen: never unprotected, and never without a word (SPEC 12.10)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit.errors import ConfigurationError, EngineUnavailableError
from agentkit.sandbox.engines import close_engines, open_engine
from agentkit.testing import InMemoryEngine
from tests.sandbox.engines import absence


@pytest.fixture(autouse=True)
async def fresh() -> AsyncIterator[None]:
    """Let each test find a process that has opened no engine."""
    await close_engines()
    yield
    await close_engines()


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let Docker be absent, whatever this machine has."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker.sock")


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no program be found."""
    monkeypatch.setenv("PATH", str(tmp_path))


async def test_engine_that_is_given_is_used_as_it_is() -> None:
    """Nothing is checked or opened."""
    engine = InMemoryEngine()
    engine.is_available = False

    assert await open_engine(engine) is engine


async def test_unknown_name_is_refused() -> None:
    """It names what there is."""
    with pytest.raises(ConfigurationError, match="'docker', 'bubblewrap', 'auto'"):
        await open_engine("podman")  # type: ignore[arg-type]  # that is the point


@pytest.mark.bubblewrap
async def test_process_has_one_of_each_kind() -> None:
    """Connections are shared; after closing it is a new one."""
    first, second = await open_engine("bubblewrap"), await open_engine("bubblewrap")
    await close_engines()

    third = await open_engine("bubblewrap")

    assert first is second
    assert third is not first


@pytest.mark.bubblewrap
async def test_auto_without_docker_says_what_is_missing(no_docker: None, caplog: pytest.LogCaptureFixture) -> None:
    """One warning names what bubblewrap can't do and why it isn't Docker (SPEC 12.10)."""
    with caplog.at_level(logging.WARNING):
        engines = [await open_engine("auto"), await open_engine("auto")]

    [said] = [record.getMessage() for record in caplog.records if record.name == "agentkit.sandbox.engines"]
    assert [engine.name for engine in engines] == ["bubblewrap"] * 2
    assert "a limit of the memory" in said
    assert "exec(user=…)" in said
    assert "no-docker.sock" in said


async def test_auto_without_either_names_both(no_docker: None, no_bubblewrap: None) -> None:
    """What was tried, and how to mend each; nothing runs unprotected (SPEC 12.10, T20)."""
    with pytest.raises(EngineUnavailableError) as caught:
        await open_engine("auto")

    said = str(caught.value)
    assert ("docker" in said, "bubblewrap" in said, "Install bubblewrap" in said) == (True, True, True)
    assert "no-docker.sock" in said


async def test_docker_that_is_absent_is_not_replaced(no_docker: None) -> None:
    """Who asks for Docker gets Docker or an error."""
    with pytest.raises(EngineUnavailableError, match=r"no-docker\.sock"):
        await open_engine("docker")


@pytest.mark.docker
async def test_auto_means_docker_where_there_is_one() -> None:
    """It does all that there is."""
    assert absence("docker") is None
    assert (await open_engine("auto")).name == "docker"
