"""The way into an instance that has no Python: scripts for dash and for busybox, run as local processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from agentkit.errors import (
    CommandNotFoundError,
    ProcessExistsError,
    ProcessLimitError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileError,
    SandboxFileExistsError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
    SandboxNotADirectoryError,
    SandboxPermissionError,
    UnsupportedByEngineError,
)
from agentkit.sandbox.command import Command, Stdout
from agentkit.sandbox.guest import ProcessPlan
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.shell_guest import ShellGuest
from agentkit.sandbox.runner.shell_scripts import Told
from tests.sandbox.local_runner import Place, a_place, content, eventually, processes_with, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the shell a user of its own")
SOON = timedelta(seconds=0.3)


class LocalOneOff:
    """A local process as an engine's exec."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pieces: asyncio.Queue[tuple[Literal[1, 2], bytes] | None] = asyncio.Queue(4)
        self._ends = 0
        self._readers = [asyncio.create_task(self._read(1)), asyncio.create_task(self._read(2))]

    async def _read(self, stream: Literal[1, 2]) -> None:
        pipe = self._process.stdout if stream == 1 else self._process.stderr
        assert pipe is not None
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while data := await reader.read(1 << 16):
                await self._pieces.put((stream, data))
            await self._pieces.put(None)
        finally:
            transport.close()

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        while self._ends < 2:
            if (piece := await self._pieces.get()) is not None:
                return piece
            self._ends += 1
        return None

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            await asyncio.to_thread(os.write, self._process.stdin.fileno(), data)
        except (ConnectionError, ValueError) as error:
            raise SandboxConnectionError("the program is gone") from error

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def exit_code(self) -> int:
        code = await asyncio.to_thread(self._process.wait)
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        await self.end()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class LocalExec:
    """Starts programs as an engine's exec would, in a world that has one shell."""

    place: Place
    path: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    async def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], user: str | None = None) -> LocalOneOff:
        if user == "nobody-such":
            argv = ("/bin/sh", "-c", "echo unable to find user nobody-such; exit 126")
        elif self.place.limit is not None:
            argv = ("/usr/bin/prlimit", f"--nproc={self.place.limit}", *argv)
        identity: dict[str, Any] = {}
        if self.place.user is not None:
            identity = {"user": self.place.user, "group": self.place.user, "extra_groups": []}
        pipe = subprocess.PIPE
        variables = {"PATH": self.path, **env}
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=variables, **identity)
        self.started.append(process)
        return LocalOneOff(process)

    async def all_ended(self) -> None:
        """Wait until none of the shells is there any more."""
        for process in self.started:
            await asyncio.to_thread(process.wait, 20)


@pytest.fixture(params=["dash", "bash", "busybox"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """The programs of this world: those of the system with one of its shells, or busybox alone."""
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"needs {request.param}")
    directory = Path(tempfile.mkdtemp(prefix="agentkit-shell-"))
    directory.chmod(0o755)
    names = ["sh"]
    if request.param == "busybox":
        names = subprocess.run([shell, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        (directory / name).symlink_to(shell)
    yield str(directory) if request.param == "busybox" else f"{directory}:/usr/local/bin:/usr/bin:/bin"
    shutil.rmtree(directory)


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the shell's user."""
    with a_place() as place:
        yield place


@pytest.fixture
async def guest(place: Place, path: str) -> AsyncIterator[ShellGuest]:
    """A way in that serves this test; none of its shells outlives it."""
    async with a_shell_guest(place, path) as guest:
        yield guest


@asynccontextmanager
async def a_shell_guest(place: Place, path: str) -> AsyncIterator[ShellGuest]:
    """Open a way in for a while."""
    execute = LocalExec(place, path)
    settings = RunnerSettings(
        env={"HOME": str(place.root)},
        run_directory=str(place.root / "run"),
        log_directory=str(place.root / "logs"),
    )
    guest = ShellGuest(execute, settings)
    try:
        yield guest
    finally:
        await guest.close()
        await execute.all_ended()


def lives(pid: int) -> bool:
    """Tell whether a process lives."""
    return pid in processes_with("")


def pids(place: Place) -> list[int]:
    """Return what a script has written into the file ``pids``."""
    path = place.root / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


# --- commands


async def test_streams_and_exit_code_are_apart(place: Place, guest: ShellGuest) -> None:
    """Output, errors and exit code, and nothing of what the script tells."""
    result = await run(guest, place.command("sh", "-c", "echo out; echo bad >&2; exit 7"))

    assert (result.stdout, result.stderr, result.exit.exit_code) == ("out\n", "bad\n", 7)
    assert not result.exit.timed_out


async def test_arguments_are_never_split_or_expanded(place: Place, guest: ShellGuest) -> None:
    """Nothing that is given is read as shell, the directory included."""
    words = ["a b", "$HOME", "$(touch hacked)", "*", "", "'\"", "-n"]
    (place.root / "it's $(touch hacked)").mkdir()
    command = place.command("printf", "<%s>", *words, cwd=str(place.root / "it's $(touch hacked)"))

    result = await run(guest, command)

    assert result.stdout == "".join(f"<{word}>" for word in words)
    assert list(place.root.rglob("hacked")) == []


async def test_input_merging_and_environment(place: Place, guest: ShellGuest) -> None:
    """Input arrives whole and ends; merged errors keep their order; variables reach the command."""
    data = os.urandom(300_000)
    copied = await run(guest, place.command("cat", stdin=data))
    nothing = await run(guest, place.command("cat"))
    script = 'for i in 1 2 3; do echo "o$i$MORE"; echo "e$i" >&2; done; pwd; echo "$PWD"'
    merged = await run(guest, place.command("sh", "-c", script, merge_stderr=True, env={"MORE": "!"}))

    assert copied.data == data
    assert nothing.data == b""
    assert merged.stdout.split() == ["o1!", "e1", "o2!", "e2", "o3!", "e3", str(place.root), str(place.root)]


async def test_what_stands_in_the_way_is_told_apart(place: Place, guest: ShellGuest) -> None:
    """Program, permission, directory; a shell's own words are no programs."""
    file = place.write("plain", "echo no", mode=0o644)

    with pytest.raises(CommandNotFoundError) as caught:
        await run(guest, place.command("no-such-program"))
    with pytest.raises(CommandNotFoundError):
        await run(guest, place.command("kill_tree"))
    with pytest.raises(SandboxPermissionError):
        await run(guest, place.command("./plain"))
    with pytest.raises(SandboxFileNotFoundError):
        await run(guest, place.command("true", cwd=str(place.root / "missing")))
    with pytest.raises(SandboxNotADirectoryError):
        await run(guest, place.command("true", cwd=file))
    with pytest.raises(SandboxError, match="unable to find user"):
        await run(guest, place.command("true", user="nobody-such"))

    assert caught.value.program == "no-such-program"


TREE = """
sleep 600 & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 601' &
(sh -c 'sleep 602 & echo $! >>pids') &
sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 603; done' &
while [ "$(wc -l <pids)" -lt 4 ]; do sleep 0.02; done
echo ready
sleep 604
"""


async def test_time_limit_ends_the_whole_tree(place: Place, guest: ShellGuest) -> None:
    """Sessions, orphans and those that ignore a request; what was printed so far comes back."""
    task = asyncio.create_task(run(guest, place.command("sh", "-c", TREE, timeout=timedelta(seconds=2.5))))
    await eventually(lambda: len(pids(place)) == 4)
    began = [pid for pid in pids(place) if lives(pid)]

    result = await task

    assert len(began) == 4
    assert [pid for pid in pids(place) if lives(pid)] == []
    assert (result.exit.timed_out, result.exit.exit_code, result.stdout) == (True, 137, "ready\n")


async def test_closing_the_generator_ends_the_tree(place: Place, guest: ShellGuest) -> None:
    """When ``aclose`` returns, nothing of it is left."""
    async with aclosing(guest.run(place.command("sh", "-c", TREE))) as outputs:
        first = await anext(outputs)
        began = [pid for pid in pids(place) if lives(pid)]

    assert isinstance(first, Stdout)
    assert len(began) == 4
    assert [pid for pid in pids(place) if lives(pid)] == []


async def test_death_of_the_owner_ends_the_tree(place: Place, path: str) -> None:
    """The end of its input is all that the script sees of it."""
    execute = LocalExec(place, path)
    outputs = ShellGuest(execute, RunnerSettings()).run(place.command("sh", "-c", TREE))
    first = await anext(outputs)
    began = [pid for pid in pids(place) if lives(pid)]

    stdin = execute.started[0].stdin
    assert stdin is not None
    stdin.close()

    await eventually(lambda: [pid for pid in pids(place) if lives(pid)] == [])
    assert isinstance(first, Stdout)
    assert len(began) == 4
    await outputs.aclose()
    await execute.all_ended()


async def test_background_child_keeps_nobody_waiting(place: Place, guest: ShellGuest) -> None:
    """The command's end counts, not that of whatever still holds its output."""
    result = await run(guest, place.command("sh", "-c", "sleep 600 & echo $!"))

    assert result.exit.exit_code == 0
    assert result.exit.duration < timedelta(seconds=5)
    assert lives(int(result.stdout))


async def test_short_commands_leave_no_watchers(place: Place, guest: ShellGuest) -> None:
    """A command that ends before its time limit has been set up is no trouble either."""
    for _ in range(20):
        await run(guest, place.command("true", timeout=timedelta(minutes=10)))

    await eventually(lambda: processes_with(str(place.root)) == [])


# bash tries again for a quarter of a minute first.
@needs_root
@pytest.mark.parametrize("path", ["dash", "busybox"], indirect=True)
async def test_full_process_table_is_an_error_of_its_own(path: str) -> None:
    """A shell that can't fork says nothing; what it ends with does."""
    with a_place(limit=12) as place:
        async with a_shell_guest(place, path) as guest:
            tasks = [asyncio.create_task(run(guest, place.command("sleep", "600"))) for _ in range(8)]
            done, waiting = await asyncio.wait(tasks, timeout=20, return_when=asyncio.FIRST_EXCEPTION)

            assert {type(task.exception()) for task in done} == {ProcessLimitError}
            for task in waiting:
                task.cancel()
            await asyncio.wait(tasks)


def test_told_words_are_taken_out_wherever_they_are_cut() -> None:
    """A command's own errors are whole, even those that look like the beginning of something told."""
    whole = (
        b"a\x01agentkit:other:x\nb\x01agentkit:id:begun\n\x01agen" + "é".encode() + b"\x01agentkit:id:exit 0,,\nend\x01"
    )

    for size in range(1, len(whole)):
        told = Told("id")
        clean, words = b"", []
        for start in range(0, len(whole), size):
            data, more = told.feed(whole[start : start + size])
            clean += data
            words += more

        assert words == ["begun", "exit 0,,"]
        assert clean + told.rest() == b"a\x01agentkit:other:x\nb\x01agen\xc3\xa9end\x01"


class ForgedOneOff:
    """A program in whose place something else speaks."""

    def __init__(self, script_id: str, said: bytes) -> None:
        self._pieces: list[tuple[Literal[1, 2], bytes]] = [
            (2, b"\x01agentkit:" + script_id.encode() + b":begun\n"),
            (1, b"x\0" * 6),
            (2, said.replace(b"ID", script_id.encode())),
        ]

    async def read(self) -> tuple[Literal[1, 2], bytes] | None:
        return self._pieces.pop(0) if self._pieces else None

    async def write(self, data: bytes) -> None:
        pass

    async def end(self) -> None:
        pass

    async def exit_code(self) -> int:
        return 0

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "said",
    [
        b"\x01agentkit:ID:exit x,,\n",
        b"\x01agentkit:ID:exit 0\n",
        b"\x01agentkit:ID:ended soon\n\x01agentkit:ID:done\n",
        b"\x01agentkit:ID:done\n",
        b"\x01agentkit:ID:more\n" * 1000,
        b"\x01agentkit:ID:" + b"x" * 10_000,
    ],
)
@pytest.mark.parametrize("call", ["run", "processes", "wait_process", "stat"])
async def test_what_is_told_is_not_taken_on_trust(said: bytes, call: str) -> None:
    """Code inside may speak in a script's place; what can't be read is a broken connection, and nothing else."""

    async def forge(argv: Sequence[str], *, env: Mapping[str, str], user: str | None = None) -> ForgedOneOff:
        return ForgedOneOff(argv[4], said)

    guest = ShellGuest(forge, RunnerSettings())

    async def ask() -> Any:
        if call == "run":
            return [piece async for piece in guest.run(Command(argv=("true",), cwd="/"))]
        return await getattr(guest, call)(*(() if call == "processes" else ("/x",)))

    with pytest.raises(SandboxConnectionError):
        await ask()


# --- files


async def test_files_are_written_read_and_replaced(place: Place, guest: ShellGuest) -> None:
    """Whole, with their mode, through no link, into directories that are made."""
    data = os.urandom(700_000)
    target = place.root / "a/b c/file"
    victim = Path(place.write("victim", "precious"))
    (place.root / "link").symlink_to(victim)

    await guest.write(str(target), content(data[:5], data[5:]), mode=0o750)
    await guest.write(str(place.root / "link"), content(b"mine"))
    await guest.write(str(target), content(data, b"more"))

    assert b"".join([part async for part in guest.read(str(target))]) == data + b"more"
    assert target.stat().st_mode & 0o777 == 0o750
    assert victim.read_text() == "precious"
    assert (place.root / "link").read_text() == "mine"
    assert sorted(path.name for path in target.parent.iterdir()) == ["file"]


async def test_write_that_fails_half_way_changes_nothing(place: Place, guest: ShellGuest) -> None:
    """Neither the old content nor the directory shows that it was tried."""
    path = Path(place.write("file", "old"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"new" * 1000
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await guest.write(str(path), broken())

    assert path.read_text() == "old"
    await eventually(lambda: [entry.name for entry in place.root.iterdir()] == ["file"])


async def test_errors_of_files_are_told_apart(place: Place, guest: ShellGuest) -> None:
    """Each has the kind of the system's error, and the path."""
    file = place.write("file", "")
    missing = str(place.root / "missing")
    os.mkfifo(place.root / "pipe", 0o666)

    async def read(path: str) -> bytes:
        return b"".join([part async for part in guest.read(path)])

    with pytest.raises(SandboxFileNotFoundError) as caught:
        await read(missing)
    with pytest.raises(SandboxIsADirectoryError):
        await read(str(place.root))
    with pytest.raises(SandboxNotADirectoryError):
        await read(file + "/below")
    with pytest.raises(SandboxFileError, match="no regular file"):
        await read(str(place.root / "pipe"))
    with pytest.raises(SandboxIsADirectoryError):
        await guest.write(str(place.root), content(b"x"))
    with pytest.raises(SandboxFileExistsError):
        await guest.mkdir(file)
    with pytest.raises(SandboxFileNotFoundError):
        await guest.move(missing, file)
    with pytest.raises(SandboxNotADirectoryError):
        await guest.entries(file)

    assert caught.value.path == missing


@needs_root
async def test_access_that_the_user_has_not_is_refused(place: Place, guest: ShellGuest) -> None:
    """The shell is the sandbox's user."""
    secret = place.root / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)

    with pytest.raises(SandboxPermissionError):
        [part async for part in guest.read(str(secret))]
    with pytest.raises(SandboxPermissionError):
        await guest.write("/etc/agentkit-test", content(b"no"))


async def test_directories_are_listed_walked_and_changed(place: Place, guest: ShellGuest) -> None:
    """Odd names, hidden ones and links, of which none is followed."""
    await guest.mkdir(str(place.root / "tree/deep"))
    place.write("tree/.hidden [x]\nline", "four", mode=0o640)
    (place.root / "tree/link").symlink_to("/etc")
    tree = str(place.root / "tree")

    entries = await guest.entries(tree)
    walked = {entry.path async for entry in guest.walk(str(place.root))}
    link = await guest.stat(f"{tree}/link")
    await guest.move(f"{tree}/.hidden [x]\nline", f"{tree}/plain")

    assert [(entry.name, entry.type, entry.size, entry.target) for entry in entries if entry.type != "directory"] == [
        (".hidden [x]\nline", "file", 4, None),
        ("link", "symlink", 4, "/etc"),
    ]
    assert entries[0].mode == 0o640
    assert walked == {tree, f"{tree}/deep", f"{tree}/link", f"{tree}/.hidden [x]\nline"}
    assert link is not None
    assert link.target == "/etc"
    assert await guest.stat(f"{tree}/missing") is None
    assert [entry async for entry in guest.walk(f"{tree}/missing")] == []
    assert (place.root / "tree/plain").read_text() == "four"
    assert await guest.remove(tree)
    assert not await guest.remove(tree)
    assert Path("/etc/passwd").exists()


# --- background processes, activity, ports


async def test_process_outlives_the_guest(place: Place, path: str) -> None:
    """Started by one, found, waited for and read by the next."""
    script = "echo one; echo bad >&2; while ! [ -e go ]; do sleep 0.02; done; echo $MORE; exit 4"
    plan = ProcessPlan(name="dev/ä", argv=("sh", "-c", script, ""), cwd=str(place.root), env={"MORE": "end"})
    async with a_shell_guest(place, path) as guest:
        info = await guest.start_process(plan)
        with pytest.raises(ProcessExistsError):
            await guest.start_process(plan)

    async with a_shell_guest(place, path) as guest:
        [listed] = await guest.processes()
        place.write("go", "")

        assert (listed.name, listed.argv, listed.pid, listed.exit_code) == ("dev/ä", plan.argv, info.pid, None)
        assert b"".join([part async for part in guest.logs("dev/ä", follow=True)]) == b"one\nbad\nend\n"
        assert await guest.wait_process("dev/ä") == 4
        assert Path(info.log).read_text() == "one\nbad\nend\n"
        await guest.start_process(plan)
        assert await guest.wait_process("dev/ä") == 4


async def test_kill_asks_first_and_ends_the_tree(place: Place, guest: ShellGuest) -> None:
    """One that ends by itself keeps its exit code; one that doesn't is ended with its children."""
    polite = ProcessPlan(
        name="polite",
        argv=("sh", "-c", "trap 'exit 3' TERM; echo $$ >>pids; while :; do sleep 0.02; done"),
        cwd=str(place.root),
    )
    stubborn = ProcessPlan(
        name="stubborn",
        argv=("sh", "-c", "trap '' TERM; setsid sleep 600 & echo $! >>pids; sleep 601"),
        cwd=str(place.root),
    )
    await guest.start_process(polite)
    await guest.start_process(stubborn)
    await eventually(lambda: len(pids(place)) == 2)
    began = [pid for pid in pids(place) if lives(pid)]

    assert await guest.kill_process("polite", grace=timedelta(seconds=30))
    assert await guest.kill_process("stubborn", grace=SOON)

    assert len(began) == 2
    assert [pid for pid in pids(place) if lives(pid)] == []
    assert await guest.wait_process("polite") == 3
    assert await guest.wait_process("stubborn") == 128 + signal.SIGKILL
    assert not await guest.kill_process("polite", grace=SOON)
    assert not await guest.kill_process("nobody", grace=SOON)


async def test_what_cannot_be_started_or_found(place: Place, guest: ShellGuest) -> None:
    """The errors are those of the runner."""
    with pytest.raises(CommandNotFoundError):
        await guest.start_process(ProcessPlan(name="bad", argv=("no-such-program",), cwd=str(place.root)))
    with pytest.raises(SandboxFileNotFoundError):
        await guest.start_process(ProcessPlan(name="bad", argv=("true",), cwd="/no/such"))
    with pytest.raises(LookupError, match="nobody"):
        await guest.wait_process("nobody")
    with pytest.raises(LookupError, match="nobody"):
        [part async for part in guest.logs("nobody", follow=False)]

    assert await guest.processes() == []


async def test_activity_and_listening(place: Place, guest: ShellGuest) -> None:
    """What the watchdog reads is written, and a port is found."""
    await guest.touch()
    await guest.set_inactivity(timedelta(minutes=3))
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        listening = await guest.is_listening(port)

    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 <= uptime - float((place.root / "run/lease").read_text()) < 60
    assert float((place.root / "run/inactivity").read_text()) == 180
    assert listening
    assert not await guest.is_listening(port)


async def test_what_needs_python_says_so(place: Place, guest: ShellGuest) -> None:
    """Archives and connections name the mend."""
    with pytest.raises(UnsupportedByEngineError, match="python3"):
        [part async for part in guest.pack(str(place.root))]
    with pytest.raises(UnsupportedByEngineError, match="python3"):
        await guest.unpack(str(place.root), content())
    with pytest.raises(UnsupportedByEngineError, match="python3"):
        await guest.connect(8000)
    with pytest.raises(UnsupportedByEngineError, match="python3"):
        await guest.serve_proxy(lambda connection: connection.close())


async def test_closed_guest_is_closed(place: Place, guest: ShellGuest) -> None:
    """What is under way ends with it, and nothing else begins."""
    outputs = guest.run(place.command("sh", "-c", "echo $$ >pids; echo ready; sleep 600"))
    await anext(outputs)

    await guest.close()

    await eventually(lambda: not any(lives(pid) for pid in pids(place)))
    assert not guest.is_open
    with pytest.raises(SandboxConnectionError):
        await guest.stat("/")
    await outputs.aclose()
