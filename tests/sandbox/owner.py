"""A process that owns an instance and is killed: ``python -m tests.sandbox.owner ENGINE FOLDER STORE WHAT``."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentkit.sandbox.guest import ProcessPlan
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import CANDIDATES

ROOT = Path(__file__).parent.parent.parent
_TICK = "while sleep 0.05; do echo tick >>{file}; done"


def say_ready() -> None:
    """Let the test go on."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


async def hold(boxes: Boxes) -> None:
    """Run commands and a background process until the end."""
    box = await boxes.start("owned")
    guest = await box.inside()
    line = _TICK.format(file="/workspace/background")
    await guest.start_process(ProcessPlan(name="dev", argv=("sh", "-c", line), cwd="/workspace"))
    left, foreground = _TICK.format(file="left"), _TICK.format(file="foreground")
    stubborn = f"trap '' TERM HUP; setsid sh -c '{left}' & {foreground}"
    running = [asyncio.create_task(box.run(shell=stubborn, seconds=None))]
    running += [asyncio.create_task(box.run("sleep", "600", seconds=None)) for _ in range(10)]
    while await guest.stat("/workspace/left") is None or await guest.stat("/workspace/foreground") is None:
        await asyncio.sleep(0.05)
    say_ready()
    await asyncio.gather(*running)


async def churn(boxes: Boxes) -> None:
    """Make, stop, start, save and remove, on and on."""
    say_ready()
    number = 0
    while True:
        box = await boxes.start("owned")
        await box.write("/workspace/file", os.urandom(1 << 20))
        await box.save(boxes.snapshot(number))
        await box.stop()
        await box.start()
        await box.remove()
        box = await boxes.restore(boxes.snapshot(number), "owned")
        await box.engine.copy_saved(boxes.snapshot(number), boxes.snapshot(number + 1), dict(box.plan.labels))
        await box.engine.delete_saved(boxes.snapshot(number))
        await box.remove()
        number += 1


WHAT: dict[str, Callable[[Boxes], Awaitable[None]]] = {"hold": hold, "churn": churn}


def run_owner(boxes: Boxes, what: str, *, folder: Path) -> subprocess.Popen[str]:
    """Start one and wait until it is ready; it owns the instance ``owned`` of the same store."""
    command = [sys.executable, "-m", "tests.sandbox.owner", boxes.engine.name, str(folder), boxes.store, what]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """End one as ``kill -9`` does."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def owned(boxes: Boxes) -> Box:
    """Return the instance of the owner, as its successor sees it."""
    return boxes.box("owned")


async def main(engine_name: str, folder: str, store: str, what: str) -> None:
    """Be the owner."""
    candidate = CANDIDATES[engine_name]
    engine = candidate.make(Path(folder))
    await WHAT[what](Boxes(engine, store=store, image=candidate.image))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
