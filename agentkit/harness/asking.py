"""One model call: what comes is passed on, a silent stream is left, and it ends with an answer or a ``ModelError``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, cast

from agentkit.clock import Clock
from agentkit.errors import AgentKitError, ModelError
from agentkit.harness.messages import AssistantMessage, Message, ToolCall, Usage
from agentkit.harness.model import ChatModel, ChatRequest, Reply
from agentkit.harness.signals import Live, Stop, cancelled, until_first
from agentkit.jobs.failures import is_memory_limit, storable

logger = logging.getLogger(__name__)

#: A stream that sends nothing for so long is abandoned; an answer may take as long as it likes.
SILENCE: Final = timedelta(seconds=120)
_MILLISECOND: Final = timedelta(milliseconds=1)
#: More calls at once are nonsense.
_MOST_CALLS: Final = 256
#: Characters that make a token, about.
TOKEN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What became of a model call.

    Attributes:
        reply: None if the run is to end, or there is an error.
        error: Why there is no reply.
        usage: What it took, whether or not there is a reply.
    """

    reply: Reply | None = None
    error: ModelError | None = None
    usage: Usage


async def ask(model: ChatModel, request: ChatRequest, *, clock: Clock, stop: Stop, live: Live, longest: int) -> Asked:
    """Ask a model once; text is passed on to ``live`` as it comes.

    Args:
        model: Is asked.
        request: Is sent.
        clock: Measures silence.
        stop: Ends it at once.
        live: Who follows the answer looks there.
        longest: Characters that the store can keep of an answer.

    Raises:
        MemoryError: Memory ran out.
    """
    live.reset()
    watch = _Watch(clock)
    task = asyncio.create_task(_consume(model, request, live, watch, longest))
    try:
        is_done = await until_first(task, watch.silent, stop.asked)
    finally:
        watch.end()
        if not task.done() and not await cancelled(task, clock):
            logger.error("a call of model %s did not stop when it was cancelled and is given up", model.name)
    if not is_done:
        error = None
        if not stop.is_asked:
            error = ModelError(f"{model.name} sent nothing for {SILENCE.total_seconds():g} s", is_passing=True)
        return Asked(error=error, usage=_estimate(request, live.text))
    try:
        reply = task.result()
    except ModelError as error:
        return Asked(error=error, usage=_estimate(request, live.text) if live.text else Usage())
    return Asked(reply=reply, usage=reply.usage or _estimate(request, *_texts(reply)))


async def _consume(model: ChatModel, request: ChatRequest, live: Live, watch: _Watch, longest: int) -> Reply:
    """Read an answer to its end.

    Raises:
        ModelError: There is none; whatever else a model of somebody's raises becomes one.
    """
    try:
        parts = model.reply(request)
        # Mostly an async generator, which is closed here and not some time later.
        async with aclosing(cast(Any, parts)) if hasattr(parts, "aclose") else nullcontext():
            async for part in parts:
                watch.heard()
                if isinstance(part, Reply):
                    return _checked(part, model, longest)
                if part.text:
                    live.feed(storable(part.text))
                    if len(live.text) > longest:
                        raise ModelError(f"{model.name} gave an answer of more than {longest:,} characters")
    except ModelError:
        raise
    except Exception as error:
        if is_memory_limit(error):
            raise
        if not isinstance(error, AgentKitError):
            logger.warning("model %s raised", model.name, exc_info=True)
        reason = str(error) if isinstance(error, AgentKitError) else f"{model.name} raised {type(error).__name__}"
        raise ModelError(reason) from error
    raise ModelError(f"{model.name} ended without an answer", is_passing=True)


def _checked(reply: Reply, model: ChatModel, longest: int) -> Reply:
    """Return an answer that can be stored and sent again.

    Raises:
        ModelError: It is empty, or more than anybody wants.
    """
    if reply.finish == "refused":
        raise ModelError(f"{model.name} refused to answer")
    if len(reply.calls) > _MOST_CALLS:
        raise ModelError(f"{model.name} asked for {len(reply.calls):,} tools at once", is_passing=True)
    written = (len(call.arguments) + len(call.name) + len(json.dumps(call.extra)) for call in reply.calls)
    size = len(reply.text) + len(json.dumps(reply.extra)) + sum(written)
    if size > longest:
        raise ModelError(f"{model.name} gave an answer of {size:,} characters; {longest:,} can be kept")
    if not reply.calls and not reply.text.strip() and reply.finish != "length":
        raise ModelError(f"{model.name} gave an empty answer", is_passing=True)
    calls = tuple(
        replace(call, id=storable(call.id), name=storable(call.name), arguments=storable(call.arguments))
        for call in reply.calls
    )
    return replace(reply, text=storable(reply.text), calls=calls)


class _Watch:
    """Notices silence.

    Attributes:
        silent: Set when nothing has come for ``SILENCE``.
    """

    def __init__(self, clock: Clock) -> None:
        self.silent = asyncio.Event()
        self._clock = clock
        self._heard_ms = clock.now_ms()
        self._timer = self._arm()

    def heard(self) -> None:
        """Note that something came; the timer finds out when it rings."""
        self._heard_ms = self._clock.now_ms()

    def end(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _arm(self) -> Any:
        return self._clock.call_at(self._heard_ms + SILENCE // _MILLISECOND, self._look)

    def _look(self) -> None:
        if self._clock.now_ms() - self._heard_ms >= SILENCE // _MILLISECOND:
            self.silent.set()
        else:
            self._timer = self._arm()


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return about how many tokens messages take, going by their length."""
    return sum(_size(message) for message in messages) // TOKEN


def _size(message: Message) -> int:
    calls: tuple[ToolCall, ...] = message.calls if isinstance(message, AssistantMessage) else ()
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in calls)


def _estimate(request: ChatRequest, *texts: str) -> Usage:
    """Return what a call took about, where the server didn't say."""
    sent = estimate_tokens(request.messages) + len(request.instructions) // TOKEN
    return Usage(input_tokens=sent, output_tokens=sum(map(len, texts)) // TOKEN, is_estimated=True)


def _texts(reply: Reply) -> list[str]:
    return [reply.text, *(call.arguments for call in reply.calls)]
