"""What is told of an error in code of others, and of something a model wrote that doesn't validate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from agentkit.jobs.failures import is_memory_limit, storable

T = TypeVar("T")

_MOST_REASONS: Final = 5
_LONGEST: Final = 2_000


class InvalidArguments(Exception):  # noqa: N818  # control flow: the reason goes back to the model
    """A model wrote something that isn't taken: arguments of a tool, or an answer of a form."""


def text_in(error: BaseException) -> str:
    """Return the message of an error, whose author may have got even that wrong."""
    try:
        return storable(str(error))
    except Exception:
        return ""


def reason_of(error: BaseException) -> str:
    """Return kind and message of an error.

    >>> reason_of(KeyError("zone"))
    "KeyError: 'zone'"
    """
    text = text_in(error)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:_LONGEST]


def read_with(read: Callable[[str], T], text: str) -> T:
    """Return what a function makes of text that a model wrote.

    Args:
        read: Validates; whatever it raises, also from a validator of somebody's, says that the text is wrong.
        text: Mostly JSON.

    Raises:
        InvalidArguments: It is wrong; says why, without repeating what was sent.
        MemoryError: Memory ran out.
    """
    from pydantic import ValidationError

    try:
        return read(text)
    except InvalidArguments:
        raise
    except ValidationError as error:
        raise InvalidArguments(_reasons(error)) from None
    except Exception as error:
        if is_memory_limit(error):
            raise
        raise InvalidArguments(reason_of(error)) from error


def _reasons(error: Any) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    reasons = [": ".join(filter(None, [".".join(map(str, each["loc"])), each["msg"]])) for each in found]
    more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return storable("; ".join(reasons[:_MOST_REASONS]))[:_LONGEST] + more
