"""Read what ``git status --porcelain=v2 --branch -z`` prints; the format is git's promise to programs."""

from __future__ import annotations

from dataclasses import dataclass

#: How many fields, divided by spaces, come before the path, by kind of entry.
_FIELDS = {"1": 8, "2": 9, "u": 10, "?": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitChange:
    """A file that differs from the last commit.

    Attributes:
        path: From the root of the repository.
        status: Two letters, staged and not staged, as git has them: ``M`` modified, ``A`` added, ``D`` deleted, ``R``
            renamed, ``U`` in conflict, ``?`` unknown to git, ``.`` unchanged.
        original: What a renamed file was called.
    """

    path: str
    status: str
    original: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """What ``git.status`` gives.

    Attributes:
        branch: None if a commit is checked out, and no branch.
        commit: Hash of the last commit; None before the first.
        changes: What differs from it, by path.
    """

    branch: str | None
    commit: str | None
    changes: tuple[GitChange, ...]

    @property
    def is_clean(self) -> bool:
        """Nothing differs."""
        return not self.changes


def read_status(text: str) -> GitStatus:
    """Return what git printed."""
    headers: dict[str, str] = {}
    changes: list[GitChange] = []
    entries = iter(text.split("\0"))
    for entry in entries:
        if entry.startswith("# "):
            name, _, value = entry[2:].partition(" ")
            headers[name] = value
        elif entry[:1] in _FIELDS and entry[:1]:
            fields = entry.split(" ", _FIELDS[entry[0]])
            status = "??" if entry[0] == "?" else fields[1]
            original = next(entries) if entry[0] == "2" else None
            changes.append(GitChange(path=fields[-1], status=status, original=original))
    branch, commit = headers.get("branch.head", "(detached)"), headers.get("branch.oid", "(initial)")
    return GitStatus(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        changes=tuple(sorted(changes, key=lambda change: change.path)),
    )
