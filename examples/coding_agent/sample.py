"""Makes the sample repository: a small program with a history, whose last change but one broke it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).with_name("sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A change to one file that makes a test fail.

    Attributes:
        path: The file.
        right: What stands there before.
        wrong: What the change makes of it.
        message: Of the commit that does it.
    """

    path: str
    right: str
    wrong: str
    message: str


LOST_CENT = Bug(
    path="bills/split.py",
    right="    base, rest = divmod(cents, people)\n    return [base + 1] * rest + [base] * (people - rest)\n",
    wrong="    return [cents // people] * people\n",
    message="Simplify how a bill is split",
)


def make_sample(target: Path, bug: Bug = LOST_CENT, *, ignores: bool = True) -> Path:
    """Make the repository in an empty or missing directory, with a .gitignore or not, and return it; needs git."""
    shutil.copytree(SAMPLE, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    if not ignores:
        (target / ".gitignore").unlink()
    readme = target / "README.md"
    told = readme.read_text()
    readme.unlink()
    _git(target, "init", "--quiet", "--initial-branch=main")
    _commit(target, "Split bills and show the shares", day=1)
    _replace(target / bug.path, bug.right, bug.wrong)
    _commit(target, bug.message, day=2)
    readme.write_text(told)
    _commit(target, "Say what this is", day=3)
    return target


def _replace(path: Path, right: str, wrong: str) -> None:
    text = path.read_text()
    if text.count(right) != 1:
        message = f"{path} doesn't hold the lines to be changed"
        raise ValueError(message)
    path.write_text(text.replace(right, wrong))


def _commit(repository: Path, message: str, *, day: int) -> None:
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message", message, date=f"2026-11-{day:02d}T12:00:00Z")


def _git(repository: Path, *arguments: str, date: str = "") -> None:
    who = {"NAME": "Sample", "EMAIL": "sample@example.com"}
    told = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    # Nothing of the machine's own settings: signing keys, hooks, templates.
    told |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TEMPLATE_DIR": ""}
    if date:
        told |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    subprocess.run(["git", *arguments], cwd=repository, env={**os.environ, **told}, check=True)
