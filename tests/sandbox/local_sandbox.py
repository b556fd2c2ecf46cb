"""A directory of this machine and its programs, with as much of a sandbox's face as git needs. No sandbox at all."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from agentkit.clock import Duration
from agentkit.errors import CommandNotFoundError, SandboxPermissionError
from agentkit.sandbox.command import ExecResult, Exit, Output, Stderr, Stdout
from agentkit.sandbox.guest import FileInfo, FileType


@dataclass(slots=True)
class LocalFiles:
    """Files, by their paths on this machine.

    Attributes:
        closed: Directories in which nothing may be made.
    """

    closed: set[str] = field(default_factory=set)

    async def stat(self, path: str) -> FileInfo | None:
        """See ``Files``."""
        place = Path(path)
        if not place.exists():
            return None
        kind: FileType = "directory" if place.is_dir() else "file"
        return FileInfo(path=path, type=kind, size=0, mode=0, modified_at_ms=0)

    async def list(self, path: str = "") -> list[FileInfo]:
        """See ``Files``."""
        found = [await self.stat(str(entry)) for entry in sorted(Path(path).iterdir())]
        return [entry for entry in found if entry is not None]

    async def mkdir(self, path: str) -> None:
        """See ``Files``."""
        if str(Path(path).parent) in self.closed:
            raise SandboxPermissionError(path, 13, "closed")
        Path(path).mkdir(parents=True, exist_ok=True)

    async def move(self, source: str, target: str) -> None:
        """See ``Files``."""
        Path(source).rename(target)

    async def remove(self, path: str) -> bool:
        """See ``Files``."""
        place = Path(path)
        if place.is_dir():
            shutil.rmtree(place)
            return True
        if place.exists():
            place.unlink()
            return True
        return False

    async def upload(self, source: str | Path, target: str) -> None:
        """See ``Files``."""
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


@dataclass(slots=True)
class LocalSandbox:
    """Runs programs of this machine.

    Attributes:
        home: What they take for their home.
        path: Where they are looked for.
        files: The files.
        commands: What was run, with its variables.
    """

    home: Path
    path: str = field(default_factory=lambda: os.environ["PATH"])
    files: LocalFiles = field(default_factory=LocalFiles)
    commands: list[tuple[tuple[str, ...], dict[str, str]]] = field(default_factory=list)

    async def exec(
        self, *argv: str, cwd: str = "/", env: Mapping[str, str] | None = None, timeout: Duration | None = 120
    ) -> ExecResult:
        """See ``Sandbox``."""
        kept = {Stdout: "", Stderr: ""}
        async with aclosing(self.stream(*argv, cwd=cwd, env=env, timeout=timeout)) as stream:
            async for piece in stream:
                if isinstance(piece, Exit):
                    return ExecResult(exit_code=piece.exit_code, stdout=kept[Stdout], stderr=kept[Stderr])
                kept[type(piece)] += piece.text
        raise AssertionError

    async def stream(
        self, *argv: str, cwd: str = "/", env: Mapping[str, str] | None = None, timeout: Duration | None = None
    ) -> AsyncGenerator[Output, None]:
        """See ``Sandbox``; the pieces come all at the end."""
        self.commands.append((argv, dict(env or {})))
        program = shutil.which(argv[0], path=self.path)
        if program is None:
            raise CommandNotFoundError(argv[0])
        variables = {"PATH": self.path, "HOME": str(self.home), **(env or {})}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            program, *argv[1:], cwd=cwd, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        yield Stderr(errors, errors.decode())
        yield Stdout(output, output.decode())
        yield Exit(exit_code=process.returncode or 0, duration=timedelta(0))
