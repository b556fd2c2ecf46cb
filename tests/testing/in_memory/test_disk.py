"""The simulated file system does what a real one does, errors included."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.errors import SandboxFileError, SandboxPermissionError
from agentkit.testing.in_memory.disk import ENGINE, READ, Directory, Disk, File, User, copy_tree, tree_size
from agentkit.testing.in_memory.image import new_directory

USER = User(1000, 1000)
# What every example begins with: an empty directory, a full one, a file, a link to the full one, a dangling link.
_BEGINNING = (
    ("mkdir", "empty", None),
    ("mkdir", "full", None),
    ("write", "full/x", b"x"),
    ("write", "file", b"f"),
    ("link", "link", "full"),
    ("link", "dangling", "full/y"),
)
_NAMES = st.sampled_from(["empty", "full", "file", "link", "dangling", "x", "new"])
_PATHS = st.one_of(
    _NAMES,
    st.tuples(_NAMES, _NAMES).map("/".join),
    st.lists(st.one_of(_NAMES, st.sampled_from(["..", "."])), min_size=1, max_size=4).map("/".join),
)
_STEPS = st.one_of(
    st.tuples(st.just("write"), _PATHS, st.binary(max_size=3)),
    st.tuples(st.just("read"), _PATHS, st.none()),
    st.tuples(st.just("mkdir"), _PATHS, st.none()),
    st.tuples(st.just("link"), _PATHS, _PATHS),
    st.tuples(st.just("move"), _PATHS, _PATHS),
    st.tuples(st.just("remove"), _PATHS, st.none()),
    st.tuples(st.just("entries"), _PATHS, st.none()),
    st.tuples(st.just("target"), _PATHS, st.none()),
)


def new_disk() -> Disk:
    """Return an empty disk, all of it the engine's."""
    return Disk(new_directory(0), lambda: 0)


def outcome(step: Callable[[], Any]) -> Any:
    """Return what a step gave, or the number of its error."""
    try:
        return step()
    except OSError as error:
        return OSError, error.errno


def in_memory(disk: Disk, kind: str, path: str, argument: Any) -> Any:
    """Do a step in memory."""
    match kind:
        case "write":
            return disk.write(path, ENGINE, argument)
        case "read":
            return disk.read(path, ENGINE)
        case "mkdir":
            return disk.make_directory(path, ENGINE)
        case "link":
            return disk.make_link(path, ENGINE, argument)
        case "move":
            return disk.move(path, argument, ENGINE)
        case "remove":
            return disk.remove(path, ENGINE)
        case "entries":
            return [(entry.name, entry.type) for entry in disk.entries(path, ENGINE)]
        case "target":
            info = disk.info(path, ENGINE)
            return None if info is None else info.target


def on_disk(kind: str, path: str, argument: Any) -> Any:
    """Do a step in a real directory."""
    match kind:
        case "write":
            with open(path, "wb") as file:
                file.write(argument)
        case "read":
            with open(path, "rb") as file:
                return file.read()
        case "mkdir":
            os.mkdir(path)
        case "link":
            os.symlink(argument, path)
        case "move":
            os.rename(path, argument)
        case "remove":
            return _remove(path)
        case "entries":
            return [(name, _kind(os.lstat(os.path.join(path, name)).st_mode)) for name in sorted(os.listdir(path))]
        case "target":
            return _target(path)


def _remove(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    return True


def _target(path: str) -> str | None:
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None
    except FileNotFoundError:
        return None


def _kind(mode: int) -> str:
    return "directory" if stat.S_ISDIR(mode) else "symlink" if stat.S_ISLNK(mode) else "file"


@settings(deadline=None, max_examples=500)
@given(st.lists(_STEPS, max_size=6))
def test_steps_do_what_they_do_on_a_real_disk(steps: list[tuple[str, str, Any]]) -> None:
    """Whatever is written, linked, moved and removed, results and errors are those of a real file system."""
    disk = new_disk()
    with tempfile.TemporaryDirectory() as folder:
        # Deep enough that no path of a step leads out of it.
        root = "/1/2/3/4/5/6/7/8"
        disk.make_directories(root, ENGINE)
        os.makedirs(folder + root)
        os.chdir(folder + root)
        try:
            for kind, path, argument in (*_BEGINNING, *steps):
                if _names_a_directory_itself(kind, path, argument):
                    continue
                target = f"{root}/{argument}" if kind == "move" else argument
                expected = outcome(lambda: on_disk(kind, path, argument))  # noqa: B023  # called at once
                found = outcome(lambda: in_memory(disk, kind, f"{root}/{path}", target))  # noqa: B023

                assert found == expected, (kind, path, argument)
        finally:
            os.chdir("/")


def _names_a_directory_itself(kind: str, path: str, argument: Any) -> bool:
    """Tell of a change by a path such as ``a/.``, where systems differ in the error that they give."""
    if kind in ("read", "entries", "target"):
        return False
    paths = [path, argument] if kind == "move" else [path]
    return any(one.rpartition("/")[2] in (".", "..") for one in paths)


def test_user_may_do_what_permissions_allow() -> None:
    """Files and directories of others are barred as their modes say; the owner's bits count for the owner alone."""
    disk = new_disk()
    disk.make_directory("/open", ENGINE, mode=0o777)
    disk.make_directory("/shut", ENGINE, mode=0o700)
    disk.write("/shut/f", ENGINE, b"secret")
    disk.write("/f", ENGINE, b"public")
    disk.write("/open/own", USER, b"mine")
    disk.change_mode("/open/own", USER, 0o077)

    for refused in (
        lambda: disk.read("/shut/f", USER),
        lambda: disk.entries("/shut", USER),
        lambda: disk.write("/f", USER, b"x"),
        lambda: disk.write("/new", USER, b"x"),
        lambda: disk.remove("/f", USER),
        lambda: disk.read("/open/own", USER),
        lambda: disk.change_mode("/f", USER, 0o777),
    ):
        with pytest.raises(SandboxPermissionError):
            refused()
    assert disk.read("/f", USER) == b"public"
    assert disk.remove("/open/own", USER)


def test_root_is_bound_by_permissions() -> None:
    """It has no capabilities inside a sandbox (SPEC 12.9)."""
    disk = new_disk()
    disk.make_directory("/home", ENGINE, mode=0o777)
    disk.write("/home/f", USER, b"x")
    disk.change_mode("/home/f", USER, 0o600)

    with pytest.raises(SandboxPermissionError):
        disk.check("/home/f", User(0, 0), READ)


def test_links_in_a_circle_are_an_error() -> None:
    """They end as on a real disk, not never."""
    disk = new_disk()
    disk.make_link("/a", ENGINE, "b")
    disk.make_link("/b", ENGINE, "/a")

    with pytest.raises(SandboxFileError, match="symbolic links"):
        disk.read("/a", ENGINE)


def test_mounted_tree_is_in_the_way_and_not_in_a_copy() -> None:
    """A volume hides what is below it, can't be removed, and is no part of what a snapshot copies (SPEC 12.7)."""
    disk = new_disk()
    disk.make_directories("/data/hidden", ENGINE)
    disk.mounts["/data"] = new_directory(0, USER)
    disk.write("/data/f", USER, b"kept")

    copied = copy_tree(disk.root)

    assert [entry.name for entry in disk.entries("/data", USER)] == ["f"]
    with pytest.raises(SandboxFileError, match="busy"):
        disk.remove("/data", ENGINE)
    assert isinstance(copied, Directory)
    assert tree_size(copied) == 0


def test_copy_has_a_life_of_its_own() -> None:
    """What is changed in one tree isn't changed in the other."""
    disk = new_disk()
    disk.write("/f", ENGINE, b"old")
    copied = copy_tree(disk.root)

    disk.write("/f", ENGINE, b"new")

    assert isinstance(copied, Directory)
    kept = copied.entries["f"]
    assert isinstance(kept, File)
    assert kept.content == b"old"
