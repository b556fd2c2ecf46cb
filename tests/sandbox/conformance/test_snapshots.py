"""What every engine saves, and what becomes of it: nothing is lost, nothing grows without bound, nothing is left."""

from __future__ import annotations

import asyncio
import hashlib
import random

import pytest

from agentkit.errors import SnapshotNotFoundError
from agentkit.sandbox.engine import AGENT, MANAGED, SNAPSHOT, STORE
from agentkit.sandbox.spec import Volume
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import needs


async def fingerprint(box: Box) -> str:
    """Return a hash of every file in the workspace, with its name, mode and links."""
    guest = await box.inside()
    total = hashlib.sha256()
    for entry in sorted([entry async for entry in guest.walk("/workspace")], key=lambda entry: entry.path):
        total.update(f"{entry.path} {entry.type} {entry.mode:o} {entry.target}".encode())
        if entry.type == "file":
            total.update(await box.read(entry.path))
    return total.hexdigest()


async def test_snapshot_holds_the_files(boxes: Boxes) -> None:
    """What the disk held when it was saved is what a restored one begins with; the sandbox goes on meanwhile."""
    box = await boxes.start("before")
    await box.write("/workspace/a/b", b"saved")
    await box.write("/home/agent/.profile", b"export A=1")
    await box.sh("chmod 700 a/b; ln -s a/b link; echo x >/tmp/kept; mkdir empty")
    before = await fingerprint(box)

    image = await box.save(boxes.snapshot())
    await box.write("/workspace/a/b", b"later")
    restored = await boxes.restore(image.id, "after")

    assert await fingerprint(restored) == before
    assert await restored.read("/home/agent/.profile") == b"export A=1"
    assert await restored.read("/tmp/kept") == b"x\n"
    assert await box.read("/workspace/a/b") == b"later"


async def test_deleted_files_stay_deleted(boxes: Boxes) -> None:
    """What was removed is not there again after two snapshots."""
    box = await boxes.start("0")
    await box.write("/workspace/gone", b"1")
    first = await box.save(boxes.snapshot(0))
    second_box = await boxes.restore(first.id, "1")
    await (await second_box.inside()).remove("/workspace/gone")

    second = await second_box.save(boxes.snapshot(1))
    third_box = await boxes.restore(second.id, "2")

    assert await (await third_box.inside()).entries("/workspace") == []


async def test_stopped_instance_is_saved_too(boxes: Boxes) -> None:
    """A snapshot of one that doesn't run holds its disk."""
    box = await boxes.start("before")
    await box.write("/workspace/notes", b"saved")
    await box.stop()

    image = await box.save(boxes.snapshot())
    await box.remove()
    restored = await boxes.restore(image.id, "after")

    assert await restored.read("/workspace/notes") == b"saved"


@needs("process_tree")
async def test_memory_is_not_saved(boxes: Boxes) -> None:
    """Neither what runs nor what lies in /run is in a snapshot (SPEC 12.7; trap T12)."""
    box = await boxes.start("before")
    await box.sh("echo secret >/run/agentkit/token; sleep 3600 >/dev/null 2>&1 &")

    image = await box.save(boxes.snapshot())
    restored = await boxes.restore(image.id, "after")

    assert await (await restored.inside()).stat("/run/agentkit/token") is None
    assert (await restored.run(shell="grep -lx sleep /proc/[0-9]*/comm | wc -l")).text in ("0", "1")


@needs("volumes")
async def test_volumes_are_not_saved(boxes: Boxes) -> None:
    """A volume outlives instances and is shared by name; a snapshot has none of it (SPEC 12.7; trap T12)."""
    cache = Volume("cache", "/var/cache/own")
    box = await boxes.start("before", volumes=[cache])
    await box.write("/var/cache/own/file", b"shared")

    image = await box.save(boxes.snapshot())
    await box.remove()
    without = await boxes.restore(image.id, "without")
    again = await boxes.start("again", volumes=[cache])

    assert await (await without.inside()).stat("/var/cache/own/file") is None
    assert await again.read("/var/cache/own/file") == b"shared"


async def test_snapshot_is_labelled(boxes: Boxes) -> None:
    """Its labels are those it was given, and its size and age are told (SPEC 12.7)."""
    box = await boxes.start()
    await box.write("/workspace/big", random.Random(1).randbytes(3 << 20))
    labels = {MANAGED: "1", STORE: boxes.store, AGENT: "Agent/Name with \"quotes\", $dollars\nand 'lines'"}

    image = await box.engine.save(box.name, boxes.snapshot(), labels)

    [listed] = await boxes.saved()
    assert listed == image
    assert {key: image.labels.get(key) for key in labels} == labels
    assert (image.id, image.labels[SNAPSHOT]) == (boxes.snapshot(), boxes.snapshot())
    assert image.size >= 3 << 20
    found = await box.find()
    assert found is not None
    assert image.saved_at >= found.created_at


async def test_labels_of_a_snapshot_are_not_inherited(boxes: Boxes) -> None:
    """A restored instance has the labels of its plan alone (trap T11)."""
    box = await boxes.start("before")
    image = await box.engine.save(box.name, boxes.snapshot(), {MANAGED: "1", STORE: boxes.store, AGENT: "Other/name"})

    restored = await boxes.restore(image.id, "after")

    found = await restored.find()
    assert found is not None
    assert {key: found.labels.get(key) for key in restored.plan.labels} == restored.plan.labels


async def test_deleting_leaves_what_came_of_it_whole(boxes: Boxes) -> None:
    """A snapshot may go while instances and later snapshots that began from it stay (SPEC 12.7)."""
    box = await boxes.start("0")
    await box.write("/workspace/notes", b"first")
    first = await box.save(boxes.snapshot(0))
    restored = await boxes.restore(first.id, "1")
    await restored.write("/workspace/more", b"second")
    second = await restored.save(boxes.snapshot(1))

    deleted = await box.engine.delete_saved(first.id)

    assert deleted
    assert [image.id for image in await boxes.saved()] == [second.id]
    with pytest.raises(SnapshotNotFoundError):
        await boxes.restore(first.id, "2")
    assert await restored.read("/workspace/notes") == b"first"
    await restored.stop()
    await restored.start()
    third = await restored.save(boxes.snapshot(2))
    last = await boxes.restore(third.id, "3")
    assert (await last.read("/workspace/notes"), await last.read("/workspace/more")) == (b"first", b"second")
    assert not await box.engine.delete_saved(first.id)


async def test_copy_has_a_life_of_its_own(boxes: Boxes) -> None:
    """A copy has labels of its own and outlives what it was made of."""
    box = await boxes.start("before")
    await box.write("/workspace/notes", b"copied")
    image = await box.save(boxes.snapshot(0))

    copy = await box.engine.copy_saved(
        image.id, boxes.snapshot(1), {MANAGED: "1", STORE: boxes.store, AGENT: "Other/name"}
    )
    await box.engine.delete_saved(image.id)
    restored = await boxes.restore(copy.id, "after")

    assert copy.labels[AGENT] == "Other/name"
    assert [saved.id for saved in await boxes.saved()] == [copy.id]
    assert await restored.read("/workspace/notes") == b"copied"


async def test_missing_snapshot_is_not_copied(boxes: Boxes) -> None:
    """There is nothing to copy of what isn't there."""
    with pytest.raises(SnapshotNotFoundError):
        await boxes.engine.copy_saved(boxes.snapshot(0), boxes.snapshot(1), {MANAGED: "1", STORE: boxes.store})

    assert await boxes.saved() == []


async def test_snapshots_at_the_same_time(boxes: Boxes) -> None:
    """Three of different instances, made at once, hold each their own."""
    made = [await boxes.start(str(number)) for number in range(3)]
    for number, box in enumerate(made):
        await box.write("/workspace/number", str(number).encode())

    images = await asyncio.gather(*(box.save(boxes.snapshot(number)) for number, box in enumerate(made)))
    restored = [await boxes.restore(image.id, f"r{number}") for number, image in enumerate(images)]

    assert [await box.read("/workspace/number") for box in restored] == [b"0", b"1", b"2"]


async def cycle(boxes: Boxes, times: int) -> list[int]:
    """Save and restore again and again, with files that change, grow and go; return the size of each snapshot.

    Every state must come back as it was left. Only the last snapshot is kept, as expiry would.
    """
    random_bytes = random.Random(7)
    box = await boxes.start("0")
    sizes = []
    for number in range(times):
        await box.write("/workspace/rewritten", random_bytes.randbytes(2 << 20))
        await box.write(f"/workspace/kept/{number}", f"round {number}".encode())
        if number:
            await (await box.inside()).remove(f"/workspace/passing/{number - 1}")
        await box.write(f"/workspace/passing/{number}", random_bytes.randbytes(100_000))
        before = await fingerprint(box)
        image = await box.save(boxes.snapshot(number))
        await box.remove()
        if number:
            await box.engine.delete_saved(boxes.snapshot(number - 1))
        box = await boxes.restore(image.id, str(number + 1))
        assert await fingerprint(box) == before
        sizes.append(image.size)
    return sizes


async def test_some_rounds_of_snapshots_lose_nothing(boxes: Boxes) -> None:
    """Four times saved and restored, every file is as it was left (report 9)."""
    sizes = await cycle(boxes, 4)

    assert max(sizes) < 20 << 20


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_many_rounds_of_snapshots_lose_nothing_and_stay_small(boxes: Boxes) -> None:
    """Twenty-five times saved and restored, and the snapshot is about as large as what it holds (reports 9, 25)."""
    sizes = await cycle(boxes, 25)

    # Two megabytes rewritten in each round are fifty if nothing is ever written anew.
    assert max(sizes) < 50 << 20
    assert sizes[-1] < 20 << 20


async def rounds_of_stops(boxes: Boxes, times: int) -> None:
    """Stop and start again and again, with files that change; every state must come back."""
    box = await boxes.start()
    for number in range(times):
        await box.write(f"/workspace/{number}", str(number).encode() * 1000)
        await box.write("/workspace/rewritten", str(number).encode())
        before = await fingerprint(box)
        await box.stop()
        await box.start()
        assert await fingerprint(box) == before


async def test_some_stops_lose_nothing(boxes: Boxes) -> None:
    """Four times stopped and started, every file is as it was left (report 9)."""
    await rounds_of_stops(boxes, 4)

    assert len(await boxes.instances()) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_many_stops_lose_nothing(boxes: Boxes) -> None:
    """Thirty times stopped and started, every file is as it was left (report 9)."""
    await rounds_of_stops(boxes, 30)

    assert len(await boxes.instances()) == 1
