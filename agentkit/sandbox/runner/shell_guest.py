"""A running instance as seen through the engine's own exec and a shell: for images without Python, and other users.

It keeps what ``Guest`` promises as far as a shell can: time limits and cancelling end the tree, files are written
whole. Each call costs an exec. Ports and archives need Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import re
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from datetime import timedelta

from agentkit.errors import SandboxConnectionError, SandboxError, UnsupportedByEngineError
from agentkit.sandbox.channel import OpenOneOff
from agentkit.sandbox.command import Command, Output
from agentkit.sandbox.guest import Connection, FileInfo, FileType, ProcessInfo, ProcessPlan
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.replies import MOST_ENTRIES, unreadable
from agentkit.sandbox.runner.shell_commands import feed, outputs
from agentkit.sandbox.runner.shell_scripts import RunningScript, Scripts

logger = logging.getLogger(__name__)

_FACTS = re.compile(rb"([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,12})")
_LONGEST_FIELD = 1 << 20
#: How long whoever cancelled a command waits until its tree has ended, in seconds.
_CANCEL = 10.0


class ShellGuest:
    """See ``Guest``.

    Attributes:
        is_open: ``close`` wasn't called.
    """

    def __init__(self, open_one_off: OpenOneOff, settings: RunnerSettings) -> None:
        self._settings = settings
        self._scripts = Scripts(open_one_off)
        self.is_open = True

    # commands

    async def run(self, command: Command) -> AsyncGenerator[Output, None]:
        """See ``Guest``; what wiped its environment and isn't in the tree any more is not ended with it."""
        self._check()
        limit = "" if command.timeout is None else f"{command.timeout.total_seconds():.3f}"
        whole = "" if command.timeout is None else str(math.ceil(command.timeout.total_seconds()))
        merge = "yes" if command.merge_stderr else ""
        env = {**self._settings.env, **command.env}
        arguments = (limit, whole, str(len(command.stdin)), merge, command.cwd, *command.argv)
        begun_at = asyncio.get_running_loop().time()
        async with self._scripts.start("run", *arguments, env=env, user=command.user) as script:
            feeding = asyncio.create_task(feed(script, command.stdin))
            try:
                async for piece in outputs(script, command, begun_at):
                    yield piece
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
                if not script.told or script.told[-1] == "begun":
                    await self._end(script, command.user)

    async def _end(self, script: RunningScript, user: str | None) -> None:
        """End the tree of a command: its watcher does so when its input ends, and another makes sure of it."""
        with contextlib.suppress(TimeoutError, SandboxError):
            async with asyncio.timeout(_CANCEL):
                await script.one_off.close()
                async with self._scripts.start(
                    "processes", self._settings.run_directory, "end", script.id, env={}, user=user
                ) as ending:
                    async for _ in ending.output():
                        continue

    # activity

    async def touch(self) -> None:
        """See ``Guest``."""
        await self._about_processes("touch")

    async def set_inactivity(self, timeout: timedelta) -> None:
        """See ``Guest``."""
        await self._about_processes("inactivity", f"{timeout.total_seconds():.3f}")

    # files

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        async with contextlib.aclosing(self._file_output("read", path)) as output:
            async for data in output:
                yield data

    async def write(self, path: str, content: AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """See ``Guest``."""
        directory, _, name = path.rpartition("/")
        unfinished = f"{directory}/.{name[:60]}.{secrets.token_hex(6)}.agentkit"
        is_received = False
        try:
            size = await self._receive(path, unfinished, content)
            is_received = True
            octal = "" if mode is None else f"{mode:o}"
            await self._file("put", path, unfinished, str(size), octal)
        finally:
            if not is_received:
                with contextlib.suppress(SandboxError):
                    await self._file("drop", unfinished)

    async def _receive(self, path: str, unfinished: str, content: AsyncIterable[bytes]) -> int:
        size = 0
        async with self._start_file("receive", path, unfinished) as script:
            reading = asyncio.create_task(_read_all(script))
            try:
                async for data in content:
                    if reading.done():
                        break
                    size += len(data)
                    with contextlib.suppress(SandboxConnectionError):
                        await script.one_off.write(data)
            finally:
                # Of a source that broke, too: what a script has yet to make can't be removed.
                await script.one_off.end()
                await asyncio.wait([reading], timeout=_CANCEL)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            reading.result()
            if (error := script.error(path)) is not None:
                raise error
        return size

    async def entries(self, path: str) -> list[FileInfo]:
        """See ``Guest``; times are whole seconds."""
        found: list[FileInfo] = []
        async with contextlib.aclosing(self._described("entries", path)) as entries:
            async for entry in entries:
                found.append(entry)
                if len(found) > MOST_ENTRIES:
                    raise SandboxError(f"{path} holds more than {MOST_ENTRIES:,} entries")
        return sorted(found, key=lambda entry: entry.path)

    async def walk(self, path: str) -> AsyncGenerator[FileInfo, None]:
        """See ``Guest``; times are whole seconds."""
        async with contextlib.aclosing(self._described("walk", path)) as entries:
            async for entry in entries:
                yield entry

    async def stat(self, path: str) -> FileInfo | None:
        """See ``Guest``; the time is in whole seconds."""
        return next(iter([entry async for entry in self._described("stat", path)]), None)

    async def _described(self, operation: str, path: str) -> AsyncGenerator[FileInfo, None]:
        parts = [b""]
        async for data in self._file_output(operation, path):
            parts = (
                (parts[-1] + data).split(b"\0") if len(parts) == 1 else [*parts[:-1], *(parts[-1] + data).split(b"\0")]
            )
            while len(parts) > 3:
                facts, name, target, *parts = parts
                yield _file_info(facts, _decode(name), _decode(target))

    async def mkdir(self, path: str) -> None:
        """See ``Guest``."""
        await self._file("mkdir", path)

    async def move(self, source: str, target: str) -> None:
        """See ``Guest``."""
        await self._file("move", source, target)

    async def remove(self, path: str) -> bool:
        """See ``Guest``."""
        return "missing" not in await self._file("remove", path)

    def _start_file(self, *arguments: str) -> contextlib.AbstractAsyncContextManager[RunningScript]:
        self._check()
        return self._scripts.start("files", *arguments, env={})

    async def _file_output(self, operation: str, path: str, *arguments: str) -> AsyncGenerator[bytes, None]:
        async with self._start_file(operation, path, *arguments) as script:
            async for data in script.output():
                yield data
            if (error := script.error(path, *arguments[:1])) is not None:
                raise error

    async def _file(self, operation: str, path: str, *arguments: str) -> list[str]:
        async with self._start_file(operation, path, *arguments) as script:
            await _read_all(script)
            if (error := script.error(path, *arguments[:1])) is not None:
                raise error
            return script.told

    async def pack(self, path: str) -> AsyncGenerator[bytes, None]:
        """Not without Python."""
        raise _needs_python("archives")
        yield b""

    async def unpack(self, path: str, archive: AsyncIterable[bytes]) -> None:
        """Not without Python."""
        raise _needs_python("archives")

    # background processes

    async def start_process(self, plan: ProcessPlan) -> ProcessInfo:
        """See ``Guest``."""
        key = _key(plan.name)
        log = f"{self._settings.log_directory}/{key}.log"
        arguments = (key, log, secrets.token_hex(8), plan.cwd, plan.name, *plan.argv)
        env = {**self._settings.env, **plan.env}
        output, script = await self._processes_script("start", *arguments, env=env)
        error = script.error(plan.cwd, plan.argv[0])
        if error is not None:
            raise script.error(plan.name) or error if "error EXISTS" in script.told else error
        for info in _process_infos(output):
            if info.name == plan.name:
                return info
        raise unreadable()

    async def processes(self) -> list[ProcessInfo]:
        """See ``Guest``."""
        output, _ = await self._processes_script("list")
        return sorted(_process_infos(output), key=lambda info: info.name)

    async def wait_process(self, name: str) -> int:
        """See ``Guest``; 255 if something has killed whatever was to write the exit code down."""
        while True:
            told = await self._about_processes("wait", _key(name), name=name)
            code = next((word.removeprefix("ended ") for word in told if word.startswith("ended ")), "")
            if re.fullmatch(r"[0-9]{1,3}", code):
                return int(code)
            if code != "running":
                raise unreadable()

    async def kill_process(self, name: str, *, grace: timedelta) -> bool:
        """See ``Guest``."""
        rounds = math.ceil(grace.total_seconds() * 20)
        return "missing" not in await self._about_processes("kill", _key(name), str(rounds))

    async def logs(self, name: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        offset = 0
        while True:
            arguments = ("log", _key(name), str(offset), "yes" if follow else "")
            async with self._start_processes(*arguments, env={}) as script:
                async for data in script.output():
                    offset += len(data)
                    yield data
                if (error := script.error(name)) is not None:
                    raise error
                if "more" not in script.told:
                    return

    def _start_processes(
        self, operation: str, *arguments: str, env: Mapping[str, str]
    ) -> contextlib.AbstractAsyncContextManager[RunningScript]:
        self._check()
        return self._scripts.start("processes", self._settings.run_directory, operation, *arguments, env=env)

    async def _processes_script(
        self, operation: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> tuple[bytes, RunningScript]:
        async with self._start_processes(operation, *arguments, env=env or {}) as script:
            return await _read_all(script), script

    async def _about_processes(self, operation: str, *arguments: str, name: str = "") -> list[str]:
        _, script = await self._processes_script(operation, *arguments)
        if (error := script.error(name or self._settings.run_directory)) is not None:
            raise error
        return script.told

    # ports

    async def is_listening(self, port: int) -> bool:
        """See ``Guest``."""
        return "listening" in await self._about_processes("listening", f"{port:04X}")

    async def connect(self, port: int) -> Connection:
        """Not without Python."""
        raise _needs_python("connections to ports")

    async def serve_proxy(self, handle: Callable[[Connection], Awaitable[None]]) -> None:
        """Not without Python."""
        raise _needs_python("a network of allowed hosts")

    async def close(self) -> None:
        """See ``Guest``."""
        self.is_open = False
        await self._scripts.close()

    def _check(self) -> None:
        if not self.is_open:
            raise SandboxConnectionError("the way into the sandbox was closed")


async def _read_all(script: RunningScript) -> bytes:
    return b"".join([data async for data in script.output()])


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _file_info(facts: bytes, path: str, target: str) -> FileInfo:
    found = _FACTS.fullmatch(facts)
    if found is None:
        raise unreadable()
    mode, size, seconds = found.groups()
    bits = int(mode, 16)
    return FileInfo(
        path=path,
        type=_type_of(bits),
        size=int(size),
        mode=stat.S_IMODE(bits),
        modified_at_ms=int(seconds) * 1000,
        target=target if stat.S_ISLNK(bits) else None,
    )


def _type_of(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _process_infos(output: bytes) -> list[ProcessInfo]:
    """Return the processes of a listing: five fields each, the last of which says how many words follow."""
    found = []
    fields = output.split(b"\0")
    try:
        while len(fields) > 5:
            name, pid, code, log, count = (_decode(field) for field in fields[:5])
            end = 5 + int(count)
            argv = tuple(_decode(word) for word in fields[5:end])
            exit_code = int(code) if code else None
            found.append(ProcessInfo(name=name, argv=argv, pid=int(pid), exit_code=exit_code, log=log))
            del fields[: max(end, 5)]
    except ValueError:
        raise unreadable() from None
    return found


def _key(name: str) -> str:
    """Return a background process's name as part of a file's (SPEC 19)."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _needs_python(feature: str) -> UnsupportedByEngineError:
    return UnsupportedByEngineError("shell", feature, "use an image that has python3, 3.8 or newer")
