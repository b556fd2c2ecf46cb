"""Git through the capability, on every engine with real programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit.errors import CommandFailedError
from agentkit.sandbox import Sandbox, SandboxEngine, SandboxSpec
from agentkit.sandbox.engine import STORE
from agentkit.sandbox.git.status import GitChange, GitStatus
from agentkit.testing import ManualRuntime
from tests.sandbox.engines import CANDIDATES, needs
from tests.sandbox.sandbox_host import Coder, Given

pytestmark = needs("process_tree")


@pytest.fixture
def given(engine: SandboxEngine) -> Given:
    """Return what the agents of this test go by."""
    return Given(spec=SandboxSpec(image=CANDIDATES[engine.name].image))


@pytest.fixture
async def coder(engine: SandboxEngine, given: Given, tmp_path: Path) -> AsyncIterator[Coder]:
    """Return an agent whose sandbox runs; nothing of it is left behind."""
    async with ManualRuntime(Coder, store=f"sqlite:///{tmp_path}/a.db", engine=engine, deps=given) as runtime:
        coder = runtime.get(Coder, "ada")
        await coder.use(Sandbox.start)
        yield coder
        for instance in await engine.instances():
            if instance.labels.get(STORE) == runtime.store.id:
                await engine.remove(instance.name)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of the host with one commit on a branch, and a file that isn't committed."""
    repository = tmp_path / "repo"
    repository.mkdir()
    (repository / "a.txt").write_text("one\n")
    for words in ("init -q -b trunk", "add .", "-c user.name=A -c user.email=a@example.com commit -q -m First"):
        subprocess.run(["git", *words.split()], cwd=repository, check=True)
    (repository / "secret").write_text("not committed\n")
    return repository


@pytest.mark.parametrize("path", ["/workspace/deep/repo", "/workspace", "repo"])
async def test_repository_of_the_host_is_worked_on(coder: Coder, repository: Path, path: str) -> None:
    """It comes with its branch and what is committed; what is changed inside is told as a status and a patch."""

    async def work(sandbox: Sandbox) -> tuple[GitStatus, str, bytes, list[str]]:
        await sandbox.git.clone(repository, path)
        names = [entry.name for entry in await sandbox.files.list(path)]
        await sandbox.exec("sh", "-c", "echo two >>a.txt; echo new >b.txt", cwd=path, check=True)
        log = await sandbox.exec("git", "log", "--format=%s %an", cwd=path, check=True)
        return await sandbox.git.status(path), await sandbox.git.diff(path), log.stdout.encode(), names

    status, patch, log, names = await coder.use(work)

    assert sorted(names) == [".git", "a.txt"]
    assert status.branch == "trunk"
    assert status.changes == (GitChange(path="a.txt", status=".M"), GitChange(path="b.txt", status="??"))
    assert log == b"First A\n"
    subprocess.run(["git", "apply", "--check", "-"], cwd=repository, input=patch.encode(), check=True)


async def test_clone_of_a_clone(coder: Coder, repository: Path) -> None:
    """A URL is cloned inside, with what git says on the way; a failure leaves nothing, and is tried again freely."""
    told: list[str] = []

    async def work(sandbox: Sandbox) -> list[str]:
        with pytest.raises(CommandFailedError):
            await sandbox.git.clone("file:///workspace/first", "/workspace/second")
        await sandbox.git.clone(repository, "/workspace/first")
        await sandbox.git.clone("file:///workspace/first", "/workspace/second", depth=1, on_progress=told.append)
        return [entry.name for entry in await sandbox.files.list("/workspace")]

    names = await coder.use(work)

    assert names == ["first", "second"]
    assert any("objects" in line for line in told)


async def test_files_go_in_and_come_out(coder: Coder, tmp_path: Path) -> None:
    """A tree is the same after a round trip; a link that a program inside made leads no download astray (report 23)."""
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "run").write_bytes(os.urandom(300_000))
    (tree / "deep" / "run").chmod(0o755)
    (tree / "link").symlink_to("deep/run")
    (tmp_path / "kept").write_text("kept")

    async def work(sandbox: Sandbox) -> tuple[str, ...]:
        await sandbox.files.upload(tree, "/workspace/tree")
        line = f"ln -s {tmp_path} deep/out && ln -s ../../kept deep/up && ln -s /etc/passwd passwd && mkfifo pipe"
        await sandbox.exec("sh", "-c", line, cwd="/workspace/tree", check=True)
        result = await sandbox.files.download("/workspace/tree", tmp_path / "out")
        return result.left_out

    left_out = await coder.use(work)

    assert sorted(left_out) == ["deep/out", "deep/up", "passwd"]
    assert (tmp_path / "out" / "deep" / "run").read_bytes() == (tree / "deep" / "run").read_bytes()
    assert os.access(tmp_path / "out" / "deep" / "run", os.X_OK)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["deep", "link", "run"]
    assert (tmp_path / "kept").read_text() == "kept"
