"""Notices who would wait for ever: a tool can't wait for a run that waits, itself or by others, for the tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from agentkit.errors import HarnessError


class Place:
    """A harness of this process, as one that waits and is waited for."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: list[tuple[Inside, Place]] = []

    def check(self) -> None:
        """Make sure that the code that is running may wait for runs of this harness.

        Raises:
            HarnessError: It is in a tool that they wait for.
        """
        for inside in _inside():
            if inside.place is self:
                raise HarnessError(
                    "a tool can't wait for a run of its own harness, which waits for the tool; use another Harness, or "
                    "an agent of its own"
                )
            if self._leads_to(inside.place):
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
        waits = [(inside, self) for inside in _inside()]
        for wait in waits:
            wait[0].place._waits.append(wait)
        try:
            yield
        finally:
            for wait in waits:
                wait[0].place._waits.remove(wait)

    def _leads_to(self, other: Place) -> bool:
        seen: set[Place] = set()
        rest = [self]
        while rest:
            place = rest.pop()
            if place is other:
                return True
            if place not in seen:
                seen.add(place)
                rest += [waited_for for inside, waited_for in place._waits if not inside.has_ended]
        return False


class Inside:
    """One call of a tool. What it has started, and nobody waits for, may outlive it and is inside of it no longer.

    Attributes:
        place: The harness that waits for it.
        has_ended: It waits no longer.
    """

    __slots__ = ("has_ended", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.has_ended = False


#: The calls of tools that the code that is running was started in.
inside_tools_of: Final[ContextVar[tuple[Inside, ...]]] = ContextVar("agentkit_tools", default=())


def _inside() -> list[Inside]:
    return [inside for inside in inside_tools_of.get() if not inside.has_ended]
