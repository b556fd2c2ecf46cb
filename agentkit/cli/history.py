"""List the runs that ended, newest first, with their errors; also while another process serves the store."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from agentkit.cli.names import add_agent, known_agent
from agentkit.cli.output import print_json, print_table
from agentkit.cli.store_option import add_json, add_store, view
from agentkit.clock import from_ms
from agentkit.plain_text import one_line, several_lines
from agentkit.store.store import AgentId, HistoryRow


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    add_agent(parser)
    parser.add_argument("--limit", type=_positive, default=100, metavar="N", help="at most so many (default: 100)")
    parser.add_argument("--failed", action="store_true", help="only runs that didn't complete")
    parser.add_argument("--errors", action="store_true", help="show each error whole, with its traceback")
    add_store(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Print the runs; returns the exit code."""
    with view(options.store) as viewer:
        found = viewer.history(known_agent(options.agent, viewer), limit=-1 if options.failed else options.limit)
    if options.failed:
        found = [(agent, row) for agent, row in found if row.outcome != "completed"][: options.limit]
    if options.json:
        print_json([_facts(agent, row) for agent, row in found])
        return 0
    if options.errors:
        _print_errors(found)
        return 0
    rows = [
        (
            agent,
            row.function,
            from_ms(row.due_ms),
            row.finished_ms - row.started_ms,
            row.attempts,
            row.outcome,
            row.run_id,
            _last_line(row),
        )
        for agent, row in found
    ]
    columns = ("AGENT", "FUNCTION", "DUE (UTC)", "MS", "ATTEMPTS", "OUTCOME", "RUN", "ERROR")
    print_table(columns, rows, empty="No runs are recorded.")
    return 0


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def _print_errors(found: list[tuple[AgentId, HistoryRow]]) -> None:
    failed = [(agent, row) for agent, row in found if row.error]
    if not failed:
        print("No run failed.")
    for agent, row in failed:
        ended_at = from_ms(row.finished_ms)
        print(f"{one_line(str(agent))} {row.function} {row.outcome} at {ended_at:%Y-%m-%d %H:%M:%S} UTC")
        print(several_lines(row.error or "").rstrip(), end="\n\n")


def _last_line(row: HistoryRow) -> str:
    lines = (row.error or "").strip().splitlines()
    return lines[-1] if lines else ""


def _facts(agent: AgentId, row: HistoryRow) -> dict[str, Any]:
    return {
        "class": agent.class_name,
        "name": agent.name,
        "run_id": row.run_id,
        "job": row.job_id,
        "owner": row.owner,
        "function": row.function,
        "due": from_ms(row.due_ms),
        "started": from_ms(row.started_ms),
        "finished": from_ms(row.finished_ms),
        "attempts": row.attempts,
        "outcome": row.outcome,
        "error": row.error,
    }
