"""The program inside a sandbox that carries out what its owner asks over one held channel.

It serves one owner until the channel ends; then the foreground commands end with it, and background processes go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from agentkit.sandbox.inside import frames
from agentkit.sandbox.inside.activity import Activity
from agentkit.sandbox.inside.archives import Archives
from agentkit.sandbox.inside.calls import Call, Channel, RefusedError
from agentkit.sandbox.inside.commands import Commands
from agentkit.sandbox.inside.files import Files
from agentkit.sandbox.inside.loop import Cancelled, Event, Loop
from agentkit.sandbox.inside.ports import Ports
from agentkit.sandbox.inside.processes import Processes
from agentkit.sandbox.inside.signals import Signals, adopt_orphans
from agentkit.sandbox.inside.spawn import Children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Handler = Callable[[Call], Coroutine[Any, Any, dict[str, Any]]]

#: How long the runner waits at its end, in seconds, until the owner has taken what is still to be said.
_FAREWELL = 2.0


class Runner:
    """Takes calls off the channel and gives each to what carries it out."""

    def __init__(self, settings: dict[str, Any], incoming: int, outgoing: int) -> None:
        self._loop = loop = Loop()
        self._channel = Channel(loop, incoming, outgoing)
        self._calls: dict[int, Call] = {}
        self._last_accepted = frames.FIRST_ACCEPTED
        self._is_over = Event(loop)
        self._all_ended = Event(loop)
        self._signals = Signals(loop)
        self._signals.on(signal.SIGTERM, self._end_after_commands)
        children = Children(loop, self._signals, settings["oom_score"])
        env = {**os.environ, **settings["env"]}
        run_directory = settings["run_directory"]
        self._commands = Commands(loop, children, env, name=settings["name"], run_directory=run_directory)
        files, archives, activity = Files(loop), Archives(loop, children), Activity(run_directory)
        processes = Processes(loop, children, env, run_directory=run_directory, log_directory=settings["log_directory"])
        ports = Ports(loop, self._channel, self._begin)
        self._handlers: dict[str, Handler] = {
            "run": self._commands.run,
            "touch": activity.touch,
            "set_inactivity": activity.set_inactivity,
            "read": files.read,
            "write": files.write,
            "entries": files.entries,
            "walk": files.walk,
            "stat": files.stat,
            "mkdir": files.mkdir,
            "move": files.move,
            "remove": files.remove,
            "pack": archives.pack,
            "unpack": archives.unpack,
            "start_process": processes.start,
            "processes": processes.list,
            "wait_process": processes.wait,
            "kill_process": processes.kill,
            "logs": processes.logs,
            "is_listening": ports.is_listening,
            "connect": ports.connect,
            "serve": ports.serve,
        }

    def run(self) -> None:
        """Serve until the owner is gone, and until what it had started has ended."""
        self._loop.run(self._main())

    async def _main(self) -> None:
        await self._commands.end_abandoned()
        self._channel.send_bytes(frames.MAGIC)
        hello = {"pid": os.getpid(), "python": sys.version.split()[0]}
        self._channel.send(0, frames.HELLO, json.dumps(hello).encode())
        self._loop.start(self._channel.flush())
        self._loop.start(self._signals.deliver())
        self._loop.start(self._serve(), self._is_over.set)
        await self._is_over.wait()
        for call in list(self._calls.values()):
            if call.task is not None:
                call.task.cancel()
        while self._calls:
            self._all_ended.clear()
            await self._all_ended.wait()
        await self._channel.flushed(time.monotonic() + _FAREWELL)

    def _end_after_commands(self) -> None:
        """End as soon as no command is left: the sandbox stops, and waits for all its processes."""

        async def wait() -> None:
            await self._commands.none_left.wait()
            self._is_over.set()

        self._loop.start(wait())

    def _begin(self, parent: int, work: Callable[[Call], Coroutine[Any, Any, dict[str, Any]]]) -> None:
        """Begin a call of the runner's own, which the owner is told belongs to one of its calls."""
        self._last_accepted += 1
        self._channel.send(self._last_accepted, frames.ACCEPT, json.dumps({"parent": parent}).encode())
        self._start(Call(self._loop, self._channel, self._last_accepted, {}), work)

    async def _serve(self) -> None:
        decoder = frames.Decoder(frames.MAX_REQUEST)
        while True:
            data = await self._channel.read()
            if not data:
                return
            for call_id, kind, payload in decoder.feed(data):
                self._take(call_id, kind, payload)
            await self._loop.turn()

    def _take(self, call_id: int, kind: int, payload: bytes) -> None:
        if kind == frames.PING:
            self._channel.send(call_id, frames.PONG, payload)
        elif kind == frames.OPEN:
            call = Call(self._loop, self._channel, call_id, json.loads(payload))
            self._start(call, self._handlers[call.request["op"]])
        elif call_id in self._calls:
            self._calls[call_id].receive(kind, payload)

    def _start(self, call: Call, work: Handler) -> None:
        self._calls[call.id] = call
        call.task = self._loop.start(self._carry_out(call, work), lambda: self._forget(call.id))

    def _forget(self, call_id: int) -> None:
        del self._calls[call_id]
        if not self._calls:
            self._all_ended.set()

    async def _carry_out(self, call: Call, work: Handler) -> None:
        try:
            reply = await work(call)
        except RefusedError as refused:
            reply = refused.reply
        except (OSError, ValueError) as error:
            # No descriptors left, a NUL byte in an argument: what the system refused before anything was done.
            reply = {"error": "other", "reason": str(error)}
        except Cancelled:
            reply = {"error": "cancelled"}
        call.end(reply)


def main(settings: dict[str, Any]) -> None:
    """Serve the owner at the other end of standard input and output."""
    # Nothing else may write between the frames, or read them.
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.makedirs(settings["run_directory"], mode=0o700, exist_ok=True)
    runner = Runner(settings, incoming, outgoing)
    adopt_orphans()
    runner.run()
