"""Archives that came out of a sandbox, unpacked onto the host."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit.errors import QuotaError, SandboxError, SandboxStoppedError
from agentkit.sandbox.transfer.extract import TransferLimits, Transferred, extract, stays_inside

Made = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"x", *, mode: int = 0o644) -> Made:
    """Return a file for an archive."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), mode, 1_000_000_000
    return member, content


def other(name: str, kind: bytes, target: str = "") -> Made:
    """Return something else for an archive."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member, b""


def link(name: str, target: str) -> Made:
    """Return a symbolic link for an archive."""
    return other(name, tarfile.SYMTYPE, target)


def directory(name: str) -> Made:
    """Return a directory for an archive."""
    return other(name, tarfile.DIRTYPE)


def archive_with(*members: Made) -> bytes:
    """Return an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """Yield an archive as it may come."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def unpack(target: Path, *members: Made, limits: TransferLimits | None = None) -> Transferred:
    """Unpack an archive of a directory ``top`` with these members."""
    return await extract(pieces(archive_with(directory("top"), *members)), target, limits=limits)


def tree(root: Path) -> dict[str, str]:
    """Return what is below a directory: what files hold, where links lead."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        else:
            found[name] = "/" if path.is_dir() else path.read_text()
    return found


async def test_directory_comes_whole(tmp_path: Path) -> None:
    """Files, directories, links within, permission bits and times are those of the archive."""
    target = tmp_path / "new" / "target"

    result = await unpack(
        target,
        file("top/a.txt", b"hello"),
        directory("top/empty"),
        file("top/deep/er/run.sh", b"x" * 5000, mode=0o777),
        link("top/deep/link", "../a.txt"),
        other("top/same", tarfile.LNKTYPE, "top/a.txt"),
        file("top/" + "long" * 50 + "/name", b""),
    )

    assert tree(target) == {
        "a.txt": "hello",
        "deep": "/",
        "deep/er": "/",
        "deep/er/run.sh": "x" * 5000,
        "deep/link": "-> ../a.txt",
        "empty": "/",
        "long" * 50: "/",
        "long" * 50 + "/name": "",
        "same": "hello",
    }
    assert (target / "deep/er/run.sh").stat().st_mode & 0o7777 == 0o755
    assert (target / "a.txt").stat().st_mtime == 1_000_000_000
    assert result == Transferred(files=4, size=5010)


@pytest.mark.parametrize("name", ["top/../../evil", "../evil", "/etc/evil", "top/a/../../../evil", "..", "top/.."])
async def test_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written outside, whatever a member is called (report 23)."""
    target = tmp_path / "target"

    with pytest.raises(SandboxError, match="leads out"):
        await unpack(target, file(name))

    assert tree(tmp_path) == {"target": "/"}


@pytest.mark.parametrize(
    "made",
    [
        link("top/a", "/etc"),
        link("top/a", ".."),
        link("top/d/a", "../../.."),
        link("top/a", "d/../.."),
        other("top/a", tarfile.FIFOTYPE),
        other("top/a", tarfile.CHRTYPE),
        other("top/a", tarfile.BLKTYPE),
    ],
)
async def test_what_must_not_be_made_is_left_out(tmp_path: Path, made: Made) -> None:
    """Links that lead out, pipes and devices are named in the result and not written; the rest comes."""
    result = await unpack(tmp_path / "target", made, file("top/b"))

    assert len(result.left_out) == 1
    assert tree(tmp_path) == {"target": "/", "target/b": "x"}


async def test_link_of_the_archive_is_not_followed(tmp_path: Path) -> None:
    """A link that the archive made first leads no later member anywhere."""
    with pytest.raises(NotADirectoryError):
        await unpack(tmp_path, directory("top/d"), link("top/a", "d"), file("top/a/evil"))

    assert tree(tmp_path) == {"d": "/", "a": "-> d"}


async def test_links_of_the_host_are_not_followed(tmp_path: Path) -> None:
    """A link in the target is replaced by a file of its name, and a member below it is refused (report 23)."""
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (outside / "kept").write_text("kept")
    (target / "file").symlink_to(outside / "kept")
    (target / "directory").symlink_to(outside)

    await unpack(target, file("top/file", b"new"))
    with pytest.raises(NotADirectoryError):
        await unpack(target, file("top/directory/kept", b"evil"))

    assert (outside / "kept").read_text() == "kept"
    assert not (target / "file").is_symlink()
    assert (target / "file").read_text() == "new"


async def test_hard_link_reads_nothing_of_the_host(tmp_path: Path) -> None:
    """A hard link may only be to a file of the same archive."""
    (tmp_path / "secret").write_text("secret")

    with pytest.raises(SandboxError, match="isn't in it"):
        await unpack(tmp_path, other("top/a", tarfile.LNKTYPE, "top/secret"))

    assert tree(tmp_path) == {"secret": "secret"}


async def test_file_replaces_no_directory(tmp_path: Path) -> None:
    """What is there stays, and nothing unfinished is left."""
    (tmp_path / "a").mkdir()

    with pytest.raises(IsADirectoryError):
        await unpack(tmp_path, file("top/a"))

    assert tree(tmp_path) == {"a": "/"}


async def test_too_many_files_are_refused(tmp_path: Path) -> None:
    """The number of members is bounded, and the error names the limit."""
    members = [file(f"top/{number}") for number in range(10)]

    with pytest.raises(QuotaError, match="max_files=5"):
        await unpack(tmp_path, *members, limits=TransferLimits(max_files=5))


async def test_too_large_files_are_refused(tmp_path: Path) -> None:
    """The size counts over all files, hard links included, before a file is written."""
    members = [file("top/a", b"x" * 600), other("top/b", tarfile.LNKTYPE, "top/a")]

    with pytest.raises(QuotaError, match="max_bytes=1,000"):
        await unpack(tmp_path, *members, limits=TransferLimits(max_bytes=1000))

    assert list(tree(tmp_path)) == ["a"]


def endless(kind: bytes, size: int) -> bytes:
    """Return a header that promises so much."""
    member = tarfile.TarInfo("top/a")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


async def test_endless_path_is_refused(tmp_path: Path) -> None:
    """A name of a megabyte doesn't become half a million directories."""
    with pytest.raises(SandboxError, match="a path of"):
        await unpack(tmp_path, directory("top/" + "a/" * 100_000))

    assert tree(tmp_path) == {}


async def test_what_was_left_out_takes_little_memory(tmp_path: Path) -> None:
    """However many links lead out, only some are named."""
    result = await unpack(tmp_path, *(link(f"top/{number}", "/etc") for number in range(1500)))

    assert len(result.left_out) == 1000


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
async def test_header_without_end_takes_no_memory(tmp_path: Path, kind: bytes) -> None:
    """A header of gigabytes is refused after the first of them that matter."""
    given = 0

    async def archive() -> AsyncIterator[bytes]:
        nonlocal given
        yield endless(kind, 4 << 30)
        for _ in range(1000):
            given += 1 << 20
            yield bytes(1 << 20)

    with pytest.raises(SandboxError, match="without end"):
        await extract(archive(), tmp_path)

    assert given < 16 << 20


async def test_sparse_file_is_left_out(tmp_path: Path) -> None:
    """A file of a terabyte in a kilobyte is not written out."""
    member = tarfile.TarInfo("top/a")
    member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40), "GNU.sparse.name": "top/a"}

    result = await extract(pieces(archive_with((member, b""), file("top/b"))), tmp_path)

    assert result.left_out == ("a",)
    assert tree(tmp_path) == {"b": "x"}


@pytest.mark.parametrize("content", [b"", b"no archive at all" * 100, archive_with(file("top/a", b"x" * 5000))[:3000]])
async def test_what_is_no_whole_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    """Nothing of a file whose rest is missing appears."""
    with pytest.raises(SandboxError, match="no whole archive"):
        await extract(pieces(content), tmp_path)

    assert tree(tmp_path) == {}


async def test_negative_size_is_refused(tmp_path: Path) -> None:
    """A size below zero, with which readers have turned in circles, is an error."""
    member = tarfile.TarInfo("top/a")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 8 + (2**32 - 1024).to_bytes(4, "big")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))

    with pytest.raises(SandboxError, match="negative size"):
        await extract(pieces(bytes(header) + bytes(1024)), tmp_path)


async def test_error_of_the_sandbox_ends_it(tmp_path: Path) -> None:
    """When the instance stops half-way its error is raised, and nothing unfinished is left."""
    content = archive_with(file("top/a", b"a"), file("top/b", b"b" * 100_000))

    async def stopping() -> AsyncIterator[bytes]:
        yield content[:50_000]
        raise SandboxStoppedError("stopped")

    with pytest.raises(SandboxStoppedError):
        await extract(stopping(), tmp_path)

    assert tree(tmp_path) == {"a": "a"}


async def test_cancelling_leaves_nothing_unfinished(tmp_path: Path) -> None:
    """A cancelled download has ended when its caller goes on."""
    content = archive_with(file("top/a", b"a"), file("top/b", b"b" * 100_000))
    is_waiting = asyncio.Event()

    async def waiting() -> AsyncIterator[bytes]:
        yield content[:50_000]
        is_waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(extract(waiting(), tmp_path))
    await is_waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [name for name in tree(tmp_path) if name != "a"] == []


@pytest.mark.parametrize(
    ("target", "depth", "stays"),
    [
        ("a", 0, True),
        ("./a//b", 0, True),
        ("../a", 0, False),
        ("../a", 1, True),
        ("../../a", 1, False),
        ("a/../b", 3, False),
        ("/a", 3, False),
        ("..", 1, True),
        ("", 0, True),
        ("a", -1, False),
    ],
)
def test_links_that_stay_inside(target: str, depth: int, stays: bool) -> None:
    """Only what can't lead out, whatever the names on the way are, stays."""
    assert stays_inside(target, depth=depth) is stays
