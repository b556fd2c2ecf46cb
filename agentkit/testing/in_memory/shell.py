"""``sh -c LINE``, for simple lines: runs what ``parse_line`` has read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from agentkit.errors import CommandNotFoundError, SandboxFileError
from agentkit.testing.in_memory.disk import SEARCH
from agentkit.testing.in_memory.process import InMemoryProcess, Write, unsupported
from agentkit.testing.in_memory.shell_line import Redirection, SimpleCommand, Word, parse_line

# What these do can't be had from a simulated shell.
_SHELL_ONLY = re.compile(
    r"\.|alias|bg|break|command|continue|eval|fg|getopts|hash|jobs|kill|local|read|readonly|return|set|shift|source"
    r"|times|trap|type|ulimit|umask|unalias|wait"
)


async def sh(process: InMemoryProcess) -> int:
    """Run a line."""
    if len(process.argv) != 3 or process.argv[1] != "-c":
        raise unsupported("sh but for: sh -c LINE")
    commands = parse_line(process.argv[2])
    try:
        return await _Shell(process).run(commands)
    except _Exit as end:
        return end.status


class _Exit(BaseException):
    """``exit`` was called."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Shell:
    def __init__(self, process: InMemoryProcess) -> None:
        self._process = process
        self._cwd = process.cwd
        self._env = dict(process.env)
        self._variables: dict[str, str] = {}
        self._status = 0

    async def run(self, commands: list[SimpleCommand]) -> int:
        """Run commands in order, and return the last one's status."""
        for command in commands:
            if command.operator == "&&" and self._status != 0:
                continue
            if command.operator == "||" and self._status == 0:
                continue
            self._status = await self._command(command)
        return self._status

    async def _command(self, command: SimpleCommand) -> int:
        words = [text for word in command.words for text in self._fields(word)]
        values = {name: self._text(value) for name, value in command.assignments}
        try:
            stdin, write, write_error = self._streams(command.redirections)
        except SandboxFileError as error:
            self._process.write_error(f"sh: 1: cannot open {error.path}: {error.strerror}\n")
            return 2
        if not words:
            for name, value in values.items():
                (self._env if name in self._env else self._variables)[name] = value
            return 0
        if _SHELL_ONLY.fullmatch(words[0]):
            raise unsupported(f"{words[0]!r} in a line for the shell")
        if words[0] in ("cd", "exit", "export", "unset", ":"):
            return self._own(words, write_error)
        is_last = words[0] == "exec"
        status = await self._program(words[is_last:], {**self._env, **values}, stdin, write, write_error)
        if is_last:
            raise _Exit(status)
        return status

    async def _program(
        self, words: list[str], env: dict[str, str], stdin: bytes | None, write: Write, write_error: Write
    ) -> int:
        if not words:
            raise unsupported("'exec' with no program in a line for the shell")
        try:
            return await self._process.run(
                *words,
                cwd=self._cwd,
                env=env,
                stdin=stdin,
                write=write,
                write_error=write_error,
            )
        except CommandNotFoundError:
            write_error(f"sh: 1: {words[0]}: not found\n".encode())
            return 127
        except SandboxFileError as error:
            if error.path != words[0]:
                raise
            write_error(f"sh: 1: {words[0]}: {error.strerror}\n".encode())
            return 126

    def _own(self, words: list[str], write_error: Write) -> int:
        """Run what changes the shell itself."""
        match words:
            case ["exit", status]:
                raise _Exit(int(status) & 255)
            case ["exit"]:
                raise _Exit(self._status)
            case ["cd", *rest] if len(rest) < 2:
                return self._change_directory(rest[0] if rest else self._env.get("HOME", "/"), write_error)
            case ["export", *pairs] if pairs:
                for name, equals, value in (pair.partition("=") for pair in pairs):
                    self._env[name] = value if equals else self._variables.pop(name, self._env.get(name, ""))
                return 0
            case ["unset", *names]:
                for name in names:
                    self._env.pop(name, None)
                    self._variables.pop(name, None)
                return 0
            case [":", *_]:
                return 0
        raise unsupported(f"{' '.join(words)!r} in a line for the shell")

    def _change_directory(self, path: str, write_error: Write) -> int:
        files, target = self._process.files, path if path.startswith("/") else f"{self._cwd.rstrip('/')}/{path}"
        try:
            files.disk.directory(target, files.user)
            files.disk.check(target, files.user, SEARCH)
        except SandboxFileError:
            write_error(f"sh: 1: cd: can't cd to {path}\n".encode())
            return 2
        self._cwd = files.disk.place(target, files.user).path
        return 0

    def _streams(self, redirections: list[Redirection]) -> tuple[bytes | None, Write, Write]:
        """Return input (None means the shell's own), output and errors of a command."""
        stdin = None
        sinks: dict[int, Write] = {1: self._process.write, 2: self._process.write_error}
        files = self._process.files
        for number, sign, target in redirections:
            path = self._text(target)
            full = path if path.startswith("/") else f"{self._cwd.rstrip('/')}/{path}"
            if sign == ">&":
                sinks[number] = sinks[int(path)]
            elif sign == "<":
                stdin = files.read(full)
            else:
                files.write(full, b"", append=sign == ">>")
                sinks[number] = partial(files.write, full, append=True)
        return stdin, sinks[1], sinks[2]

    def _fields(self, word: Word) -> Iterator[str]:
        """Yield the words that a word becomes: a variable outside of quotes is split at blanks."""
        current, has_begun = "", False
        for piece in word:
            text = self._value(piece.text) if piece.is_variable else piece.text
            if not piece.is_variable or piece.is_quoted:
                current, has_begun = current + text, True
                continue
            if set(text) & set("*?["):
                raise unsupported(f"${piece.text} outside of quotes, whose value has * or ? or [")
            parts = text.split()
            if has_begun and text[:1].isspace():
                yield current
                current, has_begun = "", False
            for number, part in enumerate(parts):
                if number > 0:
                    yield current
                    current = ""
                current, has_begun = current + part, True
            if parts and text[-1].isspace():
                yield current
                current, has_begun = "", False
        if has_begun:
            yield current

    def _text(self, word: Word) -> str:
        return "".join(self._value(piece.text) if piece.is_variable else piece.text for piece in word)

    def _value(self, name: str) -> str:
        if name == "?":
            return str(self._status)
        return self._variables.get(name, self._env.get(name, ""))
