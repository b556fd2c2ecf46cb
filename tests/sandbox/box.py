"""Instances for tests of engines: made, entered, used in one line each, and cleared away at the end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agentkit.sandbox.command import Command, Exit, Stderr, Stdout
from agentkit.sandbox.engine import (
    AGENT,
    INSTANCE,
    MANAGED,
    SANDBOX,
    SNAPSHOT,
    SPEC,
    STORE,
    Instance,
    InstancePlan,
    SandboxEngine,
    SavedImage,
)
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import WORKSPACE, SandboxSpec

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a command."""

    stdout: bytes
    stderr: bytes
    exit: Exit

    @property
    def code(self) -> int:
        """Its exit code."""
        return self.exit.exit_code

    @property
    def text(self) -> str:
        """What it printed, without the last line's end."""
        return self.stdout.decode().rstrip("\n")


@dataclass(slots=True, kw_only=True)
class Box:
    """One instance by its plan, whatever its state."""

    engine: SandboxEngine
    plan: InstancePlan
    guest: Guest | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """The engine's name for it."""
        return self.plan.name

    async def inside(self) -> Guest:
        """Return the way in, opened if need be."""
        async with self.opening:
            if self.guest is None or not self.guest.is_open:
                await self.leave()
                self.guest = await self.engine.enter(self.name, self.plan)
            return self.guest

    async def leave(self) -> None:
        """Close the way in."""
        if self.guest is not None:
            await self.guest.close()
        self.guest = None

    def command(self, *argv: str, shell: str | None = None, seconds: float | None = 60, **options: Any) -> Command:
        """Return a command, or a line for the shell."""
        timeout = None if seconds is None else timedelta(seconds=seconds)
        options = {"cwd": WORKSPACE, "env": {}, "timeout": timeout, **options}
        options["env"] = {**self.plan.env, **options["env"]}
        return Command(argv=argv if shell is None else ("sh", "-c", shell), **options)

    async def run(self, *argv: str, **options: Any) -> Ran:
        """Run a command to its end."""
        guest = await self.inside()
        out, err = [], []
        last: Exit | None = None
        async with contextlib.aclosing(guest.run(self.command(*argv, **options))) as outputs:
            async for output in outputs:
                match output:
                    case Stdout(data=data):
                        out.append(data)
                    case Stderr(data=data):
                        err.append(data)
                    case Exit():
                        last = output
        assert last is not None
        return Ran(stdout=b"".join(out), stderr=b"".join(err), exit=last)

    async def sh(self, line: str, **options: Any) -> str:
        """Run a line for the shell that must succeed, and return what it printed."""
        ran = await self.run(shell=line, **options)
        assert ran.code == 0, f"{line!r} ended with {ran.code}: {ran.stdout!r} {ran.stderr!r}"
        return ran.text

    async def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        await (await self.inside()).write(path, pieces(content))

    async def read(self, path: str) -> bytes:
        """Read a file."""
        return b"".join([data async for data in (await self.inside()).read(path)])

    async def find(self) -> Instance | None:
        """Return what the engine says of it."""
        return await self.engine.find(self.name)

    async def stop(self, *, grace: timedelta = 5 * SECOND) -> None:
        """Leave it and stop it."""
        await self.leave()
        await self.engine.stop(self.name, grace=grace)

    async def start(self) -> None:
        """Start it again."""
        await self.engine.start(self.plan)

    async def remove(self) -> None:
        """Leave it and remove it."""
        await self.leave()
        await self.engine.remove(self.name)

    async def save(self, snapshot: str) -> SavedImage:
        """Make a snapshot of it, labelled as the store's; ids are unique among stores by what the caller gives."""
        return await self.engine.save(self.name, snapshot, {**self.plan.labels, INSTANCE: ""})


@dataclass(slots=True)
class Boxes:
    """Makes instances of one store, and clears them away."""

    engine: SandboxEngine
    store: str
    image: str
    made: list[Box] = field(default_factory=list)

    def plan(
        self, name: str = "a", *, source: str | None = None, inactivity: timedelta = 600 * SECOND, **spec: Any
    ) -> InstancePlan:
        """Return a plan of this store; names and ids of two stores never meet."""
        spec.setdefault("image", self.image or None)
        settings = SandboxSpec(**spec)
        number = len(self.made)
        return InstancePlan(
            name=f"agentkit-{hashlib.sha256(f'{self.store}/{name}'.encode()).hexdigest()[:20]}",
            source=source,
            spec=settings,
            env=settings.variables,
            labels={
                MANAGED: "1",
                STORE: self.store,
                AGENT: f"Agent/{name}",
                SANDBOX: "1",
                INSTANCE: f"{self.store}-{number}",
                SPEC: settings.fingerprint,
                SNAPSHOT: source or "",
            },
            inactivity=inactivity,
        )

    def box(self, name: str = "a", **options: Any) -> Box:
        """Return one that doesn't exist yet."""
        box = Box(engine=self.engine, plan=self.plan(name, **options))
        self.made.append(box)
        return box

    async def start(self, name: str = "a", **options: Any) -> Box:
        """Return one that runs."""
        box = self.box(name, **options)
        await self.engine.create(box.plan)
        return box

    async def restore(self, snapshot: str, name: str = "a", **options: Any) -> Box:
        """Return one that runs and began from a snapshot."""
        return await self.start(name, source=snapshot, **options)

    def snapshot(self, number: int = 0) -> str:
        """Return an id for a snapshot of this store."""
        return f"{self.store}{number:04x}"

    async def saved(self) -> list[SavedImage]:
        """Return the snapshots of this store."""
        return [image for image in await self.engine.saved() if image.labels.get(STORE) == self.store]

    async def instances(self) -> list[Instance]:
        """Return the instances of this store."""
        return [one for one in await self.engine.instances() if one.labels.get(STORE) == self.store]

    async def clear(self) -> None:
        """Remove everything of this store."""
        for box in self.made:
            await box.leave()
        for instance in await self.instances():
            await self.engine.remove(instance.name)
        for image in await self.saved():
            await self.engine.delete_saved(image.id)
        for volume in {volume.name for box in self.made for volume in box.plan.spec.volumes}:
            await self.engine.remove_volume(volume, self.store)


async def pieces(content: bytes, *more: bytes) -> AsyncIterator[bytes]:
    """Yield what is to be written."""
    for part in (content, *more):
        yield part
