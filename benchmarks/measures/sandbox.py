"""A sandbox in Docker beside the bare engine and two libraries: commands, starts, stops and snapshots, in turns."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agentkit import Agent, Runtime
from agentkit.errors import AgentKitError
from agentkit.host import AgentContext
from agentkit.sandbox import Sandbox, SandboxSpec
from agentkit.sandbox.docker_engine import DockerEngine
from benchmarks.figures import percentile, ratios, short, spread
from benchmarks.measures import Place
from benchmarks.report import Report, Table, below

_MILLISECONDS = 5.0
_IMAGE = os.environ.get("AGENTKIT_SANDBOX_IMAGE", "agentkit-test")
_TAGS = "agentkit-benchmark"
_IDLE = ["sleep", "600"]


class Coder(Agent):
    """Has a sandbox."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.sandbox = self.lifecycle.use(Sandbox(SandboxSpec(image=_IMAGE), engine=context.deps))

    async def box(self) -> Sandbox:
        return self.sandbox


def _spent(do: Callable[[], Any]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


async def _awaited(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def _bare() -> Any:
    """Return the library's client for the engine, with a container in which commands are run."""
    import docker

    client = docker.from_env()
    return client, client.containers.run(_IMAGE, _IDLE, detach=True, init=True, network_mode="none")


@contextmanager
def _peers() -> Iterator[dict[str, Callable[[], Any]]]:
    """Give a function for each library that runs one command in a container of its own."""
    with ExitStack() as stack:
        client, container = _bare()
        stack.callback(client.close)
        stack.callback(container.remove, force=True)
        commands: dict[str, Callable[[], Any]] = {"bare engine (docker-py exec)": lambda: container.exec_run(["true"])}
        if importlib.util.find_spec("llm_sandbox"):
            from llm_sandbox import SandboxSession

            image = {"image": _IMAGE, "lang": "python", "keep_template": True, "skip_environment_setup": True}
            session = stack.enter_context(SandboxSession(**image))
            commands["llm-sandbox"] = lambda: session.execute_command("true")
        if importlib.util.find_spec("testcontainers"):
            # Its reaper is an image of its own, which isn't compared.
            os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
            from testcontainers.core.container import DockerContainer

            contained = stack.enter_context(DockerContainer(_IMAGE).with_command(_IDLE))
            commands["testcontainers"] = lambda: contained.exec(["true"])
        yield commands


async def _commands(box: Sandbox, count: int) -> dict[str, list[float]]:
    """Return the seconds of each command, all libraries in turns."""
    seconds: dict[str, list[float]] = {"agentkit": []}
    with _peers() as commands:
        for _ in range(count):
            seconds["agentkit"].append(await _awaited(box.exec("true")))
            for name, run in commands.items():
                seconds.setdefault(name, []).append(await asyncio.to_thread(_spent, run))
    return seconds


async def _many(box: Sandbox, count: int) -> dict[str, list[float]]:
    """Return the seconds of a hundred commands at once."""
    seconds: dict[str, list[float]] = {"agentkit": [], "bare engine (docker-py exec)": []}
    client, container = _bare()
    try:
        for _ in range(count):
            all_at_once = asyncio.gather(*(box.exec("true") for _ in range(100)))
            seconds["agentkit"].append(await _awaited(all_at_once))
            bare = (asyncio.to_thread(container.exec_run, ["true"]) for _ in range(100))
            seconds["bare engine (docker-py exec)"].append(await _awaited(asyncio.gather(*bare)))
    finally:
        container.remove(force=True)
        client.close()
    return seconds


async def _lives(runtime: Runtime, count: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of starts with a first command, of stops and starts, and of snapshots."""
    found: dict[str, dict[str, list[float]]] = {
        what: {"agentkit": [], "bare engine (docker-py)": []} for what in ("start", "stop and start", "snapshot")
    }

    def note(what: str, ours: float, bare: float) -> None:
        found[what]["agentkit"].append(ours)
        found[what]["bare engine (docker-py)"].append(bare)

    for number in range(count):
        box = await runtime.get(Coder, f"life {number}").box()
        began = time.perf_counter()
        await box.start()
        await box.exec("true")
        ours = time.perf_counter() - began
        began = time.perf_counter()
        client, container = await asyncio.to_thread(_bare)
        await asyncio.to_thread(container.exec_run, ["true"])
        note("start", ours, time.perf_counter() - began)
        write = "head -c 10485760 /dev/urandom >/tmp/file"
        await box.exec(shell=write)
        await asyncio.to_thread(container.exec_run, ["sh", "-c", write])
        tag = uuid.uuid4().hex
        ours = await _awaited(box.snapshot("one"))
        note("snapshot", ours, await asyncio.to_thread(_spent, partial(container.commit, _TAGS, tag)))
        began = time.perf_counter()
        await box.stop()
        await box.ensure_started()
        await box.exec("true")
        ours = time.perf_counter() - began
        began = time.perf_counter()
        await asyncio.to_thread(container.stop)
        await asyncio.to_thread(container.start)
        await asyncio.to_thread(container.exec_run, ["true"])
        note("stop and start", ours, time.perf_counter() - began)
        await asyncio.to_thread(container.remove, force=True)
        await asyncio.to_thread(client.images.remove, f"{_TAGS}:{tag}")
        await asyncio.to_thread(client.close)
        await box.destroy()
        for saved in await box.snapshots.list():
            await box.snapshots.delete(saved.id)
    return found


async def _measured(folder: Path, place: Place) -> dict[str, dict[str, list[float]]]:
    engine = DockerEngine()
    await engine.check()
    async with Runtime(Coder, store=f"sqlite:///{folder}/agents.db", deps=engine) as runtime:
        box = await runtime.get(Coder, "commands").box()
        await box.start()
        try:
            found = {"command": await _commands(box, place.scale.sandbox_commands)}
            found["100 commands at once"] = await _many(box, place.scale.repeat)
        finally:
            await box.destroy()
        found |= await _lives(runtime, place.scale.repeat)
    await engine.close()
    return found


def measure(place: Place) -> Report:
    """Measure all in turns, so that the ratios are of one time."""
    with place.folder() as folder:
        try:
            found = asyncio.run(_measured(folder, place))
        except AgentKitError as error:
            return Report(notes=[f"sandbox: not measured, {error}"])
    ours = [value * 1000 for value in found["command"]["agentkit"]]
    middle = percentile(ours, 0.5)
    shown = f"p50 {short(middle)} ms, p99 {short(percentile(ours, 0.99))} ms"
    report = Report(raw=found, rows=[below("sandbox command", middle, _MILLISECONDS, shown=shown, unit="ms")])
    lines = []
    for what, by_library in found.items():
        for library, seconds in by_library.items():
            times = "" if library == "agentkit" else f"{ratios(seconds, by_library['agentkit']).show()} ×"
            lines.append((what, library, spread(seconds).show("ms", scale=1000), times))
    columns = ("what", "with", "median (least..most)", "takes so many times agentkit's")
    report.tables.append(Table(title="Sandboxes in Docker", columns=columns, lines=lines))
    return report
