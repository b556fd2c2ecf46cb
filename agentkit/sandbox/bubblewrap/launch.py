"""Runs bubblewrap, as a script of its own: as the right user, with nothing of ours left open, and detached if asked to.

Started as ``python -I -S bubblewrap_launch.py CONFIG``, JSON with:

- ``argv``: bubblewrap and its arguments; it finds the filter of system calls at descriptor 3, and more arguments at 5.
- ``arguments``: those, which the host's paths are among: the sandbox sees the list of bubblewrap's own.
- ``filter``: that filter, in hexadecimal; empty means none.
- ``user``: host uid and gid to run as, when started by root; else null.
- ``stage``: for root, what to make reachable for that user: paths below ``stage_at`` and what they show.
- ``limits``: limits of resources, by number.
- ``keeper``: null, and it becomes bubblewrap, standard streams and all. Or paths ``status`` and ``identity``: it leaves
  a process behind that belongs to nobody, whose identity is in ``identity`` when this one ends; once bubblewrap has
  ended, its exit code is in ``status``. Descriptors that were handed to it, such as a locked file, stay open until the
  identity is noted, whatever becomes of the owner.
- ``complaints``: with a keeper, the descriptor that is told why bubblewrap can't start.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import sys
from typing import Any

# From the kernel's headers.
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_FILTER, _STATUS, _ARGUMENTS = 3, 4, 5
_HIGH = 1000
# The descriptor of the filter is bubblewrap's; that of the status stays with the shell.
_KEEPER = '"$@" 4>&-; echo "$?" >&4'


def identity_of(process: int) -> list[str | int]:
    """Return what tells a process from every other: number, when it started, and which run of the machine that was."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return [process, started, file.read().strip()]


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _stage(at: str, places: dict[str, str]) -> None:
    """Show directories at paths that every user may pass through, in a mount namespace of our own."""
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.unshare(_CLONE_NEWNS), "a namespace for mounts")
    _call(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "/")
    sources = {path: os.open(source, os.O_PATH) for path, source in places.items()}
    _call(libc.mount(b"tmpfs", at.encode(), b"tmpfs", 0, b"mode=755"), at)
    for path, source in sources.items():
        os.mkdir(path)
        shown = f"/proc/self/fd/{source}".encode()
        _call(libc.mount(shown, path.encode(), None, _MS_BIND | _MS_REC, None), places[path])
        os.close(source)


def _become(user: list[int]) -> None:
    uid, gid = user
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _provide(data: bytes, descriptor: int) -> None:
    """Let bubblewrap find something at a descriptor."""
    source = fcntl.fcntl(os.memfd_create("agentkit"), fcntl.F_DUPFD, _HIGH)
    os.write(source, data)
    os.lseek(source, 0, os.SEEK_SET)
    os.dup2(source, descriptor)
    os.close(source)


def _detach(keeper: dict[str, str]) -> None:
    """Go on as a process of nobody's; the one that was started ends when that is noted."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)
    os.setsid()
    with open(keeper["identity"] + ".new", "w", encoding="utf-8") as file:
        json.dump(identity_of(os.getpid()), file)
    os.rename(keeper["identity"] + ".new", keeper["identity"])
    os.write(writer, b"1")


def _redirect(keeper: dict[str, str], complaints: int) -> list[str]:
    """Keep nothing else open, and return what makes a shell of it that notes the end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(complaints, 1)
    os.dup2(complaints, 2)
    status = os.open(keeper["status"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    status = fcntl.fcntl(status, fcntl.F_DUPFD, _HIGH)
    os.closerange(3, status)
    os.dup2(status, _STATUS)
    os.close(status)
    return ["/bin/sh", "-c", _KEEPER, "keeper"]


def _main(config: dict[str, Any]) -> None:
    prefix: list[str] = []
    if config["keeper"] is not None:
        _detach(config["keeper"])
        prefix = _redirect(config["keeper"], config["complaints"])
    if config["stage"]:
        _stage(config["stage_at"], config["stage"])
    for number, limit in config["limits"]:
        resource.setrlimit(number, (limit, limit))
    os.chdir("/")
    if config["user"] is not None:
        _become(config["user"])
    _provide(bytes.fromhex(config["filter"]), _FILTER)
    _provide("\0".join([*config["arguments"], ""]).encode(), _ARGUMENTS)
    argv = [*prefix, *config["argv"]]
    # Its first process is inside, where the variables it was started with can be read.
    os.execve(argv[0], argv, {})


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
