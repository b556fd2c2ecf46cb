"""Files and directories between the host and a sandbox."""

from __future__ import annotations

import asyncio
import os
import socket
import tracemalloc
from contextlib import aclosing
from pathlib import Path

import pytest

from agentkit.errors import QuotaError, SandboxFileError, SandboxFileNotFoundError, SandboxNotADirectoryError
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.transfer.extract import TransferLimits, extract
from agentkit.sandbox.transfer.host_archive import archive_of, content_of
from agentkit.sandbox.transfer.host_file import write_host_file
from agentkit.sandbox.transfer.transfer import download, upload
from tests.sandbox.small_guests import in_memory_guest, read_all


@pytest.fixture
async def guest() -> Guest:
    """Return an instance in memory."""
    return await in_memory_guest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory of the host with a bit of everything."""
    project = tmp_path / "project"
    (project / "source").mkdir(parents=True)
    (project / "empty").mkdir()
    (project / "source" / "run.sh").write_text("#!/bin/sh\n")
    (project / "source" / "run.sh").chmod(0o755)
    (project / "größe 1.bin").write_bytes(bytes(range(256)) * 5000)
    (project / "inner").symlink_to("source/run.sh")
    (project / "outer").symlink_to("/etc/hostname")
    (project / "directory").symlink_to("source")
    os.mkfifo(project / "pipe")
    return project


async def names(guest: Guest, path: str) -> list[str]:
    """Return what is below a directory inside."""
    return sorted([entry.path.removeprefix(path + "/") async for entry in guest.walk(path)])


async def test_directory_goes_in(guest: Guest, project: Path) -> None:
    """Files, directories and links arrive, with their permission bits and times; pipes are left out."""
    await upload(guest, project, "/workspace/deep/copy")

    assert await names(guest, "/workspace/deep/copy") == [
        "directory",
        "empty",
        "größe 1.bin",
        "inner",
        "outer",
        "source",
        "source/run.sh",
    ]
    assert await read_all(guest, "/workspace/deep/copy/größe 1.bin") == bytes(range(256)) * 5000
    script = await guest.stat("/workspace/deep/copy/source/run.sh")
    outer = await guest.stat("/workspace/deep/copy/outer")
    assert script is not None
    assert outer is not None
    assert script.mode == 0o755
    assert script.modified_at_ms == int((project / "source" / "run.sh").stat().st_mtime) * 1000
    assert outer.target == "/etc/hostname"


async def test_file_goes_in_and_replaces(guest: Guest, tmp_path: Path) -> None:
    """A file gets the name that is asked for; an upload of a directory adds to one that is there."""
    (tmp_path / "a").write_text("first")
    (tmp_path / "b").write_text("second")

    await upload(guest, tmp_path / "a", "/workspace/file")
    await upload(guest, tmp_path / "b", "/workspace/file")
    await upload(guest, tmp_path, "/workspace")

    assert await read_all(guest, "/workspace/file") == b"second"
    assert await names(guest, "/workspace") == ["a", "b", "file"]


async def test_link_that_was_named_is_followed(guest: Guest, project: Path) -> None:
    """What the user names may be a link, on both sides."""
    (project.parent / "named").symlink_to(project / "source")

    await upload(guest, project.parent / "named", "/workspace/source")
    await upload(guest, project / "inner", "/workspace/file")

    assert await names(guest, "/workspace") == ["file", "source", "source/run.sh"]


async def test_nothing_is_followed_out_of_the_tree(guest: Guest, tmp_path: Path) -> None:
    """A link below the directory brings no file of elsewhere into the sandbox."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "secret")

    await upload(guest, tmp_path / "tree", "/workspace/tree")

    assert await names(guest, "/workspace/tree") == ["link"]


async def test_what_is_missing_on_the_host_changes_nothing(guest: Guest, tmp_path: Path) -> None:
    """The error is the host's own, and nothing is made inside."""
    with pytest.raises(FileNotFoundError):
        await upload(guest, tmp_path / "missing", "/workspace/deep/file")

    assert await names(guest, "/workspace") == []


async def test_directory_replaces_no_file(guest: Guest, project: Path) -> None:
    """A directory can't go where a file is."""
    await upload(guest, project / "inner", "/workspace/file")

    with pytest.raises(SandboxNotADirectoryError):
        await upload(guest, project, "/workspace/file")
    with pytest.raises(SandboxFileError):
        await upload(guest, project, "/")


async def test_special_file_is_refused(guest: Guest, tmp_path: Path) -> None:
    """A socket or pipe that is named is an error and holds nobody up."""
    os.mkfifo(tmp_path / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))

    for name in ("pipe", "socket"):
        with pytest.raises(OSError):
            await upload(guest, tmp_path / name, "/workspace/file")

    listener.close()
    assert await names(guest, "/workspace") == []


async def test_directory_comes_out(guest: Guest, project: Path, tmp_path: Path) -> None:
    """What went in comes out, but for links that lead out of the directory."""
    await upload(guest, project, "/workspace/project")

    result = await download(guest, "/workspace/project", tmp_path / "new" / "out")

    out = tmp_path / "new" / "out"
    assert (out / "source" / "run.sh").read_text() == "#!/bin/sh\n"
    assert os.access(out / "source" / "run.sh", os.X_OK)
    assert (out / "größe 1.bin").read_bytes() == bytes(range(256)) * 5000
    assert os.readlink(out / "inner") == "source/run.sh"
    assert (out / "empty").is_dir()
    assert not (out / "outer").is_symlink()
    assert result.left_out == ("outer",)
    assert result.files == 2


async def test_file_comes_out(guest: Guest, tmp_path: Path) -> None:
    """A file, or what a link to one leads to, becomes the file that was named; one that is there is replaced."""
    (tmp_path / "in").write_text("hello")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link").symlink_to("../in")
    await upload(guest, tmp_path / "in", "/workspace/in")
    await upload(guest, tmp_path / "links", "/workspace/links")
    (tmp_path / "out").write_text("old")

    await download(guest, "/workspace/in", tmp_path / "out")
    await download(guest, "/workspace/links/link", tmp_path / "deep" / "linked")

    assert (tmp_path / "out").read_text() == "hello"
    assert (tmp_path / "deep" / "linked").read_text() == "hello"


async def test_what_is_missing_inside_is_an_error(guest: Guest, tmp_path: Path) -> None:
    """Also if it is only the end of a link, or a link to itself."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "dead").symlink_to("nowhere")
    (tmp_path / "links" / "round").symlink_to("round")
    await upload(guest, tmp_path / "links", "/workspace/links")

    for path in ("/workspace/nowhere", "/workspace/links/dead"):
        with pytest.raises(SandboxFileNotFoundError):
            await download(guest, path, tmp_path / "out")
    with pytest.raises(SandboxFileError):
        await download(guest, "/workspace/links/round", tmp_path / "out")

    assert not (tmp_path / "out").exists()


async def test_download_is_bounded(guest: Guest, project: Path, tmp_path: Path) -> None:
    """More than the caller takes is an error that names the limit."""
    await upload(guest, project, "/workspace/project")

    with pytest.raises(QuotaError, match="max_bytes"):
        await download(guest, "/workspace/project", tmp_path / "out", limits=TransferLimits(max_bytes=100_000))


async def test_large_files_take_little_memory(tmp_path: Path) -> None:
    """A file is never in memory as a whole, neither on its way in nor out, alone or in a directory."""
    (tmp_path / "from").mkdir()
    with (tmp_path / "from" / "large").open("wb") as large:
        large.truncate(64 << 20)
    tracemalloc.start()

    async with aclosing(archive_of(tmp_path / "from", "top")) as archive:
        result = await extract(archive, tmp_path / "to")
    async with aclosing(content_of(tmp_path / "from" / "large")) as content:
        size = await write_host_file(tmp_path / "copy", content, mode=0o600, max_bytes=64 << 20)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.size == size == 64 << 20
    assert peak < 8 << 20


async def test_file_that_is_cut_off_leaves_what_was_there(guest: Guest, tmp_path: Path) -> None:
    """A file on the host is replaced whole or not at all, and no link in its place is followed."""
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "out").symlink_to("kept")
    (tmp_path / "large").write_bytes(bytes(1000))
    await upload(guest, tmp_path / "large", "/workspace/large")

    with pytest.raises(QuotaError, match="max_bytes=999"):
        await download(guest, "/workspace/large", tmp_path / "out", limits=TransferLimits(max_bytes=999))
    before = sorted(os.listdir(tmp_path))
    await download(guest, "/workspace/large", tmp_path / "out")

    assert before == ["kept", "large", "out"]
    assert (tmp_path / "kept").read_text() == "kept"
    assert (tmp_path / "out").read_bytes() == bytes(1000)
    with pytest.raises(IsADirectoryError):
        await download(guest, "/workspace/large", tmp_path)
    with pytest.raises(IsADirectoryError):
        await download(guest, "/workspace/large", tmp_path / "..")


async def test_upload_that_is_given_up_closes_its_files(tmp_path: Path) -> None:
    """Nothing stays open when the sandbox takes no more."""
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(bytes(1 << 20))
    before = len(os.listdir("/proc/self/fd"))

    archive = archive_of(tmp_path, "top")
    await anext(archive)
    await archive.aclose()

    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) != before:
            await asyncio.sleep(0.01)
