"""What a sandbox may use up: no more than its limits, and afterwards it, or its successor, can be used."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agentkit.errors import ProcessLimitError, SandboxError
from agentkit.sandbox.command import Stdout
from tests.sandbox.box import Box, Boxes, Ran
from tests.sandbox.engines import eventually, needs

_EAT = "b = bytearray(); [b.extend(bytes(1 << 20)) for _ in range({megabytes})]; print(len(b))"


@needs("memory_limit", "memory_report")
async def test_memory_over_the_limit_is_told(boxes: Boxes) -> None:
    """A command that wants too much is killed and says why; one within the limit isn't (trap T14)."""
    box = await boxes.start(memory="128m")

    modest = await box.run("python3", "-c", _EAT.format(megabytes=40))
    greedy = await box.run("python3", "-c", _EAT.format(megabytes=400))
    killed = await box.run(shell="kill -KILL $$")

    assert modest.text == str(40 << 20)
    assert (greedy.code, greedy.exit.out_of_memory) == (137, True)
    assert (killed.code, killed.exit.out_of_memory) == (137, False)
    assert await box.sh("echo on") == "on"


@needs("memory_limit")
async def test_memory_of_all_processes_is_bounded(boxes: Boxes) -> None:
    """Five that each stay below the limit don't get past it together; the sandbox can be used afterwards."""
    box = await boxes.start(memory="128m")
    greedy = f"{_EAT.format(megabytes=60)}; import time; time.sleep(2)"

    ran = await asyncio.gather(*(box.run("python3", "-c", greedy) for _ in range(5)), return_exceptions=True)

    assert any(isinstance(one, SandboxError) or (isinstance(one, Ran) and one.code != 0) for one in ran)
    found = await box.find()
    assert found is not None
    if found.is_running:
        assert await box.sh("echo on") == "on"
    else:
        assert found.out_of_memory


_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 600"


@needs("process_limit", "process_tree")
async def test_fork_bomb_is_contained(boxes: Boxes) -> None:
    """Processes without end fill the sandbox alone; it is told, goes away with its command, and leaves nothing."""
    box = await boxes.start(pids=64)
    bomb = asyncio.create_task(box.run(shell=_BOMB, seconds=4))

    async with asyncio.timeout(60):
        ran = await bomb

    assert ran.exit.timed_out
    assert await eventually(lambda: _says_on(box), within=60)
    found = await box.find()
    assert found is not None
    assert found.is_running


_FILL = """
import os, time
while True:
    try:
        if os.fork() == 0:
            break
    except OSError:
        print("full", flush=True)
        break
time.sleep(300)
"""


@needs("process_limit", "process_tree")
async def test_full_process_table_is_told(boxes: Boxes) -> None:
    """Where no process can be started any more the error says so (trap T16)."""
    box = await boxes.start(pids=32)
    guest = await box.inside()

    async with contextlib.aclosing(guest.run(box.command("python3", "-c", _FILL))) as filling:
        first = await anext(filling)
        with pytest.raises(ProcessLimitError):
            await box.run("sleep", "0")

    assert isinstance(first, Stdout)
    assert await eventually(lambda: _says_on(box))


@needs("cpu_limit")
async def test_processors_are_limited(boxes: Boxes) -> None:
    """Half a processor gives about half a second of work in a second."""
    box = await boxes.start(cpus=0.5)
    line = (
        "import os, time\n"
        "if os.fork() == 0: end = time.time() + 2\n"
        "else: end = time.time() + 2\n"
        "while time.time() < end: pass\n"
        "try: os.wait()\n"
        "except ChildProcessError: os._exit(0)\n"
        "used = os.times(); print(used.user + used.system + used.children_user + used.children_system)\n"
    )

    used = float(await box.sh(f"python3 -c '{line}'"))

    assert used < 1.6


@needs("process_tree")
async def test_full_disk_is_an_error_like_any_other(box: Box) -> None:
    """A command that finds the disk full fails, a write says so, and both work again once there is room."""
    guest = await box.inside()
    filled = await box.run(shell="head -c 200m /dev/zero >/run/agentkit/filler")

    with pytest.raises(OSError) as full:
        await box.write("/run/agentkit/file", bytes(5 << 20))
    await guest.remove("/run/agentkit/filler")
    await box.write("/run/agentkit/file", bytes(5 << 20))

    assert filled.code != 0
    assert full.value.errno == 28
    assert [entry.name for entry in await guest.entries("/run/agentkit") if "filler" in entry.name] == []


async def _says_on(box: Box) -> bool:
    try:
        return await box.sh("echo on") == "on"
    except SandboxError:
        return False
