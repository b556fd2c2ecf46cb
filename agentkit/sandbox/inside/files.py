"""Files, as the sandbox's user: whole or not at all; no link is followed that the caller did not name (SPEC 12.4)."""

from __future__ import annotations

import errno
import json
import os
import stat

from agentkit.sandbox.inside.calls import Call, refused_file
from agentkit.sandbox.inside.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A loop over many files lets others have a turn after so many.
_ROUND = 100
#: So many files are told of at a time.
_PAGE = 500


class Files:
    """Carries out calls on files."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def read(self, call: Call) -> dict[str, Any]:
        """Send a file's content."""
        path = call.request["path"]
        try:
            descriptor = open_regular(path)
        except OSError as error:
            raise refused_file(error, path) from error
        try:
            while True:
                data = os.read(descriptor, await call.output.room())
                if not data:
                    return {"sent": [call.output.sent]}
                call.output.send(data)
                await self._loop.turn()
        except OSError as error:
            raise refused_file(error, path) from error
        finally:
            os.close(descriptor)

    async def write(self, call: Call) -> dict[str, Any]:
        """Write what comes beside the file, then put it in its place."""
        path = call.request["path"]
        try:
            mode = call.request["mode"]
            mode = mode if mode is not None else _mode_of(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            unfinished = unfinished_name(path)
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise refused_file(error, path) from error
        is_done = False
        try:
            try:
                await self._receive(call, descriptor)
                if mode is not None:
                    os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)
            os.rename(unfinished, path)
            is_done = True
        except OSError as error:
            raise refused_file(error, path) from error
        finally:
            if not is_done:
                os.unlink(unfinished)
        return {}

    async def _receive(self, call: Call, descriptor: int) -> None:
        while True:
            data = await call.input.read()
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            await self._loop.turn()

    async def entries(self, call: Call) -> dict[str, Any]:
        """Send what a directory holds, by name, as lines of JSON."""
        path = call.request["path"]
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise refused_file(error, path) from error
        for start in range(0, len(names), _PAGE):
            await self._send(call, [os.path.join(path, name) for name in names[start : start + _PAGE]])
        return {"sent": [call.output.sent]}

    async def walk(self, call: Call) -> dict[str, Any]:
        """Send all that is below a directory, as lines of JSON; what can't be read is left out."""
        waiting: list[str] = []
        for directory, directories, files in os.walk(call.request["path"]):
            waiting += [os.path.join(directory, name) for name in directories + files]
            while len(waiting) >= _PAGE:
                await self._send(call, waiting[:_PAGE])
                del waiting[:_PAGE]
            await self._loop.turn()
        if waiting:
            await self._send(call, waiting)
        return {"sent": [call.output.sent]}

    async def _send(self, call: Call, paths: list[str]) -> None:
        described = [describe(path) for path in paths]
        page = json.dumps([one for one in described if one is not None])
        await call.output.send_all(page.encode() + b"\n")
        await self._loop.turn()

    async def stat(self, call: Call) -> dict[str, Any]:
        """Tell what is there."""
        path = call.request["path"]
        try:
            return {"file": describe(path)}
        except OSError as error:
            raise refused_file(error, path) from error

    async def mkdir(self, call: Call) -> dict[str, Any]:
        """Make a directory and those above it."""
        path = call.request["path"]
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise refused_file(error, path) from error
        return {}

    async def move(self, call: Call) -> dict[str, Any]:
        """Rename, between disks too."""
        source, target = call.request["source"], call.request["target"]
        try:
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                await self._carry(source, target)
        except OSError as error:
            missing = error.errno == errno.ENOENT and not os.path.lexists(source)
            raise refused_file(error, source if missing else target) from error
        return {}

    async def _carry(self, source: str, target: str) -> None:
        """Copy to another disk beside the target, put it in its place, remove the source."""
        unfinished = unfinished_name(target)
        try:
            await self._copy(source, unfinished)
            os.rename(unfinished, target)
        finally:
            # There is nothing any more of one that was put in its place.
            await self._remove(unfinished)
        await self._remove(source)

    async def _copy(self, source: str, target: str) -> None:
        information = os.lstat(source)
        if stat.S_ISLNK(information.st_mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(information.st_mode):
            os.mkdir(target, 0o700)
            for name in os.listdir(source):
                await self._copy(os.path.join(source, name), os.path.join(target, name))
        else:
            with open(open_regular(source), "rb") as reading, open(target, "xb") as writing:
                while True:
                    data = reading.read(1 << 20)
                    if not data:
                        break
                    writing.write(data)
                    await self._loop.turn()
        os.chmod(target, stat.S_IMODE(information.st_mode))
        os.utime(target, ns=(information.st_atime_ns, information.st_mtime_ns))

    async def remove(self, call: Call) -> dict[str, Any]:
        """Remove a file or a whole directory."""
        path = call.request["path"]
        try:
            return {"was_there": await self._remove(path)}
        except OSError as error:
            raise refused_file(error, path) from error

    async def _remove(self, path: str) -> bool:
        try:
            information = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISDIR(information.st_mode):
            os.unlink(path)
            return True
        for directory, directories, files in os.walk(path, topdown=False, onerror=_raise):
            for number, name in enumerate(files):
                os.unlink(os.path.join(directory, name))
                if number % _ROUND == _ROUND - 1:
                    await self._loop.turn()
            for name in directories:
                below = os.path.join(directory, name)
                if os.path.islink(below):
                    os.unlink(below)
                else:
                    os.rmdir(below)
            await self._loop.turn()
        os.rmdir(path)
        return True


def _raise(error: OSError) -> None:
    raise error


def open_regular(path: str) -> int:
    """Open a file to read, following links; never waits, as it would for a pipe that nobody writes to.

    Raises:
        OSError: It isn't there, isn't to be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "is no regular file")


def unfinished_name(path: str) -> str:
    """Return a name for a file that is to be put in the place of another, in the same directory."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name[:100]}.{os.urandom(6).hex()}.agentkit")


def describe(path: str) -> dict[str, Any] | None:
    """Return what is there, without following a link; None if there is nothing."""
    try:
        information = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(information.st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    return {
        "path": path,
        "type": _type_of(information.st_mode),
        "size": information.st_size,
        "mode": stat.S_IMODE(information.st_mode),
        "modified_at_ms": information.st_mtime_ns // 1_000_000,
        "target": target,
    }


def _type_of(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _mode_of(path: str) -> int | None:
    """Return the permission bits of the file that is to be replaced; a link has none worth keeping."""
    try:
        information = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(information.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return stat.S_IMODE(information.st_mode) if stat.S_ISREG(information.st_mode) else None
