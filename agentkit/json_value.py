"""What a payload or a stored value may be, and how it becomes text and comes back."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import date, datetime, time
from typing import Any, TypeAlias

from agentkit.errors import PayloadError, QuotaError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_canonical = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False, sort_keys=True)
_decode = json.JSONDecoder().decode


def _encode(value: JsonValue) -> str:
    """Encode plain JSON; numbers without the detour that the encoder takes for them."""
    return repr(value) if type(value) is int else _encoder.encode(value)


#: Deeper than any payload people mean, shallow enough for the C encoder and decoder.
_DEEPEST = 200


def to_text(value: object, where: str, *, limit: int | None = None, quota: str = "") -> str:
    """Return a value as compact JSON.

    Pydantic models and dataclasses are dumped, ``datetime`` becomes ISO 8601, tuples become lists.

    Args:
        value: What is to be stored.
        where: What to call it in errors, such as ``payload``.
        limit: Most bytes allowed.
        quota: Name of the option that holds the limit.

    Raises:
        PayloadError: NaN, infinities, bytes, sets, keys that aren't text and whatever else JSON would
            lose, with the path of the bad value.
        QuotaError: More than ``limit`` bytes.
    """
    text = "null" if value is None else _encode(plain(value, where))
    if limit is not None and len(text) > limit:
        raise QuotaError(quota, limit, f"{where} takes {len(text):,} bytes")
    return text


def from_text(text: str) -> Any:
    """Return the value of JSON that ``to_text`` made."""
    return _decode(text)


def canonical(value: JsonValue) -> str:
    """Return JSON in which equal values have equal text."""
    return _canonical.encode(value)


def plain(value: object, where: str, depth: int = 0) -> JsonValue:
    """Return a value as plain JSON types, or raise ``PayloadError`` naming what can't be."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value  # type: ignore[return-value]  # narrowed by the exact types above
    if kind is float:
        return _finite(value, where)  # type: ignore[arg-type]  # exact type checked
    if depth > _DEEPEST:
        raise PayloadError(where[:80], "is nested too deeply, or contains itself")
    if isinstance(value, dict):
        return _plain_mapping(value, where, depth)
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if hasattr(kind, "__pydantic_serializer__"):
        return _plain_model(value, where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), f"{where}.{field.name}", depth + 1)
            for field in dataclasses.fields(value)
        }
    return _plain_subclass(value, where)


def _plain_mapping(value: dict[Any, Any], where: str, depth: int) -> JsonValue:
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            reason = f"has the key {key!r} of type {type(key).__name__}; JSON keys are text, use str(key)"
            raise PayloadError(where, reason)
        result[str(key)] = plain(item, f"{where}.{key}", depth + 1)
    return result


def _plain_subclass(value: object, where: str) -> JsonValue:
    """Text and numbers of a subclass (``StrEnum``, ``IntEnum``) count as their base."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value), where)
    hint = "convert it first (a list for a set, base64 for bytes, str() for an id)"
    raise PayloadError(where, f"is a {type(value).__name__}, which JSON can't carry; {hint}")


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise PayloadError(where, f"is {value}, which JSON can't carry; use None or a number")
    return value


def _plain_model(value: Any, where: str) -> JsonValue:
    """Dump a pydantic object, and refuse it if reading the dump back gives another one.

    That catches secrets, excluded fields and lossy serializers alike (SPEC 8.5).
    """
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(type(value))
    try:
        dumped = adapter.dump_python(value, mode="json", round_trip=True, by_alias=True)
        same = adapter.validate_json(_encode(plain(dumped, where))) == value
    except ValueError as error:
        raise PayloadError(where, f"does not survive a JSON round trip: {error}") from error
    if not same:
        reason = (
            f"is a {type(value).__name__} whose JSON form loses data (a secret, an excluded field); "
            "keep the secret elsewhere and store a reference"
        )
        raise PayloadError(where, reason)
    return plain(dumped, where)
