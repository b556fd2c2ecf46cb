"""What can become JSON, what can't, and what would be lost."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass

from agentkit.errors import PayloadError, QuotaError
from agentkit.json_value import canonical, from_text, to_text


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Share(float):
    """A number of its own class."""


@dataclass
class Point:
    x: int
    more: list[Any] = field(default_factory=list)


class Order(BaseModel):
    when: datetime
    price: Decimal
    id: uuid.UUID
    colour: Colour = Colour.RED
    renamed: int = Field(1, alias="other")


@pydantic_dataclass
class Checked:
    n: int


class Secret(BaseModel):
    password: SecretStr


class Hidden(BaseModel):
    shown: int
    hidden: int = Field(0, exclude=True)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (10**30, 10**30),
        (-0.5, -0.5),
        ("é\u2028\x00", "é\u2028\x00"),
        ([], []),
        ((1, (2,)), [1, [2]]),
        ({"a": {"b": []}}, {"a": {"b": []}}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Share(0.5), 0.5),
        ({Colour.RED: 1}, {"red": 1}),
        (NOON, "2026-01-01T12:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(9, 30), "09:30:00"),
        (Point(1, [Point(2)]), {"x": 1, "more": [{"x": 2, "more": []}]}),
        (Checked(5), {"n": 5}),
        ({"model": Hidden.model_construct(shown=1)}, {"model": {"shown": 1}}),
    ],
    ids=repr,
)
def test_value_becomes_json(value: Any, expected: Any) -> None:
    """What comes back is what JSON makes of it."""
    if isinstance(value, dict) and "model" in value:
        pytest.importorskip("pydantic")
    assert from_text(to_text(value, "value")) == expected


def test_model_comes_back_through_its_own_validation() -> None:
    """A dump validates into an equal model, aliases included."""
    order = Order(when=NOON, price=Decimal("9.90"), id=uuid.UUID(int=1), other=7)

    dumped = from_text(to_text(order, "value"))

    assert Order.model_validate(dumped) == order


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "value"),
        (float("inf"), "value"),
        (Share("nan"), "value"),
        (b"x", "value"),
        (bytearray(b"x"), "value"),
        ({1}, "value"),
        (frozenset(), "value"),
        ({1: 1}, "value"),
        ({True: 1}, "value"),
        ({None: 1}, "value"),
        ([1, {"a": {2}}], r"value\[1\]\.a"),
        (Point(1, [b"x"]), r"value\.more\[0\]"),
        (1j, "value"),
        (object(), "value"),
        (Point, "value"),
        (uuid.UUID(int=1), "value"),
        (Decimal(1), "value"),
        (iter([1]), "value"),
    ],
    ids=repr,
)
def test_value_that_json_cannot_carry_is_refused_with_its_path(value: Any, path: str) -> None:
    """The error says where the bad value stands, and what to do."""
    with pytest.raises(PayloadError, match=f"^{path}: ") as raised:
        to_text(value, "value")

    assert isinstance(raised.value, ValueError)


def test_value_that_contains_itself_is_refused() -> None:
    """A ring, or a nesting without end, is no recursion error."""
    ring: list[Any] = []
    ring.append({"ring": ring})

    with pytest.raises(PayloadError, match="nested too deeply, or contains itself"):
        to_text(ring, "value")


@pytest.mark.parametrize(
    "value", [Secret(password=SecretStr("open sesame")), Hidden(shown=1, hidden=2)], ids=["secret", "excluded"]
)
def test_model_that_would_lose_data_is_refused(value: BaseModel) -> None:
    """A secret or an excluded field can't be read back; the error shows none of it (SPEC 8.5)."""
    with pytest.raises(PayloadError, match="loses data") as raised:
        to_text(value, "value")

    assert "sesame" not in str(raised.value)


def test_limit_counts_bytes() -> None:
    """Text beyond the limit raises a ``QuotaError`` with the option's name."""
    assert to_text("x" * 8, "value", limit=10, quota="max_bytes") == '"xxxxxxxx"'

    with pytest.raises(QuotaError, match=r"value takes 11 bytes; the limit is max_bytes=10"):
        to_text("x" * 9, "value", limit=10, quota="max_bytes")


def test_equal_values_have_equal_canonical_text() -> None:
    """Whatever the order of the keys."""
    assert canonical({"b": 1, "a": [2]}) == canonical({"a": [2], "b": 1}) == '{"a":[2],"b":1}'
