"""Judges what a request was parsed to by the runs it leads to, never by how it is spelt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from heapq import merge
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim
from dateutil.rrule import rrulestr

Row = dict[str, Any]

REFUSALS = {"clarify", "invalid", "unsupported"}
RECURRING = {"cron", "interval", "rrule", "unsupported-or-interval"}
# Days from now from which runs are compared: equal next runs alone would not tell two rules apart.
DAYS_COMPARED = (0, 1, 2, 3, 4, 5, 6, 27, 40, 75, 120, 183, 270)
WITHOUT_TASK = {"no-schedule", "invalid", "clarify"}


def load_rows(name: str = "dev.jsonl") -> list[Row]:
    """Return a set of requests; without a name the development set."""
    path = Path(__file__).parent / "data" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def is_right(row: Row, record: Row) -> bool:
    """Tell whether a record does what the row expects, or one of its alternatives."""
    return any(_matches(expected, record, row) for expected in (row["expect"], *row.get("alternatives", ())))


def keeps_task(row: Row, record: Row) -> bool:
    """Tell whether the description has the task's words and not the timing; True where there is no task."""
    if row["expect"]["type"] in WITHOUT_TASK:
        return True
    description = " ".join(record["description"].split()).casefold()
    kept = all(word.casefold() in description for word in row.get("description_contains", ()))
    left = any(" ".join(words.split()).casefold() in description for words in row.get("description_excludes", ()))
    return kept and not left


def is_kept(row: Row, record: Row) -> bool:
    """Tell whether a record is right and its description the task's own words."""
    return is_right(row, record) and (record["type"] == "clarify" or keeps_task(row, record))


def is_silently_wrong(row: Row, record: Row) -> bool:
    """Tell whether a wrong schedule is given as certain."""
    return record["type"] not in REFUSALS | {"no-schedule"} and not is_right(row, record)


def asks_needlessly(row: Row, record: Row) -> bool:
    """Tell whether a question is asked where a schedule is the answer."""
    return record["type"] == "clarify" and row["expect"]["type"] not in WITHOUT_TASK


def _matches(expected: Row, record: Row, row: Row) -> bool:
    wanted, got = expected["type"], record["type"]
    if wanted == "no-schedule":
        return bool(got == "no-schedule")
    if wanted == "clarify":
        return bool(got == "clarify")
    if wanted == "invalid":
        return got in REFUSALS | {"no-schedule"}
    if wanted in ("scheduled", "delayed"):
        return _same_instant(expected, record, row)
    if got not in RECURRING:
        return wanted == "unsupported-or-interval" and got in REFUSALS
    if wanted == "interval":
        return _same_period(expected, record, row)
    return _same_runs(expected, record, row)


def _same_instant(expected: Row, record: Row, row: Row) -> bool:
    now = datetime.fromisoformat(row["now"]).astimezone(UTC)
    if record["type"] not in ("scheduled", "delayed"):
        return False
    if record["type"] == "delayed":
        if "delay_in_seconds" in expected:
            return bool(record["delay_in_seconds"] == expected["delay_in_seconds"])
        got = now + timedelta(seconds=record["delay_in_seconds"])
    else:
        got = datetime.fromisoformat(record["date"])
    if expected["type"] == "scheduled":
        want = datetime.fromisoformat(expected["date"])
    else:
        want = now + timedelta(seconds=expected["delay_in_seconds"])
    return abs(got - want) < timedelta(minutes=1)


def _same_period(expected: Row, record: Row, row: Row) -> bool:
    if record["type"] != "rrule":
        return bool(record.get("interval_seconds") == expected["interval_seconds"])
    runs = list(islice(_runs(record, row, datetime.fromisoformat(row["now"])), 100))
    period = expected["interval_seconds"]
    return all(abs((b - a).total_seconds() - period) <= 3601 for a, b in pairwise(runs))


def _same_runs(expected: Row, record: Row, row: Row) -> bool:
    if expected["type"] == "unsupported-or-interval":
        if record["type"] == "interval":
            start = record.get("start")
            same_start = start and datetime.fromisoformat(start) == datetime.fromisoformat(expected["start"])
            same_period = record["interval_seconds"] == expected.get("interval_seconds")
            return same_period and bool(same_start or expected.get("start_optional"))
        expected = {**expected, "type": "rrule" if "rrule" in expected else "cron"}
        expected["cron"] = expected.get("cron_set", [])
    else:
        expected = {**expected, "cron": expected["cron"][:1]}
    if expected.get("until") or expected.get("count"):
        if not (record.get("until") or record.get("count")):
            return False
        got = _bounded(record, row, record.get("until"))
        return any(_bounded(expected, row, until) == got for until in expected.get("until") or [None])
    if record.get("until") or record.get("count"):
        return False
    return _sample(expected, row) == _sample(record, row)


def _bounded(rule: Row, row: Row, until: str | None) -> list[datetime]:
    zone = ZoneInfo(rule.get("timezone") or row["tz"])
    last = None
    if until is not None and re.fullmatch(r"\d{4}-\d\d-\d\d", until):
        last = datetime.combine(date.fromisoformat(until), time(23, 59, 59), zone)
    elif until is not None:
        last = datetime.fromisoformat(until)
    runs: list[datetime] = []
    for run in islice(_runs(rule, row, datetime.fromisoformat(row["now"])), 2000):
        if (last is not None and run > last) or len(runs) == (rule.get("count") or 2000):
            break
        runs.append(run.astimezone(UTC))
    return runs


def _sample(rule: Row, row: Row) -> list[list[datetime]]:
    # Requests said otherwise expect the same runs again and again.
    return _sampled(json.dumps(rule, default=str), row["now"], row["tz"])


@lru_cache(maxsize=4096)
def _sampled(rule_text: str, now_text: str, zone_name: str) -> list[list[datetime]]:
    rule: Row = json.loads(rule_text)
    row: Row = {"now": now_text, "tz": zone_name}
    now = datetime.fromisoformat(row["now"])
    return [
        [run.astimezone(UTC) for run in islice(_runs(rule, row, now + timedelta(days=days)), 12 if days else 5)]
        for days in DAYS_COMPARED
    ]


def _runs(rule: Row, row: Row, after: datetime) -> Iterator[datetime]:
    now, zone = datetime.fromisoformat(row["now"]), ZoneInfo(rule.get("timezone") or row["tz"])
    start = datetime.fromisoformat(rule["start"]) if rule.get("start") else None
    earliest = after if start is None else max(after, start - timedelta(seconds=1))
    if rule["type"] == "cron":
        crons = [rule["cron"]] if isinstance(rule["cron"], str) else rule["cron"]
        yield from merge(*(CronSim(cron, earliest.astimezone(zone)) for cron in crons))
    elif rule["type"] == "interval":
        period = timedelta(seconds=rule["interval_seconds"])
        first = start or now + period
        step = max(0, (after - first) // period + 1)
        while True:
            yield first + step * period
            step += 1
    else:
        wall = (start or now).astimezone(zone).replace(tzinfo=None)
        for run in rrulestr(rule["rrule"], dtstart=wall).xafter(after.astimezone(zone).replace(tzinfo=None)):
            yield run.replace(tzinfo=zone)
