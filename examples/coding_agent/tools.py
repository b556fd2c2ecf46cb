"""What the model can do in the repository: look, edit, test. Every path is one inside the sandbox."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable
from typing import Any

from agentkit.harness import tool
from agentkit.sandbox import Sandbox

REPOSITORY = "/workspace/repository"
#: More of a file than this is left out; a model can ask for the rest by line.
_MAX_LINES = 800


class RepositoryTools:
    """Tools on one repository in one sandbox.

    All of them may be run again after a crash: reading changes nothing, an edit that was made already is found to be
    there, and what a killed process had started in the sandbox has ended with it.

    Attributes:
        test_command: A line for a shell; set once the project is known.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.test_command = ""

    def all(self) -> list[Callable[..., Any]]:
        """Return the tools, for a harness."""
        return [
            self.list_files,
            self.read_file,
            self.search,
            self.write_file,
            self.edit_file,
            self.file_history,
            self.restore_file,
            self.run_tests,
            self.run,
        ]

    @tool(effect="read")
    async def list_files(self) -> str:
        """List the files of the repository, those that git ignores left out."""
        return await self._git("ls-files", "--cached", "--others", "--exclude-standard")

    @tool(effect="read")
    async def read_file(self, path: str, first_line: int = 1) -> str:
        """Return a file with its lines numbered.

        Args:
            path: Below the repository.
            first_line: Where to begin, for long files.
        """
        lines = (await self._sandbox.files.read_text(_inside(path))).splitlines()
        shown = lines[first_line - 1 : first_line - 1 + _MAX_LINES]
        left = len(lines) - (first_line - 1) - len(shown)
        numbered = "\n".join(f"{number:5} {line}" for number, line in enumerate(shown, first_line))
        return numbered + (f"\n… {left} more lines" if left > 0 else "")

    @tool(effect="read")
    async def search(self, pattern: str, path: str = ".") -> str:
        """Find lines that match an extended regular expression.

        Args:
            pattern: The expression.
            path: A file or directory below the repository.
        """
        found = await self._sandbox.exec(
            "grep", "-rnEI", "--exclude-dir=.git", "--exclude-dir=.venv", "--exclude-dir=node_modules", "-e", pattern,
            "--", _inside(path), cwd=REPOSITORY,
        )  # fmt: skip
        return found.stdout[:20_000].replace(f"{REPOSITORY}/", "") or found.stderr or "nothing found"

    @tool(effect="idempotent")
    async def write_file(self, path: str, content: str) -> str:
        """Write a whole file, making its directory if need be.

        Args:
            path: Below the repository.
            content: All of it.
        """
        await self._sandbox.files.write(_inside(path), content)
        return f"{path} written, {len(content.splitlines())} lines"

    @tool(effect="idempotent")
    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a piece of text that stands exactly once in a file.

        Args:
            path: Below the repository.
            old: What stands there now, as it is, without line numbers.
            new: What is to stand there.
        """
        text = await self._sandbox.files.read_text(_inside(path))
        if text.count(old) != 1:
            if new in text and old not in text:
                return f"{path} holds the new text already"
            message = f"the old text stands {text.count(old)} times in {path}; give a piece that stands there once"
            raise ValueError(message)
        await self._sandbox.files.write(_inside(path), text.replace(old, new))
        return f"{path} changed"

    @tool(effect="read")
    async def file_history(self, path: str) -> str:
        """Return the last five commits that changed a file, with what they changed.

        Args:
            path: Below the repository.
        """
        return await self._git("log", "-5", "--patch", "--no-color", "--", _inside(path))

    @tool(effect="idempotent")
    async def restore_file(self, path: str, revision: str) -> str:
        """Bring a file back as it was in a commit.

        Args:
            path: Below the repository.
            revision: Such as ``1a2b3c4`` or ``1a2b3c4~1``, the commit before that one.
        """
        if revision.startswith("-"):
            message = "give the id of a commit"
            raise ValueError(message)
        await self._git("checkout", revision, "--", _inside(path))
        return f"{path} is as it was in {revision}"

    @tool(effect="idempotent", timeout=900)
    async def run_tests(self) -> str:
        """Run the tests of the repository and return what they print."""
        if not self.test_command:
            return "this repository has no tests that I know how to run"
        return await self._shell(self.test_command, timeout=850)

    @tool(effect="once", timeout=330)
    async def run(self, command: str) -> str:
        """Run a line in a shell, in the repository, for at most five minutes.

        Args:
            command: The line.
        """
        return await self._shell(command, timeout=300)

    async def _shell(self, line: str, *, timeout: float) -> str:
        result = await self._sandbox.exec(
            shell=line, cwd=REPOSITORY, timeout=timeout, merge_stderr=True, max_output=20_000
        )
        how = f"stopped after {timeout:g} s" if result.timed_out else f"exit code {result.exit_code}"
        return f"[{how}]\n{result.stdout.rstrip()}"

    async def _git(self, *arguments: str) -> str:
        result = await self._sandbox.exec("git", *arguments, cwd=REPOSITORY, max_output=30_000)
        if not result.ok:
            message = f"git {shlex.join(arguments[:1])}: {result.stderr.strip()}"
            raise ValueError(message)
        return result.stdout or "nothing"


def _inside(path: str) -> str:
    """Return the absolute path of a file of the repository.

    Raises:
        ValueError: It would lead out of the repository.
    """
    whole = posixpath.normpath(posixpath.join(REPOSITORY, path))
    if whole != REPOSITORY and not whole.startswith(f"{REPOSITORY}/"):
        message = f"{path!r} is outside of the repository"
        raise ValueError(message)
    return whole
