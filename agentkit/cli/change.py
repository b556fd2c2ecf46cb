"""Change what a store has scheduled, while no process serves it.

The id is the one that `agentkit schedules` shows; requeue takes that of a run, from `agentkit history`. In a store
that is being served, its own program makes the changes.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from typing import Final

from agentkit.cli.offline import offline
from agentkit.cli.output import fail, print_json
from agentkit.cli.store_option import add_json, add_store
from agentkit.plain_text import one_line

_DONE: Final = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "run-now": "due now: it runs once the store is served",
    "requeue": "back in the queue: it runs once the store is served",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that all these commands have."""
    parser.add_argument("agent", metavar="CLASS/NAME", help="whose, as `agentkit agents` shows it")
    parser.add_argument("id", metavar="ID", help="of the schedule; for requeue, of the run")
    add_store(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Make the change; returns the exit code."""
    if not asyncio.run(_change(options)):
        return fail(f"{options.agent} has no schedule {options.id!r}; `agentkit schedules {options.agent}` lists them")
    if options.json:
        print_json({"agent": options.agent, "id": options.id, "done": options.command})
    else:
        print(f"{one_line(options.id)} of {one_line(options.agent)}: {_DONE[options.command]}")
    return 0


async def _change(options: Namespace) -> bool:
    async with offline(options.store, options.agent) as agent:
        match options.command:
            case "requeue":
                await agent.requeue(options.id)
                return True
            case "run-now":
                return await agent.scheduler.run_now(options.id)
            case "cancel":
                return await agent.scheduler.cancel(options.id)
            case "pause":
                return await agent.scheduler.pause(options.id)
            case _:
                return await agent.scheduler.resume(options.id)
