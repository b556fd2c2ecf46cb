"""How this process runs bubblewrap: as whom, with which filter, and whether it can at all; every call blocks."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentkit.errors import EngineUnavailableError, SandboxError
from agentkit.sandbox.bubblewrap.filter import filter_program
from agentkit.sandbox.bubblewrap.view import Stage, tool_arguments
from agentkit.sandbox.spec import SandboxSpec

_LAUNCH = Path(__file__).with_name("launch.py")
ENTER = Path(__file__).with_name("enter.py")
#: Where root shows directories to bubblewrap; what lies there is hidden from that one process.
_STAGES = ("/mnt", "/media", "/srv", "/opt")
_NOBODY = 65_534
_NEW_KERNEL = "It needs Linux 5.3 or newer."
#: Three processes are in the probe's own namespace at one time; together with bubblewrap outside they are four.
_PROBE = """
command -v tar find >/dev/null || { echo 'it has no tar or no find' >&2; exit 1; }
{ ulimit -p 3 2>/dev/null || ulimit -u 3; } && (:) 2>/dev/null && echo counts
exit 0
"""


class HostUser(NamedTuple):
    """Whom bubblewrap runs as on the host."""

    uid: int
    gid: int


class Bubblewrap:
    """See the module.

    Attributes:
        is_root: We are root, who runs bubblewrap as somebody else.
        filter: The filter of system calls, in hexadecimal; empty where there is none for this machine.
        limits_processes: The kernel counts processes by sandbox, not by user; known after ``check``.
    """

    def __init__(self, program: str) -> None:
        self.is_root = os.geteuid() == 0
        self.filter = (filter_program(os.uname().machine) or b"").hex()
        self.limits_processes = True
        self._program = program

    def user_for(self, uid: int, gid: int) -> HostUser:
        """Return whom a sandbox's user is on the host: never root."""
        if not self.is_root:
            return HostUser(os.getuid(), os.getgid())
        return HostUser(uid or _NOBODY, gid or _NOBODY)

    def stage(self) -> Stage:
        """Return an empty stage."""
        return Stage(next(path for path in _STAGES if os.path.isdir(path)) if self.is_root else None)

    def check(self) -> None:
        """Make sure that it works, by using it.

        Raises:
            EngineUnavailableError: It doesn't; says what may help.
        """
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            raise EngineUnavailableError(
                [f"bubblewrap: no descriptors of processes ({error})"], [_NEW_KERNEL]
            ) from error
        if shutil.which(self._program) is None:
            mend = "Install bubblewrap (the package of that name on Debian, Ubuntu, Fedora, Arch and Alpine)."
            raise EngineUnavailableError([f"bubblewrap: there is no program {self._program!r}"], [mend])
        user = self.user_for(0, 0)
        arguments = [*tool_arguments({}, self.stage()), "--proc", "/proc"]
        command = ["sh", "-c", _PROBE]
        done = self._run(arguments, command, user, self.stage(), subprocess.DEVNULL, subprocess.PIPE)
        if done.returncode != 0:
            said = (
                done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
            )
            raise EngineUnavailableError([f"bubblewrap: {said}"], mends_for(said))
        self.limits_processes = b"counts" in done.stdout

    def limits(self, memory: int) -> list[tuple[int, int]]:
        """Return the limits of every process of a sandbox: no dump of its memory, and so much data."""
        return [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)]

    def launch(
        self,
        arguments: Sequence[str],
        command: Sequence[str],
        *,
        user: HostUser,
        stage: Stage,
        limits: Sequence[tuple[int, int]],
        keeper: Mapping[str, Path],
        complaints: int,
        lock: int,
    ) -> None:
        """Start a sandbox that goes on without us.

        Args:
            arguments: What is seen inside.
            command: The main process.
            user: As whom.
            stage: What ``arguments`` refer to.
            limits: Of resources.
            keeper: Where it is noted what was started, and how it ended.
            complaints: A descriptor that is told why it can't start.
            lock: A descriptor that stays open until it is noted what was started.

        Raises:
            SandboxError: It can't be started.
        """
        config = self._config(arguments, command, user, stage, limits)
        config["keeper"] = {name: str(path) for name, path in keeper.items()}
        config["complaints"] = complaints
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_LAUNCH), json.dumps(config)],
            env=helper_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(complaints, lock),
            check=False,
        )
        if done.returncode != 0:
            raise SandboxError(f"bubblewrap can't be started: {done.stderr.decode(errors='replace').strip()[-300:]}")

    def entry(self, process: Sequence[str | int], user: HostUser, spec: SandboxSpec) -> dict[str, object]:
        """Return what ``enter.py`` is told, besides the program."""
        limits = self.limits(spec.memory_bytes)
        if self.limits_processes:
            limits.append((resource.RLIMIT_NPROC, spec.pids))
        return {
            "process": list(process),
            "user": list(user) if self.is_root else None,
            "uid": spec.uid,
            "gid": spec.gid,
            "cwd": "/",
            "filter": self.filter,
            "limits": limits,
        }

    def run_tool(
        self,
        command: Sequence[str],
        shown: Mapping[str, Path],
        user: HostUser,
        *,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.DEVNULL,
        allowed: Sequence[int] = (0,),
    ) -> None:
        """Run a program of the host's on directories of a sandbox, from which nothing can lead it astray.

        Raises:
            SandboxError: It failed.
        """
        stage = self.stage()
        done = self._run(tool_arguments(shown, stage), command, user, stage, stdin, stdout)
        if done.returncode not in allowed:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxError(f"{command[0]} ended with {done.returncode} on the disk of a sandbox: {said}")

    def _run(
        self, arguments: Sequence[str], command: Sequence[str], user: HostUser, stage: Stage, stdin: Any, stdout: Any
    ) -> subprocess.CompletedProcess[bytes]:
        config = json.dumps(self._config(arguments, command, user, stage, ()))
        program = [sys.executable, "-I", "-S", str(_LAUNCH), config]
        return subprocess.run(
            program, env=helper_environment(), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False
        )

    def _config(
        self,
        arguments: Sequence[str],
        command: Sequence[str],
        user: HostUser,
        stage: Stage,
        limits: Sequence[tuple[int, int]],
    ) -> dict[str, Any]:
        filtering = ["--seccomp", "3"] if self.filter else []
        return {
            "argv": [shutil.which(self._program) or self._program, *filtering, "--args", "5", "--", *command],
            "arguments": list(arguments),
            "filter": self.filter,
            "user": list(user) if self.is_root else None,
            "stage_at": stage.at,
            "stage": stage.places,
            "limits": list(limits),
            "keeper": None,
        }


def helper_environment() -> dict[str, str]:
    """Return what our helpers may know of our variables: those that Python can't do without.

    A process that joins a sandbox can be looked at from inside, and what it was started with is never forgotten.
    """
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def mends_for(said: str, settings: Path = Path("/proc/sys")) -> list[str]:
    """Return what may help where bubblewrap doesn't work, by what it said and the kernel's settings."""
    mends = []
    if _setting(settings / "kernel/unprivileged_userns_clone") == "0":
        mends.append("Allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1.")
    if _setting(settings / "user/max_user_namespaces") == "0":
        mends.append("Allow user namespaces: sysctl -w user.max_user_namespaces=10000.")
    if _setting(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        mends.append(
            "AppArmor keeps bwrap from user namespaces (the default since Ubuntu 24.04): give /usr/bin/bwrap a profile "
            "with 'userns,', or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0."
        )
    if not mends and ("proc" in said or "namespace" in said or "Operation not permitted" in said):
        mends.append(
            "Inside a container it works only if that one may make user namespaces and mount /proc: docker run "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
            "."
        )
    return mends or ["It must be able to make user namespaces; 'bwrap --unshare-all --ro-bind / / true' tells more."]


def _setting(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
