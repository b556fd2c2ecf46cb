"""The main process of a sandbox by itself, under each shell there is, in a process namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentkit.sandbox import main_process

SCRIPT = Path(main_process.__file__).with_name("inside") / "watchdog.sh"
_SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"], "sh": ["sh"]}
SHELLS = {name: command for name, command in _SHELLS.items() if shutil.which(command[0])}
if "dash" in SHELLS and os.path.realpath(shutil.which("sh") or "") == os.path.realpath(shutil.which("dash") or ""):
    del SHELLS["sh"]
# A first process that starts the watchdog and takes in orphans, as an init does, and ends with its code.
_INIT = """
trap : TERM
"$@" &
child=$!
echo $child >"$0"
while :; do
    wait $child
    code=$?
    kill -0 $child 2>/dev/null || exit $code
done
"""


def namespace() -> list[str] | None:
    """Return what gives a command its own processes, or None if nothing does."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    return command if tried is not None and tried.returncode == 0 else None


NAMESPACE = namespace()
pytestmark = pytest.mark.skipif(NAMESPACE is None, reason="no process namespaces: unshare --pid is refused here")


class Watchdog:
    """One that runs, its directory, and what it is given there."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.notes = folder / "notes"
        self.notes.mkdir(parents=True)
        self.folder = folder
        self.shell = shell
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, inactivity: int = 60, lifetime: int = 60) -> None:
        """Start it."""
        assert NAMESPACE is not None
        main = [
            *SHELLS[self.shell],
            "-c",
            SCRIPT.read_text(),
            "agentkit",
            str(self.notes),
            str(inactivity),
            str(lifetime),
        ]
        init = [*NAMESPACE, "sh", "-c", _INIT, str(self.folder / "pid")]
        self._process = subprocess.Popen([*init, *main, *arguments], cwd=self.folder)

    def write(self, name: str, content: str) -> None:
        """Leave a note, whole at once."""
        (self.folder / "new").write_text(content)
        (self.folder / "new").rename(self.notes / name)

    def use(self) -> None:
        """Note that the sandbox is used."""
        self.write("lease", Path("/proc/uptime").read_text().split()[0] + "\n")

    def ask_to_stop(self) -> None:
        """Send it SIGTERM, as an engine does through the init."""
        assert self._process is not None
        children = subprocess.run(
            ["pgrep", "--parent", str(self._process.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        for pid in Path(f"/proc/{children[0]}/task/{children[0]}/children").read_text().split():
            os.kill(int(pid), 15)

    def end(self, within: float = 15) -> int:
        """Wait for its end and return its exit code."""
        assert self._process is not None
        return self._process.wait(within)

    @property
    def is_running(self) -> bool:
        """It hasn't ended."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End it, and everything in its namespace."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def until(condition: Callable[[], object], within: float = 10) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Pack:
    """Watchdogs that run at the same time, one for each shell; it does to all what is to be done to one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[Watchdog] = []
        self.more("0")

    def more(self, name: str) -> Pack:
        """Add one more for each shell, and return those."""
        added = [Watchdog(self._folder / name / shell, shell) for shell in SHELLS]
        self._all += added
        return self._of(added)

    def _of(self, some: list[Watchdog]) -> Pack:
        pack = object.__new__(Pack)
        pack._folder, pack._all = self._folder, some
        return pack

    def __iter__(self) -> Iterator[Watchdog]:
        return iter(list(self._all))

    def start(self, *arguments: str, inactivity: int = 60, lifetime: int = 60) -> None:
        """See ``Watchdog``."""
        for one in self:
            one.start(*arguments, inactivity=inactivity, lifetime=lifetime)

    def write(self, name: str, content: str) -> None:
        """See ``Watchdog``."""
        for one in self:
            one.write(name, content)

    def wait_for(self, name: str) -> None:
        """Wait until each has a file of this name."""
        for one in self:
            until((one.folder / name).exists)

    def read(self, name: str) -> dict[str, str]:
        """Return what the file of this name holds, by shell."""
        return {one.shell: (one.folder / name).read_text() for one in self}

    def ends(self, within: float = 15) -> dict[str, int]:
        """Return the exit codes, by shell."""
        return {one.shell: one.end(within) for one in self}

    def running(self) -> list[str]:
        """Return the shells whose watchdog runs."""
        return [one.shell for one in self if one.is_running]


@pytest.fixture
def pack(tmp_path: Path) -> Iterator[Pack]:
    """Return one watchdog for each shell, not started yet."""
    made = Pack(tmp_path)
    yield made
    for one in made:
        one.close()


def each(value: object) -> dict[str, object]:
    """Return the same for every shell."""
    return dict.fromkeys(SHELLS, value)


def test_unused_sandbox_ends(pack: Pack) -> None:
    """Without any note it ends after the inactivity it was started with (SPEC 12.5)."""
    pack.start(inactivity=1)

    assert pack.ends() == each(75)


def test_note_of_inactivity_counts(pack: Pack) -> None:
    """A shorter limit holds as soon as it is noted, in seconds with a fraction."""
    pack.start(inactivity=600)
    pack.write("inactivity", "1.000\n")

    assert pack.ends() == each(75)


def test_use_puts_the_end_off(pack: Pack) -> None:
    """While the lease is renewed it goes on, and ends once it isn't."""
    pack.start(inactivity=2)
    for _ in range(8):
        for one in pack:
            one.use()
        time.sleep(0.5)

    assert pack.running() == list(SHELLS)
    assert pack.ends() == each(75)


def test_odd_lease_neither_ends_nor_keeps_it(pack: Pack) -> None:
    """Whatever stands in the lease, even a moment to come, it ends after one more time of inactivity."""
    leases = ["", "x\n", "99999999999.5\n", "9" * 40, "$(kill 1)\n", "-5\n", "1 2\n"]
    odd = [pack.more(str(number)) for number in range(1, len(leases) + 1)]
    for some, lease in zip(odd, leases, strict=True):
        some.write("lease", lease)
        some.start(inactivity=1)

    assert [some.ends(30) for some in odd] == [each(75)] * len(leases)


@pytest.mark.parametrize("name", ["lease", "inactivity"])
def test_note_that_is_no_file_holds_nothing_up(pack: Pack, name: str) -> None:
    """A pipe that nobody writes to, or an endless device, is no note."""
    pipes, devices = pack.more("pipes"), pack.more("devices")
    for one in pipes:
        os.mkfifo(one.notes / name)
    for one in devices:
        (one.notes / name).symlink_to("/dev/zero")
    pipes.start(inactivity=1)
    devices.start(inactivity=1)

    assert (pipes.ends(), devices.ends()) == (each(75), each(75))


def test_old_sandbox_ends_however_it_is_used(pack: Pack) -> None:
    """The lifetime holds whatever the lease says."""
    pack.start(lifetime=2)
    while pack.running():
        for one in pack:
            one.use()
        time.sleep(0.1)

    assert pack.ends() == each(76)


def test_stop_is_obeyed_at_once(pack: Pack) -> None:
    """SIGTERM ends it with the code that says so, without waiting for the next look at the clock."""
    pack.start()
    pack.wait_for("pid")
    time.sleep(0.5)
    begun = time.monotonic()

    for one in pack:
        one.ask_to_stop()

    assert pack.ends() == each(143)
    assert time.monotonic() - begun < 5


def test_entrypoint_waits_for_its_environment(pack: Pack) -> None:
    """It starts once its variables are there, whatever is in them, and in words that aren't split."""
    pack.start("sh", "-c", 'printf %s "$A|$1" >said', "x", "two  words")
    time.sleep(0.5)
    before = [one.shell for one in pack if (one.folder / "said").exists()]

    pack.write("environment", "export A='it'\\''s \"x\" $HOME\n'\n")

    assert before == []
    assert pack.ends() == each(0)
    assert pack.read("said") == each('it\'s "x" $HOME\n|two  words')


def test_end_of_the_entrypoint_ends_the_sandbox(pack: Pack) -> None:
    """Its exit code is passed on, but for those that mean something of ours."""
    shown = {0: 0, 7: 7, 75: 1, 76: 1, 143: 1}
    ended = {code: pack.more(str(code + 1)) for code in shown}
    for code, some in ended.items():
        some.write("environment", "\n")
        some.start("sh", "-c", f"exit {code}")

    assert {code: some.ends() for code, some in ended.items()} == {code: each(seen) for code, seen in shown.items()}


def test_everything_is_told_before_the_end(pack: Pack) -> None:
    """Processes beside it get SIGTERM and the time to tidy up."""
    pack.write("environment", "\n")
    pack.start("sh", "-c", "trap 'sleep 0.5; echo tidy >tidy; exit 0' TERM; echo >up; while :; do sleep 0.1; done")
    pack.wait_for("up")

    pack.write("inactivity", "1\n")

    assert pack.ends() == each(75)
    assert pack.read("tidy") == each("tidy\n")


def test_process_that_will_not_end_costs_ten_seconds(pack: Pack) -> None:
    """What ignores SIGTERM, in a session of its own, holds the end up no longer (SPEC 12.5)."""
    pack.write("environment", "\n")
    pack.start("sh", "-c", "setsid sh -c 'trap \"\" TERM; echo >up; while :; do sleep 1; done'")
    pack.wait_for("up")
    begun = time.monotonic()

    pack.write("inactivity", "1\n")

    assert pack.ends(30) == each(75)
    assert 8 < time.monotonic() - begun < 20


@pytest.mark.slow
def test_broadcast_stays_inside(tmp_path: Path) -> None:
    """Started where its parent isn't the first process, it ends itself and signals nobody."""
    (tmp_path / "inactivity").write_text("1\n")
    neighbour = subprocess.Popen(["sleep", "60"])
    try:
        command = ["sh", "-c", SCRIPT.read_text(), "agentkit", str(tmp_path), "1", "60"]
        ended = subprocess.run(command, check=False, timeout=30)

        assert ended.returncode == 75
        assert neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()
