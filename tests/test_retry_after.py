"""How long a server asks to wait, and when waiting may help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agentkit.retry_after import asked_wait, is_passing

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2"}, timedelta(seconds=2)),
        ({"retry-after-ms": "1500", "retry-after": "9"}, timedelta(seconds=1.5)),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}, timedelta(minutes=1)),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, timedelta(0)),
        ({"retry-after": "-3"}, timedelta(0)),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "9"}, timedelta(seconds=9)),
        ({"retry-after-ms": "inf", "retry-after": "9"}, timedelta(seconds=9)),
        ({}, None),
    ],
)
def test_wait(headers: dict[str, str], wait: timedelta | None) -> None:
    """Seconds, milliseconds or a date; whatever else it says is no answer."""
    assert asked_wait(headers, NOW) == wait


@pytest.mark.parametrize(
    ("status", "code", "passing"),
    [(429, None, True), (429, "insufficient_quota", False), (503, None, True), (408, None, True), (400, None, False)],
)
def test_passing(status: int, code: str | None, passing: bool) -> None:
    """An empty account fills up no more than a wrong request mends itself."""
    assert is_passing(status, code) is passing
