"""Git in a sandbox: repositories come in, changes are looked at; everything else is ``exec("git", …)`` (SPEC 12.1)."""

from __future__ import annotations

import errno
import posixpath
import re
import secrets
import tempfile
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from agentkit.clock import Duration
from agentkit.errors import (
    CommandFailedError,
    ConfigurationError,
    SandboxError,
    SandboxFileExistsError,
    SandboxPermissionError,
)
from agentkit.sandbox.git.command import CommandRunner, GitCommand, OnProgress
from agentkit.sandbox.git.host import copy_for_sandbox
from agentkit.sandbox.git.status import GitStatus, read_status
from agentkit.sandbox.git.url import check_ref, host_path, read_url
from agentkit.sandbox.guest import FileInfo
from agentkit.sandbox.spec import WORKSPACE

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitFiles(Protocol):
    """What is needed of a sandbox's ``files``."""

    async def stat(self, path: str) -> FileInfo | None:
        """Return what is there, or None."""

    async def list(self, path: str = ...) -> list[FileInfo]:
        """Return what a directory holds."""

    async def mkdir(self, path: str) -> None:
        """Make a directory and those above it."""

    async def move(self, source: str, target: str) -> None:
        """Rename."""

    async def remove(self, path: str) -> bool:
        """Remove a file or directory; False if there was none."""

    def upload(self, source: str | Path, target: str) -> Awaitable[object]:
        """Copy a directory of the host into the sandbox."""


class GitSandbox(CommandRunner, Protocol):
    """What is needed of a sandbox."""

    @property
    def files(self) -> GitFiles:
        """Its files."""


class Git:
    """Runs git as the sandbox's user. Paths are inside, absolute or from ``/workspace``."""

    def __init__(self, sandbox: GitSandbox) -> None:
        self._sandbox = sandbox

    async def clone(
        self,
        source: str | Path,
        path: str,
        *,
        ref: str | None = None,
        depth: int | None = None,
        token: str | None = None,
        timeout: Duration = 600,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Clone a repository; ``path`` appears when the clone is complete, and what was cut off leaves nothing there.

        A path of this machine is copied into the sandbox: branches and tags as they are committed, with the branch that
        is checked out here. Don't take it from a model: it would choose which of your repositories to read.

        A token, or a user and password in the URL, is given to git for this one command, to be shown to that server
        alone. It is in no file, command line or message; while git runs, other programs inside could read it from
        git's environment. Submodules are not fetched.

        Args:
            source: A URL of https, http, ssh, git or file (a path inside), ``user@host:path``, or a path of this
                machine.
            path: What the clone is to be; absent, or an empty directory.
            ref: A branch, a tag, or the full hash of a commit; None means the repository's own choice.
            depth: How many commits of history; None means all.
            token: Password or access token for https.
            timeout: For each git command.
            on_progress: Told what git says meanwhile, such as ``Receiving objects:  40% (4/10)``.

        Raises:
            ConfigurationError: The URL, ``ref`` or ``depth`` can't be one, or git could take it for something else.
            CommandFailedError: Git failed; holds what it said.
            CommandNotFoundError: The image has no git.
            SandboxFileExistsError: There is something at ``path``.
        """
        _check(ref, depth)
        local = host_path(source)
        if local is not None and token is not None:
            raise ConfigurationError("a token goes with a URL of https, not with a path")
        target = posixpath.normpath(posixpath.join(WORKSPACE, path))
        place = await self._place(target)
        try:
            if local is not None:
                await self._bring(local, place, ref=ref, depth=depth)
            else:
                url = read_url(str(source), token)
                git = GitCommand(self._sandbox, timeout=timeout, credential=url.credential, on_progress=on_progress)
                await _fetch(git, url.url, place, ref=ref, depth=depth)
            if place != target:
                await self._sandbox.files.move(place, target)
        finally:
            if place != target:
                with suppress(SandboxError):
                    await self._sandbox.files.remove(place)

    async def status(self, path: str) -> GitStatus:
        """Return the branch, and what differs from its last commit: staged or not, new files included."""
        git = GitCommand(self._sandbox)
        return read_status(await git("status", "--porcelain=v2", "--branch", "--untracked-files=all", "-z", cwd=path))

    async def diff(self, path: str) -> str:
        """Return what differs from the last commit as a patch: staged or not, new files included.

        What is staged stays as it is.
        """
        git = GitCommand(self._sandbox)
        index = (await git("rev-parse", "--git-path", "index", cwd=path)).removesuffix("\n")
        index = posixpath.join(WORKSPACE, path, index)
        scratch = f"{index}.{secrets.token_hex(6)}.agentkit"
        # With what git remembers of each file it needn't read those that didn't change.
        await self._sandbox.exec("cp", "-p", "--", index, scratch)
        git.env["GIT_INDEX_FILE"] = scratch
        try:
            await git("add", "--all", cwd=path)
            words = ("diff", "--cached", "--no-color", "--no-ext-diff", "--no-textconv")
            return await git("-c", "core.quotePath=false", *words, await _base(git, path), cwd=path)
        finally:
            with suppress(SandboxError):
                await self._sandbox.files.remove(scratch)

    async def _place(self, target: str) -> str:
        """Return where to clone to: beside the target, which then appears at once; or the target, if it is there."""
        files = self._sandbox.files
        there = await files.stat(target)
        if there is not None:
            if there.type != "directory" or await files.list(target):
                reason = "it is there already; remove it, or clone to another path"
                raise SandboxFileExistsError(target, errno.EEXIST, reason)
            return target
        above, name = posixpath.split(target)
        place = posixpath.join(above, f".{name}.cloning")
        await files.remove(place)  # left by one that was cut off
        try:
            await files.mkdir(place)
        except SandboxPermissionError:
            return target
        return place

    async def _bring(self, local: Path, place: str, *, ref: str | None, depth: int | None) -> None:
        """Copy a repository of this machine."""
        git = GitCommand(self._sandbox)
        await git("--version", cwd="/")
        is_commit = _is_commit(ref)
        with tempfile.TemporaryDirectory(prefix="agentkit-") as scratch:
            copy = Path(scratch) / "copy"
            await copy_for_sandbox(local, copy / ".git", ref=None if is_commit else ref, depth=depth)
            await self._sandbox.files.upload(copy, place)
        if ref is not None and is_commit:
            await git("checkout", "--quiet", "--force", "--detach", ref, cwd=place)
        elif await git("for-each-ref", "--count=1", cwd=place):
            await git("reset", "--quiet", "--hard", cwd=place)


async def _fetch(git: GitCommand, url: str, place: str, *, ref: str | None, depth: int | None) -> None:
    """Clone from a URL."""
    words = ["clone", "--quiet" if git.on_progress is None else "--progress"]
    words += [f"--depth={depth}"] if depth is not None else []
    is_commit = _is_commit(ref)
    if ref is not None:
        words += ["--no-checkout"] if is_commit else [f"--branch={ref}"]
    await git(*words, "--", url, place, cwd="/")
    if ref is not None and is_commit:
        if depth is not None:
            await git("fetch", "--quiet", f"--depth={depth}", "origin", ref, cwd=place)
        await git("checkout", "--quiet", "--detach", ref, cwd=place)


async def _base(git: GitCommand, path: str) -> str:
    """Return the last commit, or the empty tree, which stands for it before the first."""
    try:
        return (await git("rev-parse", "--quiet", "--verify", "HEAD", cwd=path)).strip()
    except CommandFailedError:
        return (await git("hash-object", "-t", "tree", "/dev/null", cwd=path)).strip()


def _is_commit(ref: str | None) -> bool:
    return ref is not None and _COMMIT.fullmatch(ref) is not None


def _check(ref: str | None, depth: int | None) -> None:
    if ref is not None:
        check_ref(ref)
    if depth is not None and (type(depth) is not int or depth < 1):
        raise ConfigurationError(f"depth is a number of commits, 1 or more, got {depth!r}")
