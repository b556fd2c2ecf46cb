"""What every engine does with files: as the sandbox's user, whole or not at all, and never outside."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator

import pytest

from agentkit.errors import (
    SandboxError,
    SandboxFileError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
    SandboxNotADirectoryError,
    SandboxPermissionError,
)
from tests.sandbox.box import Box, pieces
from tests.sandbox.engines import needs


async def test_content_comes_back_as_it_was(box: Box) -> None:
    """Any bytes, in any number of pieces, under any name."""
    guest = await box.inside()
    content = bytes(range(256)) * 5000
    path = "/workspace/new folder/ünï 'quoted' \"$HOME\"\n-rf.bin"

    await guest.write(path, pieces(content, b"", b"tail"))
    await guest.write("/workspace/empty", pieces(b""))

    assert await box.read(path) == content + b"tail"
    assert await box.read("/workspace/empty") == b""


async def test_files_belong_to_the_commands_user(box: Box) -> None:
    """What is written from outside a command can change, and the other way round (trap T13, report 22)."""
    await box.write("/workspace/ours", b"one\n")

    await box.sh("echo two >>ours; echo three >theirs")
    await box.write("/workspace/theirs", b"four")

    assert await box.read("/workspace/ours") == b"one\ntwo\n"
    assert await box.read("/workspace/theirs") == b"four"


async def test_mode_is_kept_or_set(box: Box) -> None:
    """A file has the mode that is asked for, and one that is overwritten keeps the one it has."""
    guest = await box.inside()

    await guest.write("/workspace/run.sh", pieces(b"#!/bin/sh\n"), mode=0o755)
    await guest.write("/workspace/run.sh", pieces(b"#!/bin/sh\nexit 0\n"))

    found = await guest.stat("/workspace/run.sh")
    assert found is not None
    assert (found.type, found.mode, found.size) == ("file", 0o755, 17)


async def test_directory_is_listed_by_name(box: Box) -> None:
    """Files, directories and links come sorted, links as themselves."""
    guest = await box.inside()
    await guest.mkdir("/workspace/d/b")
    await box.write("/workspace/d/c", b"123")
    await box.sh("ln -s /etc/passwd d/a")

    listed = await guest.entries("/workspace/d")

    assert [(entry.name, entry.type) for entry in listed] == [("a", "symlink"), ("b", "directory"), ("c", "file")]
    assert listed[0].target == "/etc/passwd"
    assert listed[2].size == 3
    assert [entry.path for entry in listed] == ["/workspace/d/a", "/workspace/d/b", "/workspace/d/c"]


async def test_walk_goes_all_the_way_down(box: Box) -> None:
    """Everything below a directory is told, and no link is followed."""
    guest = await box.inside()
    await box.write("/workspace/d/x/y/file", b"1")
    await box.sh("ln -s / d/x/root")

    found = {entry.path async for entry in guest.walk("/workspace/d")}

    assert found == {f"/workspace/d/{path}" for path in ("x", "x/y", "x/y/file", "x/root")}


async def test_what_is_not_there_is_told(box: Box) -> None:
    """Reading and listing what isn't there is an error; asking whether it is there is none."""
    guest = await box.inside()

    assert await guest.stat("/workspace/none") is None
    assert await guest.remove("/workspace/none") is False
    with pytest.raises(SandboxFileNotFoundError):
        await box.read("/workspace/none")
    with pytest.raises(SandboxFileNotFoundError):
        await guest.entries("/workspace/none")
    with pytest.raises(SandboxFileNotFoundError):
        await guest.move("/workspace/none", "/workspace/other")


async def test_wrong_kind_is_told(box: Box) -> None:
    """A directory is no file and a file no directory."""
    guest = await box.inside()
    await guest.mkdir("/workspace/d")
    await box.write("/workspace/f", b"")

    with pytest.raises(SandboxIsADirectoryError):
        await box.read("/workspace/d")
    with pytest.raises(SandboxIsADirectoryError):
        await box.write("/workspace/d", b"x")
    with pytest.raises(SandboxNotADirectoryError):
        await guest.entries("/workspace/f")
    with pytest.raises(SandboxFileError):
        await box.write("/workspace/f/g", b"x")


@needs("isolation")
async def test_files_of_others_are_out_of_reach(box: Box) -> None:
    """The user may do what the user may do, from outside too."""
    guest = await box.inside()

    with pytest.raises(SandboxPermissionError):
        await box.write("/etc/passwd", b"root::0:0:::\n")
    # Where the system's files are the host's, it isn't even there.
    with pytest.raises((SandboxPermissionError, SandboxFileNotFoundError)):
        await box.read("/etc/shadow")
    with pytest.raises(SandboxFileError):
        await guest.remove("/usr")


async def test_link_is_replaced_and_never_followed(box: Box) -> None:
    """Writing where a link is leaves what it points to alone; removing one removes the link (report 23)."""
    await box.write("/workspace/target", b"untouched")
    await box.sh("ln -s target link; mkdir d; echo x >d/inside; ln -s d dlink")
    guest = await box.inside()

    await box.write("/workspace/link", b"new")
    await guest.remove("/workspace/dlink")

    assert await box.read("/workspace/target") == b"untouched"
    assert await box.read("/workspace/link") == b"new"
    assert await box.read("/workspace/d/inside") == b"x\n"


async def test_failed_write_changes_nothing(box: Box) -> None:
    """A source that breaks off leaves the old content, and nothing beside it."""
    guest = await box.inside()
    await box.write("/workspace/d/file", b"old")

    async def breaks_off() -> AsyncIterator[bytes]:
        yield b"half of the new"
        raise ValueError

    with pytest.raises(ValueError):
        await guest.write("/workspace/d/file", breaks_off())

    assert await box.read("/workspace/d/file") == b"old"
    assert [entry.name for entry in await guest.entries("/workspace/d")] == ["file"]


async def test_files_are_moved_and_directories_removed(box: Box) -> None:
    """A move replaces a file; a removal takes a directory with all that is in it."""
    guest = await box.inside()
    await box.write("/workspace/a/b/c", b"moved")
    await box.write("/workspace/old", b"old")

    await guest.move("/workspace/a/b/c", "/workspace/old")
    removed = await guest.remove("/workspace/a")

    assert await box.read("/workspace/old") == b"moved"
    assert removed
    assert await guest.stat("/workspace/a") is None


async def test_directory_is_made_once(box: Box) -> None:
    """Making a directory that is there is no error; making one where a file is, is."""
    guest = await box.inside()
    await box.write("/workspace/file", b"")

    await guest.mkdir("/workspace/x/y/z")
    await guest.mkdir("/workspace/x/y/z")
    with pytest.raises(SandboxFileError):
        await guest.mkdir("/workspace/file")

    found = await guest.stat("/workspace/x/y/z")
    assert found is not None
    assert found.type == "directory"


async def test_tree_is_packed_and_unpacked(box: Box) -> None:
    """An archive of a directory, unpacked elsewhere, is the same directory: modes and links too."""
    guest = await box.inside()
    await box.write("/workspace/d/sub/file", b"content")
    await box.sh("chmod 750 d/sub/file; ln -s sub/file d/link")

    packed = b"".join([data async for data in guest.pack("/workspace/d")])
    await guest.unpack("/workspace/copy", pieces(packed))

    found = await guest.stat("/workspace/copy/d/sub/file")
    assert found is not None
    assert (found.mode, found.size) == (0o750, 7)
    link = await guest.stat("/workspace/copy/d/link")
    assert link is not None
    assert link.target == "sub/file"


@pytest.mark.parametrize("name", ["../../home/agent/escaped", "/home/agent/escaped", "link/escaped"])
async def test_archive_cannot_lead_outside(box: Box, name: str) -> None:
    """Members with dots, absolute names, or behind a link stay inside the directory or are refused (trap T13)."""
    guest = await box.inside()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/home/agent"
        archive.addfile(link)
        member = tarfile.TarInfo(name)
        member.size = 4
        archive.addfile(member, io.BytesIO(b"evil"))

    with contextlib.suppress(SandboxError):
        await guest.unpack("/workspace/d", pieces(buffer.getvalue()))

    assert await guest.stat("/home/agent/escaped") is None
