"""List the containers and snapshots of a store's agents, stop or destroy one, or clear away what was left behind.

    agentkit sandboxes                          what there is, on every engine that works
    agentkit sandboxes stop CLASS/NAME          as sandbox.stop() does
    agentkit sandboxes destroy CLASS/NAME       as sandbox.destroy() does
    agentkit sandboxes clean-up [--dry-run]     remove what belongs to agents that are no more

Only what a label says is this store's is touched. An engine that can't be asked is named on standard error, and then
clean-up ends with 1; --engine says which one is meant. While a process serves the store, its own program stops its
sandboxes; --force stops or removes a container behind its back.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from agentkit.cli.entry import FAILED
from agentkit.cli.names import known_agent
from agentkit.cli.output import fail, print_json, print_table
from agentkit.cli.store_option import add_json, add_store, view
from agentkit.clock import SystemClock
from agentkit.errors import AgentError, EngineUnavailableError, StoreInUseError
from agentkit.plain_text import one_line
from agentkit.store.store import AgentId

if TYPE_CHECKING:
    from agentkit.sandbox.engine import SandboxEngine

_ENGINES: Final = ("docker", "bubblewrap")
_GRACE: Final = timedelta(seconds=10)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("action", nargs="?", choices=("list", "stop", "destroy", "clean-up"), default="list")
    parser.add_argument("agent", nargs="?", metavar="CLASS/NAME", help="whose, as `agentkit agents` shows it")
    parser.add_argument("--sandbox", metavar="ID", default="sandbox", help="which, if an agent has several")
    parser.add_argument("--engine", choices=_ENGINES, help="only on this engine (default: all that work)")
    parser.add_argument("--dry-run", action="store_true", help="only show what clean-up would remove")
    parser.add_argument("--force", action="store_true", help="also while a process serves the store")
    add_store(parser)
    add_json(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A container or a snapshot.

    Attributes:
        name: The engine's name of a container, the id of a snapshot.
        size: Bytes, of a snapshot.
    """

    agent: str
    sandbox: str
    engine: str
    kind: str
    state: str
    created_at: datetime
    name: str
    size: int | None = None

    def to_json(self, now: datetime) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "agent": self.agent,
            "sandbox": self.sandbox,
            "engine": self.engine,
            "kind": self.kind,
            "state": self.state,
            "created_at": self.created_at,
            "age_seconds": int((now - self.created_at).total_seconds()),
            "size": self.size,
            "name": self.name,
        }


def run(options: Namespace) -> int:
    """Do what is asked; returns the exit code."""
    if (options.agent is None) == (options.action in ("stop", "destroy")):
        needs = "names no agent; write CLASS/NAME" if options.agent is None else "takes no agent"
        if options.action != "list" or options.agent is None:
            return fail(f"`agentkit sandboxes {options.action}` {needs}")
    return asyncio.run(_run(options))


async def _run(options: Namespace) -> int:
    with view(options.store) as viewer:
        store = viewer.store_id()
        agent = known_agent(options.agent, viewer)
    engines, absent = await _engines(options.engine)
    if absent:
        print(f"agentkit: not asked: {one_line('; '.join(absent))}", file=sys.stderr)
    try:
        lines = [line for engine in engines for line in await _lines(engine, store)]
        # Read after what the engines have: an agent is in the store before it has a sandbox.
        with view(options.store) as viewer:
            agents = {str(line.agent) for line in viewer.agents()}
        match options.action:
            case "list":
                return _list([line for line in lines if agent is None or line.agent == str(agent)], options)
            case "clean-up":
                code = await _clean_up([line for line in lines if line.agent not in agents], engines, options)
                return FAILED if absent else code
            case _:
                assert agent is not None
                return await _change(agent, lines, engines, options)
    finally:
        from agentkit.sandbox.engines import close_engines

        await close_engines()


async def _engines(wanted: str | None) -> tuple[list[SandboxEngine], list[str]]:
    """Return the engines that work, and why others don't.

    Raises:
        EngineUnavailableError: None does, or not the one that is wanted.
    """
    from agentkit.sandbox.engines import open_engine

    found: list[SandboxEngine] = []
    tried: list[str] = []
    mends: list[str] = []
    for name in _ENGINES:
        if wanted in (None, name):
            try:
                found.append(await open_engine(name))
            except EngineUnavailableError as error:
                tried += error.tried
                mends += error.mends
    if not found:
        raise EngineUnavailableError(tried, mends)
    return found, tried


async def _lines(engine: SandboxEngine, store: str) -> list[Line]:
    """Return what an engine has of a store."""
    from agentkit.sandbox.engine import AGENT, SANDBOX, STORE

    containers = [
        Line(
            agent=each.labels.get(AGENT, ""),
            sandbox=each.labels.get(SANDBOX, ""),
            engine=engine.name,
            kind="container",
            state="running" if each.is_running else "stopped",
            created_at=each.created_at,
            name=each.name,
        )
        for each in await engine.instances()
        if each.labels.get(STORE) == store
    ]
    snapshots = [
        Line(
            agent=each.labels.get(AGENT, ""),
            sandbox=each.labels.get(SANDBOX, ""),
            engine=engine.name,
            kind="snapshot",
            state="saved",
            created_at=each.saved_at,
            name=each.id,
            size=each.size,
        )
        for each in await engine.saved()
        if each.labels.get(STORE) == store
    ]
    return sorted([*containers, *snapshots], key=lambda line: (line.agent, line.sandbox, line.kind, line.created_at))


def _list(lines: Sequence[Line], options: Namespace) -> int:
    now = SystemClock().now()
    if options.json:
        print_json([line.to_json(now) for line in lines])
        return 0
    cells = [
        (
            line.agent,
            line.sandbox,
            line.engine,
            line.kind,
            line.state,
            _age(now - line.created_at),
            _size(line.size),
            line.name,
        )
        for line in lines
    ]
    columns = ("AGENT", "SANDBOX", "ENGINE", "KIND", "STATE", "AGE", "SIZE", "NAME")
    print_table(columns, cells, empty="The store's agents have no sandboxes.")
    return 0


async def _clean_up(lines: Sequence[Line], engines: Sequence[SandboxEngine], options: Namespace) -> int:
    """Remove what belongs to agents that the store doesn't know any more."""
    by_name = {engine.name: engine for engine in engines}
    for line in [] if options.dry_run else lines:
        engine = by_name[line.engine]
        if line.kind == "container":
            await engine.remove(line.name)
        else:
            await engine.delete_saved(line.name)
    if options.json:
        now = SystemClock().now()
        print_json({"removed": not options.dry_run, "leftovers": [line.to_json(now) for line in lines]})
        return 0
    what = "would remove" if options.dry_run else "removed"
    for line in lines:
        print(f"{what} {line.kind} {line.name} of {line.agent}")
    if not lines:
        print("Nothing was left behind.")
    return 0


async def _change(agent: AgentId, lines: Sequence[Line], engines: Sequence[SandboxEngine], options: Namespace) -> int:
    """Stop or destroy the sandbox of an agent."""
    line = next(
        (each for each in lines if (each.agent, each.sandbox, each.kind) == (str(agent), options.sandbox, "container")),
        None,
    )
    if line is None:
        return fail(
            f"{agent} has no container of a sandbox {options.sandbox!r}; `agentkit sandboxes` lists what there is"
        )
    engine = next(each for each in engines if each.name == line.engine)
    try:
        await _through_store(options, engine)
    except StoreInUseError as error:
        if not options.force:
            message = f"{error.path} is being served: let its program stop the sandbox, or add --force"
            raise AgentError(message) from error
        if options.action == "stop":
            await engine.stop(line.name, grace=_GRACE)
        else:
            await engine.remove(line.name)
    if options.json:
        print_json({"agent": str(agent), "sandbox": options.sandbox, "name": line.name, "done": options.action})
    else:
        print(f"{line.name} of {agent}: {'stopped' if options.action == 'stop' else 'destroyed'}")
    return 0


async def _through_store(options: Namespace, engine: SandboxEngine) -> None:
    """Stop or destroy it as its agent would, so that the agent knows why."""
    from agentkit.cli.offline import offline
    from agentkit.sandbox import Sandbox

    async with offline(options.store, options.agent) as host:
        sandbox = host.lifecycle.use(Sandbox(engine=engine, on_stop=_tell_nobody, id=options.sandbox))
        await (sandbox.stop(_GRACE) if options.action == "stop" else sandbox.destroy())


def _tell_nobody() -> None:
    """Stand in for the agent's ``on_stop``, which is called when its store is served again."""


def _age(age: timedelta) -> str:
    seconds = max(int(age.total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _size(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:,.1f} MB"
