"""Retry policies: bounds of the waits, fields left open, values that make no sense."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import RetryPolicy
from agentkit.retry import DEFAULT_RETRY


def test_policy_takes_seconds_and_shows_timedeltas() -> None:
    """Both ways of giving a delay mean the same."""
    policy = RetryPolicy(max_attempts=5, base_delay=0.5, max_delay=timedelta(seconds=2))

    assert policy == RetryPolicy(max_attempts=5, base_delay=timedelta(milliseconds=500), max_delay=2)
    assert (policy.base_delay, policy.max_delay) == (timedelta(milliseconds=500), timedelta(seconds=2))


def test_fields_left_out_are_open() -> None:
    """None means: from the next wider place."""
    policy = RetryPolicy()

    assert (policy.max_attempts, policy.base_delay, policy.max_delay) == (None, None, None)
    assert policy.filled_from(DEFAULT_RETRY) == RetryPolicy(max_attempts=3, base_delay=0.1, max_delay=3.0)


def test_given_fields_go_before_wider_ones() -> None:
    """Also those that are nothing: no wait is a choice."""
    policy = RetryPolicy(base_delay=0, max_delay=0)

    assert policy.filled_from(DEFAULT_RETRY) == RetryPolicy(max_attempts=3, base_delay=0, max_delay=0)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.2), (2, 0.4), (3, 0.8), (4, 1.6), (5, 3.0), (1_000, 3.0)])
def test_bound_of_the_wait_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    """Before attempt n+1 the bound is the smaller of 2ⁿ·base and max."""
    assert DEFAULT_RETRY.longest_wait(failures) == timedelta(seconds=seconds)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    failures=st.integers(1, 10_000),
    base=st.timedeltas(min_value=timedelta(0), max_value=timedelta.max),
    longest=st.timedeltas(min_value=timedelta(0), max_value=timedelta.max),
)
def test_wait_never_leaves_its_bounds(failures: int, base: timedelta, longest: timedelta) -> None:
    """Whatever the numbers, a wait is at least nothing and at most the bound, without an overflow."""
    policy = RetryPolicy(max_attempts=1, base_delay=base, max_delay=longest)

    wait = policy.wait(failures)

    assert timedelta(0) <= wait <= policy.longest_wait(failures) <= longest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 2.0),
        ("max_attempts", True),
        ("max_attempts", "3"),
        ("base_delay", -0.1),
        ("base_delay", float("nan")),
        ("base_delay", float("inf")),
        ("base_delay", timedelta(seconds=-1)),
        ("base_delay", "1"),
        ("max_delay", -1),
        ("max_delay", True),
    ],
)
def test_impossible_value_is_refused_by_name(name: str, value: Any) -> None:
    """The error names the field."""
    fields: dict[str, Any] = {name: value}

    with pytest.raises((TypeError, ValueError), match=name):
        RetryPolicy(**fields)


def test_unknown_field_is_a_type_error() -> None:
    """A misspelled field doesn't pass silently."""
    with pytest.raises(TypeError, match="attempts"):
        RetryPolicy(attempts=3)  # type: ignore[call-arg]  # wrong on purpose


def test_policy_cannot_be_changed() -> None:
    """It is a value, equal to others of the same fields and usable as a key."""
    policy = RetryPolicy(max_attempts=2)

    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.max_attempts = 3  # type: ignore[misc]  # what the test is about
    assert {policy: 1}[RetryPolicy(max_attempts=2)] == 1
