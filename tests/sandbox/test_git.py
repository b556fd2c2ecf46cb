"""Git in a sandbox, with real git."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentkit.errors import (
    CommandFailedError,
    CommandNotFoundError,
    ConfigurationError,
    SandboxError,
    SandboxFileExistsError,
)
from agentkit.sandbox.git.git import Git
from agentkit.sandbox.git.status import GitChange
from tests.sandbox.git_server import git_server
from tests.sandbox.local_sandbox import LocalSandbox

TOKEN = "s3cret-t0ken"


def run_git(where: Path, *words: str) -> str:
    """Run git on the host and return what it prints."""
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *names, *words], cwd=where, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a repository with two commits on ``main``, one on ``topic``, a tag, and changes that aren't committed."""
    origin = tmp_path / "host" / "my repo"
    origin.mkdir(parents=True)
    run_git(origin, "init", "--quiet")
    (origin / "a.txt").write_text("one\n")
    run_git(origin, "add", ".")
    run_git(origin, "commit", "--quiet", "-m", "First")
    run_git(origin, "tag", "v1")
    run_git(origin, "checkout", "--quiet", "-b", "topic")
    (origin / "topic.txt").write_text("topic\n")
    run_git(origin, "add", ".")
    run_git(origin, "commit", "--quiet", "-m", "Topic")
    run_git(origin, "checkout", "--quiet", "main")
    (origin / "a.txt").write_text("two\n")
    run_git(origin, "commit", "--quiet", "-am", "Second")
    (origin / "a.txt").write_text("not committed\n")
    (origin / "untracked.txt").write_text("untracked\n")
    return origin


@pytest.fixture
def sandbox(tmp_path: Path) -> LocalSandbox:
    """Return what stands for the sandbox."""
    (tmp_path / "home").mkdir()
    return LocalSandbox(home=tmp_path / "home")


@pytest.fixture
def git(sandbox: LocalSandbox) -> Git:
    """Return git in it."""
    return Git(sandbox)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return where clones go."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def contents(root: Path) -> dict[str, str]:
    """Return the files of a clone, git's own left out."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}


# from a URL


async def test_clone(git: Git, origin: Path, work: Path) -> None:
    """A clone has the files and the history, and nothing is left beside it."""
    await git.clone(origin.as_uri(), f"{work}/deep/repo")

    assert contents(work / "deep" / "repo") == {"a.txt": "two\n"}
    assert run_git(work / "deep" / "repo", "log", "--format=%s") == "Second\nFirst"
    assert os.listdir(work / "deep") == ["repo"]


@pytest.mark.parametrize(("ref", "subject"), [("topic", "Topic"), ("v1", "First"), (None, "Second")])
async def test_branch_or_tag(git: Git, origin: Path, work: Path, ref: str | None, subject: str) -> None:
    """``ref`` chooses what is checked out, ``depth`` how much history comes."""
    await git.clone(origin.as_uri(), f"{work}/repo", ref=ref, depth=1)

    assert run_git(work / "repo", "log", "--format=%s") == subject


@pytest.mark.parametrize(("form", "depth"), [("path", None), ("url", None), ("url", 1)])
async def test_commit(git: Git, origin: Path, work: Path, form: str, depth: int | None) -> None:
    """The hash of a commit is checked out, also if no branch ends there."""
    commit = run_git(origin, "rev-parse", "main~1")

    await git.clone(origin if form == "path" else origin.as_uri(), f"{work}/repo", ref=commit, depth=depth)

    assert run_git(work / "repo", "log", "--format=%s") == "First"
    assert (await git.status(f"{work}/repo")).branch is None


async def test_progress_is_told(git: Git, origin: Path, work: Path) -> None:
    """What git says meanwhile comes line by line."""
    told: list[str] = []

    await git.clone(origin.as_uri(), f"{work}/repo", on_progress=told.append)

    assert any(line.startswith("Receiving objects: 100%") for line in told)
    assert not any("\r" in line or "\n" in line for line in told)


async def test_failure_says_what_git_said(git: Git, work: Path) -> None:
    """A repository that isn't there is an error with git's reason, and nothing is left."""
    with pytest.raises(CommandFailedError, match="does not appear to be a git repository") as raised:
        await git.clone(f"file://{work}/missing", f"{work}/repo")

    assert raised.value.result.exit_code == 128
    assert os.listdir(work) == []


async def test_image_without_git(git: Git, sandbox: LocalSandbox, origin: Path, work: Path) -> None:
    """The error says that git is missing, and what to do; a path of the host isn't even read."""
    sandbox.path = "/nowhere"

    for source in (origin.as_uri(), str(origin)):
        with pytest.raises(CommandNotFoundError, match="use an image that has it"):
            await git.clone(source, f"{work}/repo")

    assert os.listdir(work) == []


async def test_only_words_reach_git(git: Git, sandbox: LocalSandbox, origin: Path, work: Path) -> None:
    """The URL comes after ``--``, no shell is involved, and helpers that run programs are off (report 26)."""
    await git.clone(origin.as_uri(), f"{work}/repo", ref="topic")

    [(argv, env)] = sandbox.commands
    assert argv[-3] == "--"
    assert argv[:3] == ("git", "-c", "protocol.ext.allow=never")
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert "ext" not in env["GIT_ALLOW_PROTOCOL"].split(":")


@pytest.mark.parametrize("source", ["ext::sh -c 'touch evil'", "--upload-pack=touch evil", "-c x=y"])
async def test_source_that_runs_a_program_is_refused(git: Git, sandbox: LocalSandbox, work: Path, source: str) -> None:
    """Nothing is run at all (report 26)."""
    with pytest.raises(ConfigurationError):
        await git.clone(source, f"{work}/repo")

    assert sandbox.commands == []
    assert os.listdir(work) == []


async def test_submodule_that_runs_a_program_is_refused(git: Git, origin: Path, work: Path) -> None:
    """Neither does what a repository says of others run anything while it is cloned."""
    text = f'[submodule "x"]\n\tpath = x\n\turl = "ext::touch {work}/evil"\n'
    (origin / ".gitmodules").write_text(text)
    run_git(origin, "add", ".gitmodules")
    run_git(origin, "commit", "--quiet", "-m", "Submodule")

    await git.clone(origin.as_uri(), f"{work}/repo")

    assert os.listdir(work) == ["repo"]


async def test_clone_that_was_cut_off_is_made_again(git: Git, origin: Path, work: Path) -> None:
    """What a crash left beside the target is no obstacle, and is gone afterwards."""
    (work / ".repo.cloning" / ".git").mkdir(parents=True)
    (work / ".repo.cloning" / "half").write_text("half")

    await git.clone(origin.as_uri(), f"{work}/repo")

    assert os.listdir(work) == ["repo"]
    assert contents(work / "repo") == {"a.txt": "two\n"}


async def test_cancelled_clone_leaves_nothing(git: Git, sandbox: LocalSandbox, work: Path) -> None:
    """A caller that gives up finds the place free."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_waiting.set()
        await reader.read()
        writer.close()

    is_waiting = asyncio.Event()
    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    task = asyncio.create_task(git.clone(f"git://127.0.0.1:{port}/repo", f"{work}/repo"))
    await asyncio.wait_for(is_waiting.wait(), 20)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    silent.close()
    await silent.wait_closed()
    assert os.listdir(work) == []


async def test_what_is_there_stays(git: Git, sandbox: LocalSandbox, origin: Path, work: Path) -> None:
    """A file or a directory with something in it is not cloned over; an empty directory is."""
    (work / "full").mkdir()
    (work / "full" / "mine").write_text("mine")
    (work / "file").write_text("mine")
    (work / "empty").mkdir()

    for name in ("full", "file"):
        with pytest.raises(SandboxFileExistsError):
            await git.clone(origin.as_uri(), f"{work}/{name}")
    await git.clone(origin.as_uri(), f"{work}/empty")

    assert (work / "full" / "mine").read_text() == (work / "file").read_text() == "mine"
    assert contents(work / "empty") == {"a.txt": "two\n"}


async def test_directory_whose_neighbours_cannot_be_made(
    git: Git, sandbox: LocalSandbox, origin: Path, work: Path
) -> None:
    """Where nothing may be made beside the target, as beside ``/workspace``, it is cloned in its place."""
    sandbox.files.closed = {str(work)}

    await git.clone(origin.as_uri(), f"{work}/repo")

    assert os.listdir(work) == ["repo"]


@pytest.mark.parametrize("depth", [0, -1, True, "1", 1.0])
async def test_impossible_depth_is_refused(git: Git, work: Path, depth: int) -> None:
    """A depth is a whole number, and at least 1."""
    with pytest.raises(ConfigurationError, match="depth"):
        await git.clone("https://example.com/repo", f"{work}/repo", depth=depth)


# secrets


def everything(root: Path) -> bytes:
    """Return all that a clone holds."""
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", ["http://127.0.0.1:{port}/repo", "http://ada:{token}@127.0.0.1:{port}/repo"])
async def test_token_is_used_and_kept_nowhere(
    git: Git, sandbox: LocalSandbox, origin: Path, work: Path, form: str
) -> None:
    """The server gets the token; the clone, its remote and every command line are without it (SPEC 12.9, report 26)."""
    run_git(origin.parent, "clone", "--quiet", "--bare", str(origin), "repo")
    with git_server(origin.parent, password=TOKEN) as server:
        token = None if "{token}" in form else TOKEN
        await git.clone(form.format(port=server.port, token=TOKEN), f"{work}/repo", token=token)

    assert contents(work / "repo") == {"a.txt": "two\n"}
    assert TOKEN.encode() not in everything(work / "repo")
    assert run_git(work / "repo", "remote", "get-url", "origin") == f"http://127.0.0.1:{server.port}/repo"
    assert not any(TOKEN in word for argv, _ in sandbox.commands for word in argv)
    assert TOKEN in server.seen[-1]


async def test_wrong_token_is_no_riddle(git: Git, origin: Path, work: Path) -> None:
    """Git asks nobody, fails, and the error doesn't show the token."""
    run_git(origin.parent, "clone", "--quiet", "--bare", str(origin), "repo")
    with git_server(origin.parent, password="another") as server, pytest.raises(CommandFailedError) as raised:
        await git.clone(f"http://127.0.0.1:{server.port}/repo", f"{work}/repo", token=TOKEN)

    assert "Authentication failed" in str(raised.value)
    assert TOKEN not in str(raised.value) + repr(raised.value.result)


async def test_token_is_shown_to_its_server_only(git: Git, sandbox: LocalSandbox, origin: Path, work: Path) -> None:
    """Neither a server that the first one names nor one that the settings inside name is shown it."""
    run_git(origin.parent, "clone", "--quiet", "--bare", str(origin), "repo")
    with git_server(origin.parent, password=TOKEN) as other:
        elsewhere = f"http://localhost:{other.port}"
        with git_server(origin.parent, redirect_to=elsewhere) as server:
            url = f"http://127.0.0.1:{server.port}/repo"
            with pytest.raises(CommandFailedError):
                await git.clone(url, f"{work}/redirected", token=TOKEN)
        with git_server(origin.parent, password=TOKEN) as server:
            (sandbox.home / ".gitconfig").write_text(f"[http]\n\tproxy = {elsewhere}\n")
            await git.clone(f"http://127.0.0.1:{server.port}/repo", f"{work}/repo", token=TOKEN)

    assert other.seen
    assert not any(TOKEN in seen for seen in other.seen)


async def test_token_goes_with_no_path(git: Git, origin: Path, work: Path) -> None:
    """A token that would do nothing is a mistake."""
    with pytest.raises(ConfigurationError, match="https"):
        await git.clone(str(origin), f"{work}/repo", token=TOKEN)


# from a path of the host


@pytest.fixture(params=["with git", "without git"])
def host_git(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sandbox: LocalSandbox) -> str:
    """Have git on the host, or not; it is in the sandbox either way."""
    if request.param == "without git":
        monkeypatch.setenv("PATH", "/nowhere")
    return str(request.param)


def alter(origin: Path, words: str) -> None:
    """Run git on the host, wherever it is."""
    git = shutil.which("git", path="/usr/bin:/bin:/usr/local/bin")
    assert git is not None
    subprocess.run([git, *words.split()], cwd=origin, capture_output=True, check=True)


async def test_repository_of_the_host(git: Git, origin: Path, work: Path, host_git: str) -> None:
    """What is committed comes, with branches, tags and the branch checked out; the rest stays (SPEC 12.1)."""
    await git.clone(origin, f"{work}/repo")

    status = await git.status(f"{work}/repo")
    refs = (work / "repo" / ".git").rglob("*")
    assert contents(work / "repo") == {"a.txt": "two\n"}
    assert (status.branch, status.is_clean) == ("main", True)
    assert str(origin) not in "".join(path.read_text() for path in refs if path.name in ("config", "FETCH_HEAD"))
    await git.clone(f"file://{work}/repo", f"{work}/again", ref="topic")
    assert contents(work / "again") == {"a.txt": "one\n", "topic.txt": "topic\n"}
    assert sorted(os.listdir(work)) == ["again", "repo"]


async def test_worktree_of_the_host(git: Git, origin: Path, work: Path, host_git: str) -> None:
    """A worktree comes as a repository of its own, on its own branch."""
    alter(origin, "worktree add ../tree topic")

    await git.clone(str(origin.parent / "tree"), f"{work}/repo")

    assert contents(work / "repo") == {"a.txt": "one\n", "topic.txt": "topic\n"}
    assert (await git.status(f"{work}/repo")).branch == "topic"


async def test_bare_repository_of_the_host(git: Git, origin: Path, work: Path, host_git: str) -> None:
    """A bare one comes with its files checked out."""
    alter(origin, "clone --bare --branch topic . ../bare")

    await git.clone(origin.parent / "bare", f"{work}/repo")

    assert contents(work / "repo") == {"a.txt": "one\n", "topic.txt": "topic\n"}


async def test_commit_checked_out_on_the_host(git: Git, origin: Path, work: Path, host_git: str) -> None:
    """Where no branch is checked out on the host, the commit is."""
    alter(origin, "checkout --force --detach v1")

    await git.clone(origin, f"{work}/repo")

    assert contents(work / "repo") == {"a.txt": "one\n"}
    assert (await git.status(f"{work}/repo")).branch is None


async def test_repository_without_commits(git: Git, work: Path, tmp_path: Path, host_git: str) -> None:
    """A new repository comes as one."""
    (tmp_path / "new").mkdir()
    alter(tmp_path / "new", "init --initial-branch=trunk")

    await git.clone(tmp_path / "new", f"{work}/repo")

    status = await git.status(f"{work}/repo")
    assert (status.branch, status.commit, status.is_clean) == ("trunk", None, True)


@pytest.mark.parametrize(
    ("origin_url", "kept"), [("https://ada:s3cret@example.com/r.git", "https://example.com/r.git"), ("/srv/r.git", "")]
)
async def test_origin_of_the_copy(
    git: Git, origin: Path, work: Path, host_git: str, origin_url: str, kept: str
) -> None:
    """The copy's origin is the repository's own, without its secret, and never a path of the host."""
    alter(origin, f"remote add origin {origin_url}")
    alter(origin, "config http.extraHeader Authorization:s3cret")

    await git.clone(origin, f"{work}/repo")

    config = (work / "repo" / ".git" / "config").read_text()
    assert ("url = " + kept in config) if kept else ("remote" not in config)
    assert "s3cret" not in config


async def test_ref_and_depth_of_the_host(git: Git, origin: Path, work: Path) -> None:
    """Both mean what they mean for a URL."""
    await git.clone(origin, f"{work}/repo", ref="topic", depth=1)

    assert run_git(work / "repo", "log", "--format=%s") == "Topic"
    assert (await git.status(f"{work}/repo")).branch == "topic"


async def test_repository_that_borrows_from_another(git: Git, origin: Path, work: Path) -> None:
    """One whose objects lie elsewhere on the host comes whole."""
    run_git(origin.parent, "clone", "--quiet", "--shared", str(origin), "borrower")

    await git.clone(origin.parent / "borrower", f"{work}/repo")
    shutil.rmtree(origin)

    assert run_git(work / "repo", "log", "--format=%s") == "Second\nFirst"


async def test_variables_of_a_hook_mislead_nobody(
    git: Git, origin: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run from within a hook of another repository, it is still the one that was named."""
    monkeypatch.setenv("GIT_DIR", str(work / "elsewhere"))

    await git.clone(origin, f"{work}/repo")

    assert contents(work / "repo") == {"a.txt": "two\n"}


async def test_path_without_a_repository(git: Git, work: Path, tmp_path: Path, host_git: str) -> None:
    """What isn't there, and what is no repository, are told apart, and leave nothing."""
    (tmp_path / "plain").mkdir()

    with pytest.raises(FileNotFoundError, match="a URL begins with https"):
        await git.clone(tmp_path / "missing", f"{work}/repo")
    with pytest.raises(SandboxError, match="repository"):
        await git.clone(tmp_path / "plain", f"{work}/repo")

    assert os.listdir(work) == []


# changes


@pytest.fixture
async def clone(git: Git, origin: Path, work: Path) -> Path:
    """Return a clone with changes of every kind."""
    (origin / "b.txt").write_text("b\n" * 20)
    (origin / "c d.txt").write_text("c\n")
    run_git(origin, "add", "b.txt", "c d.txt")
    run_git(origin, "commit", "--quiet", "-m", "Third")
    await git.clone(origin, f"{work}/repo")
    clone = work / "repo"
    (clone / "a.txt").write_text("changed\n")
    run_git(clone, "mv", "b.txt", "größe.txt")
    (clone / "c d.txt").unlink()
    (clone / "new").mkdir()
    (clone / "new" / "file.txt").write_text("new\n")
    (clone / ".gitignore").write_text("ignored\n")
    (clone / "ignored").write_text("ignored\n")
    run_git(clone, "add", ".gitignore")
    return clone


async def test_status(git: Git, clone: Path) -> None:
    """Every change is told, whatever its name, staged or not; what git ignores isn't."""
    status = await git.status(str(clone))

    assert status.branch == "main"
    assert status.commit == run_git(clone, "rev-parse", "HEAD")
    assert list(status.changes) == [
        GitChange(path=".gitignore", status="A."),
        GitChange(path="a.txt", status=".M"),
        GitChange(path="c d.txt", status=".D"),
        GitChange(path="größe.txt", status="R.", original="b.txt"),
        GitChange(path="new/file.txt", status="??"),
    ]


async def test_diff_is_the_whole_change(git: Git, clone: Path, work: Path, origin: Path) -> None:
    """The patch makes of the last commit what there is now, new files included; what is staged stays so."""
    staged = run_git(clone, "diff", "--cached", "--name-status")

    patch = await git.diff(str(clone))

    (work / "patch").write_text(patch)
    await git.clone(f"file://{clone}", f"{work}/applied")
    run_git(work / "applied", "apply", str(work / "patch"))
    expected = contents(clone)
    del expected["ignored"]
    assert contents(work / "applied") == expected
    assert run_git(clone, "diff", "--cached", "--name-status") == staged
    assert not [path for path in (clone / ".git").iterdir() if "agentkit" in path.name]


async def test_diff_before_the_first_commit(git: Git, work: Path) -> None:
    """Everything is new."""
    run_git(work, "init", "--quiet", "repo")
    (work / "repo" / "a").write_text("a\n")

    patch = await git.diff(f"{work}/repo")

    assert "+a" in patch.splitlines()


async def test_conflict_is_told(git: Git, clone: Path) -> None:
    """A merge that needs somebody is a change with ``U``."""
    run_git(clone, "checkout", "--quiet", "--force", "topic")
    (clone / "a.txt").write_text("theirs\n")
    run_git(clone, "commit", "--quiet", "-am", "Theirs")
    with pytest.raises(subprocess.CalledProcessError):
        run_git(clone, "merge", "main")

    changes = (await git.status(str(clone))).changes

    assert GitChange(path="a.txt", status="UU") in changes
