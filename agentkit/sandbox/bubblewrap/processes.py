"""Processes of the bubblewrap engine on the host: none is ever taken for another one of its number."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentkit.sandbox.bubblewrap.launch import identity_of

#: As ``bubblewrap_launch.identity_of`` gives it.
Identity = list[str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """The processes that hold a running instance together.

    Attributes:
        first: With it all others end.
        main: The watchdog.
    """

    first: Identity
    main: Identity


def is_alive(identity: Identity) -> bool:
    """Tell whether a process still runs, and is no other of the same number."""
    process = int(identity[0])
    try:
        if identity_of(process) != identity:
            return False
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def send_signal(identity: Identity, number: signal.Signals) -> None:
    """Send a signal to a process and to no other of its number; no error if it has ended."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(int(identity[0]))
        try:
            if is_alive(identity):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def inner_of(keeper: int) -> Inner | None:
    """Return what holds the instance of a keeper together, or None while that isn't there."""
    for outer in _children_of(keeper):
        for first in _children_of(outer):
            for main in _children_of(first):
                with suppress(FileNotFoundError, ProcessLookupError):
                    if _is_watchdog(main):
                        return Inner(first=identity_of(first), main=identity_of(main))
    return None


def _is_watchdog(process: int) -> bool:
    """Tell whether a process is the second one of its sandbox, and has become what it is to be."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    fields = dict(line.partition(":")[::2] for line in status)
    return fields["NSpid"].split()[-1] == "2" and fields["Name"].strip() != "bwrap"


def _children_of(process: int) -> list[int]:
    """Return the processes that one has started, in the order of their numbers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
    return sorted(found)


def is_gone(identity: Identity, seconds: float) -> bool:
    """Wait for the end of a process, and tell whether it has come."""
    if not is_alive(identity):
        return True
    try:
        descriptor = os.pidfd_open(int(identity[0]))
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) or not is_alive(identity)
    finally:
        os.close(descriptor)


async def end_of(process: int) -> None:
    """Wait until a process has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
