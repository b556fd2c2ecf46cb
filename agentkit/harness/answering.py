"""Gets the next answer of a model: what is sent, and what is done where none comes (SPEC 13.5)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from agentkit.errors import ContextOverflowError, ModelError
from agentkit.harness.asking import ask
from agentkit.harness.forms import spec_of
from agentkit.harness.model import ChatModel, ChatRequest, Reply
from agentkit.harness.parts import Parts
from agentkit.harness.run_log import RunLog
from agentkit.harness.signals import Live, Stop, until_first
from agentkit.harness.tools import Tool
from agentkit.prompts import load_prompt
from agentkit.retry import RetryPolicy

logger = logging.getLogger(__name__)

RETRY: Final = RetryPolicy(max_attempts=6, base_delay=1.0, max_delay=60.0)
#: A server that asks for a longer wait gets it, but the agent doesn't wait.
LONGEST_PAUSE: Final = timedelta(seconds=60)
#: One that asks for more than this is as good as gone.
LONGEST_WAIT: Final = timedelta(days=1)
#: A conversation can be shortened without a summary, if need be.
_SUMMARY_TRIES: Final = 2
_MILLISECOND: Final = timedelta(milliseconds=1)


class Postponed(Exception):  # noqa: N818  # control flow: the run is left until then
    """A server asks for a longer wait than anybody sits through.

    Attributes:
        until_ms: When to ask it again.
    """

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms
        super().__init__()


class Answering:
    """Asks for the answers of one run."""

    def __init__(self, parts: Parts, log: RunLog, stop: Stop) -> None:
        self._parts = parts
        self._log = log
        self._stop = stop

    async def answer(self, model: ChatModel, tools: Mapping[str, Tool]) -> Reply | None:
        """Return the next answer; None if the run is to end before there is one.

        Args:
            model: Is asked, again and again where that may help.
            tools: What it may call.

        Raises:
            ModelError: There will be none.
            Postponed: Not now.
        """
        return await self.ask(model, self._request(tools))

    async def ask(self, model: ChatModel, request: ChatRequest) -> Reply | None:
        """Send a request until it is answered; see ``answer``."""
        run, is_answer = self._log.run, request.purpose == "answer"
        failures = run.failures if is_answer else 0
        while not self._stop.is_asked:
            asked = await ask(
                model,
                request,
                clock=self._parts.lifecycle.clock,
                stop=self._stop,
                live=self._parts.live if is_answer else Live(),
                room=self._log.room,
            )
            if asked.reply is not None or asked.usage.tokens:
                self._log.count(asked.usage)
            if asked.reply is not None:
                return asked.reply
            if asked.error is not None:
                failures += 1
                if is_answer:
                    run.failures = failures
                await self._recover(asked.error, failures, most=RETRY.attempts() if is_answer else _SUMMARY_TRIES)
        return None

    def _request(self, tools: Mapping[str, Tool]) -> ChatRequest:
        instructions, form = self._parts.instructions, self._log.run.output
        if form is not None:
            told = load_prompt("harness_output").fill(schema=json.dumps(form["schema"], ensure_ascii=False))
            instructions = f"{instructions}\n\n{told}".strip()
        return ChatRequest(
            instructions=instructions,
            messages=self._log.transcript.messages(),
            tools=tuple(tool.spec for tool in tools.values()),
            output=spec_of(form),
            max_tokens=self._parts.max_tokens,
            answers=self._log.transcript.head.answers,
        )

    async def _recover(self, error: ModelError, failures: int, *, most: int) -> None:
        """Do what may make the next try succeed.

        Args:
            error: What the latest try met.
            failures: In a row.
            most: So many are enough.

        Raises:
            ModelError: Nothing does.
            Postponed: Only a long wait does.
        """
        if isinstance(error, ContextOverflowError) or not error.is_passing:
            raise error
        if failures >= most:
            raise ModelError(f"{error}, {failures} times in a row")
        wait = max(RETRY.wait(failures), error.wait or timedelta(0))
        if wait > LONGEST_WAIT:
            raise ModelError(f"{error}, and it asks to wait {wait}")
        clock = self._parts.lifecycle.clock
        if wait > LONGEST_PAUSE:
            raise Postponed(clock.now_ms() + wait // _MILLISECOND)
        logger.info("%s; trying again in %.1f s", error, wait.total_seconds())
        pause = asyncio.ensure_future(clock.sleep(wait))
        await until_first(pause, self._stop.asked)
        pause.cancel()
