"""Connections to ports inside, and from inside to what the owner serves: relayed over the channel (SPEC 12.4, 12.9)."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time

from agentkit.sandbox.inside import frames
from agentkit.sandbox.inside.calls import Call, Channel, RefusedError
from agentkit.sandbox.inside.loop import Event, Loop
from agentkit.sandbox.inside.streams import read_some, write_all
from agentkit.sandbox.inside.tree import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Begin = Callable[[int, Callable[[Call], Coroutine[Any, Any, dict[str, Any]]]], None]

_LISTENING = b"0A"
# What 127.0.0.1 reaches, as /proc writes addresses: loopback and any, of both families.
_REACHED = {
    b"0100007F",
    b"00000000",
    b"0" * 32,
    b"00000000000000000000000001000000",
    b"0000000000000000FFFF00000100007F",
}
#: How long a port may be held by an earlier runner that is about to end, in seconds.
_TAKEN = 5.0
#: How long what was sent to a connection may take until it is delivered, once the owner has dropped it, in seconds.
_PARTING = 5.0


class Ports:
    """Carries out calls on ports of the loopback interface."""

    def __init__(self, loop: Loop, channel: Channel, begin: Begin) -> None:
        """Begin with no connection.

        Args:
            loop: Runs what is carried out.
            channel: Leads to the owner.
            begin: Begins a call of the runner's own, which belongs to the owner's call of that id.
        """
        self._loop = loop
        self._channel = channel
        self._begin = begin

    async def is_listening(self, call: Call) -> dict[str, Any]:
        """Tell whether something accepts connections, without making one."""
        wanted = b"%04X" % call.request["port"]
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in read_file(table).splitlines()[1:]:
                fields = line.split()
                address, _, port = fields[1].partition(b":")
                if port == wanted and fields[3] == _LISTENING and address in _REACHED:
                    return {"is_listening": True}
        return {"is_listening": False}

    async def connect(self, call: Call) -> dict[str, Any]:
        """Open a connection and relay it."""
        port = call.request["port"]
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.setblocking(False)
            is_connected = False
            try:
                is_connected = await self._reaches(connection, host, port)
            finally:
                if not is_connected:
                    connection.close()
            if is_connected:
                self._channel.send(call.id, frames.READY)
                return await self._relay(call, connection)
        raise RefusedError("refused", port=port)

    async def _reaches(self, connection: socket.socket, host: str, port: int) -> bool:
        error = connection.connect_ex((host, port))
        if error == errno.EINPROGRESS:
            await self._loop.writable(connection.fileno())
            error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return error == 0

    async def _relay(self, call: Call, connection: socket.socket) -> dict[str, Any]:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = Event(self._loop)
        sending = self._loop.start(self._send(call, connection), sent.set)
        try:
            await self._receive(call, connection)
            await sent.wait()
        finally:
            sending.cancel()
            # It must be done with the descriptor before another uses it.
            await sent.wait()
            self._loop.start(self._part(call, connection))
        return {"sent": [call.output.sent]}

    async def _receive(self, call: Call, connection: socket.socket) -> None:
        # Once the other side takes nothing any more, what it has said is still sent.
        with contextlib.suppress(OSError):
            while True:
                data = await call.input.read()
                if not data:
                    break
                await write_all(self._loop, connection.fileno(), data)
            connection.shutdown(socket.SHUT_WR)

    async def _part(self, call: Call, connection: socket.socket) -> None:
        """Close a connection as a system does: what the owner has sent before is still delivered."""
        call.input.end()
        is_received = Event(self._loop)
        receiving = self._loop.start(self._receive(call, connection), is_received.set)
        until = time.monotonic() + _PARTING
        if await is_received.wait(until):
            # Closed with something unread, it would be reset, and what is under way with it.
            with contextlib.suppress(OSError):
                while await self._loop.readable(connection.fileno(), until) and os.read(connection.fileno(), 1 << 16):
                    continue
        receiving.cancel()
        await is_received.wait()
        connection.close()

    async def _send(self, call: Call, connection: socket.socket) -> None:
        # A connection that the other side drops ends like any other.
        with contextlib.suppress(OSError):
            while True:
                data = await read_some(self._loop, connection.fileno(), await call.output.room())
                if not data:
                    break
                call.output.send(data)
        call.end_output()

    async def serve(self, call: Call) -> dict[str, Any]:
        """Listen on a port, and hand each connection to the owner, until the call is cancelled."""
        with await self._listen(call.request["port"]) as listener:
            self._channel.send(call.id, frames.READY)
            while True:
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    await self._loop.readable(listener.fileno())
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED):
                        raise
                    await self._loop.sleep(0.1)
                else:
                    connection.setblocking(False)
                    self._begin(call.id, self._relay_of(connection))

    def _relay_of(self, connection: socket.socket) -> Callable[[Call], Coroutine[Any, Any, dict[str, Any]]]:
        async def relay(call: Call) -> dict[str, Any]:
            return await self._relay(call, connection)

        return relay

    async def _listen(self, port: int) -> socket.socket:
        give_up_at = time.monotonic() + _TAKEN
        while True:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
                listener.listen(128)
                listener.setblocking(False)
                return listener
            except OSError as error:
                listener.close()
                if error.errno != errno.EADDRINUSE or time.monotonic() > give_up_at:
                    reason = f"can't listen on port {port} inside the sandbox: {os.strerror(error.errno or 0)}"
                    raise RefusedError("other", reason=reason) from error
            await self._loop.sleep(0.05)
