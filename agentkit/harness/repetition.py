"""Notices a model that makes the same call with the same result over and over (SPEC 13.6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agentkit.harness.records import CallEntry

#: After so many equal calls in a row the model is told, with the result.
WARN_AT: Final = 3
#: After so many the run is ended.
STOP_AT: Final = 5

WARNING: Final = "[This call has now had the same result {count} times in a row. Repeating it will not change it.]"


def digest_of(name: str, arguments: str, text: str) -> str:
    """Return what is equal for equal calls with equal results, however the arguments were written."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    return hashlib.sha256(json.dumps([name, arguments, text]).encode()).hexdigest()[:16]


class Repetition:
    """Counts how often in a row the same was done; told of one turn after another.

    Attributes:
        count: How often the latest turn has repeated what was done before it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._run = ""
        self._turn: tuple[str, ...] = ()
        self._call = ""
        self._calls = self._turns = 0

    def add(self, calls: Sequence[CallEntry]) -> list[int]:
        """Return, for each call of a turn, how often in a row it has been made with its result.

        Equal turns of several calls count as well as equal calls. Runs are not compared with one another.
        """
        if calls[0].run != self._run:
            self._run, self._turn, self._call = calls[0].run, (), ""
        turn = tuple(call.digest for call in calls)
        self._turns = self._turns + 1 if turn == self._turn else 1
        self._turn = turn
        counts = []
        for call in calls:
            is_same = bool(call.digest) and call.digest == self._call
            self._calls = self._calls + 1 if is_same else 1
            self._call = call.digest
            counts.append(max(self._calls, self._turns if call.digest else 1))
        self.count = max(counts)
        return counts
