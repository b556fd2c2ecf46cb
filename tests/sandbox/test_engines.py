"""The engines that must be on this machine are."""

from __future__ import annotations

from tests.sandbox.engines import CANDIDATES, absence, required


def test_required_engines_are_there() -> None:
    """Where ``$AGENTKIT_REQUIRE_ENGINES`` names an engine, leaving its tests out is a failure."""
    missing = {name: absence(name) for name in required() if name not in CANDIDATES or absence(name) is not None}

    assert missing == {}
