"""Class-level settings: their defaults, and values that make no sense."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from agentkit import AgentOptions, RetryPolicy
from agentkit.errors import ConfigurationError


def test_defaults_are_those_of_the_specification() -> None:
    """SPEC 2.9, 5.1 and 19."""
    options = AgentOptions()

    assert options.retry == RetryPolicy(max_attempts=3, base_delay=0.1, max_delay=3.0)
    assert (options.hung_timeout, options.timezone, options.keep_history) == (30, "UTC", 100)
    assert (options.max_alarm_memory_limit_strikes, options.max_crash_strikes) == (3, 5)
    assert (options.name, options.idle_timeout) == (None, None)
    assert (options.max_schedules, options.max_payload_bytes, options.max_value_bytes) == (1_000, 1 << 20, 1 << 20)


def test_policy_with_open_fields_is_filled_from_the_defaults() -> None:
    """A class that sets one field of its policy keeps the numbers of the others."""
    options = AgentOptions(retry=RetryPolicy(max_attempts=9))

    assert options.retry == RetryPolicy(max_attempts=9, base_delay=0.1, max_delay=3.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hung_timeout", 0),
        ("hung_timeout", -1),
        ("idle_timeout", 0),
        ("idle_timeout", timedelta(seconds=-1)),
        ("max_alarm_memory_limit_strikes", -1),
        ("max_alarm_memory_limit_strikes", 1.5),
        ("max_crash_strikes", 0),
        ("max_crash_strikes", True),
        ("keep_history", -1),
        ("max_schedules", "many"),
        ("max_payload_bytes", -1),
        ("max_value_bytes", None),
    ],
)
def test_impossible_value_is_refused_by_name(name: str, value: Any) -> None:
    """The error names the option."""
    options: dict[str, Any] = {name: value}

    with pytest.raises(ConfigurationError, match=name):
        AgentOptions(**options)


@pytest.mark.parametrize("name", ["hung_timeout", "idle_timeout"])
@pytest.mark.parametrize("value", ["30", float("nan"), float("inf")])
def test_duration_that_is_none_is_refused_by_name(name: str, value: Any) -> None:
    """Seconds or a timedelta, finite."""
    options: dict[str, Any] = {name: value}

    with pytest.raises((ConfigurationError, TypeError, ValueError), match=name):
        AgentOptions(**options)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", None, 2])
def test_unknown_zone_is_refused(name: Any) -> None:
    """A zone that doesn't exist is found out when the class is made, not at the first schedule."""
    with pytest.raises(ConfigurationError, match="timezone"):
        AgentOptions(timezone=name)


@pytest.mark.parametrize("name", ["retries", "hung_timeout_s", "max_strikes"])
def test_unknown_option_is_a_type_error(name: str) -> None:
    """A misspelled option doesn't pass silently."""
    options: dict[str, Any] = {name: 1}

    with pytest.raises(TypeError, match=name):
        AgentOptions(**options)


def test_options_cannot_be_changed() -> None:
    """They belong to a class, and all its agents."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        AgentOptions().keep_history = 1  # type: ignore[misc]  # what the test is about
