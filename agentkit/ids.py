"""Ids that sort by the order in which they were made."""

from __future__ import annotations

from random import Random

from agentkit.clock import Clock

_RANDOM_BITS = 52


class IdSource:
    """Makes 24-digit hexadecimal ids: milliseconds, then 52 random bits, always growing."""

    __slots__ = ("_clock", "_last", "_random")

    def __init__(self, clock: Clock, random: Random | None = None) -> None:
        self._clock = clock
        self._random = random or Random()
        self._last = 0

    def follow(self, id: str) -> None:
        """Make ids later than this one from now on, whatever the clock says."""
        self._last = max(self._last, int(id, 16))

    def new(self) -> str:
        """Return an id later than every other of this source."""
        made = self._clock.now_ms() << _RANDOM_BITS | self._random.getrandbits(_RANDOM_BITS)
        self._last = made if made > self._last else self._last + 1
        return f"{self._last:024x}"
