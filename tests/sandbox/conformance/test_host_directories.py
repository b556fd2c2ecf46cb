"""Host directories, on every engine that mounts them (SPEC 12.11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit.errors import SandboxError
from agentkit.sandbox import BucketMount, Sandbox, SandboxEngine, SandboxSpec
from agentkit.sandbox.engine import STORE
from agentkit.testing import ManualRuntime
from tests.sandbox.engines import CANDIDATES, needs
from tests.sandbox.sandbox_host import Coder, Given

pytestmark = needs("process_tree", "host_directories")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a directory that the sandbox's user may write to."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    return shared


@pytest.fixture
async def coder(engine: SandboxEngine, shared: Path, tmp_path: Path) -> AsyncIterator[Coder]:
    """Return an agent whose sandbox has the directory; nothing of it is left behind."""
    mounts = [BucketMount(str(shared), "/shared")]
    given = Given(spec=SandboxSpec(image=CANDIDATES[engine.name].image, mounts=mounts))
    async with ManualRuntime(Coder, store=f"sqlite:///{tmp_path}/a.db", engine=engine, deps=given) as runtime:
        yield runtime.get(Coder, "ada")
        for instance in await engine.instances():
            if instance.labels.get(STORE) == runtime.store.id:
                await engine.remove(instance.name)


async def test_both_sides_see_it(coder: Coder, shared: Path) -> None:
    """What one side writes, the other reads at once, and it is there again after a stop and a start."""
    (shared / "given").write_text("from outside")

    async def work(sandbox: Sandbox) -> str:
        await sandbox.start()
        await sandbox.exec(shell="echo from inside >/shared/made", check=True)
        await sandbox.stop()
        await sandbox.ensure_started()
        return (await sandbox.exec("cat", "/shared/given", check=True)).stdout

    assert await coder.use(work) == "from outside"
    assert (shared / "made").read_text() == "from inside\n"


async def test_link_in_its_place_is_not_followed(coder: Coder, shared: Path, tmp_path: Path) -> None:
    """A directory that became a link between two starts, by whomever, leads to nothing of the host (report 23)."""
    await coder.use(Sandbox.start)
    await coder.use(Sandbox.stop)
    (tmp_path / "secret").mkdir()
    shared.rename(tmp_path / "away")
    shared.symlink_to(tmp_path / "secret")

    with pytest.raises(SandboxError, match="reached through a link"):
        await coder.use(Sandbox.ensure_started)
    with pytest.raises(SandboxError, match="reached through a link"):
        await coder.use(Sandbox.start)

    shared.unlink()
    (tmp_path / "away").rename(shared)
    await coder.use(Sandbox.ensure_started)
