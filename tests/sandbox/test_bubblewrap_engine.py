"""Sandboxes without a daemon: who may see what, and what is left when something of it is killed (SPEC 12.10)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentkit.clock import SystemClock
from agentkit.errors import (
    EngineUnavailableError,
    ImageError,
    SandboxError,
    SandboxStoppedError,
    UnsupportedByEngineError,
)
from agentkit.ids import IdSource
from agentkit.sandbox.bubblewrap.host import mends_for
from agentkit.sandbox.bubblewrap.store import StateDirectory
from agentkit.sandbox.bubblewrap_engine import BubblewrapEngine
from agentkit.sandbox.engine import EXIT_ASKED
from agentkit.sandbox.guest import ProcessPlan
from agentkit.sandbox.spec import Volume
from tests.sandbox.box import SECOND, Box, Boxes
from tests.sandbox.engines import eventually

pytestmark = pytest.mark.bubblewrap

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the engine keeps everything."""
    return tmp_path / "state"


@pytest.fixture
async def boxes(folder: Path) -> AsyncIterator[Boxes]:
    """Return a maker of instances."""
    made = Boxes(BubblewrapEngine(folder), store=IdSource(SystemClock()).new(), image="")
    yield made
    await made.clear()


@pytest.fixture
async def box(boxes: Boxes) -> Box:
    """Return a running instance."""
    return await boxes.start()


def instance_folder(folder: Path, box: Box) -> Path:
    """Return the host's directory of an instance."""
    return folder / "instances" / box.name


def keeper_of(folder: Path, box: Box) -> int:
    """Return the number of the process that waits for an instance's end."""
    return int(json.loads((instance_folder(folder, box) / "keeper.json").read_text())[0])


def processes_that_say(word: str) -> list[int]:
    """Return the host's processes that have a word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def gone(word: str) -> bool:
    """Tell whether no process says a word."""
    return not processes_that_say(word)


# --- what is seen inside


async def test_nothing_of_the_host_is_seen(
    boxes: Boxes, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither homes nor secrets, processes, variables nor open files, nor a path in a list of arguments (SPEC 12.9)."""
    (tmp_path / "secret").write_text("host secret")
    monkeypatch.setenv("AGENTKIT_TEST_SECRET", "host variable")
    box = await boxes.start()

    seen = await box.sh(
        "cat /etc/shadow; ls -R /root /var /home; env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline;"
        " ls -l /proc/[0-9]*/fd; ls /sys /boot; true"
    )
    seen += await box.sh(f"cat {tmp_path}/secret; true")

    assert not {word for word in ("host secret", "host variable", str(folder)) if word in seen}
    assert "daemon:" not in seen
    assert await box.sh("ls /home /var") == "/home:\nagent\n\n/var:\ntmp"
    assert {int(number) for number in (await box.sh("cd /proc && ls -d [0-9]*")).split()} <= set(range(40))


async def test_system_cannot_be_changed(box: Box) -> None:
    """Only the directories of its disk, and what is in memory."""
    places = "/ /usr /usr/bin /etc /etc/passwd /bin /lib /opt /root /srv /mnt /var /home /dev"
    line = f"for place in {places}; do touch $place/x 2>/dev/null && echo $place; done; true"

    assert await box.sh(line) == ""
    assert (
        await box.sh("dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>/dev/null || du -m /dev/shm/x")
        == "64\t/dev/shm/x"
    )
    assert await box.sh("touch ~/x /workspace/x /tmp/x /var/tmp/x /run/x /dev/shm/x && echo fine") == "fine"


async def test_no_file_of_the_host_is_open_inside(box: Box) -> None:
    """No process inherits anything but its streams: a directory left open would be a way out."""
    opened = await box.sh("readlink /proc/[0-9]*/fd/* | sed 's/[0-9]*$//; s/\\[[0-9]*\\]//' | sort -u")

    own = ("/dev/null", "pipe:", "socket:", "anon_inode:", "/proc/")
    assert [path for path in opened.splitlines() if not path.startswith(own)] == []


async def test_full_network_is_the_hosts_and_none_is_none(boxes: Boxes) -> None:
    """A server on the host's loopback address is reached by the one and not by the other (SPEC 12.9)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\" 2>/dev/null"
        full = await boxes.start("full", network="full")
        none = await boxes.start("none")

        reached = [(await one.run(shell=line)).code for one in (full, none)]

    assert reached == [0, 1]


async def test_directory_may_hold_the_system(boxes: Boxes, tmp_path: Path) -> None:
    """One with another Linux is seen in place of this machine's, read-only; Python isn't needed in it."""
    image = _busybox_system(tmp_path / "linux")
    box = await boxes.start(image=str(image))

    assert await box.sh("cat /etc/release; touch /etc/x 2>/dev/null || echo refused") == "busybox only\nrefused"
    await box.write("/workspace/f", b"content")
    assert await box.read("/workspace/f") == b"content"
    assert await box.sh("ls /usr/bin | grep -c python || true") == "0"
    image_of_snapshot = await box.save(boxes.snapshot())
    restored = await boxes.restore(image_of_snapshot.id, "b")
    assert await restored.sh("cat /etc/release f") == "busybox only\ncontent"


def _busybox_system(path: Path) -> Path:
    """Make a directory with a shell, a few programs and their libraries."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("there is no busybox to make a small Linux of")
    for name in ("bin", "etc", "lib", "lib64", "usr/bin", "var/tmp", "home/other"):
        (path / name).mkdir(parents=True)
    for one in path, *path.rglob("*"):
        one.chmod(0o755)
    shutil.copy(busybox, path / "bin/busybox")
    listed = subprocess.run(["ldd", busybox], capture_output=True, text=True, check=False).stdout
    for word in listed.split():
        if word.startswith("/"):
            (path / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, path / word[1:])
    programs = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for program in programs:
        (path / "bin" / program).unlink(missing_ok=True)
        (path / "bin" / program).symlink_to("busybox") if program != "busybox" else None
    shutil.copy(busybox, path / "bin/busybox")
    (path / "etc/release").write_text("busybox only\n")
    # A private folder on the way would keep the sandbox's user out.
    return path


async def test_image_must_be_a_directory(boxes: Boxes, tmp_path: Path) -> None:
    """A name of an image is refused with what to do; a directory without a system is no image."""
    with pytest.raises(UnsupportedByEngineError, match="name a directory"):
        await boxes.start(image="python:3.12")
    with pytest.raises(ImageError, match="no directory with a root file system"):
        await boxes.start("b", image=str(tmp_path))


async def test_other_user_is_refused(box: Box) -> None:
    """There is only one (SPEC 12.2)."""
    assert (await box.run("true", user="1000:1000")).code == 0
    with pytest.raises(UnsupportedByEngineError, match="the engine bubblewrap can't do this"):
        await box.run("true", user="0:0")


# --- what is left


async def test_owner_may_be_killed(folder: Path, boxes: Boxes) -> None:
    """The instance and its background processes go on, foreground commands end, and the next owner finds it (T1)."""
    box = boxes.box()
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from agentkit.sandbox.bubblewrap_engine import BubblewrapEngine
from tests.sandbox.box import Boxes

async def main():
    boxes = Boxes(BubblewrapEngine({str(folder)!r}), store={boxes.store!r}, image="")
    box = await boxes.start()
    guest = await box.inside()
    from agentkit.sandbox.guest import ProcessPlan
    await guest.start_process(ProcessPlan(name="p", argv=("sleep", "1000.25"), cwd="/"))
    running = asyncio.ensure_future(box.sh("echo begun > begun; sleep 1000.75"))
    while await guest.stat("/workspace/begun") is None:
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await running

asyncio.run(main())
"""
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"ready\n"
    before = [len(processes_that_say(word)) > 0 for word in ("1000.25", "1000.75")]

    owner.kill()
    await owner.wait()

    assert before == [True, True]
    await eventually(lambda: gone("1000.75"))
    found = await box.find()
    assert found is not None
    assert found.is_running
    assert [process.exit_code for process in await (await box.inside()).processes()] == [None]


async def test_killed_keeper_takes_everything_with_it(folder: Path, box: Box) -> None:
    """No process inside outlives what watches over it, and the disk is kept."""
    guest = await box.inside()
    await box.write("/workspace/f", b"kept")
    await guest.start_process(ProcessPlan(name="p", argv=("sleep", "1000.5"), cwd="/"))
    await eventually(lambda: _says("1000.5"))

    os.kill(keeper_of(folder, box), signal.SIGKILL)

    await box.engine.wait(box.name)
    await eventually(lambda: gone("1000.5"))
    found = await box.find()
    assert found is not None
    assert (found.is_running, found.exit_code) == (False, 137)
    await box.leave()
    await box.start()
    assert await box.read("/workspace/f") == b"kept"


async def _says(word: str) -> bool:
    return bool(processes_that_say(word))


async def test_restart_of_the_machine_is_told(folder: Path, box: Box) -> None:
    """A keeper of an earlier run of the machine can't have noted anything: it ended as in a stop (SPEC 12.6)."""
    await box.stop()
    place = instance_folder(folder, box)
    process, started, _ = json.loads((place / "keeper.json").read_text())
    (place / "keeper.json").write_text(json.dumps([process, started, "another"]))
    (place / "status").write_text("")

    found = await box.find()

    assert found is not None
    assert (found.is_running, found.exit_code) == (False, EXIT_ASKED)
    await box.start()


async def test_number_of_a_process_of_others_is_not_taken_for_it(folder: Path, box: Box) -> None:
    """The same number with another start time is somebody else, who is left alone."""
    await box.stop()
    place = instance_folder(folder, box)
    _, started, boot = json.loads((place / "keeper.json").read_text())
    (place / "keeper.json").write_text(json.dumps([os.getpid(), started, boot]))
    (place / "inner.json").unlink()

    found = await box.find()

    assert found is not None
    assert not found.is_running
    await box.remove()


async def test_creation_that_broke_off_is_done_anew(folder: Path, boxes: Boxes) -> None:
    """What an owner left that was killed before it noted the instance is no instance, and is cleared away."""
    box = boxes.box()
    leftover = instance_folder(folder, box)
    (leftover / "disk/workspace").mkdir(parents=True)
    (leftover / "disk/workspace/old").write_text("old")

    before = await box.find()
    await box.engine.create(box.plan)

    assert before is None
    assert await box.sh("ls") == ""


async def test_instance_that_was_never_started_can_be(folder: Path, box: Box) -> None:
    """As after a kill between noting and starting it: it doesn't run, and has not ended."""
    await box.stop()
    for name in ("keeper.json", "inner.json", "status"):
        (instance_folder(folder, box) / name).unlink()

    found = await box.find()

    assert found is not None
    assert (found.is_running, found.exit_code, found.stopped_at) == (False, None, None)
    await box.start()
    assert await box.sh("echo works") == "works"


async def test_failed_start_leaves_nothing(folder: Path, boxes: Boxes) -> None:
    """Neither processes nor files, whatever it failed for."""
    with pytest.raises(SandboxError, match="bubblewrap"):
        await boxes.start(volumes=[Volume("v", "/usr/nowhere/at/all")])

    assert await boxes.instances() == []
    assert list((folder / "instances").iterdir()) == []


async def test_removal_leaves_nothing_whatever_the_files_are(folder: Path, box: Box) -> None:
    """Files that are barred, hidden, deep, or no files at all go, too."""
    await box.sh(
        "mkdir barred && touch barred/f && chmod 0 barred; mkfifo pipe; touch '-rf' '.hidden'; ln -s / link;"
        " python3 -c \"import os\nfor _ in range(3000): os.mkdir('deep'); os.chdir('deep')\";"
        " python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/socket')\""
    )
    word = "1000.125"
    await (await box.inside()).start_process(ProcessPlan(name="p", argv=("sleep", word), cwd="/"))

    await box.remove()

    assert list((folder / "instances").iterdir()) == []
    assert list((folder / "locks").iterdir()) == []
    await eventually(lambda: gone(word))
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


async def test_snapshot_that_broke_off_is_cleared_away(folder: Path, box: Box, boxes: Boxes) -> None:
    """What an owner left that was killed while it saved or deleted is no snapshot, and goes with the next one made."""
    await box.save(boxes.snapshot(0))
    left = folder / "snapshots" / ".another-0123"
    left.mkdir()
    (left / "disk.tar").write_bytes(bytes(1000))

    before = [image.id for image in await boxes.saved()]
    await box.save(boxes.snapshot(1))

    assert before == [boxes.snapshot(0)]
    assert sorted(path.name for path in (folder / "snapshots").iterdir()) == [
        ".lock",
        boxes.snapshot(0),
        boxes.snapshot(1),
    ]


async def test_racing_owners_make_one(folder: Path, boxes: Boxes) -> None:
    """Engines of several processes go by the same locks (T18)."""
    box = boxes.box()
    engines = [BubblewrapEngine(folder) for _ in range(4)]

    results = await asyncio.gather(*(engine.create(box.plan) for engine in engines), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["Instance"] + ["NameInUseError"] * 3
    assert len(processes_that_say(f"{box.name}/")) <= 1


# --- what a sandbox has put on its disk can't mislead the engine


async def test_link_in_the_place_of_a_volume_is_refused(boxes: Boxes, tmp_path: Path) -> None:
    """The engine neither mounts nor makes anything where it leads."""
    target = tmp_path / "target"
    target.mkdir()
    box = await boxes.start(volumes=[Volume("v", "/workspace/cache/v")])
    await box.sh("touch cache/v/f")
    await box.stop()
    disk = instance_folder(boxes.engine._state.path, box) / "disk/workspace"  # type: ignore[attr-defined]  # ours
    shutil.rmtree(disk / "cache")
    (disk / "cache").symlink_to(target)

    with pytest.raises(SandboxStoppedError, match="in its way"):
        await box.start()

    assert list(target.iterdir()) == []


async def test_snapshot_follows_no_link(box: Box, boxes: Boxes, folder: Path, tmp_path: Path) -> None:
    """A link is saved as a link; what does the saving sees nothing of the host it could follow it to."""
    (tmp_path / "secret").write_text("host secret")
    await box.sh(f"ln -s {tmp_path} out; ln -s /etc/shadow shadow; mkfifo pipe; truncate -s 1G sparse; ln f g || true")

    image = await box.save(boxes.snapshot())

    with tarfile.open(folder / "snapshots" / image.id / "disk.tar") as archive:
        members = {member.name: member for member in archive}
    assert members["./workspace/out"].issym()
    assert members["./workspace/shadow"].issym()
    assert not [name for name in members if "secret" in name]
    assert image.size < 1 << 20


async def test_tool_of_the_host_sees_the_disk_alone(box: Box, folder: Path, tmp_path: Path) -> None:
    """Even one that is led astray while it runs finds nothing, since it works in a sandbox, too."""
    (tmp_path / "secret").write_text("host secret")
    (tmp_path / "secret").chmod(0o644)
    host = BubblewrapEngine(folder)._host
    disk = instance_folder(folder, box) / "disk"
    found = disk.stat()
    user = host.user_for(found.st_uid, found.st_gid)

    for path in (str(tmp_path / "secret"), "/etc/passwd", "/root", "/proc/self/environ"):
        with pytest.raises(SandboxError, match="cat ended"):
            host.run_tool(["cat", path], {"/disk": disk}, user)


async def test_volume_inside_of_another_is_refused(boxes: Boxes) -> None:
    """A sandbox that shares the outer one could lead the inner one elsewhere."""
    with pytest.raises(UnsupportedByEngineError, match="inside of another"):
        await boxes.start(volumes=[Volume("a", "/data"), Volume("b", "/data/inner")])


async def test_volume_in_use_is_not_removed(boxes: Boxes) -> None:
    """An instance that is stopped needs it, too."""
    box = await boxes.start(volumes=[Volume("v", "/data")])
    await box.stop()

    with pytest.raises(SandboxError, match="in use"):
        await box.engine.remove_volume("v", boxes.store)

    await box.remove()
    assert await box.engine.remove_volume("v", boxes.store)


def test_names_lead_nowhere_else(folder: Path) -> None:
    """A name with a slash or a dot at its beginning is refused before anything is touched."""
    state = StateDirectory(folder)

    for name in ("../x", "a/b", ".", "..", "", ".hidden"):
        with pytest.raises(SandboxError, match="takes names"):
            state.instance(name)


# --- whether it works at all


async def test_missing_program_is_told(folder: Path) -> None:
    """With what to install (SPEC 12.10, T20)."""
    engine = BubblewrapEngine(folder, program="no-such-bwrap")

    with pytest.raises(EngineUnavailableError, match="Install bubblewrap"):
        await engine.check()
    assert not folder.exists()


async def test_program_that_fails_is_told(folder: Path) -> None:
    """What it said, and what may help; its version is never looked at (containers/bubblewrap#632)."""
    # Root's temporary folders are closed to those it runs programs as.
    with tempfile.TemporaryDirectory(prefix="agentkit-", dir="/tmp") as place:
        os.chmod(place, 0o755)
        broken = Path(place) / "bwrap"
        broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
        broken.chmod(0o755)

        with pytest.raises(EngineUnavailableError) as caught:
            await BubblewrapEngine(folder, program=str(broken)).check()

    assert caught.value.tried == ["bubblewrap: bwrap: setting up uid map: Permission denied"]
    assert caught.value.mends


@pytest.mark.parametrize(
    ("setting", "value", "mend"),
    [
        ("kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "user.max_user_namespaces"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "Ubuntu 24.04"),
        ("kernel/apparmor_restrict_unprivileged_userns", "0\n", "Inside a container"),
    ],
)
def test_mend_goes_by_what_bars_it(tmp_path: Path, setting: str, value: str, mend: str) -> None:
    """The setting that keeps it from making user namespaces is named, and how to change it."""
    (tmp_path / setting).parent.mkdir(parents=True)
    (tmp_path / setting).write_text(value)

    [found] = mends_for("bwrap: No permissions to create a new namespace", tmp_path)

    assert mend in found


async def test_it_works_without_any_rights(tmp_path: Path) -> None:
    """An ordinary user makes, uses, saves, restores and removes sandboxes (SPEC 12.10)."""
    python = "/usr/bin/python3"
    if os.geteuid() != 0:
        pytest.skip("all other tests run as an ordinary user already")
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip("an ordinary user has no Python of 3.11 or newer here")
    # Root's temporary folders are closed to others.
    home = Path(f"/tmp/agentkit-{os.getpid()}")
    home.mkdir()
    os.chown(home, 12_345, 12_345)
    script = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
sys.dont_write_bytecode = True
from agentkit.sandbox.bubblewrap_engine import BubblewrapEngine
from tests.sandbox.box import Boxes

async def main():
    engine = BubblewrapEngine()
    boxes = Boxes(engine, store="s", image="")
    box = await boxes.start()
    print(await box.sh("id -u; id -g; echo kept > f; touch barred; chmod 0 barred; ls /home /tmp"))
    await box.save(boxes.snapshot())
    await box.stop()
    await box.start()
    print(await box.sh("cat f"))
    restored = await boxes.restore(boxes.snapshot(), "b", pids=40)
    print(await restored.sh("cat f; ulimit -p; grep -c . /proc/self/uid_map"))
    print(oct(os.stat(os.environ["XDG_STATE_HOME"] + "/agentkit/sandboxes").st_mode & 0o777))
    await boxes.clear()
    print(await engine.instances(), await engine.saved())

asyncio.run(main())
"""
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            [python, "-c", script],
            env={"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
            cwd="/",
            user=12_345,
            group=12_345,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(home)

    assert done.stderr == ""
    assert done.stdout.split("\n") == [
        *("1000", "1000", "/home:", "agent", "", "/tmp:", "kept", "kept", "40", "1", "0o700", "[] []", "")
    ]


async def test_nothing_is_done_before_the_first_call(folder: Path) -> None:
    """Making an engine and looking for what isn't there touches nothing."""
    engine = BubblewrapEngine(folder)

    found: list[Any] = [await engine.find("a"), await engine.instances(), await engine.saved()]
    await engine.stop("a", grace=SECOND)
    await engine.wait("a")
    await engine.close()

    assert found == [None, [], []]
    assert not folder.exists()


async def test_plan_of_another_user_is_mapped(boxes: Boxes) -> None:
    """Whatever number the spec gives is the user's inside, root's too, which is nobody outside."""
    for name, user in (("other", "4321:99"), ("root", "0:0")):
        box = await boxes.start(name, user=user)

        assert await box.sh("echo $(id -u):$(id -g); touch f; stat -c %u:%g f ~") == f"{user}\n{user}\n{user}"
        assert await box.sh("grep CapEff /proc/self/status | tr -d '\\t'") == "CapEff:0000000000000000"
        plan = replace(box.plan)
        assert plan.spec.user == user
