"""The engine is stopped, killed and started again underneath: a right error or result, and a sandbox of use."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from agentkit.clock import SystemClock
from agentkit.errors import EngineUnavailableError, SandboxError
from agentkit.ids import IdSource
from agentkit.sandbox.docker import images as docker_images
from agentkit.sandbox.docker.client import DockerClient
from agentkit.sandbox.docker_engine import DockerEngine
from agentkit.sandbox.engine import EXIT_ASKED, SandboxEngine
from agentkit.sandbox.guest import ProcessPlan
from tests.sandbox.box import Box, Boxes, Ran
from tests.sandbox.engines import CANDIDATES, eventually
from tests.sandbox.own_docker import OwnDocker, own_docker

# The library forgets a socket that it couldn't connect, if the daemon goes at that very moment.
_FORGOTTEN = r"ignore:.*socket.socket fd=\d+, family=1, type=1, proto=0>:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.docker, pytest.mark.own_docker, pytest.mark.filterwarnings(_FORGOTTEN)]

IMAGE = CANDIDATES["docker"].image
HOW = pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])


@pytest.fixture(scope="module")
def loaded() -> Iterator[OwnDocker]:
    """Return a daemon that has the image."""
    with own_docker() as daemon:
        daemon.start()
        daemon.load(IMAGE)
        yield daemon


@pytest.fixture
def daemon(loaded: OwnDocker) -> Iterator[OwnDocker]:
    """Return a daemon that runs; nothing may be left on it."""
    yield loaded
    assert loaded.holds() == {"containers": [], "images": [f"{IMAGE}:latest"], "volumes": []}


@pytest.fixture
async def engine(daemon: OwnDocker) -> AsyncIterator[SandboxEngine]:
    """Return an engine on that daemon."""
    engine = DockerEngine(daemon.url)
    yield engine
    await engine.close()
    # What a killed daemon left without a name is cleared away an hour later, by any engine.
    client = DockerClient(daemon.url, None)
    docker_images.remove_stale(client, before=SystemClock().now() + timedelta(hours=1))
    client.close()
    # Within this test, where the filter holds.
    gc.collect()


@pytest.fixture
async def boxes(engine: SandboxEngine) -> AsyncIterator[Boxes]:
    """Return a maker of instances."""
    made = Boxes(engine, store=IdSource(SystemClock()).new(), image=IMAGE)
    yield made
    await made.clear()


@pytest.fixture
async def box(boxes: Boxes) -> Box:
    """Return a running instance."""
    return await boxes.start()


async def restart(daemon: OwnDocker, how: signal.Signals, *options: str) -> None:
    """End the daemon and start it again, without holding anybody up."""
    await asyncio.to_thread(daemon.restart, how, *options)


@HOW
async def test_restart_ends_what_was_under_way(daemon: OwnDocker, box: Box, how: signal.Signals) -> None:
    """A command and whoever waits for the end hear of it; the sandbox starts again with its files."""
    await box.write("/workspace/notes", b"kept")
    command = asyncio.create_task(box.run("sleep", "600", seconds=None))
    waiting = asyncio.create_task(box.engine.wait(box.name))
    await asyncio.sleep(0.3)

    await restart(daemon, how)

    async with asyncio.timeout(60):
        [result] = await asyncio.gather(command, return_exceptions=True)
        await waiting
    # Told to end with everything else, or cut off.
    assert isinstance(result, SandboxError) or (isinstance(result, Ran) and result.code == 143)
    found = await box.find()
    assert found is not None
    assert not found.is_running
    # The code of a stop that was asked for: only who asks for stops can tell the two apart.
    assert found.exit_code in (EXIT_ASKED, 137)
    assert found.stopped_at is not None
    await box.start()
    assert await box.read("/workspace/notes") == b"kept"


@HOW
async def test_live_restore_takes_the_sandbox_through(daemon: OwnDocker, boxes: Boxes, how: signal.Signals) -> None:
    """Where the daemon leaves containers alone, they and their background processes go on, and a wait goes on too."""
    await restart(daemon, signal.SIGTERM, "--live-restore")
    try:
        box = await boxes.start()
        guest = await box.inside()
        line = "while sleep 0.1; do echo tick; done"
        await guest.start_process(ProcessPlan(name="dev", argv=("sh", "-c", line), cwd="/workspace"))
        waiting = asyncio.create_task(box.engine.wait(box.name))
        await asyncio.sleep(0.3)

        await restart(daemon, how, "--live-restore")
        [process] = await (await eventually(lambda: _way_in(box))).processes()
        still_waiting = not waiting.done()
        await box.stop(grace=timedelta(seconds=5))

        assert process.exit_code is None
        assert still_waiting
        async with asyncio.timeout(10):
            await waiting
    finally:
        await boxes.clear()
        await restart(daemon, signal.SIGTERM)


async def test_absent_engine_is_told(daemon: OwnDocker, box: Box) -> None:
    """While it is away every call says where it was looked for; the same object works again afterwards (T20)."""
    await box.write("/workspace/notes", b"kept")
    await asyncio.to_thread(daemon.stop)
    try:
        for call in (box.find(), box.engine.instances(), box.engine.saved(), box.start(), box.engine.check()):
            with pytest.raises(EngineUnavailableError, match=daemon.url):
                await call
        with pytest.raises(EngineUnavailableError, match=daemon.url):
            await box.engine.enter(box.name, box.plan)
    finally:
        await asyncio.to_thread(daemon.start)

    await box.start()
    assert await box.read("/workspace/notes") == b"kept"


@HOW
async def test_snapshot_cut_off_leaves_nothing(daemon: OwnDocker, boxes: Boxes, box: Box, how: signal.Signals) -> None:
    """A snapshot that the daemon's end interrupts fails, is not listed, and the next one is whole."""
    await box.sh("for n in $(seq 300); do head -c 300k /dev/urandom >$n; done")
    saving = asyncio.create_task(box.save(boxes.snapshot(0)))
    await asyncio.sleep(0.25)

    await restart(daemon, how)
    await asyncio.gather(saving, return_exceptions=True)

    assert isinstance(saving.exception(), SandboxError) or [one.id for one in await boxes.saved()] == [
        saving.result().id
    ]
    await box.leave()
    await eventually(lambda: _stopped(box))
    await box.start()
    image = await box.save(boxes.snapshot(1))
    restored = await boxes.restore(image.id, "after")
    assert await restored.sh("cat * | wc -c") == str(300 * 300 * 1024)


async def _way_in(box: Box) -> object:
    try:
        return await box.inside()
    except SandboxError:
        return None


async def _stopped(box: Box) -> bool:
    found = await box.find()
    return found is not None and not found.is_running
