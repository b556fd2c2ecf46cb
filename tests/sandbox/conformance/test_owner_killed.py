"""A process that owns a sandbox is killed with SIGKILL while a command runs, and another one goes on (SPEC 12.8)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from agentkit.errors import SandboxRunningError
from agentkit.sandbox import Sandbox, SandboxEngine, SandboxSpec
from agentkit.testing import ManualRuntime
from tests.sandbox.engines import CANDIDATES, eventually, needs
from tests.sandbox.sandbox_host import Coder, Given

ROOT = Path(__file__).parent.parent.parent.parent


async def sleepers(sandbox: Sandbox) -> list[str]:
    """Return for how long whatever sleeps inside is to sleep."""
    line = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -x '1234\\|4321' | sort"
    return (await sandbox.exec(shell=line)).stdout.split()


@needs("owner_may_die", "process_tree")
async def test_killed_owner_takes_its_commands_along_and_nothing_else(engine: SandboxEngine, tmp_path: Path) -> None:
    """Trap T1, report 20: the foreground ends with its owner, setsid or not; the background goes on, and is found."""
    words = (sys.executable, "-m", "tests.sandbox.doomed", engine.name, str(tmp_path))
    owner = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    assert await asyncio.wait_for(owner.stdout.readline(), 60) == b"begun\n"

    owner.kill()
    assert await owner.wait() == -signal.SIGKILL

    given = Given(spec=SandboxSpec(image=CANDIDATES[engine.name].image))
    async with ManualRuntime(Coder, store=f"sqlite:///{tmp_path}/agents.db", engine=engine, deps=given) as runtime:
        ada = runtime.get(Coder, "ada")

        async def only_background_is_left() -> bool:
            return await ada.use(sleepers) == ["4321"]

        try:
            await eventually(only_background_is_left)
            [process] = await ada.use(lambda sandbox: sandbox.processes.list())
            with pytest.raises(SandboxRunningError):
                await ada.use(lambda sandbox: sandbox.start())
            assert (process.name, process.info.exit_code) == ("background", None)
        finally:
            await ada.use(lambda sandbox: sandbox.destroy())
