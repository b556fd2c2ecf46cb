"""Whose code is running: a chain of frames in one context variable.

A frame is pushed for each call, job, callback and transaction. It survives ``create_task`` and goes along
into threads that agentkit starts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit.errors import RuntimeClosedError

if TYPE_CHECKING:
    from agentkit.host import DurableObject
    from agentkit.store.store import PendingCommit
    from agentkit.store.transaction import Transaction

T = TypeVar("T")


class Work:
    """One piece of work under way: an alarm, an attempt of a job.

    Attributes:
        label: What it is, for people.
        abandoned: It did not stop when cancelled; whatever it still does must change nothing.
        sleeping: How many sleepers of it wait on a fake clock.
        threads: Threads and bounded tasks of it that have not ended.
        blocks: Transactions it has open, of whatever agent.
    """

    __slots__ = ("abandoned", "blocks", "label", "sleeping", "threads")

    def __init__(self, label: str) -> None:
        self.label = label
        self.abandoned = False
        self.sleeping = 0
        self.threads = 0
        self.blocks: list[Transaction] = []

    @property
    def is_alive(self) -> bool:
        """Something of it still runs though it was given up."""
        return self.threads > 0

    def thread_ended(self) -> None:
        """Note that one of its threads, or its bounded task, has ended."""
        self.threads -= 1


def abandon(work: Work) -> None:
    """Give work up that did not stop; what it sleeps for holds nothing around it any more."""
    for frame in frames():
        if frame.work is not None and frame.work is not work:
            frame.work.sleeping -= work.sleeping
    work.abandoned = True
    for block in list(work.blocks):
        block.session.end(block)


@dataclass(slots=True, eq=False)
class Frame:
    """One entry into an agent's code.

    Attributes:
        seen: A commit, then still on its way, whose changes the code may have seen in memory.
        task: Whose call it is, if it is one.
        cut_off: Why the call was cut off, if it was.
    """

    host: DurableObject
    loop: asyncio.AbstractEventLoop
    work: Work | None = None
    transaction: Transaction | None = None
    outer: Frame | None = None
    task: asyncio.Task[Any] | None = None
    seen: PendingCommit | None = None
    cut_off: Exception | None = None


_frame: ContextVar[Frame | None] = ContextVar("agentkit_frame", default=None)
current_frame = _frame.get
push_frame = _frame.set
pop_frame = _frame.reset


def outside() -> Context:
    """Return a copy of the running context that belongs to no agent's code."""
    copy = copy_context()
    copy.run(_frame.set, None)
    return copy


def apart() -> Context:
    """Return a copy of the running context whose changes belong to no open ``transaction()``."""
    copy = copy_context()
    copy.run(_frame.set, _without_transactions(_frame.get()))
    return copy


def _without_transactions(frame: Frame | None) -> Frame | None:
    if frame is None:
        return None
    return Frame(frame.host, frame.loop, frame.work, None, _without_transactions(frame.outer))


def frames() -> Iterator[Frame]:
    """Yield the frames around the running code, innermost first."""
    frame = _frame.get()
    while frame is not None:
        yield frame
        frame = frame.outer


class entered:  # noqa: N801  # used like a function, as contextlib's managers are
    """Run the body as code of this agent."""

    __slots__ = ("_frame", "_token")

    def __init__(
        self, host: DurableObject, *, work: Work | None = None, transaction: Transaction | None = None
    ) -> None:
        self._frame = Frame(host, asyncio.get_running_loop(), work, transaction, _frame.get())

    def __enter__(self) -> None:
        self._token = _frame.set(self._frame)

    def __exit__(self, *_: object) -> None:
        _frame.reset(self._token)


def current_agent() -> Any:
    """Return the agent whose code is running: in calls, jobs, callbacks and tools.

    Raises:
        LookupError: Outside of any agent.
    """
    frame = _frame.get()
    if frame is None:
        message = "no agent is running here; current_agent() works in its calls, jobs, callbacks and tools"
        raise LookupError(message)
    return frame.host


def from_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the agent's event loop, from a plain-function job or callback, and wait for it.

    >>> def count(self, payload):                      # doctest: +SKIP
    ...     from_thread(self.storage.put("count", 1))

    Raises:
        LookupError: Outside of a thread that agentkit started.
        RuntimeClosedError: The event loop has ended while the thread went on.
    """
    frame = _frame.get()
    if frame is None or _is_in_a_loop():
        coroutine.close()
        message = "from_thread() works only in the thread of a plain-function job or callback; in a coroutine use await"
        raise LookupError(message)
    context = copy_context()
    done: threading.Event = threading.Event()
    box: list[asyncio.Task[T]] = []

    def start() -> None:
        task = context.run(frame.loop.create_task, coroutine)
        box.append(task)
        task.add_done_callback(lambda _: done.set())

    try:
        frame.loop.call_soon_threadsafe(start)
    except RuntimeError:
        coroutine.close()
        raise RuntimeClosedError("the event loop of this job has ended; it was abandoned") from None
    while not done.wait(timeout=1.0):
        if frame.loop.is_closed():
            coroutine.close()
            raise RuntimeClosedError("the event loop of this job has ended; it was abandoned")
    return box[0].result()


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Tell whether calling a function gives a coroutine; looked at once a function."""
    return _is_coroutine_function(getattr(function, "__func__", function))


@functools.lru_cache(maxsize=4096)
def _is_coroutine_function(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function)


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run a plain function in a daemon thread of its own, with this context.

    A thread can't be cancelled: when the caller is, the work it belongs to counts as abandoned and can't write.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = copy_context()
    work = next((frame.work for frame in frames() if frame.work is not None), None)
    if work is not None:
        work.threads += 1

    def settle(result: T | None, error: BaseException | None) -> None:
        if work is not None:
            work.thread_ended()
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]  # the result, when there is no error

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(function, *arguments)
        except BaseException as caught:  # handed to the awaiting coroutine
            error = caught
        if error is not None and (not isinstance(error, Exception) or isinstance(error, StopIteration)):
            # A thread can't end the process, and a future refuses StopIteration.
            wrapped = RuntimeError(f"the function raised {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            error = wrapped
        with suppress(RuntimeError):  # the loop is closed: nobody waits for an abandoned thread any more
            loop.call_soon_threadsafe(settle, result, error)

    name = f"agentkit-{getattr(function, '__name__', 'job')}"
    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return await outcome
    except asyncio.CancelledError:
        if work is not None and outcome.cancelled():
            abandon(work)
        raise
