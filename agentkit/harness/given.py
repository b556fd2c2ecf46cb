"""Finds out early what a harness was given that it can't work with."""

from __future__ import annotations

from typing import Any

from agentkit.errors import ConfigurationError
from agentkit.harness.limits import Limits


def check_given(*, model: Any, instructions: Any, limits: Any, **counts: Any) -> None:
    """Make sure of it; ``counts`` are whole numbers of 1 or more.

    Raises:
        ConfigurationError: Names what is wrong.
    """
    if not (model is None or isinstance(model, str) or callable(getattr(model, "reply", None))):
        raise ConfigurationError(f"model must be the name of a model or a ChatModel, got {model!r}")
    if not isinstance(instructions, str):
        raise ConfigurationError(f"instructions must be text, got {instructions!r}")
    if not (limits is None or isinstance(limits, Limits)):
        raise ConfigurationError(f"limits must be Limits(...), got {limits!r}")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigurationError(f"{name} must be a whole number of 1 or more, got {count!r}")
