"""A file system in memory: paths to nodes, with the links, permissions and errors of a real one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from agentkit.errors import SandboxFileError
from agentkit.sandbox.guest import FileInfo, FileType

READ, WRITE, SEARCH = 4, 2, 1
#: As Linux does.
_MOST_LINKS = 40
_DIRECTORY_SIZE = 4096


class User(NamedTuple):
    """Who acts; the engine itself may do anything."""

    uid: int
    gid: int
    is_engine: bool = False


ENGINE = User(0, 0, is_engine=True)


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """What every kind of file has."""

    owner: User
    mode: int
    modified_at_ms: int


@dataclass(slots=True, eq=False, kw_only=True)
class File(Node):
    """A plain file; a device swallows what is written."""

    content: bytes = b""
    is_device: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Directory(Node):
    """A directory; its entries by name."""

    entries: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False, kw_only=True)
class Link(Node):
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path leads: its directory, its name in there, and what is there now."""

    parent: Directory
    name: str
    node: Node | None
    path: str


class Disk:
    """A tree of nodes, with other trees mounted in it; every call says as whom it acts.

    Root is bound by permissions, too: it has no capabilities inside a sandbox.

    Attributes:
        root: The tree that a snapshot holds.
        mounts: Trees that it doesn't hold, by path: volumes and ``/run``.
    """

    def __init__(self, root: Directory, now_ms: Callable[[], int]) -> None:
        self.root = root
        self.mounts: dict[str, Directory] = {}
        self._now_ms = now_ms

    # looking

    def place(self, path: str, user: User, *, follow: bool = True) -> Place:
        """Return where an absolute path leads; with ``follow`` through a link at its end, too.

        Raises:
            SandboxFileError: A directory on the way is missing, is none, or may not be searched.
        """
        parts = path.split("/")[::-1]
        # A path such as "a/" or "a/." means the directory itself.
        is_directory = parts[0] in ("", ".")
        trail: list[tuple[str, Directory]] = [("", self.root)]
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del trail[max(len(trail) - 1, 1) :]
                continue
            self._require(trail[-1][1], user, SEARCH, path)
            here = "/".join([name for name, _ in trail] + [part])
            node = self.mounts.get(here) or trail[-1][1].entries.get(part)
            is_last = all(later in ("", ".") for later in parts)
            if isinstance(node, Link) and (follow or is_directory or not is_last):
                links += 1
                if links > _MOST_LINKS:
                    raise failure(path, errno.ELOOP)
                del trail[1 if node.target.startswith("/") else len(trail) :]
                parts += node.target.split("/")[::-1]
            elif is_last and (node is None or isinstance(node, Directory) or not is_directory):
                return Place(parent=trail[-1][1], name=part, node=node, path=here)
            elif node is None:
                raise failure(path, errno.ENOENT)
            elif not isinstance(node, Directory):
                raise failure(path, errno.ENOTDIR)
            else:
                trail.append((part, node))
        above = trail[-2][1] if len(trail) > 1 else self.root
        here = "/".join(name for name, _ in trail) or "/"
        return Place(parent=above, name=trail[-1][0], node=trail[-1][1], path=here)

    def find(self, path: str, user: User, *, follow: bool = True) -> Node:
        """Return what is at a path.

        Raises:
            SandboxFileError: Nothing is there, or the way there is barred.
        """
        node = self.place(path, user, follow=follow).node
        if node is None:
            raise failure(path, errno.ENOENT)
        return node

    def exists(self, path: str, user: User, *, follow: bool = True) -> bool:
        """Tell whether something is at a path."""
        try:
            return self.place(path, user, follow=follow).node is not None
        except (FileNotFoundError, NotADirectoryError):
            return False

    def directory(self, path: str, user: User) -> Directory:
        """Return the directory at a path."""
        node = self.find(path, user)
        if not isinstance(node, Directory):
            raise failure(path, errno.ENOTDIR)
        return node

    def info(self, path: str, user: User) -> FileInfo | None:
        """Return what is at a path, or None; a link is not followed."""
        try:
            node = self.place(path, user, follow=False).node
        except FileNotFoundError:
            return None
        return None if node is None else _info(path, node)

    def entries(self, path: str, user: User) -> list[FileInfo]:
        """Return what a directory holds, by name."""
        directory = self.directory(path, user)
        self._require(directory, user, READ, path)
        return [_info(join(path, name), directory.entries[name]) for name in sorted(directory.entries)]

    def read(self, path: str, user: User) -> bytes:
        """Return a file's content."""
        node = self.find(path, user)
        if isinstance(node, Directory):
            raise failure(path, errno.EISDIR)
        self._require(node, user, READ, path)
        return node.content if isinstance(node, File) else b""

    # changing

    def write(self, path: str, user: User, content: bytes, *, append: bool = False) -> None:
        """Write into a file as a program does: in place, through links; one that is missing is made."""
        place = self.place(path, user)
        if place.node is None:
            self.put(place, user, File(owner=user, mode=0o644, modified_at_ms=self._now_ms(), content=content))
            return
        if not isinstance(place.node, File):
            raise failure(path, errno.EISDIR)
        self._require(place.node, user, WRITE, path)
        if not place.node.is_device:
            place.node.content = place.node.content + content if append else content
            place.node.modified_at_ms = self._now_ms()

    def replace(self, path: str, user: User, content: bytes, *, mode: int | None = None) -> None:
        """Put a new file in the place of what is there, keeping its mode unless one is given."""
        place = self.place(path, user, follow=False)
        if isinstance(place.node, Directory):
            raise failure(path, errno.EISDIR)
        kept = place.node.mode if isinstance(place.node, File) else 0o644
        chosen = kept if mode is None else mode & 0o7777
        self.put(place, user, File(owner=user, mode=chosen, modified_at_ms=self._now_ms(), content=content))

    def make_directory(self, path: str, user: User, *, mode: int = 0o755) -> None:
        """Make a directory."""
        place = self.place(path, user, follow=False)
        if place.node is not None:
            raise failure(path, errno.EEXIST)
        self.put(place, user, Directory(owner=user, mode=mode, modified_at_ms=self._now_ms()))

    def make_directories(self, path: str, user: User) -> None:
        """Make a directory and those above it; no error if it is there."""
        try:
            node = self.place(path, user).node
        except FileNotFoundError:
            self.make_directories(above(path), user)
            node = None
        if node is None:
            self.make_directory(path, user)
        elif not isinstance(node, Directory):
            raise failure(path, errno.EEXIST)

    def make_link(self, path: str, user: User, target: str) -> None:
        """Make a symbolic link."""
        place = self.place(path, user, follow=False)
        if place.node is not None:
            raise failure(path, errno.EEXIST)
        self.put(place, user, Link(owner=user, mode=0o777, modified_at_ms=self._now_ms(), target=target))

    def move(self, source: str, target: str, user: User) -> None:
        """Rename, as ``rename(2)`` does."""
        old, new = self.place(source, user, follow=False), self.place(target, user, follow=False)
        if old.node is None:
            raise failure(source, errno.ENOENT)
        if old.node is new.node:
            return
        if new.path.startswith(old.path + "/"):
            raise failure(target, errno.EINVAL)
        if old.path.startswith(new.path + "/"):
            raise failure(target, errno.ENOTEMPTY)
        if isinstance(new.node, Directory):
            if not isinstance(old.node, Directory):
                raise failure(target, errno.EISDIR)
            if new.node.entries:
                raise failure(target, errno.ENOTEMPTY)
        elif new.node is not None and isinstance(old.node, Directory):
            raise failure(target, errno.ENOTDIR)
        self._require(old.parent, user, WRITE, source)
        self.put(new, user, old.node)
        del old.parent.entries[old.name]

    def remove(self, path: str, user: User) -> bool:
        """Remove a file or a whole directory, following no link; False if there was none."""
        try:
            place = self.place(path, user, follow=False)
        except FileNotFoundError:
            return False
        if place.node is None:
            return False
        if place.node is self.root or place.path in self.mounts:
            raise failure(path, errno.EBUSY)
        if isinstance(place.node, Directory):
            for name in list(place.node.entries):
                self.remove(join(path, name), user)
        self._require(place.parent, user, WRITE, path)
        del place.parent.entries[place.name]
        return True

    def change_mode(self, path: str, user: User, mode: int) -> None:
        """Set the permission bits of what is the user's own."""
        node = self.find(path, user)
        if node.owner.uid != user.uid:
            raise failure(path, errno.EPERM)
        node.mode = mode & 0o7777

    def put(self, place: Place, user: User, node: Node) -> None:
        """Put a node where a path leads."""
        if place.path in self.mounts or place.node is self.root:
            raise failure(place.path, errno.EBUSY)
        self._require(place.parent, user, WRITE | SEARCH, place.path)
        place.parent.entries[place.name] = node
        place.parent.modified_at_ms = self._now_ms()

    def check(self, path: str, user: User, bits: int) -> None:
        """Make sure that a user may do something with what is at a path."""
        self._require(self.find(path, user), user, bits, path)

    def _require(self, node: Node, user: User, bits: int, path: str) -> None:
        if user.is_engine:
            return
        shift = 6 if node.owner.uid == user.uid else 3 if node.owner.gid == user.gid else 0
        if (node.mode >> shift) & bits != bits:
            raise failure(path, errno.EACCES)


def copy_tree(node: Node) -> Node:
    """Return a copy of a node and everything below it."""
    match node:
        case Directory(entries=entries):
            copies = {name: copy_tree(entry) for name, entry in entries.items()}
            return Directory(owner=node.owner, mode=node.mode, modified_at_ms=node.modified_at_ms, entries=copies)
        case Link(target=target):
            return Link(owner=node.owner, mode=node.mode, modified_at_ms=node.modified_at_ms, target=target)
        case File(content=content, is_device=is_device):
            return File(
                owner=node.owner,
                mode=node.mode,
                modified_at_ms=node.modified_at_ms,
                content=content,
                is_device=is_device,
            )
    message = f"no kind of file: {node!r}"
    raise TypeError(message)


def tree_size(node: Node) -> int:
    """Return the bytes of all files at and below a node."""
    if isinstance(node, Directory):
        return sum(tree_size(entry) for entry in node.entries.values())
    return len(node.content) if isinstance(node, File) else 0


def join(directory: str, path: str) -> str:
    """Return a path, which may be relative to a directory, as an absolute one."""
    return path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def above(path: str) -> str:
    """Return the path of the directory that holds this one."""
    return path.rstrip("/").rpartition("/")[0] or "/"


def failure(path: str, number: int) -> SandboxFileError:
    """Return the error that a real file system gives."""
    return SandboxFileError.of(path, number, os.strerror(number))


def _info(path: str, node: Node) -> FileInfo:
    kind: FileType = "directory" if isinstance(node, Directory) else "symlink" if isinstance(node, Link) else "file"
    size = len(node.content) if isinstance(node, File) else _DIRECTORY_SIZE if kind == "directory" else 0
    target = node.target if isinstance(node, Link) else None
    if isinstance(node, File) and node.is_device:
        kind = "other"
    return FileInfo(
        path=path,
        type=kind,
        size=len(target) if target is not None else size,
        mode=node.mode,
        modified_at_ms=node.modified_at_ms,
        target=target,
    )
