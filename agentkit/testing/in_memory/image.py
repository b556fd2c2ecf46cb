"""What a simulated instance's disk holds when it is made: an image's files, and the directories every sandbox has."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.sandbox.spec import HOME, WORKSPACE
from agentkit.testing.in_memory.disk import ENGINE, Directory, Disk, File, User, above

_DIRECTORIES = ("/bin", "/dev", "/etc", "/home", "/opt", "/run", "/usr/bin", "/usr/local/bin", "/var/tmp")
PROGRAM_DIRECTORIES = ("/bin", "/usr/bin", "/usr/local/bin")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ImageFiles = Mapping[str, str | bytes]


def new_directory(now_ms: int, owner: User = ENGINE, mode: int = 0o755) -> Directory:
    """Return an empty directory."""
    return Directory(owner=owner, mode=mode, modified_at_ms=now_ms)


def image_tree(files: ImageFiles, now_ms: int) -> Directory:
    """Return the tree of an image: a bare Linux, and its files by absolute path."""
    disk = Disk(new_directory(now_ms), lambda: now_ms)
    for path in _DIRECTORIES:
        disk.make_directories(path, ENGINE)
    disk.make_directory("/root", ENGINE, mode=0o700)
    disk.make_directory("/tmp", ENGINE, mode=0o777)
    null = File(owner=ENGINE, mode=0o666, modified_at_ms=now_ms, is_device=True)
    disk.put(disk.place("/dev/null", ENGINE), ENGINE, null)
    disk.write("/etc/passwd", ENGINE, b"root:x:0:0:root:/root:/bin/sh\n")
    for path, content in files.items():
        disk.make_directories(above(path), ENGINE)
        disk.write(path, ENGINE, content.encode() if isinstance(content, str) else content)
    return disk.root


def furnish(disk: Disk, user: User) -> None:
    """Make the user's own directories and those that something is mounted at, whatever the image holds."""
    for path in (HOME, WORKSPACE):
        disk.make_directories(path, ENGINE)
        disk.directory(path, ENGINE).owner = user
    below = Disk(disk.root, lambda: disk.root.modified_at_ms)
    for path in disk.mounts:
        below.make_directories(path, ENGINE)
