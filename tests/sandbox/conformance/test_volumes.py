"""What every engine mounts: volumes that outlive instances, and directories of the host that were named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentkit.errors import SandboxError
from agentkit.sandbox.engine import SandboxEngine
from agentkit.sandbox.spec import BucketMount, Volume
from tests.sandbox.box import Boxes
from tests.sandbox.engines import CANDIDATES, needs

CACHE = Volume("cache", "/var/cache/deep/own")


@needs("volumes")
async def test_fresh_volume_belongs_to_the_user(boxes: Boxes) -> None:
    """The sandbox's user can write to a volume nobody has used, wherever it is."""
    box = await boxes.start(volumes=[CACHE, Volume("other", "/workspace/data")])

    await box.write("/workspace/data/file", b"2")
    await box.write("/var/cache/deep/own/file", b"1")

    assert await box.sh("cat /var/cache/deep/own/file /workspace/data/file") == "12"


@needs("volumes")
async def test_volume_is_shared_by_instances_of_a_store(boxes: Boxes) -> None:
    """Two instances that run at the same time see each other's files, and so does a later one."""
    one = await boxes.start("one", volumes=[CACHE])
    two = await boxes.start("two", volumes=[Volume("cache", "/shared")])

    await one.write(f"{CACHE.path}/file", b"from one")
    seen = await two.read("/shared/file")
    await one.remove()
    await two.remove()
    three = await boxes.start("three", volumes=[CACHE])

    assert seen == b"from one"
    assert await three.read(f"{CACHE.path}/file") == b"from one"


@needs("volumes")
async def test_volume_of_another_store_is_another(engine: SandboxEngine, boxes: Boxes) -> None:
    """The same name in two stores means two volumes, and each store removes its own."""
    others = Boxes(engine, store=boxes.store[::-1], image=CANDIDATES[engine.name].image)
    try:
        ours = await boxes.start("ours", volumes=[CACHE])
        theirs = await others.start("theirs", volumes=[CACHE])
        await ours.write(f"{CACHE.path}/file", b"ours")

        seen = await (await theirs.inside()).entries(CACHE.path)
        await theirs.remove()
        removed = await engine.remove_volume(CACHE.name, others.store)

        assert seen == []
        assert removed
        assert await ours.read(f"{CACHE.path}/file") == b"ours"
    finally:
        await others.clear()


@needs("volumes")
async def test_removed_volume_is_gone(boxes: Boxes) -> None:
    """Removing one tells whether there was one; the next of its name is empty."""
    box = await boxes.start(volumes=[CACHE])
    await box.write(f"{CACHE.path}/file", b"old")
    await box.remove()

    first = await box.engine.remove_volume(CACHE.name, boxes.store)
    second = await box.engine.remove_volume(CACHE.name, boxes.store)
    again = await boxes.start("again", volumes=[CACHE])

    assert (first, second) == (True, False)
    assert await (await again.inside()).entries(CACHE.path) == []


@needs("host_directories")
async def test_host_directory_is_there(boxes: Boxes, tmp_path: Path) -> None:
    """A directory of the host that is named is read and written, and there again after each start (SPEC 12.11)."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "given").write_text("from the host")
    box = await boxes.start(mounts=[BucketMount(str(shared), "/mnt/shared")])

    given = await box.sh("cat given; echo back >made", cwd="/mnt/shared")
    await box.stop()
    await box.start()
    image = await box.save(boxes.snapshot())
    restored = await boxes.restore(image.id, "without")

    assert given == "from the host"
    assert (shared / "made").read_text() == "back\n"
    assert await box.read("/mnt/shared/given") == b"from the host"
    assert await (await restored.inside()).stat("/mnt/shared/given") is None


@needs("host_directories")
async def test_read_only_host_directory_stays_as_it_is(boxes: Boxes, tmp_path: Path) -> None:
    """Nothing inside can change one that is mounted to be read."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "given").write_text("from the host")
    box = await boxes.start(mounts=[BucketMount(f"file://{shared}", "/mnt/shared", read_only=True)])

    tried = await box.run(shell="cat given; echo x >made || rm -f given", cwd="/mnt/shared")

    assert tried.text == "from the host"
    assert os.listdir(shared) == ["given"]


@needs("host_directories")
async def test_missing_host_directory_is_told(boxes: Boxes, tmp_path: Path) -> None:
    """A directory that isn't there is an error that names it, is not made, and leaves nothing."""
    box = boxes.box(mounts=[BucketMount(str(tmp_path / "none"), "/mnt/shared")])

    with pytest.raises(SandboxError, match="none"):
        await box.engine.create(box.plan)

    assert await box.find() is None
    assert not (tmp_path / "none").exists()
