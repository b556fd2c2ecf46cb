"""Foreground commands: a process with its streams, ended with its tree by a time limit or its owner (SPEC 12.2)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from agentkit.sandbox.inside.calls import Call, Outflow
from agentkit.sandbox.inside.loop import Event, Loop
from agentkit.sandbox.inside.memory import MemoryCounter
from agentkit.sandbox.inside.spawn import Child, Children
from agentkit.sandbox.inside.streams import feed
from agentkit.sandbox.inside.tree import COMMAND_MARK, Process, Tree, find_process, read_file, ticks_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long after the end of a command, in seconds, something that it left in the background may still print.
LINGER = 0.2
#: What a pipe holds at most.
_PIPE = 64 << 10


class Commands:
    """Runs commands for one owner."""

    def __init__(self, loop: Loop, children: Children, env: dict[str, str], *, name: str, run_directory: str) -> None:
        self._loop = loop
        self._children = children
        self._env = env
        self._name = name
        self._records = Records(os.path.join(run_directory, "commands"))
        self._memory = MemoryCounter()
        self._running: set[Command] = set()
        self.none_left = Event(loop)
        self.none_left.set()

    async def run(self, call: Call) -> dict[str, Any]:
        """Run a command, its output as it comes; whoever cancels this ends its whole tree.

        What the command leaves in the background lives on, as it does in a shell, unless a time limit or the owner
        ended the command.
        """
        request = call.request
        mark = f"{self._name}-{call.id}"
        env = {**self._env, **request["env"], COMMAND_MARK: mark, "PWD": request["cwd"]}
        kills = self._memory.kills()
        command = Command(self._loop, self._children, call, env)
        tree = Tree(f"{COMMAND_MARK}={mark}", command.child.pid, is_stray=command.may_have_lost)
        self._begin(command)
        self._records.add(mark)
        try:
            left = await self._end_in_time(command, tree, request["timeout"])
            await command.drain()
        finally:
            command.close()
            if not command.is_over:
                await tree.kill(self._loop)
            self._records.remove(mark)
            self._running.discard(command)
            if not self._running:
                self.none_left.set()
        exit_code = command.child.exit_code if left == 0 else 128 + signal.SIGKILL
        return {
            "exit_code": exit_code,
            "timed_out": command.timed_out,
            "out_of_memory": exit_code != 0 and self._memory.kills() > kills,
            "duration": command.duration,
            "sent": [call.output.sent, call.errors.sent],
            "left": left,
        }

    async def end_abandoned(self) -> None:
        """End the commands of runners that were killed: their owner was told that they have failed."""
        for mark in self._records.abandoned():
            await Tree(f"{COMMAND_MARK}={mark}", 0).kill(self._loop)
            self._records.remove(mark)

    def _begin(self, command: Command) -> None:
        self.none_left.clear()
        for other in self._running:
            command.is_alone = other.is_alone = False
        self._running.add(command)

    async def _end_in_time(self, command: Command, tree: Tree, limit: float | None) -> int:
        """Wait for the end of a command, or bring it about; return how many of its processes can't be ended."""
        left = 0
        if not await command.child.ended.wait(None if limit is None else command.begun_at + limit):
            command.timed_out = True
            left = await tree.kill(self._loop)
            if left == 0:
                await command.child.ended.wait()
        command.is_over = True
        command.duration = time.monotonic() - command.begun_at
        return left


class Records:
    """Which commands are under way, as files named by their marks: known to the next runner if this one is killed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._runner = _signature(os.getpid())

    def add(self, mark: str) -> None:
        """Note that a command is under way."""
        descriptor = os.open(os.path.join(self._directory, mark), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(descriptor, self._runner)
        os.close(descriptor)

    def remove(self, mark: str) -> None:
        """Note that it no longer is."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, mark))

    def abandoned(self) -> list[str]:
        """Return those whose runner is gone."""
        found = []
        for mark in os.listdir(self._directory):
            runner = read_file(os.path.join(self._directory, mark))
            if _signature(int(runner.partition(b" ")[0] or 0)) != runner:
                found.append(mark)
        return found


def _signature(pid: int) -> bytes:
    """Return what tells a process from a later one of the same number."""
    process = find_process(pid)
    return b"%d %d" % (pid, 0 if process is None else process.started)


class Command:
    """One process and the tasks that serve its streams.

    Attributes:
        begun_at: By the clock that can't be set.
        is_alone: No other command has run since.
        is_over: It has ended, or can't be.
        timed_out: It was ended for its time limit.
        duration: How long it ran, in seconds.
    """

    def __init__(self, loop: Loop, children: Children, call: Call, env: dict[str, str]) -> None:
        self._loop = loop
        self._children = children
        self._began = ticks_now()
        self.begun_at = time.monotonic()
        self.is_alone = True
        self.is_over = False
        self.timed_out = False
        self.duration = 0.0
        request = call.request
        given: list[int] = []
        kept: list[int] = []

        def pipe(own: int) -> int:
            ends = os.pipe2(os.O_CLOEXEC)
            kept.append(ends[own])
            given.append(ends[1 - own])
            os.set_blocking(ends[own], False)
            return ends[1 - own]

        is_started = False
        try:
            output = pipe(0)
            errors = subprocess.STDOUT if request["merge_stderr"] else pipe(0)
            source = pipe(1) if request["has_input"] else subprocess.DEVNULL
            self.child = children.start(request["argv"], request["cwd"], env, [source, output, errors])
            is_started = True
        finally:
            for descriptor in given if is_started else given + kept:
                os.close(descriptor)
        self._pumps = [Pump(loop, kept[0], call.output, self.child)]
        if not request["merge_stderr"]:
            self._pumps.append(Pump(loop, kept[1], call.errors, self.child))
        self._feeding = loop.start(feed(loop, call.input, kept[-1])) if request["has_input"] else None

    def may_have_lost(self, process: Process) -> bool:
        """Tell whether a process that the runner has inherited can only be this command's."""
        return self.is_alone and process.started >= self._began and process.pid not in self._children

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
