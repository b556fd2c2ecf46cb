"""One typed value of an agent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentkit.errors import StateError
from agentkit.json_value import from_text, to_text
from agentkit.store.session import Session

if TYPE_CHECKING:
    from pydantic import ValidationError


class State:
    """The state as its model reads it. Each look gives a copy of its own: changing it changes nothing stored."""

    __slots__ = ("_initial", "_max_value_bytes", "_migrate", "_model", "_session")

    def __init__(
        self,
        session: Session,
        *,
        model: Any,
        initial: Any,
        migrate: Callable[[Any], Any] | None,
        max_value_bytes: int,
    ) -> None:
        self._session = session
        self._model = model
        self._initial = initial
        self._migrate = migrate
        self._max_value_bytes = max_value_bytes

    def get(self) -> Any:
        """Return the stored state, or the initial one.

        Raises:
            StateError: It no longer fits the model.
        """
        text = self._session.state()
        return copy.deepcopy(self._initial) if text is None else self._read(text)

    async def set(self, new: Any) -> Any:
        """Validate and store a state; returns it as the model reads it."""
        value = self._validated(new)
        text = to_text(value, "state", limit=self._max_value_bytes, quota="max_value_bytes")
        await self._session.put_state(text)
        return value

    def _read(self, text: str) -> Any:
        from pydantic import ValidationError

        raw = from_text(text)
        try:
            return self._validated(raw)
        except ValidationError as error:
            if self._migrate is None:
                raise self._misfit(error) from error
        try:
            return self._validated(self._migrate(raw))
        except ValidationError as error:
            raise self._misfit(error) from error

    def _misfit(self, error: ValidationError) -> StateError:
        problems = error.errors(include_url=False, include_input=False)
        fields = [".".join(str(part) for part in problem["loc"]) or "(the whole)" for problem in problems]
        return StateError(str(self._session.agent), fields, problems[0]["msg"])

    def _validated(self, value: Any) -> Any:
        if self._model is None:
            return value
        from pydantic import TypeAdapter

        return TypeAdapter(self._model).validate_python(value)
