"""Runs one call of a tool: whatever the tool does, there is one result (SPEC 13.2, 13.3)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agentkit import context
from agentkit.clock import Clock
from agentkit.context import Work
from agentkit.errors import ToolError
from agentkit.harness.output import text_of
from agentkit.harness.reasons import InvalidArguments, read_with, reason_of, text_in
from agentkit.harness.records import CallEntry, Ending
from agentkit.harness.signals import Stop, cancelled, until_first
from agentkit.harness.tools import Tool, ToolContext
from agentkit.harness.waiting import Inside, Place, inside_tools_of
from agentkit.jobs.failures import is_memory_limit

logger = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)

#: A thread can't be cancelled, and some coroutines won't be.
_MAY_HAVE: Final = " It may still be at it, and what it does stays done; check before repeating it."
_CANCELLED: Final = "The tool failed: something it waited for was cancelled."


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """How a call ended, and what the model is told of it, in full."""

    ending: Ending
    text: str


class ToolRunner:
    """Runs the tools of one harness, as code of its agent."""

    def __init__(self, place: Place, *, clock: Clock, stop: Stop) -> None:
        self._place = place
        self._clock = clock
        self._stop = stop

    async def run(self, tool: Tool | None, entry: CallEntry, arguments: str) -> CallResult:
        """Run a call until it has ended, its time is over or the run is to end.

        Raises:
            MemoryError: Memory ran out: that is for section 7 to deal with.
        """
        if tool is None:
            return CallResult(ending="error", text=f"There is no tool {entry.name!r} any more.")
        try:
            values = read_with(tool.read, arguments)
        except InvalidArguments as error:
            return CallResult(ending="invalid", text=f"Not run, the arguments are wrong: {error}")
        agent = context.current_agent()
        told = ToolContext(
            agent=agent, idempotency_key=entry.call_id, run_id=entry.run, cancellation=_Cancellation(self._stop)
        )
        work = Work(f"tool {entry.name!r}")
        with context.entered(agent, work=work):
            task = asyncio.create_task(self._guarded(tool, values, told))
        return await self._bounded(task, tool, work)

    async def _guarded(self, tool: Tool, values: Any, told: ToolContext) -> CallResult:
        """Call the tool; what it raises is its result."""
        inside = Inside(self._place)
        inside_tools_of.set((*inside_tools_of.get(), inside))
        try:
            return CallResult(ending="result", text=text_of(await tool.call(values, told)))
        except KeyboardInterrupt:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return CallResult(ending="error", text=_CANCELLED)
        except ToolError as error:
            return CallResult(ending="error", text=text_in(error))
        except BaseException as error:  # a tool that calls sys.exit() ends no process here
            if is_memory_limit(error):
                raise
            logger.debug("tool %s raised", tool.name, exc_info=True)
            return CallResult(ending="error", text=f"The tool failed with {reason_of(error)}")
        finally:
            inside.has_ended = True

    async def _bounded(self, task: asyncio.Task[CallResult], tool: Tool, work: Work) -> CallResult:
        """Wait for a call; cancel it when its time is over or the run is to end."""
        late = asyncio.Event()
        timer = None
        if tool.timeout is not None:
            timer = self._clock.call_at(self._clock.now_ms() + tool.timeout // _MILLISECOND, late.set)
        try:
            if await until_first(task, late, self._stop.asked):
                return _result_of(task)
        except asyncio.CancelledError:
            await self._cancel(task, work)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        is_late = late.is_set()
        result = await self._cancel(task, work)
        if result is not None:
            return result
        may_have = "" if tool.effect == "read" else _MAY_HAVE
        if is_late:
            assert tool.timeout is not None
            text = f"The tool took longer than {tool.timeout.total_seconds():g} s and was cancelled.{may_have}"
            return CallResult(ending="error", text=text)
        return CallResult(ending="cancelled", text=f"Cancelled while it ran: the run was ended.{may_have}")

    async def _cancel(self, task: asyncio.Task[CallResult], work: Work) -> CallResult | None:
        """Stop a call; returns its result if it came to one all the same, and gives it up if it won't stop."""
        if await cancelled(task, self._clock):
            return None if task.cancelled() else task.result()
        if not work.abandoned:
            context.abandon(work)
        logger.error("%s did not stop when it was cancelled and is given up; it can't write any more", work.label)
        return None


def _result_of(task: asyncio.Task[CallResult]) -> CallResult:
    """Return how a call ended that nobody here has cancelled: a tool may do that to its own task, by accident."""
    if task.cancelled():
        return CallResult(ending="error", text=f"{_CANCELLED} What it had done by then stays done.")
    return task.result()


class _Cancellation:
    """What a tool may see of a ``Stop``."""

    __slots__ = ("_stop",)

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    @property
    def is_asked(self) -> bool:
        """See ``tools.Cancellation``."""
        return self._stop.is_asked
