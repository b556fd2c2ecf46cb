"""An owner of a sandbox that is killed while a command runs: ``python -m tests.sandbox.doomed ENGINE FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentkit.sandbox import Sandbox, SandboxSpec
from agentkit.testing import ManualRuntime
from tests.sandbox.engines import CANDIDATES
from tests.sandbox.sandbox_host import Coder, Given


async def work(sandbox: Sandbox) -> None:
    """Start, with a process in the background and a command in the foreground, and say so."""
    await sandbox.start()
    await sandbox.processes.start("background", "sleep", "4321")
    command = asyncio.ensure_future(sandbox.exec(shell="touch begun; setsid sleep 1234 & sleep 1234", timeout=None))
    while await sandbox.files.stat("begun") is None:
        await asyncio.sleep(0.02)
    print("begun", flush=True)  # noqa: T201  # what the test waits for
    await command


async def main(name: str, folder: str) -> None:
    """Serve a store until killed."""
    candidate = CANDIDATES[name]
    given = Given(spec=SandboxSpec(image=candidate.image))
    engine = candidate.make(Path(folder))
    async with ManualRuntime(Coder, store=f"sqlite:///{folder}/agents.db", engine=engine, deps=given) as runtime:
        await runtime.get(Coder, "ada").use(work)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
