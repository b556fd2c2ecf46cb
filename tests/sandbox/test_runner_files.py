"""Files and archives through a real runner (SPEC 12.4)."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentkit.errors import (
    SandboxConnectionError,
    SandboxError,
    SandboxFileError,
    SandboxFileExistsError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
    SandboxNotADirectoryError,
    SandboxPermissionError,
)
from agentkit.sandbox.runner.runner_guest import RunnerGuest
from tests.sandbox.local_runner import Place, a_guest, a_place, content, eventually

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the runner a user of its own")


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the runner's user."""
    with a_place() as place:
        yield place


@pytest.fixture
async def guest(place: Place) -> AsyncIterator[RunnerGuest]:
    """A runner that serves this test."""
    async with a_guest(place) as guest:
        yield guest


async def read(guest: RunnerGuest, path: Path) -> bytes:
    """Return a whole file."""
    return b"".join([data async for data in guest.read(str(path))])


async def write(guest: RunnerGuest, path: Path, *parts: bytes, mode: int | None = None) -> None:
    """Write a whole file."""
    await guest.write(str(path), content(*parts), mode=mode)


# --- reading and writing


async def test_what_was_written_is_read(place: Place, guest: RunnerGuest) -> None:
    """Megabytes, in pieces of any size, into directories that weren't there, owned by the user."""
    parts = [os.urandom(size) for size in (1, 3_000_000, 70_000, 5)]
    path = place.root / "a/b/file"

    await write(guest, path, *parts)

    assert hashlib.sha256(await read(guest, path)).digest() == hashlib.sha256(b"".join(parts)).digest()
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.stat().st_uid == (os.getuid() if place.user is None else place.user)


async def test_empty_file(place: Place, guest: RunnerGuest) -> None:
    """Nothing is written as nothing."""
    await write(guest, place.root / "empty")

    assert await read(guest, place.root / "empty") == b""


async def test_mode_is_kept_or_given(place: Place, guest: RunnerGuest) -> None:
    """A file that is replaced keeps its permission bits, unless others are asked for."""
    script = Path(place.write("script", "old", mode=0o750))

    await write(guest, script, b"new")
    kept = script.stat().st_mode & 0o777
    await write(guest, script, b"newer", mode=0o600)

    assert (kept, script.stat().st_mode & 0o777, script.read_text()) == (0o750, 0o600, "newer")


async def test_link_is_replaced_never_written_through(place: Place, guest: RunnerGuest) -> None:
    """Whatever a link points at stays as it is."""
    victim = Path(place.write("victim", "precious"))
    (place.root / "link").symlink_to(victim)

    await write(guest, place.root / "link", b"mine")

    assert victim.read_text() == "precious"
    assert not (place.root / "link").is_symlink()
    assert (place.root / "link").read_text() == "mine"


async def test_write_that_fails_half_way_changes_nothing(place: Place, guest: RunnerGuest) -> None:
    """Neither the old content nor the directory shows that it was tried."""
    path = Path(place.write("file", "old"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"new" * 100_000
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await guest.write(str(path), broken())

    assert path.read_text() == "old"
    assert [entry.name for entry in await guest.entries(str(place.root))] == ["file", "run"]


async def test_write_cut_off_with_its_owner_changes_nothing(place: Place) -> None:
    """The end of the channel counts as a write that failed."""
    path = Path(place.write("file", "old"))
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"new"
        begun.set()
        await asyncio.Event().wait()

    async with a_guest(place) as guest:
        writing = asyncio.create_task(guest.write(str(path), endless()))
        await begun.wait()
        await eventually(lambda: len(list(place.root.iterdir())) == 3)

    writing.cancel()
    await asyncio.wait([writing])
    assert sorted(entry.name for entry in place.root.iterdir()) == ["file", "run"]
    assert path.read_text() == "old"


async def test_error_while_content_is_sent_ends_the_sending(place: Place, guest: RunnerGuest) -> None:
    """A source that never ends is left as soon as it is known that nothing can be written."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000

    with pytest.raises(SandboxIsADirectoryError):
        await asyncio.wait_for(guest.write(str(place.root), endless()), 20)


async def test_what_cannot_be_read_is_told_apart(place: Place, guest: RunnerGuest) -> None:
    """Missing, a directory, below a file: errors of the system's kinds too."""
    file = place.write("file", "")

    with pytest.raises(SandboxFileNotFoundError) as caught:
        await read(guest, place.root / "missing")
    with pytest.raises(SandboxIsADirectoryError):
        await read(guest, place.root)
    with pytest.raises(SandboxNotADirectoryError):
        await read(guest, Path(file) / "below")

    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.path == str(place.root / "missing")


@needs_root
async def test_access_that_the_user_has_not_is_refused(place: Place, guest: RunnerGuest) -> None:
    """Whatever the owner may do, the sandbox's user may not."""
    secret = place.root / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)

    with pytest.raises(SandboxPermissionError):
        await read(guest, secret)
    with pytest.raises(SandboxPermissionError):
        await write(guest, Path("/etc/agentkit-test"), b"no")


async def test_pipe_is_refused_rather_than_waited_for(place: Place, guest: RunnerGuest) -> None:
    """Nobody writes to it, and reading would hang the runner."""
    os.mkfifo(place.root / "pipe", 0o666)
    (place.root / "pipe").chmod(0o666)

    with pytest.raises(SandboxFileError, match="no regular file"):
        await asyncio.wait_for(read(guest, place.root / "pipe"), 20)


async def test_reader_that_leaves_costs_nothing(place: Place, guest: RunnerGuest) -> None:
    """A file that is read in part only keeps nobody from the next call."""
    await write(guest, place.root / "file", b"x" * 3_000_000)
    reading = guest.read(str(place.root / "file"))

    first = await anext(reading)
    await reading.aclose()

    assert 0 < len(first) < 3_000_000
    assert await guest.stat(str(place.root)) is not None


# --- directories


async def test_entries_are_told_by_name_with_their_kinds(place: Place, guest: RunnerGuest) -> None:
    """A link is shown as one, with where it leads, and isn't followed."""
    place.write("b-file", "four", mode=0o640)
    (place.root / "a-directory").mkdir()
    (place.root / "c-link").symlink_to("nowhere")
    os.mkfifo(place.root / "d-pipe")

    entries = {entry.name: entry for entry in await guest.entries(str(place.root))}

    assert list(entries) == ["a-directory", "b-file", "c-link", "d-pipe", "run"]
    assert [entry.type for entry in entries.values()] == ["directory", "file", "symlink", "other", "directory"]
    file = entries["b-file"]
    assert (file.path, file.size, file.mode) == (str(place.root / "b-file"), 4, 0o640)
    assert file.modified_at_ms == os.stat(place.root / "b-file").st_mtime_ns // 1_000_000
    assert entries["c-link"].target == "nowhere"


async def test_names_that_are_no_text_are_told_and_taken(place: Place, guest: RunnerGuest) -> None:
    """Linux allows any bytes; what a listing gives can be read."""
    raw = os.fsencode(place.root) + b"/caf\xe9\n2"
    Path(os.fsdecode(raw)).write_bytes(b"found")

    [entry] = [entry for entry in await guest.entries(str(place.root)) if entry.type == "file"]

    assert os.fsencode(entry.path) == raw
    assert await read(guest, Path(entry.path)) == b"found"


async def test_large_directory_comes_in_pieces(place: Place, guest: RunnerGuest) -> None:
    """Thousands of entries are whole and in order."""
    names = [f"file-{number:05}" for number in range(3000)]
    for name in names:
        (place.root / name).touch()

    entries = await guest.entries(str(place.root))

    assert [entry.name for entry in entries] == [*names, "run"]


async def test_stat_tells_what_is_there_or_nothing(place: Place, guest: RunnerGuest) -> None:
    """What is missing, or below a file, is None; a link is itself."""
    file = place.write("file", "1")
    (place.root / "link").symlink_to("file")

    found = await guest.stat(file)
    link = await guest.stat(str(place.root / "link"))

    assert found is not None
    assert (found.type, found.size) == ("file", 1)
    assert link is not None
    assert (link.type, link.target) == ("symlink", "file")
    assert await guest.stat(str(place.root / "missing")) is None
    assert await guest.stat(file + "/below") is None


async def test_walk_yields_all_below_and_follows_no_link(place: Place, guest: RunnerGuest) -> None:
    """More than one page; nothing for a directory that is missing."""
    (place.root / "run" / "deep" / "er").mkdir(parents=True)
    for number in range(1200):
        (place.root / "run/deep/er" / str(number)).touch()
    (place.root / "run/deep/loop").symlink_to(place.root)

    found = {entry.path async for entry in guest.walk(str(place.root / "run/deep"))}
    nothing = [entry async for entry in guest.walk(str(place.root / "missing"))]

    base = str(place.root / "run/deep")
    assert found == {f"{base}/er", f"{base}/loop", *(f"{base}/er/{number}" for number in range(1200))}
    assert nothing == []


async def test_mkdir_makes_all_above_and_is_content_with_what_is_there(place: Place, guest: RunnerGuest) -> None:
    """A file in the way is an error."""
    file = place.write("file", "")

    await guest.mkdir(str(place.root / "x/y/z"))
    await guest.mkdir(str(place.root / "x/y/z"))

    assert (place.root / "x/y/z").is_dir()
    with pytest.raises(SandboxFileExistsError):
        await guest.mkdir(file)
    with pytest.raises(SandboxNotADirectoryError):
        await guest.mkdir(file + "/below")


async def test_move_replaces_a_file(place: Place, guest: RunnerGuest) -> None:
    """And says which of the two paths was wrong."""
    source, target = place.write("new", "new"), place.write("old", "old")

    await guest.move(source, target)

    assert Path(target).read_text() == "new"
    assert not Path(source).exists()
    with pytest.raises(SandboxFileNotFoundError) as caught:
        await guest.move(source, target)
    assert caught.value.path == source


async def test_move_between_disks_carries_everything(place: Place, guest: RunnerGuest) -> None:
    """A rename can't; content, links, permission bits and times are those of the source."""
    if os.stat("/dev/shm").st_dev == os.stat(place.root).st_dev:
        pytest.skip("needs two file systems")
    with a_place() as other:
        shared = Path(f"/dev/shm/{other.root.name}")
        await guest.mkdir(str(place.root / "tree/inner"))
        await write(guest, place.root / "tree/inner/file", b"x" * 2_000_000, mode=0o750)
        (place.root / "tree/link").symlink_to("inner/file")
        moved_at = os.stat(place.root / "tree/inner/file").st_mtime_ns

        await guest.move(str(place.root / "tree"), str(shared))

        assert (shared / "inner/file").stat().st_size == 2_000_000
        assert (shared / "inner/file").stat().st_mode & 0o777 == 0o750
        assert (shared / "inner/file").stat().st_mtime_ns == moved_at
        assert (shared / "link").readlink() == Path("inner/file")
        assert not (place.root / "tree").exists()
        assert await guest.remove(str(shared))
        assert not shared.exists()


async def test_remove_takes_whole_directories_and_follows_no_link(place: Place, guest: RunnerGuest) -> None:
    """What links point at stays, whether they are named or met below."""
    victim = place.root / "victim"
    victim.mkdir()
    (victim / "file").touch()
    (place.root / "tree/deep").mkdir(parents=True)
    (place.root / "tree/deep/link").symlink_to(victim)
    (place.root / "link").symlink_to(victim)
    _give(place, place.root / "tree", place.root / "tree/deep")

    assert await guest.remove(str(place.root / "tree"))
    assert await guest.remove(str(place.root / "link"))
    assert not await guest.remove(str(place.root / "tree"))

    assert (victim / "file").exists()
    assert not (place.root / "tree").exists()


def _give(place: Place, *paths: Path) -> None:
    if place.user is not None:
        for path in paths:
            os.chown(path, place.user, place.user)


# --- archives


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for information, data in members:
            information.size = len(data)
            tar.addfile(information, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    """Return the header of a member."""
    information = tarfile.TarInfo(name)
    information.type = kind
    for field, value in {"mode": 0o755 if kind == tarfile.DIRTYPE else 0o644, **fields}.items():
        setattr(information, field, value)
    return information


async def test_packed_tree_unpacks_to_the_same(place: Place, guest: RunnerGuest) -> None:
    """Content, permission bits, times, links of both kinds, odd names and empty directories."""
    await write(guest, place.root / "tree/déjà vu/file", os.urandom(700_001), mode=0o751)
    await guest.mkdir(str(place.root / "tree/empty"))
    os.link(place.root / "tree/déjà vu/file", place.root / "tree/same")
    (place.root / "tree/link").symlink_to("/usr/bin/python3")
    os.mkfifo(place.root / "tree/pipe")
    os.utime(place.root / "tree/déjà vu/file", ns=(0, 1_700_000_000_123_456_000))

    packed = b"".join([data async for data in guest.pack(str(place.root / "tree"))])
    await guest.unpack(str(place.root / "copy"), content(packed[:1000], packed[1000:]))

    copy = place.root / "copy/tree"
    assert (copy / "déjà vu/file").read_bytes() == (place.root / "tree/déjà vu/file").read_bytes()
    assert (copy / "déjà vu/file").stat().st_mode & 0o777 == 0o751
    assert (copy / "déjà vu/file").stat().st_mtime_ns == 1_700_000_000_123_456_000
    assert (copy / "same").stat().st_ino == (copy / "déjà vu/file").stat().st_ino
    assert (copy / "link").readlink() == Path("/usr/bin/python3")
    assert sorted(path.name for path in copy.iterdir()) == ["déjà vu", "empty", "link", "same"]


async def test_packed_file_is_named_by_its_last_part(place: Place, guest: RunnerGuest) -> None:
    """A link that is named is what it leads to."""
    place.write("file", "content")
    (place.root / "link").symlink_to("file")

    packed = b"".join([data async for data in guest.pack(str(place.root / "link"))])

    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        [only] = tar.getmembers()
        found = tar.extractfile(only)
        assert (only.name, found.read() if found else None) == ("link", b"content")


async def test_pack_of_what_is_missing(place: Place, guest: RunnerGuest) -> None:
    """It is an error, and not an empty archive."""
    with pytest.raises(SandboxFileNotFoundError):
        async for _ in guest.pack(str(place.root / "missing")):
            pass


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([(member("../out"), b"x")], "leads out"),
        ([(member("a/../../out"), b"x")], "leads out"),
        ([(member("PLACE/out"), b"x")], "leads out"),
        ([(member("link", tarfile.SYMTYPE, linkname=".."), b""), (member("link/out"), b"x")], "below the link"),
        ([(member("link", tarfile.LNKTYPE, linkname="../run/lease"), b"")], "leads out"),
        ([(member("null", tarfile.CHRTYPE, devmajor=1, devminor=3), b"")], "neither file"),
        ([(member("pipe", tarfile.FIFOTYPE), b"")], "neither file"),
    ],
)
async def test_archive_cannot_lead_out(
    place: Place, guest: RunnerGuest, members: list[tuple[tarfile.TarInfo, bytes]], reason: str
) -> None:
    """Whatever its members say, nothing is made anywhere else."""
    for information, _ in members:
        information.name = information.name.replace("PLACE", str(place.root))

    with pytest.raises(SandboxError, match=reason):
        await guest.unpack(str(place.root / "target"), content(archive(*members)))

    assert not (place.root / "out").exists()
    assert not (place.root / "target/null").exists()


async def test_unpacked_file_replaces_a_link_and_is_never_written_through_it(place: Place, guest: RunnerGuest) -> None:
    """What lay in the target beforehand leads nowhere either."""
    victim = Path(place.write("victim", "precious"))
    await guest.mkdir(str(place.root / "target"))
    (place.root / "target/name").symlink_to(victim)
    (place.root / "target/directory").symlink_to(place.root)

    await guest.unpack(str(place.root / "target"), content(archive((member("name"), b"new"))))
    with pytest.raises(SandboxError, match="below the link"):
        await guest.unpack(str(place.root / "target"), content(archive((member("directory/victim"), b"new"))))

    assert victim.read_text() == "precious"
    assert (place.root / "target/name").read_text() == "new"


async def test_bits_that_lend_rights_are_dropped(place: Place, guest: RunnerGuest) -> None:
    """An archive can't make a program that runs as its owner; a directory closed to all is filled first."""
    members = [(member("closed", tarfile.DIRTYPE, mode=0o555), b""), (member("closed/su", mode=0o4755), b"x")]

    await guest.unpack(str(place.root / "target"), content(archive(*members)))

    assert (place.root / "target/closed/su").stat().st_mode & 0o7777 == 0o755
    assert (place.root / "target/closed").stat().st_mode & 0o7777 == 0o555


async def test_archive_that_is_cut_off_is_an_error(place: Place, guest: RunnerGuest) -> None:
    """Half an archive is never taken for a whole one."""
    whole = archive((member("first"), b"1" * 2000), (member("second"), b"2" * 2000))

    with pytest.raises(SandboxError, match="unpack"):
        await guest.unpack(str(place.root / "target"), content(whole[:3000]))


async def test_unpacking_ends_with_its_owner(place: Place) -> None:
    """A source that stops in the middle leaves no process."""
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield archive((member("first"), b"1" * 2000))[:1024]
        begun.set()
        await asyncio.Event().wait()

    guest = await place.open()
    unpacking = asyncio.create_task(guest.unpack(str(place.root / "target"), endless()))
    await begun.wait()
    await eventually((place.root / "target").exists)

    # Returns once the runner's process has ended, which waits for that of the archive.
    await guest.close()

    unpacking.cancel()
    await asyncio.wait([unpacking])
    assert unpacking.cancelled() or isinstance(unpacking.exception(), SandboxConnectionError)


async def test_call_that_is_left_before_it_begins_is_answered(place: Place, guest: RunnerGuest) -> None:
    """A source that breaks at once keeps nobody waiting for an answer that never comes."""

    async def broken() -> AsyncIterator[bytes]:
        if place.root:
            raise ValueError("the source broke")
        yield b""

    async with asyncio.timeout(5):
        for _ in range(20):
            with pytest.raises(ValueError, match="the source broke"):
                await guest.write(str(place.root / "file"), broken())

    assert [entry.name for entry in await guest.entries(str(place.root))] == ["run"]


async def test_unpacking_that_is_left_leaves_no_half_file(place: Place, guest: RunnerGuest) -> None:
    """A member that was under way is removed, though those before it stay."""
    whole = archive((member("first"), b"1" * 2000), (member("second"), b"2" * 500_000))

    async def broken() -> AsyncIterator[bytes]:
        yield whole[:300_000]
        await eventually(lambda: len(list((place.root / "target").iterdir())) == 2)
        raise ValueError("the source broke")

    (place.root / "target").mkdir()
    _give(place, place.root / "target")
    with pytest.raises(ValueError, match="the source broke"):
        await guest.unpack(str(place.root / "target"), broken())

    assert [path.name for path in (place.root / "target").iterdir()] == ["first"]
