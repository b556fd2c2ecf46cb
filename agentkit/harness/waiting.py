"""Notices who would wait for ever: a tool can't wait for a run that waits, itself or by others, for the tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from agentkit.errors import HarnessError


class Place:
    """A harness of this process, as one that waits and is waited for."""

    __slots__ = ("_waits_for",)

    def __init__(self) -> None:
        self._waits_for: list[Place] = []

    def check(self) -> None:
        """Make sure that the code that is running may wait for runs of this harness.

        Raises:
            HarnessError: It is in a tool that they wait for.
        """
        for place in inside_tools_of.get():
            if place is self:
                raise HarnessError(
                    "a tool can't wait for a run of its own harness, which waits for the tool; use another Harness, or "
                    "an agent of its own"
                )
            if self._leads_to(place):
                raise HarnessError(
                    "a tool can't wait for a run of a harness whose own tools wait, in a circle, for the tool; submit "
                    "the message without waiting, or answer without asking back"
                )

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Note, while code waits for a run of this harness, that the tools it is in do so.

        Raises:
            HarnessError: See ``check``.
        """
        self.check()
        waiting = inside_tools_of.get()
        for place in waiting:
            place._waits_for.append(self)
        try:
            yield
        finally:
            for place in waiting:
                place._waits_for.remove(self)

    def _leads_to(self, other: Place) -> bool:
        seen: set[Place] = set()
        rest = [self]
        while rest:
            place = rest.pop()
            if place is other:
                return True
            if place not in seen:
                seen.add(place)
                rest += place._waits_for
        return False


#: The harnesses whose tools the code that is running is in.
inside_tools_of: Final[ContextVar[tuple[Place, ...]]] = ContextVar("agentkit_tools", default=())
