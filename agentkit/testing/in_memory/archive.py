"""Trees of a simulated disk as tar archives, and back, refusing what would lead out of the directory."""

from __future__ import annotations

import errno
import io
import posixpath
import tarfile

from agentkit.testing.in_memory.disk import Directory, Disk, File, Link, Node, User, above, failure, join


def pack(disk: Disk, path: str, user: User) -> bytes:
    """Return a tar archive of what is at a path, named by its last part."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        node = disk.find(path, user, follow=False)
        _add(archive, disk, path, node, posixpath.basename(path.rstrip("/")) or ".", user)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, disk: Disk, path: str, node: Node, name: str, user: User) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = node.mode, node.modified_at_ms / 1000
    member.uid, member.gid = node.owner.uid, node.owner.gid
    if isinstance(node, Link):
        member.type, member.linkname = tarfile.SYMTYPE, node.target
        archive.addfile(member)
    elif isinstance(node, Directory):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
        for entry in disk.entries(path, user):
            _add(archive, disk, entry.path, disk.find(entry.path, user, follow=False), f"{name}/{entry.name}", user)
    elif isinstance(node, File) and not node.is_device:
        content = disk.read(path, user)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def unpack(disk: Disk, path: str, content: bytes, user: User) -> None:
    """Unpack a tar archive into a directory, made if need be.

    Raises:
        SandboxFileError: A member would lead out of it, or is neither file, directory nor symbolic link.
    """
    disk.make_directories(path, user)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            if member.name.startswith("/") or ".." in parts:
                raise failure(member.name, errno.EPERM)
            if parts:
                _unpack_member(disk, path, archive, member, "/".join(parts), user=user)


def _unpack_member(
    disk: Disk, path: str, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, *, user: User
) -> None:
    target = join(path, name)
    for depth in range(1, name.count("/") + 1):
        part = join(path, "/".join(name.split("/")[:depth]))
        if disk.exists(part, user, follow=False) and isinstance(disk.find(part, user, follow=False), Link):
            raise failure(part, errno.ENOTDIR)
    disk.make_directories(above(target), user)
    there = disk.place(target, user, follow=False).node
    if member.isdir():
        if there is not None and not isinstance(there, Directory):
            raise failure(target, errno.ENOTDIR)
        disk.make_directories(target, user)
    elif member.issym():
        if isinstance(there, Directory):
            raise failure(target, errno.EISDIR)
        disk.remove(target, user)
        disk.make_link(target, user, member.linkname)
    elif member.isfile():
        source = archive.extractfile(member)
        assert source is not None
        disk.replace(target, user, source.read())
    else:
        raise failure(target, errno.EPERM)
    node = disk.find(target, user, follow=False)
    node.modified_at_ms = round(member.mtime * 1000)
    if not member.issym():
        node.mode = member.mode & 0o7777
