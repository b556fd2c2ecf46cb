"""List what is scheduled, also while another process serves the store."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, Final

from agentkit.cli.names import add_agent, known_agent
from agentkit.cli.output import print_json, print_table
from agentkit.cli.store_option import add_json, add_store, view
from agentkit.clock import from_ms
from agentkit.jobs.job import Job
from agentkit.json_value import canonical
from agentkit.schedules.record import Record, to_schedule
from agentkit.schedules.schedule import Schedule
from agentkit.store.store import AgentId, JobRow

_OWNER: Final = "scheduler"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    add_agent(parser)
    add_store(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Print the schedules, the next to run first; returns the exit code."""
    with view(options.store) as viewer:
        jobs = viewer.jobs(known_agent(options.agent, viewer))
    found = [(agent, _schedule(row)) for agent, row in jobs if row.owner == _OWNER]
    if options.json:
        print_json([_facts(agent, schedule) for agent, schedule in found])
        return 0
    rows = [
        (agent, schedule.id, schedule.callback, schedule.describe(), _payload(schedule)) for agent, schedule in found
    ]
    columns = ("AGENT", "ID", "CALLBACK", "WHEN", "PAYLOAD")
    print_table(columns, rows, empty="Nothing is scheduled.")
    return 0


def _schedule(row: JobRow) -> Schedule:
    job = Job(row)
    return to_schedule(
        Record(**job.payload),
        id=job.id,
        callback=job.function,
        created_at=job.created_at,
        next_run=from_ms(row.due_ms),
        retry=job.retry,
        timeout=job.timeout,
    )


def _payload(schedule: Schedule) -> str:
    return "" if schedule.payload is None else canonical(schedule.payload)


def _facts(agent: AgentId, schedule: Schedule) -> dict[str, Any]:
    return {
        "class": agent.class_name,
        "name": agent.name,
        "id": schedule.id,
        "callback": schedule.callback,
        "type": schedule.type,
        "description": schedule.describe(),
        "next_run": schedule.next_run,
        "paused": schedule.paused,
        "timezone": schedule.timezone,
        "cron": schedule.cron,
        "interval_seconds": schedule.interval and schedule.interval.total_seconds(),
        "rrule": schedule.rrule,
        "delay_seconds": schedule.delay and schedule.delay.total_seconds(),
        "starts_at": schedule.starts_at,
        "until": schedule.until,
        "remaining": schedule.remaining,
        "key": schedule.key,
        "payload": schedule.payload,
        "created_at": schedule.created_at,
    }
