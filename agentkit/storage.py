"""Durable key-value storage of an agent or a capability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.jobs.job import check_word
from agentkit.json_value import from_text, to_text
from agentkit.store.session import Session
from agentkit.store.store import ValueRange


class Storage:
    """JSON values by key. What is awaited is durable; inside ``transaction()``, when the block is left."""

    __slots__ = ("_max_value_bytes", "_scope", "_session")

    def __init__(self, session: Session, scope: str, *, max_value_bytes: int) -> None:
        self._session = session
        self._scope = scope
        self._max_value_bytes = max_value_bytes

    @property
    def max_value_bytes(self) -> int:
        """Size that a value may have, as JSON."""
        return self._max_value_bytes

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or ``default`` if there is none."""
        text = await self._session.value(self._scope, _key(key))
        return default if text is None else from_text(text)

    async def put(self, key: str, value: Any) -> None:
        """Store a value: JSON, a pydantic model or a dataclass.

        Raises:
            PayloadError: JSON can't carry it. Nothing is stored.
            QuotaError: It takes more than ``options.max_value_bytes``.
        """
        await self._session.put_values(self._scope, {_key(key): self._text(key, value)})

    async def put_many(self, mapping: Mapping[str, Any]) -> None:
        """Store several values together or not at all."""
        values: dict[str, str | None] = {_key(key): self._text(key, value) for key, value in mapping.items()}
        if values:
            await self._session.put_values(self._scope, values)

    async def delete(self, key: str) -> bool:
        """Delete a value; False if there was none."""
        found = await self._session.value(self._scope, _key(key)) is not None
        if found:
            await self._session.put_values(self._scope, {key: None})
        return found

    async def delete_all(self) -> None:
        """Delete every value. Jobs, state and what capabilities stored stay."""
        await self._session.clear(self._scope)

    async def list(
        self,
        *,
        prefix: str = "",
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> dict[str, Any]:
        """Return values in key order.

        Args:
            prefix: Only keys that begin so.
            start: Only keys from this one on.
            end: Only keys before this one.
            limit: At most so many.
            reverse: From the last key down.
        """
        if limit is not None and limit < 0:
            message = f"limit must be 0 or more, got {limit}"
            raise ValueError(message)
        wanted = ValueRange(prefix, start, end, limit, reverse)
        return {key: from_text(text) for key, text in await self._session.values(self._scope, wanted)}

    def _text(self, key: str, value: Any) -> str:
        return to_text(value, f"value of {key!r}", limit=self._max_value_bytes, quota="max_value_bytes")


def _key(key: str) -> str:
    return check_word(key, "key")
