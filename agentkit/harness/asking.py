"""One model call: what comes is passed on, a silent stream is left, and it ends with an answer or a ``ModelError``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, cast

from agentkit.clock import Clock
from agentkit.errors import AgentKitError, ModelError
from agentkit.harness.messages import AssistantMessage, Message, ToolCall, Usage
from agentkit.harness.model import ChatModel, ChatRequest, Reply
from agentkit.harness.signals import Live, Stop, cancelled, until_first
from agentkit.jobs.failures import is_memory_limit, storable
from agentkit.json_value import to_text

logger = logging.getLogger(__name__)

#: A stream that sends nothing for so long is abandoned; an answer may take as long as it likes.
SILENCE: Final = timedelta(seconds=120)
_MILLISECOND: Final = timedelta(milliseconds=1)
#: More calls at once are nonsense.
_MOST_CALLS: Final = 256
_QUOTES: Final = 2
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


async def ask(model: ChatModel, request: ChatRequest, *, clock: Clock, stop: Stop, live: Live, room: int) -> Asked:
    """Ask a model once; text is passed on to ``live`` as it comes.

    Args:
        model: Is asked.
        request: Is sent.
        clock: Measures silence.
        stop: Ends it at once.
        live: Who follows the answer looks there.
        room: Bytes that the store can keep of an answer, as JSON.

    Raises:
        MemoryError: Memory ran out.
    """
    live.reset()
    watch = _Watch(clock)
    task = asyncio.create_task(_consume(model, request, live, watch, room))
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
        return Asked(error=error, usage=_estimate(request, live.text) if watch.has_heard else Usage())
    # What it took is known, whatever the answer is worth.
    try:
        with _as_model_error(model):
            usage = reply.usage or _estimate(request, *_texts(reply))
    except ModelError as error:
        return Asked(error=error, usage=_estimate(request, live.text))
    try:
        with _as_model_error(model):
            return Asked(reply=_checked(reply, model, room), usage=usage)
    except ModelError as error:
        return Asked(error=error, usage=usage)


async def _consume(model: ChatModel, request: ChatRequest, live: Live, watch: _Watch, room: int) -> Reply:
    """Read an answer to its end.

    Raises:
        ModelError: There is none; whatever else a model of somebody's raises becomes one.
    """
    size = 0
    with _as_model_error(model):
        parts = model.reply(request)
        # Mostly an async generator, which is closed here and not some time later.
        async with aclosing(cast(Any, parts)) if hasattr(parts, "aclose") else nullcontext():
            async for part in parts:
                watch.heard()
                if isinstance(part, Reply):
                    return part
                if part.text:
                    live.feed(storable(part.text))
                    size += len(to_text(part.text, "the answer")) - _QUOTES
                    if size > room:
                        raise ModelError(_too_long(model, size, room))
    raise ModelError(f"{model.name} ended without an answer", is_passing=True)


@contextmanager
def _as_model_error(model: ChatModel) -> Iterator[None]:
    """Turn whatever a model of somebody's raises into a ``ModelError``; of an error of others only the kind is told."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        if is_memory_limit(error):
            raise
        reason = str(error)
        if not isinstance(error, AgentKitError):
            reason = f"{model.name} raised {type(error).__name__}"
            # The error may quote what was sent, key and all.
            logger.debug("model %s raised", model.name, exc_info=True)
        raise ModelError(reason) from error


def _too_long(model: ChatModel, size: int, room: int) -> str:
    return f"{model.name} gave an answer that takes {size:,} bytes; {room:,} can be kept"


def _checked(reply: Reply, model: ChatModel, room: int) -> Reply:
    """Return an answer that can be stored and sent again.

    Raises:
        ModelError: It is empty, or more than anybody wants.
        PayloadError: There is something in it that JSON can't carry.
    """
    if reply.finish == "refused":
        raise ModelError(f"{model.name} refused to answer")
    if len(reply.calls) > _MOST_CALLS:
        raise ModelError(f"{model.name} asked for {len(reply.calls):,} tools at once", is_passing=True)
    size = len(to_text([reply.text, reply.extra, reply.calls], "the answer"))
    if size > room:
        raise ModelError(_too_long(model, size, room))
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
        has_heard: Something has come at all.
    """

    def __init__(self, clock: Clock) -> None:
        self.silent = asyncio.Event()
        self.has_heard = False
        self._clock = clock
        self._heard_ms = clock.now_ms()
        self._timer = self._arm()

    def heard(self) -> None:
        """Note that something came; the timer finds out when it rings."""
        self._heard_ms = self._clock.now_ms()
        self.has_heard = True

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
