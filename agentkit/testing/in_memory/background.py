"""The background processes of one run of a simulated instance, and their logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import quote

from agentkit.context import outside
from agentkit.errors import ProcessExistsError
from agentkit.sandbox.guest import ProcessInfo, ProcessPlan
from agentkit.testing.fake_clock import resting
from agentkit.testing.in_memory.disk import ENGINE
from agentkit.testing.in_memory.machine import InMemoryMachine
from agentkit.testing.in_memory.process import Running

logger = logging.getLogger(__name__)

_LOGS = "/run/agentkit/processes"


@dataclass(slots=True, eq=False, kw_only=True)
class _Background:
    plan: ProcessPlan
    pid: int
    running: Running | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def log(self) -> str:
        return f"{_LOGS}/{quote(self.plan.name, safe='')}.log"

    def tell(self) -> None:
        """Wake all that follow the log."""
        self.news.set()
        self.news = asyncio.Event()


class BackgroundProcesses:
    """See ``Guest`` for what each method promises."""

    def __init__(self, machine: InMemoryMachine) -> None:
        self._machine = machine
        self._all: dict[str, _Background] = {}

    def start(self, plan: ProcessPlan) -> ProcessInfo:
        """Start one."""
        old = self._all.get(plan.name)
        if old is not None and _exit_code(old) is None:
            raise ProcessExistsError(plan.name)
        disk = self._machine.disk
        entry = _Background(plan=plan, pid=self._machine.new_pid())

        def write(data: bytes) -> None:
            disk.write(entry.log, ENGINE, data, append=True)
            entry.tell()

        def ended(running: Running) -> None:
            if running.error is not None:
                logger.error("the process %s failed", plan.name, exc_info=running.error)
                write(f"{type(running.error).__name__}: {running.error}\n".encode())
            entry.tell()

        running = self._machine.launch(
            plan.argv,
            cwd=plan.cwd,
            env=plan.env,
            write=write,
            write_error=write,
            on_end=ended,
            context=outside(),
        )
        disk.make_directories(_LOGS, ENGINE)
        disk.write(entry.log, ENGINE, b"")
        entry.running = running
        self._all[plan.name] = entry
        return _info(entry)

    def list(self) -> list[ProcessInfo]:
        """Return all, by name."""
        return [_info(self._all[name]) for name in sorted(self._all)]

    async def wait(self, name: str) -> int:
        """Wait for the end of one."""
        running = self._find(name).running
        assert running is not None
        with resting(self._machine.clock):
            await running.ended.wait()
        assert running.exit_code is not None
        return running.exit_code

    async def kill(self, name: str, grace: timedelta) -> bool:
        """End one."""
        entry = self._all.get(name)
        if entry is None or entry.running is None or entry.running.exit_code is not None:
            return False
        running, clock = entry.running, self._machine.clock
        timer = clock.call_at(clock.now_ms() + grace // timedelta(milliseconds=1), running.kill)
        running.terminate()
        if grace <= timedelta(0):
            running.kill()
        try:
            with resting(clock):
                await running.ended.wait()
        finally:
            timer.cancel()
        return True

    async def logs(self, name: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yield what one has printed."""
        entry = self._find(name)
        seen = 0
        while True:
            news, has_ended = entry.news, _exit_code(entry) is not None
            content = self._machine.disk.read(entry.log, ENGINE)
            if len(content) > seen:
                yield content[seen:]
                seen = len(content)
            elif has_ended or not follow:
                return
            else:
                with resting(self._machine.clock):
                    await news.wait()

    def _find(self, name: str) -> _Background:
        if name not in self._all:
            message = f"no process {name!r} was started in this instance"
            raise LookupError(message)
        return self._all[name]


def _exit_code(entry: _Background) -> int | None:
    return None if entry.running is None else entry.running.exit_code


def _info(entry: _Background) -> ProcessInfo:
    return ProcessInfo(
        name=entry.plan.name, argv=entry.plan.argv, pid=entry.pid, exit_code=_exit_code(entry), log=entry.log
    )
