"""Background processes: they outlive connections, and their logs are files in the sandbox (SPEC 12.3)."""

from __future__ import annotations

import builtins
import codecs
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta

from agentkit.clock import Duration, duration_of, to_ms
from agentkit.errors import ConfigurationError, PortTimeoutError
from agentkit.sandbox.execution import command_of
from agentkit.sandbox.guest import ProcessInfo, ProcessPlan
from agentkit.sandbox.spec import WORKSPACE, check_port
from agentkit.sandbox.way_in import WayIn

_POLL = timedelta(milliseconds=100)
_LOG_SHOWN = 300


class Process:
    """A background process of a sandbox.

    Attributes:
        name: What it was started as.
        info: What was known of it last: pid, arguments, exit code, path of its log.
    """

    def __init__(self, way: WayIn, info: ProcessInfo) -> None:
        self.name = info.name
        self.info = info
        self._way = way

    async def logs(self, *, follow: bool = False) -> AsyncGenerator[str, None]:
        """Yield what it has printed so far, errors included, and with ``follow`` what it prints until it ends."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async with self._way.used() as guest, aclosing(guest.logs(self.name, follow=follow)) as pieces:
            async for piece in pieces:
                if text := decoder.decode(piece):
                    yield text
        if text := decoder.decode(b"", final=True):
            yield text

    async def wait_port(self, port: int, timeout: Duration = 60) -> None:
        """Wait until something in the sandbox accepts connections on a port.

        Raises:
            PortTimeoutError: Nothing did within ``timeout`` seconds, or the process ended before; shows its last lines.
        """
        check_port(port)
        limit = duration_of(timeout, "timeout")
        async with self._way.used() as guest:
            clock = self._way.clock
            end_ms = to_ms(clock.now() + limit)
            while not await guest.is_listening(port):
                is_over = await self._has_ended()
                if is_over or clock.now_ms() >= end_ms:
                    why = f"{self.name!r} ended with {self.info.exit_code}" if is_over else f"waited {limit}"
                    raise PortTimeoutError(port, why, await self._last_lines())
                await clock.sleep(_POLL)

    async def _has_ended(self) -> bool:
        async with self._way.used() as guest:
            self.info = next((info for info in await guest.processes() if info.name == self.name), self.info)
        return self.info.exit_code is not None

    async def _last_lines(self) -> str:
        return "".join([piece async for piece in self.logs()])[-_LOG_SHOWN:].strip()

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""
        async with self._way.used() as guest:
            return await guest.wait_process(self.name)

    async def kill(self, grace: Duration = 10) -> bool:
        """End it with all it has started: SIGTERM, SIGKILL after ``grace`` seconds; False if it has ended."""
        async with self._way.used() as guest:
            return await guest.kill_process(self.name, grace=duration_of(grace, "grace"))


class Processes:
    """The background processes of a sandbox, by name."""

    def __init__(self, way: WayIn) -> None:
        self._way = way

    async def start(self, name: str, *argv: str, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None) -> Process:
        """Start a process; one of the same name that has ended is replaced.

        Args:
            name: Names it in the sandbox.
            argv: Program and arguments; a shell's line is ``("sh", "-c", line)``.
            cwd: Where it starts.
            env: Variables besides the spec's.

        Raises:
            ProcessExistsError: One of that name runs.
            CommandNotFoundError: There is no such program.
        """
        if not name or not name.isprintable():
            raise ConfigurationError(f"a process is named by a printable text, got {name!r}")
        command = command_of(
            argv, shell=None, cwd=cwd, env=env, stdin=None, user=None, timeout=None, merge_stderr=False
        )
        plan = ProcessPlan(name=name, argv=command.argv, cwd=command.cwd, env=command.env)
        async with self._way.used() as guest:
            return Process(self._way, await guest.start_process(plan))

    async def get(self, name: str) -> Process | None:
        """Return a process of this run of the sandbox, also one that has ended, or None."""
        return next((process for process in await self.list() if process.name == name), None)

    async def list(self) -> builtins.list[Process]:
        """Return the processes of this run of the sandbox, by name."""
        async with self._way.used() as guest:
            return [Process(self._way, info) for info in await guest.processes()]
