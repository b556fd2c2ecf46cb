"""Make a copy of a repository of this machine that can go into a sandbox: what is committed, and nothing else of it.

Neither configuration nor hooks nor uncommitted files go along; the only trace of this machine is the address of the
repository's own origin, without anything secret.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Final

from agentkit.errors import ConfigurationError, SandboxError
from agentkit.sandbox.git.url import read_url

_OBJECTS: Final = ("objects", "refs", "packed-refs", "shallow")
_ORIGIN: Final = re.compile(r'^\[remote "origin"\]\s*$(?:\n(?!\[).*)*?\n\s*url\s*=\s*(\S+)\s*$', re.MULTILINE)
_EXTENSIONS: Final = re.compile(r"^\s*\[extensions\]", re.MULTILINE | re.IGNORECASE)


async def copy_for_sandbox(source: Path, target: Path, *, ref: str | None, depth: int | None) -> None:
    """Make ``target`` the ``.git`` directory of a copy of a repository: a plain one, a bare one, or a worktree.

    Its ``HEAD`` is that of ``source``, or the branch or tag ``ref``; its origin is that of ``source`` where that is a
    URL others can use too, else none.

    Raises:
        FileNotFoundError: There is nothing at ``source``.
        SandboxError: It is no repository, or can't be read.
    """
    if not await asyncio.to_thread(source.exists):
        raise FileNotFoundError(f"no repository {str(source)!r} on this machine; a URL begins with https:// or so")
    if shutil.which("git") is None:
        await asyncio.to_thread(_copy_without_git, source, target)
        return
    # Over git's own transport: whole, whatever the repository shares with others, and without what no branch leads to.
    words = ["clone", "--quiet", "--bare", "--no-local", "--template="]
    words += [f"--branch={ref}"] if ref is not None else []
    words += [f"--depth={depth}"] if depth is not None else []
    await _git(*words, "--", str(await asyncio.to_thread(source.absolute)), str(target))
    origin = usable_origin(await _git("-C", str(source), "config", "--get", "remote.origin.url", fails=True))
    await _git("-C", str(target), "config", "core.bare", "false")
    await _git("-C", str(target), "remote", "remove", "origin")
    if origin is None:
        return
    await _git("-C", str(target), "remote", "add", "origin", origin)
    branch = (await _git("-C", str(target), "symbolic-ref", "--quiet", "--short", "HEAD", fails=True)).strip()
    if branch:
        await _git("-C", str(target), "config", f"branch.{branch}.remote", "origin")
        await _git("-C", str(target), "config", f"branch.{branch}.merge", f"refs/heads/{branch}")


def usable_origin(url: str) -> str | None:
    """Return an origin as the copy may have it: a URL without a secret, or None for paths of this machine."""
    url = url.strip()
    if url.startswith("file:"):
        return None
    try:
        return read_url(url).url if "://" in url or re.match(r"[^/]+:", url) else None
    except ConfigurationError:
        return None


async def _git(*words: str, fails: bool = False) -> str:
    """Run git here; with ``fails``, failure is an empty answer."""
    # Within a hook, variables of git's own would lead it to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # What a repository names to fetch the rest of itself from, or to run for it, is left alone.
    environment |= {"GIT_ALLOW_PROTOCOL": "file", "GIT_NO_LAZY_FETCH": "1"}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "git", *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return output.decode("utf-8", "replace")
    if fails:
        return ""
    raise SandboxError(f"git {words[0]} failed on this machine: {errors.decode('utf-8', 'replace').strip()[-500:]}")


def _copy_without_git(source: Path, target: Path) -> None:
    own = _git_directory(source)
    common_file = own / "commondir"
    common = own / common_file.read_text().strip() if common_file.is_file() else own
    config = (common / "config").read_text(errors="replace") if (common / "config").is_file() else ""
    if (common / "objects" / "info" / "alternates").exists() or _EXTENSIONS.search(config):
        raise SandboxError(f"to copy {str(source)!r}, which is no simple repository, this machine needs git")
    target.mkdir(parents=True)
    shutil.copyfile(own / "HEAD", target / "HEAD")
    for name in _OBJECTS:
        if (common / name).is_dir():
            shutil.copytree(common / name, target / name)
        elif (common / name).is_file():
            shutil.copyfile(common / name, target / name)
    lines = ["[core]", "\trepositoryformatversion = 0", "\tfilemode = true", "\tbare = false"]
    found = _ORIGIN.search(config)
    origin = usable_origin(found[1]) if found else None
    if origin is not None:
        fetch = "+refs/heads/*:refs/remotes/origin/*"
        lines += ['[remote "origin"]', f"\turl = {origin}", f"\tfetch = {fetch}"]
    (target / "config").write_text("\n".join(lines) + "\n")


def _git_directory(source: Path) -> Path:
    inner = source / ".git"
    if inner.is_file():
        named = inner.read_text().removeprefix("gitdir:").strip()
        inner = source / named
    found = inner if inner.is_dir() else source
    if not (found / "HEAD").is_file():
        raise SandboxError(f"{str(source)!r} is no git repository")
    return found
