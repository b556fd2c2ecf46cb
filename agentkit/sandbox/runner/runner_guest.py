"""A running instance as seen through the runner inside it: ``Guest`` over one held channel."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import hashlib
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from datetime import timedelta

from agentkit.errors import SandboxConnectionError, SandboxError, UnsupportedByEngineError
from agentkit.sandbox.channel import Channel
from agentkit.sandbox.command import Command, Exit, Output, Stderr, Stdout
from agentkit.sandbox.guest import PROXY_PORT, Connection, FileInfo, Guest, ProcessInfo, ProcessPlan
from agentkit.sandbox.inside import frames
from agentkit.sandbox.runner.bundle import RunnerSettings, runner_bundle, runner_command
from agentkit.sandbox.runner.call import LinkCall
from agentkit.sandbox.runner.link import Patience, RunnerLink
from agentkit.sandbox.runner.ports import Served, connect
from agentkit.sandbox.runner.replies import (
    MOST_ENTRIES,
    Reply,
    exit_code,
    exit_of,
    file_info,
    file_infos,
    flag,
    process_info,
    process_infos,
    unreadable,
)

logger = logging.getLogger(__name__)

#: What an engine opens a channel to.
RUNNER = runner_command()
#: How long a runner may take until it says that it is there, in seconds; Python starts slowly on a busy machine.
_START = 60.0


async def open_runner(
    channel: Channel,
    settings: RunnerSettings,
    *,
    patience: Patience | None = None,
    is_paused: Callable[[], Awaitable[bool]] | None = None,
    proxy_port: int = PROXY_PORT,
    others: Guest | None = None,
) -> RunnerGuest | None:
    """Bring the runner to life at the other end of a channel to ``RUNNER``.

    Args:
        channel: Closed if this fails or returns None.
        settings: What the runner is told.
        patience: How long it may be silent.
        is_paused: Tells whether silence is due to the engine, which holds the instance still to save it.
        proxy_port: Where ``serve_proxy`` listens.
        others: Runs the commands of other users; without it there are none.

    Returns:
        None if the instance has no Python of 3.8 or newer.

    Raises:
        SandboxConnectionError: The channel ended, or something else speaks there.
    """
    decoder = None
    try:
        async with asyncio.timeout(_START):
            decoder = await _begin(channel, runner_bundle(settings, secrets.token_hex(4)))
    except TimeoutError:
        raise SandboxConnectionError(f"the runner inside the sandbox said nothing for {_START:g} s") from None
    finally:
        if decoder is None:
            await channel.close()
    if decoder is None:
        return None
    link = RunnerLink(channel, patience or Patience(), is_paused)
    link.start(decoder)
    return RunnerGuest(link, proxy_port, others)


async def _begin(channel: Channel, bundle: bytes) -> frames.Decoder | None:
    """Send the runner's modules, listening meanwhile: what can't run them speaks before it has read them."""
    sending = asyncio.create_task(channel.write(bundle))
    try:
        return await _hear(channel)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _hear(channel: Channel) -> frames.Decoder | None:
    """Wait for the runner's first words; None if there is no Python."""
    heard = b""
    while len(heard) < len(frames.MAGIC) and heard != frames.NO_PYTHON:
        data = await channel.read()
        heard += data
        if not data or not (frames.MAGIC.startswith(heard[: len(frames.MAGIC)]) or frames.NO_PYTHON.startswith(heard)):
            said = (heard.decode(errors="replace") + channel.errors()).strip()[-500:]
            raise SandboxConnectionError(f"the runner inside the sandbox didn't start: {said or 'it said nothing'}")
    if heard == frames.NO_PYTHON:
        return None
    decoder = frames.Decoder(frames.MAX_REPLY)
    decoder.keep(heard[len(frames.MAGIC) :])
    return decoder


class RunnerGuest:
    """See ``Guest``: everything, as the sandbox's user."""

    def __init__(self, link: RunnerLink, proxy_port: int, others: Guest | None) -> None:
        self._link = link
        self._others = others
        self._proxy_port = proxy_port
        self._served: list[Served] = []

    @property
    def is_open(self) -> bool:
        """See ``Guest``."""
        return self._link.is_open

    async def run(self, command: Command) -> AsyncGenerator[Output, None]:
        """See ``Guest``."""
        if command.user is not None:
            async with contextlib.aclosing(self._as_another(command)) as outputs:
                async for output in outputs:
                    yield output
            return
        timeout = None if command.timeout is None else command.timeout.total_seconds()
        async with (
            self._link.call(
                "run",
                argv=command.argv,
                cwd=command.cwd,
                env=dict(command.env),
                timeout=timeout,
                merge_stderr=command.merge_stderr,
                has_input=bool(command.stdin),
            ) as call,
            _feeding(call, command.stdin),
        ):
            async for output in self._outputs(call, timeout):
                yield output

    def _as_another(self, command: Command) -> AsyncGenerator[Output, None]:
        self._link.check()
        if self._others is None:
            mend = f"leave user out, and it runs as the sandbox's own, not as {command.user!r}"
            raise UnsupportedByEngineError("of this sandbox", "other users", mend)
        return self._others.run(command)

    async def _outputs(self, call: LinkCall, timeout: float | None) -> AsyncIterator[Output]:
        decoders = {frames.OUTPUT: _decoder(), frames.ERRORS: _decoder()}
        received = {frames.OUTPUT: 0, frames.ERRORS: 0}
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            kind, data = await self._next(call, deadline)
            if kind == frames.END:
                break
            if kind not in received:
                raise unreadable()
            received[kind] += len(data)
            yield _piece(kind, data, decoders[kind].decode(data))
        call.check_received(*received.values())
        for kind, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield _piece(kind, b"", rest)
        yield _exit(await call.result() if call.reply is None else call.reply)

    async def _next(self, call: LinkCall, deadline: float | None) -> tuple[int, bytes]:
        """Return the next frame of a command, which the runner itself ends at its deadline."""
        if deadline is None:
            return await call.next()
        overdue = self._link.patience.overdue
        try:
            # Whoever takes the output late finds the end late: it has this long from when it asks.
            async with asyncio.timeout(max(deadline - asyncio.get_running_loop().time(), 0) + overdue):
                return await call.next()
        except TimeoutError:
            self._link.end(f"a command didn't end within {overdue:g} s of its time limit")
            self._link.check()
            raise

    async def touch(self) -> None:
        """See ``Guest``."""
        await self._link.ask("touch")

    async def set_inactivity(self, timeout: timedelta) -> None:
        """See ``Guest``."""
        await self._link.ask("set_inactivity", seconds=timeout.total_seconds())

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        async with self._link.call("read", path=path) as call:
            async for data in call.output():
                yield data

    async def write(self, path: str, content: AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """See ``Guest``."""
        async with self._link.call("write", path=path, mode=mode) as call:
            await _send_all(call, content)

    async def entries(self, path: str) -> list[FileInfo]:
        """See ``Guest``."""
        found: list[FileInfo] = []
        async with contextlib.aclosing(self._listed("entries", path)) as entries:
            async for entry in entries:
                found.append(entry)
                if len(found) > MOST_ENTRIES:
                    raise SandboxError(f"{path} holds more than {MOST_ENTRIES:,} entries")
        return found

    async def walk(self, path: str) -> AsyncGenerator[FileInfo, None]:
        """See ``Guest``."""
        async with contextlib.aclosing(self._listed("walk", path)) as entries:
            async for entry in entries:
                yield entry

    async def _listed(self, op: str, path: str) -> AsyncGenerator[FileInfo, None]:
        """Yield what comes as lines of JSON, each a list of files."""
        rest = b""
        async with self._link.call(op, path=path) as call:
            async for data in call.output():
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > frames.MAX_REPLY:
                    raise unreadable()
                for line in lines:
                    for entry in file_infos(line):
                        yield entry

    async def stat(self, path: str) -> FileInfo | None:
        """See ``Guest``."""
        reply = await self._link.ask("stat", path=path)
        if "file" not in reply:
            raise unreadable()
        return None if reply["file"] is None else file_info(reply["file"])

    async def mkdir(self, path: str) -> None:
        """See ``Guest``."""
        await self._link.ask("mkdir", path=path)

    async def move(self, source: str, target: str) -> None:
        """See ``Guest``."""
        await self._link.ask("move", source=source, target=target)

    async def remove(self, path: str) -> bool:
        """See ``Guest``."""
        return flag(await self._link.ask("remove", path=path), "was_there")

    async def pack(self, path: str) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        async with self._link.call("pack", path=path) as call:
            async for data in call.output():
                yield data

    async def unpack(self, path: str, archive: AsyncIterable[bytes]) -> None:
        """See ``Guest``."""
        async with self._link.call("unpack", path=path) as call:
            await _send_all(call, archive)

    async def start_process(self, plan: ProcessPlan) -> ProcessInfo:
        """See ``Guest``."""
        arguments = {"argv": plan.argv, "cwd": plan.cwd, "env": dict(plan.env)}
        return process_info(await self._link.ask("start_process", **_named(plan.name), **arguments))

    async def processes(self) -> list[ProcessInfo]:
        """See ``Guest``."""
        return process_infos(await self._link.ask("processes"))

    async def wait_process(self, name: str) -> int:
        """See ``Guest``; 255 if something has killed whatever was to write the exit code down."""
        return exit_code(await self._link.ask("wait_process", **_named(name)))

    async def kill_process(self, name: str, *, grace: timedelta) -> bool:
        """See ``Guest``."""
        reply = await self._link.ask("kill_process", **_named(name), grace=grace.total_seconds())
        return flag(reply, "was_running")

    async def logs(self, name: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """See ``Guest``."""
        async with self._link.call("logs", **_named(name), follow=follow) as call:
            async for data in call.output():
                yield data

    async def is_listening(self, port: int) -> bool:
        """See ``Guest``."""
        return flag(await self._link.ask("is_listening", port=port), "is_listening")

    async def connect(self, port: int) -> Connection:
        """See ``Guest``."""
        return await connect(self._link, port)

    async def serve_proxy(self, handle: Callable[[Connection], Awaitable[None]]) -> None:
        """See ``Guest``."""
        served = Served(self._link, handle)
        self._served.append(served)
        await served.open(self._proxy_port)

    async def close(self) -> None:
        """See ``Guest``."""
        for served in self._served:
            await served.close()
        if self._others is not None:
            await self._others.close()
        await self._link.close()


def _named(name: str) -> dict[str, str]:
    """Return how a background process is told of; names become file names only through a hash (SPEC 19)."""
    return {"name": name, "key": hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]}


@contextlib.asynccontextmanager
async def _feeding(call: LinkCall, stdin: bytes) -> AsyncIterator[None]:
    """Send a command's input while its output is read: it may print before it has read all."""
    if not stdin:
        yield
        return

    async def feed() -> None:
        with contextlib.suppress(SandboxConnectionError):
            await call.send(stdin)
            call.end_input()

    task = asyncio.create_task(feed())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _send_all(call: LinkCall, content: AsyncIterable[bytes]) -> Reply:
    async for data in content:
        await call.send(data)
        if call.reply is not None:
            break
    call.end_input()
    return await call.result()


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _piece(kind: int, data: bytes, text: str) -> Stdout | Stderr:
    return Stdout(data, text) if kind == frames.OUTPUT else Stderr(data, text)


def _exit(reply: Reply) -> Exit:
    end, left = exit_of(reply)
    if left:
        logger.warning("%d processes of a command that was ended are stuck and still there", left)
    return end
