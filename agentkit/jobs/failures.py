"""What kind of failure an error is, judged by type along its cause chain, never by its text (SPEC 5.4)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from agentkit.errors import AgentGoneError, FencedError, RuntimeClosedError, StoreUnavailableError
from agentkit.jobs.outcome import JobOutcome

_LONGEST_TRACEBACK = 16_000


class InvalidPayload(Exception):  # noqa: N818  # control flow between a capability and dispatch
    """A payload that no longer validates: set the job aside, don't retry (SPEC 4.10)."""


class FinalFailure(Exception):  # noqa: N818  # control flow between a capability and dispatch
    """A failure that retrying can't mend; its cause is what is reported."""


class LeftOut(Exception):  # noqa: N818  # control flow between a capability and dispatch
    """This occurrence isn't run; ``outcome`` says when the job comes again.

    Attributes:
        outcome: What becomes of the job.
    """

    def __init__(self, reason: str, outcome: JobOutcome) -> None:
        self.outcome = outcome
        super().__init__(reason)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, each once."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            for member in link.exceptions:
                yield from chain(member)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def is_memory_limit(error: BaseException) -> bool:
    """Tell whether memory ran out."""
    return any(isinstance(link, MemoryError) for link in chain(error))


def is_platform(error: BaseException, *, agent: str, location: str, is_closing: bool) -> bool:
    """Tell whether the platform failed rather than the job: such a run uses no attempt (SPEC 5.3).

    Args:
        error: What a run or a hook raised.
        agent: Whose run it was.
        location: Where its store is: another store's errors, like another agent's, are the job's own.
        is_closing: The runtime is being closed.
    """
    for link in chain(error):
        match link:
            case RuntimeClosedError():
                if is_closing:
                    return True
            case AgentGoneError() | FencedError():
                if link.agent == agent:
                    return True
            case StoreUnavailableError():
                if link.location in (None, location):
                    return True
    return False


def to_traceback(error: BaseException) -> str:
    """Return an error with its traceback for the history, the end of it when it is long."""
    text = "".join(traceback.format_exception(error))
    if len(text) > _LONGEST_TRACEBACK:
        text = "…" + text[-_LONGEST_TRACEBACK:]
    return storable(text)


def storable(text: str) -> str:
    """Return text that can be stored; a file name, for one, may hold what UTF-8 can't."""
    return text.encode("utf-8", "backslashreplace").decode()
