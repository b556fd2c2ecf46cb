"""Runs a program inside a running bubblewrap sandbox, as a script of its own that joins its namespaces first.

Started as ``python -I -S bubblewrap_enter.py DESCRIPTOR``; JSON comes from that descriptor, so that no list of
processes shows it:

- ``process``: the identity of a process inside, as of ``bubblewrap_launch.identity_of``.
- ``user``: host uid and gid to become, when started by root; else null.
- ``uid``, ``gid``: what the program runs as, inside.
- ``argv``, ``env``, ``cwd``.
- ``filter``: the filter of system calls, in hexadecimal; empty means none.
- ``limits``: limits of resources, by number.

It ends with the program's exit code; 127 without such a program, 126 if it or the directory can't be used.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import sys
import warnings  # noqa: F401  # os.execvpe imports it, and inside there may be none
from typing import Any, NoReturn

# From the kernel's headers.
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 4, 24, 38, 22
_SECCOMP_MODE_FILTER = 2
_NS_GET_PARENT = 0xB702
_MOST_CAPABILITIES = 64
_NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup", "mnt")

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _is_alive(identity: list[Any]) -> bool:
    process, started, boot = identity
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            now = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return bool(now == started and file.read().strip() == boot)
    except (FileNotFoundError, ProcessLookupError):
        return False


def _open_namespaces(process: int) -> tuple[list[int], list[int]]:
    """Return the user namespaces of a process, outermost first, and its other ones; ours are left out."""
    user = os.open(f"/proc/{process}/ns/user", os.O_RDONLY)
    users = [user]
    # Where the uid inside isn't the one outside, bubblewrap makes two, and all else belongs to the outer one.
    parent = fcntl.ioctl(user, _NS_GET_PARENT)
    if not _is_ours(parent, "user"):
        users.insert(0, parent)
    others = []
    for kind in _NAMESPACES:
        try:
            namespace = os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY)
        except FileNotFoundError:
            continue
        if not _is_ours(namespace, kind):
            others.append(namespace)
    return users, others


def _is_ours(namespace: int, kind: str) -> bool:
    return os.fstat(namespace).st_ino == os.stat(f"/proc/self/ns/{kind}").st_ino


def _join(users: list[int], others: list[int], user: list[int] | None) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    for namespace in [users[0], *others, *users[1:]]:
        _check(_libc.setns(namespace, 0), "joining the sandbox")
        os.close(namespace)


def _confine(config: dict[str, Any]) -> None:
    """Give up, for good, what a program inside may not have."""
    for number, limit in config["limits"]:
        resource.setrlimit(number, (limit, limit))
    for capability in range(_MOST_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 and ctypes.get_errno() != errno.EINVAL:
            _check(-1, "dropping capabilities")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    program = bytes.fromhex(config["filter"])
    if program:
        steps = _Filter(len(program) // 8, program)
        _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(steps), 0, 0), "filtering system calls")


def _run(config: dict[str, Any]) -> NoReturn:
    os.setsid()
    argv = config["argv"]
    try:
        if (os.getuid(), os.getgid()) != (config["uid"], config["gid"]):
            raise PermissionError(errno.EPERM, "the sandbox has another user")
        os.chdir(config["cwd"])
        _confine(config)
        os.execvpe(argv[0], argv, config["env"])
    except FileNotFoundError as error:
        message, code = f"{error.filename or argv[0]}: {error.strerror}\n", 127
    except OSError as error:
        message, code = f"{error.filename or argv[0]}: {error.strerror}\n", 126
    os.write(2, message.encode())
    os._exit(code)


def _main(config: dict[str, Any]) -> int:
    # Until it becomes the program, what joins the sandbox is one of the host's, which nobody inside may look into.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "keeping our memory to ourselves")
    process = config["process"]
    users, others = _open_namespaces(process[0])
    if not _is_alive(process):
        raise ProcessLookupError(errno.ESRCH, "the sandbox doesn't run")
    _join(users, others, config["user"])
    child = os.fork()
    if child == 0:
        _run(config)
    # Its streams are the program's alone, or nobody would see their end.
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    with open(int(sys.argv[1]), encoding="utf-8") as file:
        settings = json.load(file)
    os._exit(_main(settings))
