"""Background processes: they outlive the runner, print into files, and what became of them is written down.

Each has a *keeper*, a process forked off the runner, which starts it, waits for it and writes its exit code into the
state directory. That directory is in memory only: when the instance stops, so do they, and it is gone too (SPEC 12.3).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

from agentkit.sandbox.inside.calls import Call, RefusedError, refused_file
from agentkit.sandbox.inside.loop import Loop
from agentkit.sandbox.inside.signals import adopt_orphans, do_nothing
from agentkit.sandbox.inside.spawn import Children, exit_code_of, start_program
from agentkit.sandbox.inside.streams import read_report
from agentkit.sandbox.inside.tree import PROCESS_MARK, Tree, find_process, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Reported for a process whose keeper was killed, so that nobody knows.
UNKNOWN = 255
#: How often a file is looked at that somebody waits for, in seconds.
_GLANCE = 0.03


class Processes:
    """Carries out calls on background processes."""

    def __init__(
        self, loop: Loop, children: Children, env: dict[str, str], *, run_directory: str, log_directory: str
    ) -> None:
        self._loop = loop
        self._children = children
        self._env = env
        self._directory = os.path.join(run_directory, "processes")
        self._log_directory = log_directory
        self._starting: set[str] = set()

    async def start(self, call: Call) -> dict[str, Any]:
        """Start one; one of the same name that has ended is replaced."""
        request = call.request
        name = request["name"]
        state = self._find(call)
        if name in self._starting or (state is not None and state.is_running()):
            raise RefusedError("exists", name=name)
        self._starting.add(name)
        try:
            state = State(os.path.join(self._directory, request["key"]))
            log = os.path.join(self._log_directory, request["key"] + ".log")
            mark = f"{request['key']}-{os.urandom(4).hex()}"
            descriptor = _new_log(log)
            try:
                state.begin({"name": name, "argv": request["argv"], "log": log, "mark": mark})
                env = {**self._env, **request["env"], PROCESS_MARK: mark, "PWD": request["cwd"]}
                keeper = Keeper(state, request["argv"], request["cwd"], env, descriptor)
                _, reading = self._children.fork(keeper.start, [descriptor], then=keeper.keep)
            finally:
                os.close(descriptor)
            reply = await read_report(self._loop, reading)
        finally:
            self._starting.discard(name)
        if reply is None or "error" in reply:
            state.forget()
            return reply or {"error": "other", "reason": f"the keeper of {name!r} was killed"}
        # What the keeper has written down, which knows more than this copy of the plan.
        return self._get(call).describe()

    def _find(self, call: Call) -> State | None:
        """Return the state that the call names by its key, a hash of the name."""
        state = State(os.path.join(self._directory, call.request["key"]))
        return state if state.exists() else None

    def _get(self, call: Call) -> State:
        state = self._find(call)
        if state is None:
            raise RefusedError("unknown", name=call.request["name"])
        return state

    async def list(self, call: Call) -> dict[str, Any]:
        """Tell of all that were started, by name."""
        keys = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        states = [State(os.path.join(self._directory, key)) for key in keys]
        found = [state.describe() for state in states if state.exists()]
        return {"processes": sorted(found, key=lambda one: str(one["name"]))}

    async def wait(self, call: Call) -> dict[str, Any]:
        """Wait for the end of one."""
        state = self._get(call)
        while True:
            exit_code = state.exit_code()
            if exit_code is not None:
                return {"exit_code": exit_code}
            await self._loop.sleep(_GLANCE)

    async def kill(self, call: Call) -> dict[str, Any]:
        """End one and its tree, asking first; what an ended one has left behind is ended too."""
        state = self._find(call)
        if state is None:
            return {"was_running": False}
        was_running = state.is_running()
        tree = state.tree()
        if tree.send(signal.SIGTERM):
            end_at = time.monotonic() + call.request["grace"]
            while tree.living() and time.monotonic() < end_at:
                await self._loop.sleep(_GLANCE)
            await tree.kill(self._loop)
        while state.is_running() and find_process(state.pid) is None:
            # Its keeper is about to write down how it ended.
            await self._loop.sleep(_GLANCE)
        return {"was_running": was_running}

    async def logs(self, call: Call) -> dict[str, Any]:
        """Send what one has printed, and with ``follow`` what it prints until it ends."""
        state = self._get(call)
        log = state.plan["log"]
        try:
            descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise refused_file(error, log) from error
        try:
            while True:
                # Asked before the file is read: what it prints at its end is not missed.
                is_last_look = not call.request["follow"] or not state.is_running()
                await self._send_rest(call, descriptor)
                if is_last_look:
                    return {"sent": [call.output.sent]}
                await self._loop.sleep(_GLANCE)
        finally:
            os.close(descriptor)

    async def _send_rest(self, call: Call, descriptor: int) -> None:
        end = os.fstat(descriptor).st_size
        while os.lseek(descriptor, 0, os.SEEK_CUR) < end:
            data = os.read(descriptor, await call.output.room())
            if not data:
                return
            call.output.send(data)
            await self._loop.turn()


class State:
    """What is written down of one process.

    Attributes:
        plan: What it was started as.
        pid: Its number; 0 if it never began.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.plan: dict[str, Any] = json.loads(self._read("plan") or b"{}")
        process = self._read("process").split()
        self.pid, self._started, self._keeper, self._keeper_started = map(int, process) if process else (0, 0, 0, 0)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _read(self, name: str) -> bytes:
        return read_file(self._path(name))

    def write(self, name: str, content: str) -> None:
        """Write a file of the state, whole or not at all."""
        with open(self._path(name + ".new"), "w") as file:
            file.write(content)
        os.rename(self._path(name + ".new"), self._path(name))

    def begin(self, plan: dict[str, Any]) -> None:
        """Write down what is about to be started, in the place of what was."""
        self.forget()
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self.plan = plan
        self.write("plan", json.dumps(plan))

    def begun(self, pid: int) -> None:
        """Write down, as its keeper, that it runs."""
        self.pid, self._started = pid, _started(pid)
        self._keeper, self._keeper_started = os.getpid(), _started(os.getpid())
        self.write("process", f"{self.pid} {self._started} {self._keeper} {self._keeper_started}")

    def forget(self) -> None:
        """Remove all of it."""
        for name in ("plan", "process", "exit"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def exists(self) -> bool:
        """Tell whether it was started."""
        return bool(self.plan) and self.pid != 0

    def is_running(self) -> bool:
        """Tell whether it hasn't ended yet."""
        return self.exit_code() is None

    def exit_code(self) -> int | None:
        """Return what it ended with, or None while it runs."""
        # Who lives is looked at first: a keeper writes down the end, then ends.
        lives = _lives(self.pid, self._started) or _lives(self._keeper, self._keeper_started)
        written = self._read("exit")
        if written:
            return int(written)
        return None if lives else UNKNOWN

    def tree(self) -> Tree:
        """Return its processes."""
        root = self.pid if _lives(self.pid, self._started) else 0
        keeper = self._keeper if _lives(self._keeper, self._keeper_started) else 0
        return Tree(f"{PROCESS_MARK}={self.plan['mark']}", root, keeper=keeper)

    def describe(self) -> dict[str, Any]:
        """Return what the owner is told of it."""
        return {
            "name": self.plan["name"],
            "argv": self.plan["argv"],
            "log": self.plan["log"],
            "pid": self.pid,
            "exit_code": self.exit_code(),
        }


class Keeper:
    """A process of its own that starts another and waits for it, whatever becomes of the runner."""

    def __init__(self, state: State, argv: list[str], cwd: str, env: dict[str, str], log: int) -> None:
        self._state = state
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._log = log

    def start(self) -> dict[str, Any]:
        """Start the process; what it leaves without a parent comes to this one."""
        # Everything is sent SIGTERM when the sandbox stops; the end of the process is worth waiting for.
        signal.signal(signal.SIGTERM, do_nothing)
        adopt_orphans()
        # Its own are the channel's, which must end with the runner.
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        try:
            pid = start_program(self._argv, self._cwd, self._env, [subprocess.DEVNULL, self._log, self._log])
        except RefusedError as refused:
            return refused.reply
        self._state.begun(pid)
        return {}

    def keep(self) -> None:
        """Wait for the end of the process and write it down."""
        while self._state.pid:
            pid, status = os.waitpid(-1, 0)
            if pid == self._state.pid:
                self._state.write("exit", str(exit_code_of(status)))
                return


def _new_log(path: str) -> int:
    """Open an empty log in the place of an older one, which whoever reads it may go on reading."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refused_file(error, path) from error


def _started(pid: int) -> int:
    process = find_process(pid)
    return 0 if process is None else process.started


def _lives(pid: int, started: int) -> bool:
    """Tell whether this very process lives; a later one of the same number began later."""
    process = find_process(pid) if pid else None
    return process is not None and process.is_alive and process.started == started
