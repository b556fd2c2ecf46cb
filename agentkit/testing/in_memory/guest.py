"""The way into a simulated instance; see ``Guest``."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from datetime import timedelta

from agentkit.errors import SandboxConnectionError
from agentkit.sandbox.command import Command, Exit, Output, Stderr, Stdout
from agentkit.sandbox.guest import PROXY_PORT, Connection, FileInfo, ProcessInfo, ProcessPlan
from agentkit.testing.in_memory.archive import pack, unpack
from agentkit.testing.in_memory.background import BackgroundProcesses
from agentkit.testing.in_memory.disk import User, above
from agentkit.testing.in_memory.machine import InMemoryMachine
from agentkit.testing.in_memory.process import Running

_PIECE = 65_536


class InMemoryGuest:
    """See ``Guest``: of one run of a machine, the way in until it stops or is broken."""

    def __init__(self, machine: InMemoryMachine, processes: BackgroundProcesses) -> None:
        machine.require_running()
        self.is_open = True
        self._machine = machine
        self._processes = processes
        self._user = User(machine.plan.spec.uid, machine.plan.spec.gid)
        self._foreground: set[Running] = set()
        self._proxies: list[Callable[[], None]] = []
        machine.on_stop.add(self.break_off)

    def break_off(self) -> None:
        """Lose the way in, as when the channel breaks: its commands are killed."""
        self.is_open = False
        self._machine.on_stop.discard(self.break_off)
        for end in self._proxies:
            end()
        for running in list(self._foreground):
            running.kill()

    def _require_open(self) -> None:
        self._machine.require_running()
        if not self.is_open:
            raise SandboxConnectionError("the way into the sandbox is closed")

    async def run(self, command: Command) -> AsyncGenerator[Output, None]:
        """See ``Guest``."""
        self._require_open()
        clock = self._machine.clock
        began_at = clock.now()
        pieces: asyncio.Queue[tuple[bool, bytes] | None] = asyncio.Queue()

        def write(data: bytes) -> None:
            if data:
                pieces.put_nowait((True, data))

        def write_error(data: bytes) -> None:
            if data:
                pieces.put_nowait((command.merge_stderr, data))

        running = self._machine.launch(
            command.argv,
            cwd=command.cwd,
            env=command.env,
            stdin=command.stdin,
            user=command.user,
            write=write,
            write_error=write_error,
            on_end=lambda _: pieces.put_nowait(None),
            context=None,
        )
        self._foreground.add(running)
        deadline = _Deadline(running, command.timeout)
        try:
            async for output in _decoded(pieces):
                yield output
            self._require_open()
            if running.error is not None:
                raise running.error
            assert running.exit_code is not None
            yield Exit(
                exit_code=running.exit_code,
                timed_out=deadline.is_over,
                out_of_memory=running.out_of_memory,
                duration=clock.now() - began_at,
            )
        finally:
            deadline.cancel()
            self._foreground.discard(running)
            running.kill()
            await asyncio.wait([running.task])

    async def touch(self) -> None:
        """See ``Guest``."""
        self._require_open()
        self._machine.touch()

    async def set_inactivity(self, timeout: timedelta) -> None:
        """See ``Guest``."""
        self._require_open()
        self._machine.set_inactivity(timeout)

    # files

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        self._require_open()
        content = self._machine.disk.read(path, self._user)
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]

    async def write(self, path: str, content: AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """See ``Guest``."""
        data = b"".join([piece async for piece in content])
        self._require_open()
        self._machine.disk.make_directories(above(path), self._user)
        self._machine.disk.replace(path, self._user, data, mode=mode)

    async def entries(self, path: str) -> list[FileInfo]:
        """See ``Guest``."""
        self._require_open()
        return self._machine.disk.entries(path, self._user)

    async def walk(self, path: str) -> AsyncGenerator[FileInfo, None]:
        """See ``Guest``."""
        self._require_open()
        try:
            entries = self._machine.disk.entries(path, self._user)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        for entry in entries:
            yield entry
            if entry.type == "directory":
                async for below in self.walk(entry.path):
                    yield below

    async def stat(self, path: str) -> FileInfo | None:
        """See ``Guest``."""
        self._require_open()
        return self._machine.disk.info(path, self._user)

    async def mkdir(self, path: str) -> None:
        """See ``Guest``."""
        self._require_open()
        self._machine.disk.make_directories(path, self._user)

    async def move(self, source: str, target: str) -> None:
        """See ``Guest``."""
        self._require_open()
        self._machine.disk.move(source, target, self._user)

    async def remove(self, path: str) -> bool:
        """See ``Guest``."""
        self._require_open()
        return self._machine.disk.remove(path, self._user)

    async def pack(self, path: str) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        self._require_open()
        content = pack(self._machine.disk, path, self._user)
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]

    async def unpack(self, path: str, archive: AsyncIterable[bytes]) -> None:
        """See ``Guest``."""
        data = b"".join([piece async for piece in archive])
        self._require_open()
        unpack(self._machine.disk, path, data, self._user)

    # background processes

    async def start_process(self, plan: ProcessPlan) -> ProcessInfo:
        """See ``Guest``."""
        self._require_open()
        return self._processes.start(plan)

    async def processes(self) -> list[ProcessInfo]:
        """See ``Guest``."""
        self._require_open()
        return self._processes.list()

    async def wait_process(self, name: str) -> int:
        """See ``Guest``."""
        self._require_open()
        exit_code = await self._processes.wait(name)
        self._require_open()
        return exit_code

    async def kill_process(self, name: str, *, grace: timedelta) -> bool:
        """See ``Guest``."""
        self._require_open()
        return await self._processes.kill(name, grace)

    async def logs(self, name: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        self._require_open()
        async for piece in self._processes.logs(name, follow=follow):
            yield piece
            self._require_open()

    # ports

    async def is_listening(self, port: int) -> bool:
        """See ``Guest``."""
        self._require_open()
        return port in self._machine.ports

    async def connect(self, port: int) -> Connection:
        """See ``Guest``."""
        self._require_open()
        return await self._machine.connect(None, port)

    async def serve_proxy(self, handle: Callable[[Connection], Awaitable[None]]) -> None:
        """See ``Guest``."""
        self._require_open()
        self._proxies.append(self._machine.serve_from_outside(PROXY_PORT, handle))

    async def close(self) -> None:
        """See ``Guest``."""
        ending = [running.task for running in self._foreground]
        self.break_off()
        if ending:
            await asyncio.wait(ending)


class _Deadline:
    """Kills a command that takes too long."""

    def __init__(self, running: Running, timeout: timedelta | None) -> None:
        self.is_over = False
        self._running = running
        clock = running.process.clock
        self._timer = None
        if timeout is not None:
            milliseconds = -(-timeout // timedelta(milliseconds=1))
            self._timer = clock.call_at(clock.now_ms() + milliseconds, self._kill)

    def _kill(self) -> None:
        if self._running.exit_code is None:
            self.is_over = True
            self._running.kill()

    def cancel(self) -> None:
        """Let it run."""
        if self._timer is not None:
            self._timer.cancel()


async def _decoded(pieces: asyncio.Queue[tuple[bool, bytes] | None]) -> AsyncGenerator[Stdout | Stderr, None]:
    """Yield pieces of output; text is cut between characters only."""
    decoders = {is_output: codecs.getincrementaldecoder("utf-8")("replace") for is_output in (True, False)}
    kinds: dict[bool, type[Stdout | Stderr]] = {True: Stdout, False: Stderr}
    while (piece := await pieces.get()) is not None:
        is_output, data = piece
        yield kinds[is_output](data, decoders[is_output].decode(data))
    for is_output, decoder in decoders.items():
        if rest := decoder.decode(b"", final=True):
            yield kinds[is_output](b"", rest)
