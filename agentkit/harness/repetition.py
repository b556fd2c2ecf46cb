"""Notices a model that makes the same call with the same result over and over (SPEC 13.6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from agentkit.harness.records import AnswerEntry, CallEntry, Entry

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


def repetitions(entries: Sequence[Entry]) -> dict[int, int]:
    """Return, by number, how often in a row each call has been made with its result, alone or in equal turns.

    Calls are compared within their run only.
    """
    counts: dict[int, int] = {}
    last_turn: tuple[str, ...] = ()
    last_call, calls_in_a_row, turns_in_a_row = "", 0, 0
    run = ""
    for _, group in groupby(entries, key=lambda entry: isinstance(entry, CallEntry)):
        turn = [entry for entry in group if isinstance(entry, CallEntry)]
        if not turn:
            continue
        if turn[0].run != run:
            run, last_turn, last_call = turn[0].run, (), ""
        signature = tuple(call.digest for call in turn)
        turns_in_a_row = turns_in_a_row + 1 if signature == last_turn else 1
        last_turn = signature
        for call in turn:
            calls_in_a_row = calls_in_a_row + 1 if call.digest and call.digest == last_call else 1
            last_call = call.digest
            counts[call.number] = max(calls_in_a_row, turns_in_a_row if call.digest else 1)
    return counts


def is_looping(entries: Sequence[Entry]) -> bool:
    """Tell whether the run is to be ended: its last turn repeats what was done often enough."""
    latest = next((entry.number for entry in reversed(entries) if isinstance(entry, AnswerEntry)), -1)
    counts = repetitions(entries)
    return any(count >= STOP_AT for number, count in counts.items() if number > latest)
