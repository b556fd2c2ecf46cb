"""One bucket and its copy in a sandbox: pulled, pushed, and pushed again after a crash (SPEC 12.11)."""

from __future__ import annotations

import asyncio
import errno
import logging
import tarfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from agentkit.clock import Clock
from agentkit.errors import BucketError, SandboxFileError, SandboxFileNotFoundError
from agentkit.sandbox.buckets.client import PART, Bucket, RemoteObject
from agentkit.sandbox.buckets.manifest import Manifest, Synced, load_manifest
from agentkit.sandbox.buckets.plan import Local, Plan, plan_push, plan_sync
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.network.relay import together
from agentkit.sandbox.spec import BucketMount

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 8
_LARGE_AT_ONCE: Final = 2
#: What is listed comes out of the sandbox, and need not end.
_MOST_FILES: Final = 1_000_000
#: Small objects are fetched ahead, so that many of them don't cost a round trip each.
_SMALL: Final = 1 << 20
_AHEAD: Final = 8
#: A file that is written while it is read must get another time than the one that was seen: the kernel's clock ticks at
#: least this often, in seconds.
_TICK: Final = 0.02
#: After so many failures the bucket is taken to be out of reach for now.
_PATIENCE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PushFailure:
    """A file that couldn't be written to its bucket; it is tried again with the next push.

    Attributes:
        url: The bucket.
        path: Where it is, inside.
        reason: Why.
    """

    url: str
    path: str
    reason: str


@dataclass(slots=True, kw_only=True)
class PushReport:
    """What a push did.

    Attributes:
        pushed: Objects written.
        deleted: Objects removed.
        failed: What is still to be pushed, as far as it was tried.
    """

    pushed: int = 0
    deleted: int = 0
    failed: list[PushFailure] = field(default_factory=list)

    def add(self, other: PushReport) -> None:
        """Take in another."""
        self.pushed += other.pushed
        self.deleted += other.deleted
        self.failed += other.failed


class BucketSync:
    """Keeps one mount's directory and its bucket the same, for one caller at a time.

    Attributes:
        directory: Where it is inside.
    """

    def __init__(self, mount: BucketMount, clock: Clock) -> None:
        self._mount = mount
        self.directory = mount.path.rstrip("/")
        self._bucket = Bucket(mount.url, mount.endpoint)
        self._clock = clock
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._guest: Guest | None = None
        self._manifest = Manifest()
        self._told: set[str] = set()

    async def pull(self, guest: Guest) -> PushReport:
        """Push what an earlier run left, then make the directory what the bucket is.

        Cut off at any point, it is done again by the next call: nothing counts as deleted until one was complete.

        Raises:
            BucketError: The bucket can't be read.
        """
        manifest = await self._manifest_of(guest)
        local = await self._walk(guest)
        remote = {found.key: found async for found in self._bucket.objects() if found.key}
        plan = plan_sync(manifest, local, remote, read_only=self._mount.read_only)
        self._leave_large(plan, local)
        report = PushReport()
        await self._push(guest, plan, local, report)
        for path in plan.adopt:
            manifest.files[path] = _synced(remote[path])
        for path in plan.forget:
            manifest.files.pop(path, None)
        self._tell(plan)
        if plan.pull or plan.remove:
            manifest.is_complete = False
            await manifest.save(guest, self.directory, self._mount.url)
            await self._remove(guest, plan.remove)
            await self._write(guest, [remote[path] for path in plan.pull])
        manifest.is_complete = True
        await manifest.save(guest, self.directory, self._mount.url)
        return report

    async def push(self, guest: Guest) -> PushReport:
        """Push what was changed inside since the last time.

        After a pull that was cut off, that is done first.

        Raises:
            BucketError: A pull was cut off, and the bucket can't be read.
        """
        if self._mount.read_only:
            return PushReport()
        manifest = await self._manifest_of(guest)
        if not manifest.is_complete:
            return await self.pull(guest)
        local = await self._walk(guest)
        plan = plan_push(manifest, local)
        self._leave_large(plan, local)
        self._tell(plan)
        report = PushReport()
        if local.has_manifest and not (plan.push or plan.delete or plan.forget):
            return report
        for path in plan.forget:
            del manifest.files[path]
        await self._push(guest, plan, local, report)
        await manifest.save(guest, self.directory, self._mount.url)
        return report

    def close(self) -> None:
        """Let go of connections and threads."""
        self._bucket.close()

    async def _manifest_of(self, guest: Guest) -> Manifest:
        if self._guest is not guest:
            self._manifest = await load_manifest(guest, self.directory, self._mount.url)
            self._guest = guest
        return self._manifest

    async def _walk(self, guest: Guest) -> Local:
        local = Local()
        async with aclosing(guest.walk(self.directory)) as entries:
            async for info in entries:
                local.add(info.path[len(self.directory) + 1 :], info)
                if len(local.files) + len(local.directories) + len(local.others) > _MOST_FILES:
                    raise BucketError(self._mount.url, f"there are more than {_MOST_FILES:,} files in {self.directory}")
        return local

    def _leave_large(self, plan: Plan, local: Local) -> None:
        limit = self._mount.max_file_size
        large = [path for path in plan.push if local.files[path].size > limit]
        plan.leave |= dict.fromkeys(large, f"it is larger than BucketMount.max_file_size={limit:,}")
        plan.push = [path for path in plan.push if path not in plan.leave]

    # to the bucket

    async def _push(self, guest: Guest, plan: Plan, local: Local, report: PushReport) -> None:
        if plan.push:
            await self._clock.sleep(_TICK)

        async def push(path: str) -> None:
            info = local.files[path]
            # What a large one holds of memory must not be held by many.
            turn = self._large if info.size > PART else nullcontext()
            async with turn, aclosing(guest.read(info.path)) as content:
                etag = await self._bucket.put(path, self._bounded(content, info.path), size=info.size)
            self._manifest.files[path] = Synced(etag, info.size, info.modified_at_ms)
            report.pushed += 1

        async def delete(path: str) -> None:
            if await self._is_really_gone(guest, path):
                there = await self._bucket.find(path)
                if there is not None and there.etag == self._manifest.files[path].etag:
                    await self._bucket.delete(path)
                    report.deleted += 1
                del self._manifest.files[path]

        await in_turns(plan.push, self._patiently(push, report))
        await in_turns(plan.delete, self._patiently(delete, report))

    async def _bounded(self, content: AsyncIterator[bytes], path: str) -> AsyncGenerator[bytes, None]:
        """Yield a content that may grow while it is read, as far as it may grow."""
        size = 0
        async for piece in content:
            size += len(piece)
            if size > self._mount.max_file_size:
                raise SandboxFileError.of(path, errno.EFBIG, "it grew beyond BucketMount.max_file_size")
            yield piece

    async def _is_really_gone(self, guest: Guest, path: str) -> bool:
        """Tell that a file is gone, and not only out of sight, in a directory that may not be read, say."""
        there = await guest.stat(f"{self.directory}/{path.rstrip('/')}")
        return there is None or (there.type == "directory" and not path.endswith("/"))

    def _patiently(self, act: Callable[[str], Awaitable[None]], report: PushReport) -> Callable[[str], Awaitable[None]]:
        """Return a function that notes failures, and does nothing more after too many of the bucket's."""
        refusals = 0

        async def attempt(path: str) -> None:
            nonlocal refusals
            if refusals >= _PATIENCE:
                return
            try:
                await act(path)
            except SandboxFileNotFoundError:  # it has gone since the walk
                pass
            except (BucketError, SandboxFileError) as error:
                refusals += isinstance(error, BucketError)
                inside = f"{self.directory}/{path}"
                report.failed.append(PushFailure(url=self._mount.url, path=inside, reason=str(error)))

        return attempt

    # into the sandbox

    async def _remove(self, guest: Guest, paths: list[str]) -> None:
        async def remove(path: str) -> None:
            if not path.endswith("/"):  # what else is in a directory stays
                await guest.remove(f"{self.directory}/{path}")
            self._manifest.files.pop(path, None)

        await in_turns(paths, remove)

    async def _write(self, guest: Guest, objects: list[RemoteObject]) -> None:
        if not objects:
            return
        written: dict[str, Synced] = {}
        async with aclosing(self._archive(objects, written)) as archive:
            await guest.unpack(self.directory, archive)
        self._manifest.files |= written

    async def _archive(self, objects: list[RemoteObject], written: dict[str, Synced]) -> AsyncGenerator[bytes, None]:
        """Yield objects as a tar archive, each as it is when its turn comes."""
        large = [found for found in objects if found.size > _SMALL]
        async with aclosing(self._small([found for found in objects if found.size <= _SMALL], large)) as small:
            async for about, whole in small:
                yield _header(about) + whole + _padding(about)
                written[about.key] = _synced(about)
        for found in large:
            async with self._bucket.open(found.key) as opened:
                if opened is None:
                    continue
                about, content = opened
                yield _header(about)
                async for piece in content:
                    yield piece
                yield _padding(about)
                written[about.key] = _synced(about)
        yield bytes(tarfile.RECORDSIZE)

    async def _small(
        self, objects: list[RemoteObject], large: list[RemoteObject]
    ) -> AsyncGenerator[tuple[RemoteObject, bytes], None]:
        """Yield small objects with their content, fetched ahead; what has grown meanwhile joins the large ones."""
        waiting = iter(objects)
        ahead = deque(asyncio.create_task(self._fetch(found, large)) for found in islice(waiting, _AHEAD))
        try:
            while ahead:
                fetched = await ahead[0]
                del ahead[0]
                ahead.extend(asyncio.create_task(self._fetch(found, large)) for found in islice(waiting, 1))
                if fetched is not None:
                    yield fetched
        finally:
            for task in ahead:
                task.cancel()
            if ahead:
                await asyncio.gather(*ahead, return_exceptions=True)

    async def _fetch(self, found: RemoteObject, large: list[RemoteObject]) -> tuple[RemoteObject, bytes] | None:
        async with self._bucket.open(found.key) as opened:
            if opened is None:
                return None
            about, content = opened
            if about.size > _SMALL:
                large.append(about)
                return None
            return about, b"".join([piece async for piece in content])

    def _tell(self, plan: Plan) -> None:
        for path, reason in plan.leave.items():
            if path not in self._told and len(self._told) < 1_000:
                self._told.add(path)
                logger.warning("%r of bucket %s is left out: %s", path, self._mount.url, reason)


async def in_turns(paths: Iterable[str], act: Callable[[str], Awaitable[None]]) -> None:
    """Do something with each path, with a few at a time; the first error ends the others and is raised."""
    waiting = iter(paths)

    async def work() -> None:
        for path in waiting:
            await act(path)

    await together(*(work() for _ in range(_AT_ONCE)))


def _header(about: RemoteObject) -> bytes:
    member = tarfile.TarInfo(about.key.rstrip("/"))
    member.mtime = about.modified_at
    if about.key.endswith("/"):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    else:
        member.size, member.mode = about.size, 0o644
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _synced(about: RemoteObject) -> Synced:
    if about.key.endswith("/"):
        return Synced(about.etag, 0, 0)
    return Synced(about.etag, about.size, about.modified_at * 1000)


def _padding(about: RemoteObject) -> bytes:
    return bytes(-about.size % tarfile.BLOCKSIZE)
