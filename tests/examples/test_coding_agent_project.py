"""What the coding agent makes of a repository before it works on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.coding_agent import main
from examples.coding_agent.agent import agent_name, host_of
from examples.coding_agent.project import recognise
from examples.coding_agent.sample import LOST_CENT, Bug, make_sample
from examples.coding_agent.tools import _inside

LOST_ZEROS = Bug(
    path="bills/money.py",
    right='f"{cents // 100}.{cents % 100:02d} €"',
    wrong='f"{cents / 100} €"',
    message="Write amounts more simply",
)


@pytest.mark.parametrize(
    ("files", "contents", "kind", "install", "test", "serve"),
    [
        (["README.md"], {}, "plain files", "", "", "python3 -m http.server $PORT --bind 127.0.0.1"),
        (
            ["requirements.txt", "Procfile"],
            {"Procfile": "worker: python -m w\nweb: python -m bills.server $PORT\n"},
            "Python",
            "-r requirements.txt",
            ".venv/bin/python -m pytest -q",
            "python -m bills.server $PORT",
        ),
        (["pyproject.toml"], {}, "Python", "--editable .", ".venv/bin/python -m pytest -q", "http.server"),
        (
            ["package.json", "package-lock.json"],
            {"package.json": '{"scripts": {"dev": "vite", "test": "vitest run"}}'},
            "Node.js",
            "npm ci",
            "npm test --silent",
            "npm run dev",
        ),
        (["package.json"], {"package.json": "{}"}, "Node.js", "npm install", "", "http.server"),
        (["package.json"], {"package.json": '{"scripts": brok'}, "Node.js", "npm install", "", "http.server"),
        (["package.json"], {"package.json": '["x"]'}, "Node.js", "npm install", "", "http.server"),
    ],
)
def test_projects_are_recognised(
    files: list[str], contents: dict[str, str], kind: str, install: str, test: str, serve: str
) -> None:
    """By the files at the top, and by what is said there."""
    project = recognise(files, contents)

    assert project.kind == kind
    assert install in project.install
    assert project.test == test
    assert serve in project.serve


@pytest.mark.parametrize("bug", [LOST_CENT, LOST_ZEROS])
def test_sample_is_broken_by_the_change_alone(tmp_path: Path, bug: Bug) -> None:
    """One test fails, and none in the version before; the last commit touches neither."""
    repository = make_sample(tmp_path / "bills", bug)

    def failures() -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:agentkit", "--no-header"]
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
        return [line for line in done.stdout.splitlines() if line.startswith("FAILED")]

    now = failures()
    subprocess.run(["git", "checkout", "--quiet", "HEAD~2", "--", bug.path], cwd=repository, check=True)

    assert len(now) == 1
    assert failures() == []


@pytest.mark.parametrize(
    ("repository", "hosts"),
    [("https://code.example/a/b.git", ("code.example",)), ("/home/me/b", ()), ("git@code.example:a/b", ())],
)
def test_only_the_repositorys_own_host_is_let_in(repository: str, hosts: tuple[str, ...]) -> None:
    """A path on this machine needs none."""
    assert host_of(repository) == hosts


def test_same_order_finds_the_same_agent() -> None:
    """The name is made of repository and task, and of nothing else."""
    assert agent_name("/a/bills/", "mend") == agent_name("/a/bills", "mend") != agent_name("/a/bills", "paint")


@pytest.mark.parametrize(
    ("repository", "told"),
    [
        ("https://me:secret@code.example/a", "CODING_AGENT_TOKEN"),
        ("ftp://code.example/a", "is neither"),
        (".", "is neither"),
        ("/no/such/place", "is neither"),
    ],
)
def test_what_is_no_repository_is_refused_at_once(
    repository: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started, in a line, and without the token."""
    monkeypatch.chdir(tmp_path)

    status = main.main(["--repo", repository, "--task", "mend"])

    printed = capsys.readouterr()
    assert status == 2
    assert told in " ".join(printed.err.split())
    assert "secret" not in printed.out + printed.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_tools_stay_in_the_repository(path: str) -> None:
    """A model that names a file elsewhere is told so."""
    with pytest.raises(ValueError, match="outside of the repository"):
        _inside(path)
