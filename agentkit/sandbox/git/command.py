"""Run git inside, by its arguments only, with nobody to answer questions and nothing secret but in its environment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Protocol

from agentkit.clock import Duration
from agentkit.errors import CommandFailedError, CommandNotFoundError, SandboxConnectionError
from agentkit.sandbox.command import ExecResult, Exit, Output, Stderr
from agentkit.sandbox.git.url import Credential

OnProgress = Callable[[str], None]

_USER: Final = "AGENTKIT_GIT_USER"
_TOKEN: Final = "AGENTKIT_GIT_TOKEN"
# Git gives it to a shell. A command line can be read by every process inside; this one holds names of variables only.
_HELPER: Final = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" "${_USER}" "${_TOKEN}"; }}; f'
_KEPT: Final = 64 << 10


class OutputStream(Protocol):
    """What a sandbox's ``stream`` gives."""

    def __aiter__(self) -> AsyncIterator[Output]:
        """Go through what comes."""

    def aclose(self) -> Awaitable[None]:
        """End the command."""


class CommandRunner(Protocol):
    """What is needed of a sandbox to run git in it."""

    async def exec(
        self, *argv: str, cwd: str = ..., env: Mapping[str, str] | None = ..., timeout: Duration | None = ...
    ) -> ExecResult:
        """Run a command to its end."""

    def stream(
        self, *argv: str, cwd: str = ..., env: Mapping[str, str] | None = ..., timeout: Duration | None = ...
    ) -> OutputStream:
        """Run a command whose output is read as it comes."""


class GitCommand:
    """Runs git commands that belong together.

    Attributes:
        credential: Who to be at the server it is for; no other gets it.
        env: Variables of each.
        on_progress: Told what git says meanwhile.
    """

    def __init__(
        self,
        sandbox: CommandRunner,
        *,
        timeout: Duration = 120,
        credential: Credential | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._timeout = timeout
        self.credential = credential
        self.on_progress = on_progress
        # No URL, wherever it comes from, runs a program.
        self.env = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file"}

    async def __call__(self, *words: str, cwd: str) -> str:
        """Return what git prints.

        Raises:
            CommandFailedError: It failed; nothing secret is in what it holds.
            CommandNotFoundError: There is no git.
        """
        argv = ["git", "-c", "protocol.ext.allow=never"]
        env = dict(self.env)
        if self.credential is not None:
            argv += ["-c", "credential.helper=", "-c", f"credential.{self.credential.scope}.helper={_HELPER}"]
            env |= {_USER: self.credential.username, _TOKEN: self.credential.password}
            # Settings that were written inside could lead git, and the token, through somebody else's proxy.
            env["GIT_CONFIG_GLOBAL"] = "/dev/null"
        try:
            if self.on_progress is None:
                result = await self._sandbox.exec(*argv, *words, cwd=cwd, env=env, timeout=self._timeout)
            else:
                result = await self._follow(self.on_progress, argv, words, cwd=cwd, env=env)
        except CommandNotFoundError as error:
            raise CommandNotFoundError("git", "use an image that has it, or install it first") from error
        if not result.ok:
            raise CommandFailedError(" ".join(["git", *words]), self._without_secrets(result))
        return result.stdout

    async def _follow(
        self, on_progress: OnProgress, argv: list[str], words: tuple[str, ...], *, cwd: str, env: Mapping[str, str]
    ) -> ExecResult:
        """Run a command and tell what it says, line by line."""
        kept = {True: "", False: ""}
        unfinished = ""
        stream = self._sandbox.stream(*argv, *words, cwd=cwd, env=env, timeout=self._timeout)
        async with aclosing(stream):
            async for piece in stream:
                if isinstance(piece, Exit):
                    return ExecResult(
                        exit_code=piece.exit_code,
                        stdout=kept[False],
                        stderr=kept[True],
                        timed_out=piece.timed_out,
                        out_of_memory=piece.out_of_memory,
                        duration=piece.duration,
                    )
                is_error = isinstance(piece, Stderr)
                kept[is_error] = (kept[is_error] + piece.text)[-_KEPT:]
                if is_error:
                    *lines, unfinished = (unfinished + piece.text).replace("\r", "\n")[-_KEPT:].split("\n")
                    for line in lines:
                        if line.strip():
                            on_progress(line.strip())
        raise SandboxConnectionError("the output of git ended without its exit code")

    def _without_secrets(self, result: ExecResult) -> ExecResult:
        if self.credential is None:
            return result
        secret = self.credential.password
        return replace(result, stdout=result.stdout.replace(secret, "***"), stderr=result.stderr.replace(secret, "***"))
