"""Makes a harness's model and tools ready when a run first needs them, and lets go of them when none is under way."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from agentkit.capability import Scope
from agentkit.errors import ConfigurationError
from agentkit.harness.model import ChatModel
from agentkit.harness.tools import OpenTools, Tool, ToolSource
from agentkit.jobs.failures import is_memory_limit
from agentkit.model_settings import settings_for

logger = logging.getLogger(__name__)

#: What a test stands in for the model of every harness.
_STAND_IN: Final = "model"


class Opening:
    """See ``parts.Opened``. Opened and closed by the one task that drives runs."""

    def __init__(
        self,
        lifecycle: Scope,
        given: ChatModel | str | None,
        *,
        tools: Mapping[str, Tool],
        sources: Sequence[ToolSource],
    ) -> None:
        self._lifecycle = lifecycle
        self._given = given
        self._tools = tools
        self._sources = sources
        self._open_sources: list[OpenTools] = []
        self._left_out: set[str] = set()
        self._model: ChatModel | None = None
        self._opened = AsyncExitStack()

    def check(self) -> None:
        """Find out early whether there is a model at all.

        Raises:
            ConfigurationError: None is named, it has no key, or its library isn't installed.
        """
        if self._lifecycle.stand_in(_STAND_IN) is None and (self._given is None or isinstance(self._given, str)):
            settings_for(self._given)

    async def model(self) -> ChatModel:
        """See ``parts.Opened``."""
        if self._model is None:
            made = self._made()
            if hasattr(made, "__aenter__"):
                await self._opened.enter_async_context(made)
            self._model = made
        return self._model

    async def tools(self) -> Mapping[str, Tool]:
        """See ``parts.Opened``."""
        if not self._sources:
            return self._tools
        if not self._open_sources:
            self._open_sources = [source.open(self._lifecycle.clock) for source in self._sources]
        tools = dict(self._tools)
        for source in self._open_sources:
            for tool in await source.tools():
                if tools.setdefault(tool.name, tool) is not tool and tool.name not in self._left_out:
                    self._left_out.add(tool.name)
                    logger.warning("a tool %r of a server is left out: another one has its name", tool.name)
        return tools

    async def close(self) -> None:
        """Let go of what was opened; what can't be closed is only logged, as no run needs it any more."""
        self._model = None
        sources, self._open_sources = self._open_sources, []
        opened, self._opened = self._opened, AsyncExitStack()
        for close in [*(source.close for source in sources), opened.aclose]:
            try:
                await close()
            except Exception as error:
                if is_memory_limit(error):
                    raise
                logger.warning("a model or a source of tools can't be closed", exc_info=True)

    def _made(self) -> Any:
        stand_in = self._lifecycle.stand_in(_STAND_IN)
        if stand_in is not None:
            return stand_in
        if self._given is not None and not isinstance(self._given, str):
            return self._given
        try:
            from agentkit.harness.openai_model import OpenAIModel
        except ImportError as error:
            message = "a model named by text is reached through the package openai; pip install 'agentkit[model]'"
            raise ConfigurationError(message) from error
        return OpenAIModel(self._given)
