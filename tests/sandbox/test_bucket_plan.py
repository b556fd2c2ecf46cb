"""What a bucket and its copy are told of each other: any order of changes on both sides, cut off anywhere."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from agentkit.sandbox.buckets.client import RemoteObject
from agentkit.sandbox.buckets.manifest import Manifest, Synced
from agentkit.sandbox.buckets.plan import Local, Plan, plan_push, plan_sync
from agentkit.sandbox.guest import FileInfo

PATHS = ["a", "b", "d/a", "d/b", "d/e/a", "c"]


class CutOffError(Exception):
    """The owner died."""


@dataclass(slots=True)
class Sides:
    """Both sides and the list, as ``BucketSync`` handles them; each content is another number.

    Attributes:
        inside: Content and time of each file.
        outside: Content and time of each object.
        manifest: As it is kept inside.
        brought: Contents that we have pulled or pushed.
        steps: How many single steps are left until the owner dies; None means that it lives.
    """

    inside: dict[str, tuple[int, int]] = field(default_factory=dict)
    outside: dict[str, tuple[int, int]] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)
    has_manifest: bool = False
    brought: set[int] = field(default_factory=set)
    steps: int | None = None
    now: int = 1_000

    def step(self) -> None:
        """Live on, or die here."""
        self.now += 1
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise CutOffError

    def local(self) -> Local:
        """Return what a walk finds."""
        local = Local(has_manifest=self.has_manifest)
        for path, (_, at) in self.inside.items():
            info = FileInfo(path="/m/" + path, type="file", size=1, mode=0o644, modified_at_ms=at * 1000)
            local.add(path, info)
        return local

    def remote(self) -> dict[str, RemoteObject]:
        """Return what the listing finds."""
        return {
            path: RemoteObject(key=path, size=1, etag=str(content), modified_at=at)
            for path, (content, at) in self.outside.items()
        }

    def push(self) -> None:
        """See ``BucketSync.push``."""
        manifest = self.loaded()
        if not manifest.is_complete:
            return self.sync()
        plan = plan_push(manifest, self.local())
        for path in plan.forget:
            del manifest.files[path]
        self.carry_out(plan, manifest)
        self.save(manifest)
        return None

    def sync(self) -> None:
        """See ``BucketSync.pull``."""
        manifest = self.loaded()
        remote = self.remote()
        plan = plan_sync(manifest, self.local(), remote, read_only=False)
        self.carry_out(plan, manifest)
        for path in plan.adopt:
            manifest.files[path] = Synced(remote[path].etag, 1, remote[path].modified_at * 1000)
        for path in plan.forget:
            manifest.files.pop(path, None)
        manifest.is_complete = False
        self.save(manifest)
        for path in plan.remove:
            self.step()
            del self.inside[path]
            manifest.files.pop(path)
        written = {}
        for path in plan.pull:
            self.step()
            content, at = self.outside[path]
            self.inside[path] = (content, at)
            self.brought.add(content)
            written[path] = Synced(str(content), 1, at * 1000)
        manifest.files |= written
        manifest.is_complete = True
        self.save(manifest)

    def carry_out(self, plan: Plan, manifest: Manifest) -> None:
        """See ``BucketSync._push``."""
        for path in plan.push:
            self.step()
            content, at = self.inside[path]
            self.outside[path] = (content, self.now)
            self.brought.add(content)
            manifest.files[path] = Synced(str(content), 1, at * 1000)
        for path in plan.delete:
            self.step()
            there = self.outside.get(path)
            if there is not None and str(there[0]) == manifest.files[path].etag:
                assert there[0] in self.brought, "an object is deleted that was never pulled"
                del self.outside[path]
            del manifest.files[path]

    def loaded(self) -> Manifest:
        """Return the list as the next owner finds it."""
        if not self.has_manifest:
            return Manifest()
        return Manifest(dict(self.manifest.files), self.manifest.is_complete)

    def save(self, manifest: Manifest) -> None:
        """Keep the list."""
        self.step()
        self.manifest = Manifest(dict(manifest.files), manifest.is_complete)
        self.has_manifest = True


@pytest.mark.parametrize("seed", range(300))
def test_both_sides_agree_in_the_end_and_nothing_of_others_is_deleted(seed: int) -> None:
    """After any history with any number of crashes, one undisturbed pull makes both the same.

    A change made inside is never lost, unless it was undone by one that was made later outside.
    """
    choice = random.Random(seed)
    sides = Sides()
    last_inside: dict[str, int | None] = {}
    for content in range(choice.randint(1, 25)):
        path = choice.choice(PATHS)
        sides.now += choice.randint(1, 3)
        match choice.choice(["write", "write", "remove", "put", "delete", "push", "sync", "lose", "die", "die"]):
            case "write":
                sides.inside[path] = (content, sides.now)
                last_inside[path] = content
            case "remove":
                sides.inside.pop(path, None)
                last_inside.pop(path, None)
            case "put":
                sides.outside[path] = (content, sides.now)
                last_inside.pop(path, None)
            case "delete":
                sides.outside.pop(path, None)
                last_inside.pop(path, None)
            case "push":
                sides.push()
            case "sync":
                sides.sync()
            case "lose":
                sides.has_manifest = choice.random() < 0.8 and sides.has_manifest
            case "die":
                sides.steps = choice.randint(0, 8)
                with suppress(CutOffError):
                    sides.push() if choice.random() < 0.5 else sides.sync()
                sides.steps = None

    sides.sync()

    assert {path: made for path, (made, _) in sides.inside.items()} == {
        path: made for path, (made, _) in sides.outside.items()
    }
    for path, made in last_inside.items():
        assert sides.outside[path][0] == made
    sides.sync()
    assert not plan_push(sides.manifest, sides.local()).push
