"""Specs are checked when they are written."""

from __future__ import annotations

import pytest

from agentkit.errors import ConfigurationError
from agentkit.sandbox import SandboxSpec, Volume


@pytest.mark.parametrize("path", ["/run", "/run/agentkit", "/proc/1", "/dev/shm", "relative", "/", "/a/../b"])
def test_volume_is_where_something_can_last(path: str) -> None:
    """A volume over what is made anew at each start would lose what is written there."""
    with pytest.raises(ConfigurationError, match=r"Volume\.path"):
        Volume("cache", path)


@pytest.mark.parametrize("user", ["me", "0", "4294967295:1", "1000:2147483648"])
def test_user_is_one_that_engines_know(user: str) -> None:
    """In numbers, and no larger than an engine takes."""
    with pytest.raises(ConfigurationError, match=r"SandboxSpec\.user"):
        SandboxSpec(user=user)


def test_runtime_of_a_user_is_fine() -> None:
    """Only the system's own directories are refused, not what begins like one."""
    assert Volume("cache", "/running").path == "/running"
    assert SandboxSpec(user="2147483647:0").uid == 2147483647
