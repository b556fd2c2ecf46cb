"""What a harness is put together from, as the code that drives its runs sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentkit.capability import Scope
from agentkit.harness.limits import Limits
from agentkit.harness.model import ChatModel
from agentkit.harness.queue import RunQueue
from agentkit.harness.signals import Live
from agentkit.harness.tools import Tool
from agentkit.harness.waiting import Place


class Opened(Protocol):
    """The model and the tools, made ready when they are first needed."""

    async def model(self) -> ChatModel:
        """Return the model.

        Raises:
            ConfigurationError: There is none, or it can't be reached as things are set up.
        """

    async def tools(self) -> Mapping[str, Tool]:
        """Return the tools by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What drives a run needs.

    Attributes:
        context_tokens: How much the model takes at a time.
        max_tokens: Longest answer.
    """

    lifecycle: Scope
    queue: RunQueue
    live: Live
    place: Place
    opened: Opened
    instructions: str
    limits: Limits
    context_tokens: int
    max_tokens: int
