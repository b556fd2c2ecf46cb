"""Bytes between a call's streams and the pipes and sockets of the sandbox, as fast as the slower side goes."""

from __future__ import annotations

import json
import os

from agentkit.sandbox.inside.calls import Inflow
from agentkit.sandbox.inside.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


async def feed(loop: Loop, source: Inflow, descriptor: int) -> None:
    """Write what comes from the owner into a pipe, then close it; what nobody reads is dropped."""
    try:
        while True:
            data = await source.read()
            if not data:
                return
            await write_all(loop, descriptor, data)
    except OSError:
        os.close(descriptor)
        descriptor = -1
        while await source.read():
            continue
    finally:
        if descriptor >= 0:
            os.close(descriptor)


async def write_all(loop: Loop, descriptor: int, data: bytes) -> None:
    """Write to a pipe or socket, as fast as the other side takes it.

    Raises:
        OSError: The other side is gone.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            await loop.writable(descriptor)


async def read_some(loop: Loop, descriptor: int, count: int) -> bytes:
    """Read from a pipe or socket what comes next, or nothing at the end.

    Raises:
        OSError: The other side is gone.
    """
    while True:
        try:
            return os.read(descriptor, count)
        except BlockingIOError:
            await loop.readable(descriptor)


async def read_report(loop: Loop, descriptor: int) -> dict[str, Any] | None:
    """Return what a forked process tells through a pipe, which is closed; None if it ended without a word."""
    os.set_blocking(descriptor, False)
    report = b""
    try:
        while True:
            data = await read_some(loop, descriptor, 1 << 16)
            if not data:
                break
            report += data
    finally:
        os.close(descriptor)
    told: dict[str, Any] | None = json.loads(report) if report else None
    return told
