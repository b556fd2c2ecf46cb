"""The rules on the development set: how many requests are read right, and how seldom a wrong reading looks certain."""

from __future__ import annotations

from datetime import datetime
from statistics import median, quantiles
from time import process_time

import pytest

from agentkit.cli.parse import record_of
from agentkit.schedules.parser import parse_schedule
from tests.schedules.parser.scoring import Row, asks_needlessly, is_right, is_silently_wrong, keeps_task, load_rows

ROWS = load_rows()


async def record_for(row: Row) -> Row:
    plan = await parse_schedule(row["text"], now=datetime.fromisoformat(row["now"]), timezone=row["tz"])
    return record_of(plan, row["tz"])


async def judged() -> list[tuple[Row, Row]]:
    return [(row, await record_for(row)) for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
async def test_request_is_read_right(row: Row) -> None:
    """Every request of the set does what it expects and keeps the task's own words."""
    record = await record_for(row)

    assert is_right(row, record), record
    assert keeps_task(row, record), record["description"]


async def test_nothing_wrong_looks_certain() -> None:
    """At most 2 % get a wrong schedule without a question, at most 5 % a question without need."""
    pairs = await judged()

    wrong = [row["id"] for row, record in pairs if is_silently_wrong(row, record)]
    needless = [row["id"] for row, record in pairs if asks_needlessly(row, record)]

    assert len(wrong) <= 0.02 * len(pairs), wrong
    assert len(needless) <= 0.05 * len(pairs), needless


async def test_parsing_takes_no_time() -> None:
    """A request takes less than half a millisecond in the median and less than 5 ms nearly always."""
    await judged()
    times = []
    for row in ROWS * 3:
        now = datetime.fromisoformat(row["now"])
        began = process_time()
        await parse_schedule(row["text"], now=now, timezone=row["tz"])
        times.append(process_time() - began)

    # Twice the promise: other processes run beside the tests.
    assert median(times) < 0.001
    assert quantiles(times, n=100)[98] < 0.010
