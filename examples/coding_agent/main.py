"""``python -m examples.coding_agent``: one task on one repository, with an hour's break in the middle.

Stop it whenever you like, or kill it: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from agentkit import Runtime
from agentkit.errors import AgentKitError, ConfigurationError
from agentkit.events import Event
from agentkit.harness import ReplayModel
from agentkit.model_settings import is_configured, settings_for
from agentkit.schedules.parser import Delayed, parse_schedule
from examples.coding_agent.agent import CodingAgent, Order, Progress, Watcher, agent_name, host_of
from examples.coding_agent.progress import ConsoleWatcher, show_outcome

#: Names the variable that holds what a private repository's server wants.
TOKEN = "CODING_AGENT_TOKEN"
REPLAY = Path(__file__).with_name("replays") / "broken_by_a_change.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """What the agents get; see ``Settings``."""

    model: Any
    engine: Any
    image: str | None
    hosts: tuple[str, ...]
    token: str | None
    keep: bool
    watcher: Watcher


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 if the tests pass at the end, 1 if not, 2 for what can't be done."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.CRITICAL)
    console = Console(highlight=False)
    try:
        return asyncio.run(_run(options, console))
    except AgentKitError as error:
        Console(stderr=True).print(f"coding_agent: {error}", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on where it was.")
        return 130


async def _run(options: argparse.Namespace, console: Console) -> int:
    repository = _repository(options.repo)
    resume_after = await _seconds(options.resume_after)
    model = _model(options, console)
    watcher = ConsoleWatcher(console)
    hosts = (*host_of(repository), *options.allow)
    deps = Deps(
        model=model,
        engine=options.engine,
        image=options.image,
        hosts=hosts,
        token=os.environ.get(TOKEN),
        keep=options.keep,
        watcher=watcher,
    )
    order = Order(repository=repository, task=options.task, resume_after=resume_after)
    try:
        async with Runtime(CodingAgent, store=options.store, deps=deps) as runtime:
            progress = await _follow(runtime, order, watcher)
            watcher.close()
            if progress.phase == "failed":
                console.print(f"The replay doesn't fit this repository: {progress.result.ended}", markup=False)
                console.print(
                    "It mends one kind of mistake: a change to one module that a test finds. Else name a model."
                )
            elif progress.phase != "done":
                console.print("Given up; the same command tries again.", style="red")
                return 2
            else:
                show_outcome(console, progress)
                if options.patch:
                    _write(options.patch, progress.result.diff)
            if not options.keep:
                await _forget(runtime, order)
            if progress.phase == "failed":
                return 2
            return 0 if progress.result.tests_passed is not False else 1
    finally:
        watcher.close()


async def _follow(runtime: Runtime, order: Order, watcher: ConsoleWatcher) -> Progress:
    """Give the order and wait until the agent is through; an agent that knows it already just goes on."""
    name = agent_name(order.repository, order.task)
    agent = runtime.get(CodingAgent, name)

    def heard(event: Event) -> None:
        facts = event.payload
        if event.type == "schedule:error":
            watcher.finished()
        elif event.type == "sandbox:pull":
            watcher.waiting(f"Fetching {facts['image']}: {facts['done'] / 1e6:.0f} of {facts['total'] / 1e6:.0f} MB")
        elif event.type == "sandbox:refused":
            watcher.detail(f"refused: {facts['host']}:{facts['port']}; allow it with --allow {facts['host']}")

    unsubscribe = runtime.events.subscribe("*", heard)
    progress = await agent.begin(order)
    if progress.phase in ("done", "failed"):
        return progress
    if progress.phase != "working":
        watcher.step(f"Found where an earlier process left it: {progress.phase}")
    while not watcher.is_through.is_set():
        progress = await agent.progress()
        if progress.phase == "away" and progress.resume_at is not None:
            left = max(progress.resume_at - datetime.now(UTC), timedelta(0))
            watcher.waiting(f"Away; back in {str(left).partition('.')[0]}")
        await asyncio.wait([asyncio.ensure_future(watcher.is_through.wait())], timeout=1)
    unsubscribe()
    progress = await agent.progress()
    if progress.phase not in ("done", "failed"):
        [failure] = await agent.history(1)
        watcher.detail((failure.error or failure.outcome).strip().splitlines()[-1])
        if await agent.give_up():
            watcher.detail(f"its sandbox is stopped and kept; agentkit sandboxes destroy CodingAgent/{name} removes it")
    return progress


async def _forget(runtime: Runtime, order: Order) -> None:
    """Remove an agent that is through, so that the same command is a new order."""
    is_gone = asyncio.Event()

    def heard(event: Event) -> None:
        if event.type == "destroy":
            is_gone.set()

    unsubscribe = runtime.events.subscribe("agents:lifecycle", heard)
    await runtime.get(CodingAgent, agent_name(order.repository, order.task)).destroy()
    async with asyncio.timeout(60):
        await is_gone.wait()
    unsubscribe()


def _write(path: str, diff: str) -> None:
    Path(path).write_text(diff, encoding="utf-8")


def _repository(given: str) -> str:
    """Return a URL as it is, and a path made absolute.

    Raises:
        ConfigurationError: It is neither the URL nor the directory of a repository.
    """
    url = urlsplit(given)
    if "@" in url.netloc:
        raise ConfigurationError(f"--repo is stored and shown, so it must hold no user or token; give it in ${TOKEN}")
    if url.scheme in ("http", "https"):
        return given
    path = Path(given).expanduser().resolve()
    if not (path / ".git").exists() and not (path / "HEAD").is_file():
        raise ConfigurationError(f"--repo takes an https:// URL or a git repository's directory; {given!r} is neither")
    return str(path)


def _model(options: argparse.Namespace, console: Console) -> Any:
    """Return what answers: a replay that was asked for, a model that is named or configured, else our own replay."""
    if options.replay is None and (options.model or is_configured()):
        settings = settings_for(options.model)
        console.print(f"Model {settings.name} at {settings.place}", markup=False)
        return options.model
    replay = ReplayModel(options.replay or REPLAY)
    console.print(
        f"{replay.description[0].upper()}{replay.description[1:]}. Everything else is real.",
        markup=False,
        soft_wrap=True,
    )
    return replay


async def _seconds(text: str) -> float:
    """Return how long ``1h`` or ``10s`` is; the sentences of schedules are read by the same code."""
    plan = await parse_schedule(f"in {text}: resume", now=datetime.now(UTC), timezone="UTC")
    if not isinstance(plan.when, Delayed):
        message = f"--resume-after takes a time such as 10s, 45m or 1h, got {text!r}"
        raise ConfigurationError(message)
    return plan.when.delay_in_seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.coding_agent",
        description="Work on a repository in a sandbox, go away for an hour, come back and finish.",
    )
    parser.add_argument("--repo", required=True, metavar="URL_OR_PATH", help="what to clone")
    parser.add_argument("--task", required=True, help="what to do, in plain words")
    parser.add_argument("--resume-after", default="1h", metavar="TIME", help="such as 10s, 45m, 1h (default: 1h)")
    mind = parser.add_mutually_exclusive_group()
    mind.add_argument("--model", help="name of a model at the OpenAI-compatible endpoint of $OPENAI_BASE_URL")
    mind.add_argument("--replay", metavar="FILE", help="a conversation to be replayed instead of calling a model")
    parser.add_argument("--engine", default="docker", choices=["docker", "bubblewrap", "auto"], help="default: docker")
    parser.add_argument("--image", help="default: $AGENTKIT_SANDBOX_IMAGE, else a public one with Python and git")
    parser.add_argument("--allow", action="append", default=[], metavar="HOST", help="a host the sandbox may reach too")
    parser.add_argument("--store", default="sqlite:///coding_agent.db", help="default: sqlite:///coding_agent.db")
    parser.add_argument("--patch", metavar="FILE", help="write the diff there as well")
    parser.add_argument("--keep", action="store_true", help="leave the sandbox and its snapshot at the end")
    parser.add_argument("--verbose", action="store_true", help="show the library's log")
    return parser
