"""The program inside a sandbox that carries out what its owner asks over one held channel.

It serves one owner until the channel ends; then the foreground commands end with it, and background processes go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from agentkit.sandbox.inside import frames
from agentkit.sandbox.inside.activity import Activity
from agentkit.sandbox.inside.calls import Call, Channel, RefusedError
from agentkit.sandbox.inside.commands import Commands
from agentkit.sandbox.inside.files import Files
from agentkit.sandbox.inside.loop import Cancelled, Event, Loop
from agentkit.sandbox.inside.spawn import Children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Handler = Callable[[Call], Coroutine[Any, Any, dict[str, Any]]]


class Runner:
    """Takes calls off the channel and gives each to what carries it out."""

    def __init__(self, settings: dict[str, Any], incoming: int, outgoing: int) -> None:
        self._loop = loop = Loop()
        self._channel = Channel(loop, incoming, outgoing)
        self._calls: dict[int, Call] = {}
        self._all_ended = Event(loop)
        self._children = Children(loop)
        env = {**os.environ, **settings["env"]}
        commands = Commands(loop, self._children, env, settings["name"])
        files = Files(loop)
        activity = Activity(settings["run_directory"])
        self._handlers: dict[str, Handler] = {
            "run": commands.run,
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
        }

    def run(self) -> None:
        """Serve until the owner is gone, and until what it had started has ended."""
        self._loop.run(self._main())

    async def _main(self) -> None:
        self._channel.send_bytes(frames.MAGIC)
        hello = {"pid": os.getpid(), "python": sys.version.split()[0]}
        self._channel.send(0, frames.HELLO, json.dumps(hello).encode())
        self._loop.start(self._channel.flush())
        self._loop.start(self._children.collect())
        await self._serve()
        for call in list(self._calls.values()):
            if call.task is not None:
                call.task.cancel()
        while self._calls:
            self._all_ended.clear()
            await self._all_ended.wait()

    async def _serve(self) -> None:
        decoder = frames.Decoder()
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
            call = self._calls[call_id] = Call(self._loop, self._channel, call_id, json.loads(payload))
            call.task = self._loop.start(self._carry_out(call), lambda: self._forget(call_id))
        elif call_id in self._calls:
            self._calls[call_id].receive(kind, payload)

    def _forget(self, call_id: int) -> None:
        del self._calls[call_id]
        if not self._calls:
            self._all_ended.set()

    async def _carry_out(self, call: Call) -> None:
        try:
            reply = await self._handlers[call.request["op"]](call)
        except RefusedError as refused:
            reply = refused.reply
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
    Runner(settings, incoming, outgoing).run()
