"""The runner's end of the channel, run here: what an owner who reads slowly makes it hold."""

from __future__ import annotations

import os

from agentkit.sandbox.inside import frames
from agentkit.sandbox.inside.calls import QUEUE, Channel, Outflow
from agentkit.sandbox.inside.loop import Event, Loop


def test_many_streams_together_queue_little_for_a_slow_owner() -> None:
    """Each has credit, but what nobody reads is bounded for all of them, and all of it arrives in the end."""
    loop = Loop()
    reading, writing = os.pipe()
    unused, incoming = os.pipe()
    channel = Channel(loop, incoming, writing)
    most = received = 0

    async def main() -> None:
        nonlocal most, received
        done = [Event(loop) for _ in range(100)]
        loop.start(channel.flush())
        for number, event in enumerate(done):
            flow = Outflow(loop, channel, number, frames.OUTPUT)
            loop.start(flow.send_all(bytes(frames.WINDOW)), event.set)
        os.set_blocking(reading, False)
        while received < 100 * (frames.WINDOW + frames.HEADER.size * frames.WINDOW // frames.CHUNK):
            await loop.readable(reading)
            received += len(os.read(reading, 4096))
            most = max(most, channel.queued)
        for event in done:
            await event.wait()

    loop.run(main())

    assert most <= QUEUE + 2 * frames.CHUNK
    for descriptor in (reading, writing, unused, incoming):
        os.close(descriptor)


def test_timers_that_were_called_off_are_not_kept() -> None:
    """A time limit of hours costs nothing once its command has ended."""
    loop = Loop()

    async def main() -> None:
        for _ in range(5000):
            event = Event(loop)
            loop.start(_set(event))
            assert await event.wait(until=1e12)

    async def _set(event: Event) -> None:
        event.set()

    loop.run(main())

    assert len(loop._timers) < 1500
