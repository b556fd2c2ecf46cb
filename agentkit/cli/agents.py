"""List the agents of a store, also while another process serves it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentkit.cli.output import print_json, print_table
from agentkit.cli.store_option import add_json, add_store, view
from agentkit.clock import from_ms


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    add_store(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Print the agents; returns the exit code."""
    with view(options.store) as viewer:
        lines = viewer.agents()
    rows = [
        {
            "class": line.agent.class_name,
            "name": line.agent.name,
            "next_alarm": None if line.alarm_ms is None else from_ms(line.alarm_ms),
            "jobs": line.jobs,
            "runs": line.runs,
        }
        for line in lines
    ]
    if options.json:
        print_json(rows)
        return 0
    cells = [(str(line.agent), row["next_alarm"], line.jobs, line.runs) for line, row in zip(lines, rows, strict=True)]
    print_table(("AGENT", "NEXT ALARM (UTC)", "JOBS", "RUNS"), cells, empty="The store has no agents.")
    return 0
