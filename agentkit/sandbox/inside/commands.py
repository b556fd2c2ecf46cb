"""Foreground commands: a process with its streams, ended with its tree by a time limit or its owner (SPEC 12.2)."""

from __future__ import annotations

import os
import subprocess
import time

from agentkit.sandbox.inside.calls import Call, Inflow, Outflow
from agentkit.sandbox.inside.loop import Event, Loop
from agentkit.sandbox.inside.memory import MemoryCounter
from agentkit.sandbox.inside.spawn import Child, Children
from agentkit.sandbox.inside.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The variable by which the processes of a command are found.
MARK = "AGENTKIT_EXEC"
#: How long after the end of a command, in seconds, something that it left in the background may still print.
LINGER = 0.2
#: What a pipe holds at most.
_PIPE = 64 << 10


class Commands:
    """Runs commands for one owner."""

    def __init__(self, loop: Loop, children: Children, env: dict[str, str], name: str) -> None:
        self._loop = loop
        self._children = children
        self._env = env
        self._name = name
        self._memory = MemoryCounter()

    async def run(self, call: Call) -> dict[str, Any]:
        """Run a command, its output as it comes; whoever cancels this ends its whole tree.

        What the command leaves in the background lives on, as it does in a shell, unless a time limit or the owner
        ended the command.
        """
        request = call.request
        mark = f"{self._name}-{call.id}"
        env = {**self._env, **request["env"], MARK: mark, "PWD": request["cwd"]}
        kills = self._memory.kills()
        begun_at = time.monotonic()
        command = Command(self._loop, self._children, call, env)
        tree = Tree(f"{MARK}={mark}", command.child.pid)
        has_ended = False
        try:
            limit = request["timeout"]
            has_ended = await command.child.ended.wait(None if limit is None else begun_at + limit)
            left = 0 if has_ended else await tree.kill(self._loop)
            timed_out = not has_ended
            has_ended = True
            if left == 0:
                await command.child.ended.wait()
            duration = time.monotonic() - begun_at
            await command.drain()
        finally:
            command.close()
            if not has_ended:
                await tree.kill(self._loop)
        exit_code = command.child.exit_code if left == 0 else 137
        return {
            "exit_code": exit_code,
            "timed_out": timed_out,
            "out_of_memory": exit_code != 0 and self._memory.kills() > kills,
            "duration": duration,
            "sent": [call.output.sent, call.errors.sent],
            "left": left,
        }


class Command:
    """One process and the tasks that serve its streams."""

    def __init__(self, loop: Loop, children: Children, call: Call, env: dict[str, str]) -> None:
        request = call.request
        self._loop = loop
        given: list[int] = []
        kept: list[int] = []

        def pipe(*, reads: bool) -> int:
            ends = os.pipe2(os.O_CLOEXEC)
            given.append(ends[0 if reads else 1])
            kept.append(ends[1 if reads else 0])
            os.set_blocking(kept[-1], False)
            return given[-1]

        try:
            output = pipe(reads=False)
            errors = subprocess.STDOUT if request["merge_stderr"] else pipe(reads=False)
            source = pipe(reads=True) if request["has_input"] else subprocess.DEVNULL
            self.child: Child = children.start(request["argv"], request["cwd"], env, [source, output, errors])
        except BaseException:
            for descriptor in kept:
                os.close(descriptor)
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)
        self._serve(call, kept, has_errors=not request["merge_stderr"], has_input=request["has_input"])

    def _serve(self, call: Call, kept: list[int], *, has_errors: bool, has_input: bool) -> None:
        self._pumps = [Pump(self._loop, kept[0], call.output, self.child)]
        if has_errors:
            self._pumps.append(Pump(self._loop, kept[1], call.errors, self.child))
        self._feeding = self._loop.start(feed(self._loop, call.input, kept[-1])) if has_input else None

    async def drain(self) -> None:
        """Wait until all was sent that the command printed."""
        for pump in self._pumps:
            await pump.finished.wait()

    def close(self) -> None:
        """Send no more, and let whatever still prints do so into the void."""
        if self._feeding is not None:
            self._feeding.cancel()
        for pump in self._pumps:
            pump.discard()


class Pump:
    """Takes what a command prints to the owner, as fast as the owner takes it.

    Attributes:
        finished: All was sent.
    """

    def __init__(self, loop: Loop, descriptor: int, flow: Outflow, child: Child) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._flow = flow
        self._child = child
        self.finished = Event(loop)
        self._sending = loop.start(self._send(), self.finished.set)

    async def _send(self) -> None:
        # Whatever stands in the pipe when the command ends is its own, and is sent however long that takes. What
        # comes later was printed by something that it left in the background, and is waited for a moment only.
        owed = _PIPE
        while True:
            count = await self._flow.room()
            try:
                data = os.read(self._descriptor, count)
            except BlockingIOError:
                if not self._child.ended.is_set:
                    await self._loop.readable_or(self._descriptor, self._child.ended)
                elif not await self._loop.readable(self._descriptor, self._child.ended_at + LINGER):
                    return
                else:
                    owed = 0
                continue
            if not data:
                return
            self._flow.send(data)
            if self._child.ended.is_set:
                owed -= len(data)
                if owed <= 0 and time.monotonic() > self._child.ended_at + LINGER:
                    return

    def discard(self) -> None:
        """Send no more; what is in the background still may print, or it would die of the attempt."""
        self._sending.cancel()
        self._loop.start(self._swallow())

    async def _swallow(self) -> None:
        await self.finished.wait()
        while True:
            try:
                if not os.read(self._descriptor, 1 << 16):
                    break
            except BlockingIOError:
                await self._loop.readable(self._descriptor)
            else:
                await self._loop.turn()
        os.close(self._descriptor)


async def feed(loop: Loop, source: Inflow, descriptor: int) -> None:
    """Write what comes from the owner into a pipe, then close it; what nobody reads is dropped."""
    try:
        while True:
            data = await source.read()
            if not data:
                return
            await write_all(loop, descriptor, data)
    except BrokenPipeError:
        while await source.read():
            continue
    finally:
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
