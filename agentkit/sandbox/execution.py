"""Runs commands: checks what was asked, streams what comes back, and keeps of it what the caller wants to hold."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta
from types import TracebackType
from typing import Self

from agentkit.clock import Duration, duration_of
from agentkit.errors import CommandFailedError, ConfigurationError, SandboxConnectionError
from agentkit.sandbox.command import Command, ExecResult, Exit, Output, Stderr, Stdout
from agentkit.sandbox.deadline import deadline
from agentkit.sandbox.spec import WORKSPACE, check_variable
from agentkit.sandbox.way_in import WayIn

#: How long after its own end a command's result may take to arrive; then the way in counts as broken.
_ARRIVAL = timedelta(seconds=30)


def command_of(
    argv: tuple[str, ...],
    *,
    shell: str | None,
    cwd: str,
    env: Mapping[str, str] | None,
    stdin: str | bytes | None,
    user: str | None,
    timeout: Duration | None,
    merge_stderr: bool,
) -> Command:
    """Return a command as guests take it.

    Raises:
        ConfigurationError: It isn't words, or neither or both of words and a line for a shell are given.
    """
    words = ("sh", "-c", shell) if shell is not None else argv
    if (shell is None) == (not argv):
        raise ConfigurationError(
            'give a command in words, exec("ls", "-l"), or a line for a shell, exec(shell="ls | wc")'
        )
    for word in words:
        if not _is_text(word):
            raise ConfigurationError(f"a command is made of texts without NUL, got {word!r}")
    return Command(
        argv=tuple(words),
        cwd=path_of(cwd),
        env=checked_env(env),
        stdin=stdin.encode() if isinstance(stdin, str) else stdin or b"",
        timeout=_limit(timeout),
        merge_stderr=merge_stderr,
        user=user,
    )


def checked_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return variables; their values appear in no error."""
    for name, value in (env or {}).items():
        check_variable(name, "env")
        if not _is_text(value):
            raise ConfigurationError(f"env[{name!r}] must be a text without NUL")
    return dict(env or {})


def path_of(path: str) -> str:
    """Return a path as guests take it: absolute, from ``/workspace`` if it wasn't.

    Raises:
        ConfigurationError: No file can have it.
    """
    if not _is_text(path) or not path:
        raise ConfigurationError(f"a path in the sandbox is a text without NUL, got {path!r}")
    return path if path.startswith("/") else f"{WORKSPACE}/{path}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _limit(timeout: Duration | None) -> timedelta | None:
    if timeout is None:
        return None
    limit = duration_of(timeout, "timeout")
    if limit <= timedelta(0):
        raise ConfigurationError(f"timeout must be more than 0 s, got {timeout!r}; None means no limit")
    return limit


class Stream:
    """The output of a command as it comes: ``async for`` gives ``Stdout`` and ``Stderr``, at last one ``Exit``.

    Leaving ``async with`` before that kills the command with all it has started; so does the end of the process.

    >>> async with self.sandbox.stream("make") as stream:              # doctest: +SKIP
    ...     async for piece in stream: ...
    """

    def __init__(self, output: AsyncGenerator[Output, None]) -> None:
        self._output = output

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._output.aclose()

    def __aiter__(self) -> AsyncGenerator[Output, None]:
        return self._output

    async def aclose(self) -> None:
        """End it, and the command if that hasn't ended."""
        await self._output.aclose()


async def output_of(way: WayIn, command: Command) -> AsyncGenerator[Output, None]:
    """Run a command: its output as it comes, at last one ``Exit``."""
    async with way.used() as guest, aclosing(guest.run(command)) as output:
        async for piece in output:
            if isinstance(piece, Exit):
                await way.push()
            yield piece


async def run(way: WayIn, command: Command, *, max_output: int) -> ExecResult:
    """Run a command to its end and return what came of it.

    Raises:
        SandboxConnectionError: Neither its end nor that of its timeout was heard of in time.
    """
    kept = {Stdout: KeptOutput(max_output), Stderr: KeptOutput(max_output)}
    limit = None if command.timeout is None else command.timeout + _ARRIVAL
    end: Exit | None = None
    try:
        async with (
            deadline(way.clock, limit, on_expiry=way.give_up),
            aclosing(output_of(way, command)) as output,
        ):
            async for piece in output:
                if isinstance(piece, Exit):
                    end = piece
                else:
                    kept[type(piece)].add(piece.data)
    except TimeoutError as error:
        message = f"nothing was heard of {command.argv[0]!r} for {_ARRIVAL.seconds} s after its timeout"
        raise SandboxConnectionError(message) from error
    if end is None:
        raise SandboxConnectionError(f"the output of {command.argv[0]!r} ended without its exit code")
    out, errors = kept[Stdout], kept[Stderr]
    return ExecResult(
        exit_code=end.exit_code,
        stdout=out.text(),
        stderr=errors.text(),
        timed_out=end.timed_out,
        out_of_memory=end.out_of_memory,
        truncated=out.is_cut or errors.is_cut,
        duration=end.duration,
    )


def checked(command: Command, result: ExecResult) -> ExecResult:
    """Return a result of a command that went well.

    Raises:
        CommandFailedError: It didn't.
    """
    if not result.ok:
        raise CommandFailedError(" ".join(command.argv), result)
    return result


class KeptOutput:
    """The head and the tail of a stream, and a count of what is missing between them.

    Attributes:
        is_cut: There was more than was kept.
    """

    def __init__(self, limit: int) -> None:
        """Keep ``limit`` bytes at most, half of them from the end."""
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self._total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Cut now and then only: each cut copies the tail.
        if len(self._tail) > 2 * self._tail_limit + 65_536:
            self._cut()

    def _cut(self) -> None:
        del self._tail[: max(len(self._tail) - self._tail_limit, 0)]

    @property
    def is_cut(self) -> bool:
        """See the class."""
        return self._total > self._head_limit + self._tail_limit

    def text(self) -> str:
        """Return it as text, cut between characters; bytes that are no UTF-8 are replaced."""
        if not self.is_cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        self._cut()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(bytes(self._head))
        unfinished = len(decoder.getstate()[0])
        # A character has at most three bytes besides its first.
        begun = len(self._tail) if len(self._tail) < 4 else 0
        start = next((place for place, byte in enumerate(self._tail[:4]) if byte & 0xC0 != 0x80), begun)
        missing = self._total - len(self._head) + unfinished - len(self._tail) + start
        tail = self._tail[start:].decode("utf-8", "replace")
        return f"{head}\n[… {missing:,} bytes are missing here …]\n{tail}"
