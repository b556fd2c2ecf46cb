"""The few commands that every in-memory sandbox has; an option they don't know is an error, never a wrong result."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Awaitable, Callable

from agentkit.errors import CommandNotFoundError, SandboxFileError
from agentkit.testing.in_memory.disk import Directory, File, Link, copy_tree
from agentkit.testing.in_memory.process import InMemoryProcess, Program, unsupported
from agentkit.testing.in_memory.shell import sh

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}


def _with_errors(program: Callable[[InMemoryProcess], Awaitable[int]], exit_code: int = 1) -> Program:
    """Let a program say what failed, as a real one does."""

    async def run(process: InMemoryProcess) -> int:
        try:
            return await program(process)
        except SandboxFileError as error:
            process.write_error(f"{_name(process)}: {error.path}: {error.strerror}\n")
            return exit_code

    return run


def _name(process: InMemoryProcess) -> str:
    return process.argv[0].rpartition("/")[2]


def _options(process: InMemoryProcess, known: str) -> tuple[set[str], list[str]]:
    """Return the options and the other arguments."""
    found: set[str] = set()
    words = list(process.argv[1:])
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        for letter in word[1:]:
            if word.startswith("--") or letter not in known:
                raise unsupported(f"{_name(process)} {word}")
            found.add(letter)
    return found, words


async def _true(process: InMemoryProcess) -> int:
    return 0


async def _false(process: InMemoryProcess) -> int:
    return 1


async def _echo(process: InMemoryProcess) -> int:
    words = list(process.argv[1:])
    ends_line = words[:1] != ["-n"]
    text = " ".join(words if ends_line else words[1:])
    if "\\" in text or words[:1] in (["-e"], ["-E"]):
        # Shells differ in what they make of these.
        raise unsupported("echo with a backslash, -e or -E; printf does the same everywhere")
    process.print(text, end="\n" if ends_line else "")
    return 0


async def _printf(process: InMemoryProcess) -> int:
    pattern, *words = process.argv[1:]

    def put(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("\\"):
            if text[1:] not in _ESCAPES:
                raise unsupported(f"printf {text}")
            return _ESCAPES[text[1:]]
        if text == "%%":
            return "%"
        if text not in ("%s", "%d"):
            raise unsupported(f"printf {text}")
        word = words.pop(0) if words else ""
        return word if text == "%s" else str(int(word or 0))

    # The pattern is used again while words are left, once in any case.
    while True:
        before = len(words)
        process.print(re.sub(r"\\.|%.", put, pattern, flags=re.DOTALL), end="")
        if not words or len(words) == before:
            return 0


async def _cat(process: InMemoryProcess) -> int:
    _, paths = _options(process, "")
    status = 0
    for path in paths or ["-"]:
        try:
            process.write(process.stdin if path == "-" else process.files.read(path))
        except SandboxFileError as error:
            process.write_error(f"cat: {path}: {error.strerror}\n")
            status = 1
    return status


async def _pwd(process: InMemoryProcess) -> int:
    process.print(process.cwd)
    return 0


async def _env(process: InMemoryProcess) -> int:
    _, words = _options(process, "")
    env = dict(process.env)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if not words:
        for name, value in env.items():
            process.print(f"{name}={value}")
        return 0
    try:
        return await process.run(*words, env=env)
    except CommandNotFoundError as error:
        process.write_error(f"env: '{error.program}': No such file or directory\n")
        return 127


async def _sleep(process: InMemoryProcess) -> int:
    _, words = _options(process, "")
    total = 0.0
    for word in words:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", word)
        if found is None:
            raise unsupported(f"sleep {word}")
        total += float(found[1]) * _UNITS[found[2]]
    await process.sleep(total)
    return 0


async def _ls(process: InMemoryProcess) -> int:
    options, paths = _options(process, "1aA")
    for path in paths or ["."]:
        node = process.files.disk.find(process.files.path(path), process.user)
        names = process.files.list(path) if isinstance(node, Directory) else [path]
        if isinstance(node, Directory) and not options & {"a", "A"}:
            names = [name for name in names if not name.startswith(".")]
        if len(paths) > 1 and isinstance(node, Directory):
            raise unsupported("ls of several directories")
        for name in ([".", ".."] if "a" in options else []) + names:
            process.print(name)
    return 0


async def _mkdir(process: InMemoryProcess) -> int:
    options, paths = _options(process, "p")
    for path in map(process.files.path, paths):
        if "p" in options:
            process.files.disk.make_directories(path, process.user)
        else:
            process.files.disk.make_directory(path, process.user)
    return 0


async def _rm(process: InMemoryProcess) -> int:
    options, paths = _options(process, "rRf")
    for path in map(process.files.path, paths):
        info = process.files.disk.info(path, process.user)
        if info is None and "f" in options:
            continue
        if info is None:
            raise SandboxFileError.of(path, errno.ENOENT, os.strerror(errno.ENOENT))
        if info.type == "directory" and not options & {"r", "R"}:
            raise SandboxFileError.of(path, errno.EISDIR, os.strerror(errno.EISDIR))
        process.files.disk.remove(path, process.user)
    return 0


async def _touch(process: InMemoryProcess) -> int:
    _, paths = _options(process, "")
    for path in paths:
        process.files.write(path, b"", append=True)
    return 0


def _into(process: InMemoryProcess, source: str, target: str) -> str:
    """Return where something goes: into ``target`` if that is a directory."""
    path = process.files.path(target)
    if process.files.exists(target) and isinstance(process.files.disk.find(path, process.user), Directory):
        return f"{path.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}"
    return path


async def _mv(process: InMemoryProcess) -> int:
    _, (*sources, target) = _options(process, "f")
    for source in sources:
        process.files.disk.move(process.files.path(source), _into(process, source, target), process.user)
    return 0


async def _cp(process: InMemoryProcess) -> int:
    options, (*sources, target) = _options(process, "rR")
    disk = process.files.disk
    for source in sources:
        node = disk.find(process.files.path(source), process.user)
        path = _into(process, source, target)
        if isinstance(node, File):
            process.files.write(path, process.files.read(source))
        elif not options:
            process.write_error(f"cp: -r not specified; omitting directory '{source}'\n")
            return 1
        else:
            place = disk.place(path, process.user)
            if place.node is not None:
                raise unsupported("cp -r onto something that is there")
            disk.put(place, process.user, copy_tree(node))
    return 0


async def _ln(process: InMemoryProcess) -> int:
    options, words = _options(process, "s")
    if "s" not in options or len(words) != 2:
        raise unsupported("ln but for 'ln -s TARGET PATH'")
    process.files.disk.make_link(_into(process, *words), process.user, words[0])
    return 0


async def _readlink(process: InMemoryProcess) -> int:
    _, (path,) = _options(process, "")
    node = process.files.disk.find(process.files.path(path), process.user, follow=False)
    if not isinstance(node, Link):
        return 1
    process.print(node.target)
    return 0


async def _chmod(process: InMemoryProcess) -> int:
    _, (mode, *paths) = _options(process, "")
    if not re.fullmatch("[0-7]{3,4}", mode):
        raise unsupported(f"chmod {mode}; say it in octal")
    for path in paths:
        process.files.disk.change_mode(process.files.path(path), process.user, int(mode, 8))
    return 0


async def _id(process: InMemoryProcess) -> int:
    options, words = _options(process, "ug")
    if len(options) != 1 or words:
        raise unsupported("id but for 'id -u' and 'id -g'")
    process.print(process.user.uid if "u" in options else process.user.gid)
    return 0


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


async def _test(process: InMemoryProcess) -> int:
    words = list(process.argv[1:])
    if _name(process) == "[" and (not words or words.pop() != "]"):
        process.write_error("[: missing ']'\n")
        return 2
    is_negated = words[:1] == ["!"]
    return 0 if _holds(process, words[is_negated:]) != is_negated else 1


def _holds(process: InMemoryProcess, words: list[str]) -> bool:
    match words:
        case []:
            return False
        case [word]:
            return word != ""
        case ["-n", word]:
            return word != ""
        case ["-z", word]:
            return word == ""
        case ["-e" | "-f" | "-d" | "-s" | "-L" | "-h" as option, path]:
            return _is_there(process, option, process.files.path(path))
        case [left, "=" | "!=" as sign, right]:
            return (left == right) == (sign == "=")
        case [left, sign, right] if sign in _NUMBERS:
            return _NUMBERS[sign](int(left), int(right))
    raise unsupported(f"test {' '.join(words)}")


def _is_there(process: InMemoryProcess, option: str, path: str) -> bool:
    disk, follow = process.files.disk, option not in ("-L", "-h")
    if not disk.exists(path, process.user, follow=follow):
        return False
    node = disk.find(path, process.user, follow=follow)
    match option:
        case "-f":
            return isinstance(node, File) and not node.is_device
        case "-d":
            return isinstance(node, Directory)
        case "-s":
            return isinstance(node, Directory) or (isinstance(node, File) and node.content != b"")
        case "-L" | "-h":
            return isinstance(node, Link)
    return True


#: What a sandbox has besides the commands that a test registers.
BUILT_INS: dict[str, Program] = {
    "true": _true,
    "false": _false,
    "echo": _echo,
    "printf": _printf,
    "cat": _with_errors(_cat),
    "pwd": _pwd,
    "env": _env,
    "sleep": _sleep,
    "ls": _with_errors(_ls, 2),
    "mkdir": _with_errors(_mkdir),
    "rm": _with_errors(_rm),
    "touch": _with_errors(_touch),
    "mv": _with_errors(_mv),
    "cp": _with_errors(_cp),
    "ln": _with_errors(_ln),
    "readlink": _with_errors(_readlink),
    "chmod": _with_errors(_chmod),
    "id": _id,
    "test": _test,
    "[": _test,
    "sh": sh,
}
