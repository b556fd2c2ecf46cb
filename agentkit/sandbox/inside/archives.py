"""Whole trees as tar archives: packed as they are sent, unpacked by a process of its own as they come."""

from __future__ import annotations

import os
import signal
import stat

from agentkit.sandbox.inside.calls import Call, RefusedError, refused_file
from agentkit.sandbox.inside.files import open_regular, unfinished_name
from agentkit.sandbox.inside.loop import Loop
from agentkit.sandbox.inside.spawn import Children
from agentkit.sandbox.inside.streams import feed, read_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterator
    from typing import Any


class Archives:
    """Carries out ``pack`` and ``unpack``."""

    def __init__(self, loop: Loop, children: Children) -> None:
        self._loop = loop
        self._children = children

    async def pack(self, call: Call) -> dict[str, Any]:
        """Send an archive of a file or directory; pipes, sockets and devices are left out."""
        import tarfile

        path = call.request["path"]
        try:
            top = os.path.realpath(path)
            os.stat(top)
            # Only asked to describe files: it knows hard links. What it is written to stays empty.
            with tarfile.open(os.devnull, "w", format=tarfile.PAX_FORMAT) as archive:
                for found in _below(top):
                    name = os.path.join(os.path.basename(path) or ".", os.path.relpath(found, top))
                    await self._pack_one(call, archive, found, os.path.normpath(name))
        except OSError as error:
            raise refused_file(error, error.filename or path) from error
        await call.output.send_all(b"\0" * tarfile.RECORDSIZE)
        return {"sent": [call.output.sent]}

    async def _pack_one(self, call: Call, archive: tarfile.TarFile, path: str, name: str) -> None:
        try:
            member: tarfile.TarInfo | None = archive.gettarinfo(path, name)
        except FileNotFoundError:
            return
        # None stands for a socket.
        if member is None or not (member.isreg() or member.isdir() or member.islnk() or member.issym()):
            return
        descriptor = open_regular(path) if member.isreg() else -1
        try:
            await call.output.send_all(member.tobuf(archive.format, "utf-8", "surrogateescape"))
            if member.isreg():
                await self._send_content(call, descriptor, member.size)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    async def _send_content(self, call: Call, descriptor: int, size: int) -> None:
        left = size
        while left:
            data = os.read(descriptor, min(1 << 18, left))
            if not data:
                # It has shrunk since its header was sent, which promised more.
                data = b"\0" * min(1 << 18, left)
            left -= len(data)
            await call.output.send_all(data)
            await self._loop.turn()
        await call.output.send_all(b"\0" * (-size % 512))

    async def unpack(self, call: Call) -> dict[str, Any]:
        """Unpack what comes into a directory."""
        path = call.request["path"]
        source, writing = os.pipe2(os.O_CLOEXEC)
        try:
            child, reading = self._children.fork(lambda: unpack_from(source, path), [source])
            os.set_blocking(writing, False)
            feeding = self._loop.start(feed(self._loop, call.input, os.dup(writing)))
        finally:
            os.close(source)
            os.close(writing)
        try:
            reply = await read_report(self._loop, reading)
            await child.ended.wait()
        finally:
            feeding.cancel()
            await child.end()
        if reply is None:
            raise RefusedError("other", reason=f"unpacking ended with {child.exit_code}")
        return reply


def _below(top: str) -> Iterator[str]:
    """Yield a file, or a directory and all that is below it, following no link."""
    yield top
    if not os.path.isdir(top):
        return
    for directory, directories, files in os.walk(top, onerror=_raise):
        directories.sort()
        for name in sorted(directories + files):
            yield os.path.join(directory, name)


def _raise(error: OSError) -> None:
    raise error


def unpack_from(descriptor: int, path: str) -> dict[str, Any]:
    """Unpack the archive that comes from a descriptor into a directory; return the reply to the call."""
    import tarfile

    signal.signal(signal.SIGTERM, _give_up)
    try:
        os.makedirs(path, exist_ok=True)
        stream = Counted(descriptor)
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]  # only read() is used
            end = Unpacking(os.path.realpath(path)).all_of(archive)
        while stream.read(1 << 16):
            continue
        # To tarfile the end of its input is the end of the archive; only a block of zeros is.
        if stream.count < end + tarfile.BLOCKSIZE:
            raise UnpackError("it is cut off")
    except OSError as error:
        return refused_file(error, error.filename or path).reply
    except (tarfile.TarError, UnpackError) as error:
        return {"error": "other", "reason": f"can't unpack into {path}: {error}"}
    return {}


def _give_up(number: int, frame: object) -> None:
    """End by way of the clean-up."""
    raise SystemExit


class Counted:
    """A descriptor as a file that counts.

    Attributes:
        count: Bytes read so far.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.count = 0

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        parts: list[bytes] = []
        while size:
            part = os.read(self._descriptor, size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self.count += len(part)
        return b"".join(parts)


class UnpackError(Exception):
    """A member that is refused."""


class Unpacking:
    """Puts the members of an archive below a directory, and nowhere else."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._directories: list[tuple[str, tarfile.TarInfo]] = []

    def all_of(self, archive: tarfile.TarFile) -> int:
        """Unpack all members; permission bits and times are the archive's, the owner is the user.

        Returns:
            Where the last of them ends, in bytes from the beginning.

        Raises:
            UnpackError: A member's name leads out, or below a link, or it is a device.
            OSError: It can't be written.
        """
        end = 0
        while True:
            member = archive.next()
            if member is None:
                break
            # All would be kept, for those who come back to one.
            archive.members.clear()  # type: ignore[attr-defined]  # it is there since Python 2
            self._one_of(archive, member)
            end = member.offset_data + (member.size + 511) // 512 * 512 if member.isreg() else member.offset_data
        # Only now: a directory that may not be written to is filled first.
        for path, directory in reversed(self._directories):
            _finish(path, directory)
        return end

    def _one_of(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._place(member.name)
        if member.isdir():
            self._make_directory(path)
            self._directories.append((path, member))
        elif path == self._base:
            raise UnpackError(f"{member.name!r} would replace the directory itself")
        elif member.isreg():
            self._write(path, member, archive)
        elif member.issym():
            self._put(path, lambda new: os.symlink(member.linkname, new))
        elif member.islnk():
            source = self._place(member.linkname)
            self._put(path, lambda new: os.link(source, new, follow_symlinks=False))
        else:
            raise UnpackError(f"{member.name!r} is neither file, directory nor link")

    def _place(self, name: str) -> str:
        """Return where a member goes; the directories above it are made."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise UnpackError(f"{name!r} leads out of the directory")
        path = self._base
        for part in parts[:-1]:
            path = os.path.join(path, part)
            self._make_directory(path, name)
        return os.path.join(path, *parts[-1:])

    def _make_directory(self, path: str, member: str = "") -> None:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            os.mkdir(path)
            return
        if stat.S_ISLNK(mode) and member:
            raise UnpackError(f"{member!r} lies below the link {path!r}")
        if not stat.S_ISDIR(mode):
            os.unlink(path)
            os.mkdir(path)

    def _write(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        content = archive.extractfile(member)

        def write(new: str) -> None:
            with open(new, "xb") as file:
                while content is not None:
                    data = content.read(1 << 18)
                    if not data:
                        break
                    file.write(data)
            _finish(new, member)

        self._put(path, write)

    def _put(self, path: str, make: Callable[[str], None]) -> None:
        """Make something under another name, then put it in its place."""
        new = unfinished_name(path)
        try:
            make(new)
            os.rename(new, path)
        finally:
            if os.path.lexists(new):
                os.unlink(new)


def _finish(path: str, member: tarfile.TarInfo) -> None:
    os.chmod(path, member.mode & 0o777)
    # Times come as fractions in binary; whole microseconds are what was meant.
    moment = round(member.mtime * 1_000_000) * 1000
    os.utime(path, ns=(moment, moment))
