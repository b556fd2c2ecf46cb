"""Sandboxes in Docker: the engine that the rest of agentkit sees, over the ``docker`` package in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from agentkit.clock import Clock, SystemClock
from agentkit.errors import EngineUnavailableError, NameInUseError, SandboxStoppedError
from agentkit.sandbox.channel import OneOffChannel
from agentkit.sandbox.docker import images as docker_images
from agentkit.sandbox.docker import instances as docker_instances
from agentkit.sandbox.docker.channel import DockerProgram
from agentkit.sandbox.docker.client import DockerClient, DockerThreads
from agentkit.sandbox.docker.connection import request
from agentkit.sandbox.engine import Feature, Instance, InstancePlan, OnProgress, PullProgress, SavedImage
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.main_process import hand_over
from agentkit.sandbox.runner.bundle import RunnerSettings
from agentkit.sandbox.runner.runner_guest import RUNNER, open_runner
from agentkit.sandbox.runner.shell_guest import ShellGuest

if TYPE_CHECKING:
    from docker.tls import TLSConfig

#: How long a name may stay taken by a container that is being removed (T18).
_REMOVAL = 10.0
#: How long an engine that restarts may be away from those who wait for a sandbox to stop.
_ABSENCE = 30.0
_PAUSE = 0.2
T = TypeVar("T")


class DockerEngine:
    """See ``SandboxEngine``. Nothing is asked of the engine before the first call.

    Args:
        base_url: Where it listens, such as ``unix:///run/docker.sock`` or ``tcp://host:2376``; None means
            ``$DOCKER_HOST`` and its companions, else the standard socket.
        tls: Certificates for a ``tcp://`` address that isn't taken from the environment.

    Raises:
        EngineUnavailableError: We can't speak to such an address.
    """

    name = "docker"
    features: frozenset[Feature] = frozenset(
        (
            "images",
            "owner_may_die",
            "process_tree",
            "memory_limit",
            "memory_report",
            "process_limit",
            "cpu_limit",
            "network",
            "allowlist",
            "other_users",
            "volumes",
            "host_directories",
            "isolation",
        )
    )

    def __init__(self, base_url: str | None = None, *, tls: TLSConfig | None = None) -> None:
        self.clock: Clock | None = SystemClock()
        self._time: Clock = SystemClock()
        self._client = DockerClient(base_url, tls)
        self._threads = DockerThreads(self._client)

    async def check(self) -> None:
        """See ``SandboxEngine``; an engine that can't keep a sandbox within its bounds doesn't work."""
        facts = await self._threads.quick(lambda client: client.facts)
        if facts.lacks:
            raise EngineUnavailableError(
                [f"docker at {self._client.address.url}: it lacks {', '.join(facts.lacks)}"],
                ["Run it with control groups and seccomp."],
            )

    async def description(self) -> str:
        """Return what answers, and where, for people."""
        return f"version {await self._threads.quick(_version)} at {self._client.address.url}"

    async def has_image(self, image: str) -> bool:
        """Tell whether an image need not be fetched."""
        return await self._threads.quick(docker_images.is_there, image)

    async def prepare(self, image: str, on_progress: OnProgress | None = None) -> None:
        """See ``SandboxEngine``."""
        loop = asyncio.get_running_loop()

        def report(progress: PullProgress) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, progress)

        await self._threads.slow(docker_images.prepare, image, report)

    async def create(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``; waits for one of this name that is being removed."""
        create = partial(docker_instances.create, plan=plan, now=self._time.now())
        deadline = self._time.now() + timedelta(seconds=_REMOVAL)
        while True:
            try:
                return await self._threads.slow_or_undone(create, _remove_instance)
            except NameInUseError:
                if self._time.now() >= deadline or await self.find(plan.name) is not None:
                    raise
            await self._time.sleep(_PAUSE)

    async def start(self, plan: InstancePlan) -> Instance:
        """See ``SandboxEngine``."""
        return await self._threads.slow(docker_instances.start, plan, now=self._time.now())

    async def stop(self, name: str, *, grace: timedelta) -> None:
        """See ``SandboxEngine``."""
        await self._threads.slow(docker_instances.stop, name, grace=grace)

    async def remove(self, name: str) -> None:
        """See ``SandboxEngine``."""
        await self._threads.slow(docker_instances.remove, name)

    async def find(self, name: str) -> Instance | None:
        """See ``SandboxEngine``; one that is being removed isn't found."""
        return await self._threads.quick(docker_instances.find, name)

    async def instances(self) -> list[Instance]:
        """See ``SandboxEngine``."""
        return await self._threads.quick(docker_instances.instances)

    async def wait(self, name: str) -> None:
        """See ``SandboxEngine``; a restart of the engine is waited for, half a minute long."""
        away_since = None
        while True:
            try:
                await self._wait_once(name)
            except SandboxStoppedError:
                return
            except EngineUnavailableError:
                away_since = away_since or self._time.now()
                if self._time.now() - away_since > timedelta(seconds=_ABSENCE):
                    raise
                await self._time.sleep(_PAUSE)
            else:
                away_since = None

    async def _wait_once(self, name: str) -> None:
        """Wait for the end of one, or of the connection.

        Raises:
            SandboxStoppedError: It has stopped, or is gone.
        """
        instance = await self.find(name)
        if instance is None or not instance.is_running:
            raise SandboxStoppedError("gone" if instance is None else "stopped")
        path = await self._path(f"/containers/{quote(name)}/wait?condition=not-running")
        stream = await request(self._client.address, path)
        try:
            await stream.read_body()
        finally:
            await stream.close()

    async def enter(self, name: str, plan: InstancePlan) -> Guest:
        """See ``SandboxEngine``; what the entrypoint waits for is written too."""
        settings = RunnerSettings(env=plan.env)
        by_shell = ShellGuest(partial(self.open, name), settings)
        channel = OneOffChannel(await self.open(name, RUNNER, env={}))
        is_paused = partial(self._is_paused, name)
        guest: Guest = await open_runner(channel, settings, is_paused=is_paused, others=by_shell) or by_shell
        try:
            await hand_over(guest, plan)
        except BaseException:
            await guest.close()
            raise
        return guest

    async def open(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str], user: str | None = None
    ) -> DockerProgram:
        """Start a program in a running instance, as the engine does it, and return the way to it.

        Raises:
            SandboxStoppedError: It doesn't run.
            SandboxBusyError: A snapshot of it is being made.
        """

        def create(client: DockerClient) -> str:
            variables, who = dict(env), user or ""
            made = client.quick.exec_create(name, list(argv), stdin=True, environment=variables, user=who, workdir="/")
            return str(made["Id"])

        id = await self._threads.quick(create)
        path = await self._path(f"/exec/{id}/start")
        stream = await request(self._client.address, path, {"Detach": False, "Tty": False})
        return DockerProgram(stream, partial(self._exit_code, id))

    async def _is_paused(self, name: str) -> bool:
        return await self._threads.quick(docker_instances.is_paused, name)

    async def _exit_code(self, id: str) -> int:
        while True:
            found: dict[str, Any] = await self._threads.quick(lambda client: client.quick.exec_inspect(id))
            if not found["Running"]:
                return int(found["ExitCode"])
            await self._time.sleep(0.02)

    async def save(self, name: str, snapshot: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``; a running instance stands still meanwhile."""
        save = partial(docker_images.save, name=name, snapshot=snapshot, labels=labels)
        return await self._threads.slow_or_undone(save, _delete_saved)

    async def saved(self) -> list[SavedImage]:
        """See ``SandboxEngine``."""
        return await self._threads.quick(docker_images.saved)

    async def copy_saved(self, snapshot: str, copy: str, labels: Mapping[str, str]) -> SavedImage:
        """See ``SandboxEngine``."""
        make = partial(docker_images.copy_saved, snapshot=snapshot, copy=copy, labels=labels)
        return await self._threads.slow_or_undone(make, _delete_saved)

    async def delete_saved(self, snapshot: str) -> bool:
        """See ``SandboxEngine``."""
        return await self._threads.slow(docker_images.delete_saved, snapshot, now=self._time.now())

    async def remove_volume(self, name: str, store: str) -> bool:
        """See ``SandboxEngine``; one that is in use is left alone, with a ``SandboxError``."""
        return await self._threads.slow(docker_instances.remove_volume, name, store)

    async def close(self) -> None:
        """See ``SandboxEngine``; waits for calls that are under way."""
        await asyncio.to_thread(self._threads.close)
        self._client.close()

    async def _path(self, path: str) -> str:
        version = await self._threads.quick(lambda client: client.quick.api_version)
        return f"/v{version}{path}"


def _version(client: DockerClient) -> str:
    return str(client.quick.version()["Version"])


def _remove_instance(client: DockerClient, made: Instance) -> None:
    docker_instances.remove(client, made.name)


def _delete_saved(client: DockerClient, made: SavedImage) -> None:
    docker_images.delete_saved(client, made.id, now=made.saved_at)
