"""One fixture for all engines, and the rule which test runs on which.

A test that takes ``engine`` runs on every engine that has the features which its ``needs`` mark names; one with the
mark ``docker`` or ``bubblewrap`` runs on that one. Those that can't run are deselected, and the summary says how many
and why: nothing is left out in silence. ``test_engines.py`` fails for an engine that must be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentkit.sandbox.engine import SandboxEngine
from tests.sandbox import own_docker
from tests.sandbox.engines import CANDIDATES, absence

_ENGINE_OF = pytest.StashKey[dict[str, str]]()
_LEFT_OUT = pytest.StashKey[Counter[tuple[str, str]]]()
_RAN = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_ENGINE_OF] = {}
    config.stash[_LEFT_OUT] = Counter()
    config.stash[_RAN] = Counter()


def engine_of(item: pytest.Item) -> str | None:
    """Return the engine that a test runs on, if any."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("engine") in CANDIDATES:
        return str(callspec.params["engine"])
    return next((name for name in CANDIDATES if item.get_closest_marker(name)), None)


def obstacle(item: pytest.Item, engine: str) -> str | None:
    """Return why a test can't run on its engine, or None."""
    needed = {feature for mark in item.iter_markers("needs") for feature in mark.args}
    if needed - CANDIDATES[engine].features:
        return "can't do what they need"
    reason = absence(engine)
    if reason is None and item.get_closest_marker("own_docker"):
        reason = own_docker.obstacle()
    return None if reason is None else f"is missing: {reason}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests that can't run."""
    kept, left_out = [], []
    for item in items:
        engine = engine_of(item)
        reason = None if engine is None else obstacle(item, engine)
        if engine is not None:
            config.stash[_ENGINE_OF][item.nodeid] = engine
        if engine is not None and reason is not None:
            config.stash[_LEFT_OUT][engine, reason] += 1
            left_out.append(item)
        else:
            kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Count a test for its engine once it has run."""
    report = yield
    engine = item.config.stash[_ENGINE_OF].get(item.nodeid)
    if engine is not None and report.when == "call" and not report.skipped:
        item.config.stash[_RAN][engine] += 1
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say for each engine how many tests ran on it, and how many didn't, and why."""
    ran, left_out = config.stash[_RAN], config.stash[_LEFT_OUT]
    names = [name for name in CANDIDATES if ran[name] or any(engine == name for engine, _ in left_out)]
    for name in names:
        reasons = [f"{count} left out, it {why}" for (engine, why), count in left_out.items() if engine == name]
        terminalreporter.write_line("; ".join([f"sandbox engine {name}: {ran[name]} tests ran", *reasons]))


@pytest.fixture(params=list(CANDIDATES))
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SandboxEngine]:
    """Return each engine in turn."""
    engine = CANDIDATES[request.param].make(tmp_path)
    yield engine
    await engine.close()
