"""``agentkit parse``: what a request is understood as, with its next runs. Nothing is stored."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agentkit.clock import SystemClock
from agentkit.errors import AgentKitError, ParseError, ScheduleError

if TYPE_CHECKING:
    from agentkit.json_value import JsonValue
    from agentkit.schedules.parser import ParsedSchedule, ScheduleParser

UNDERSTOOD = 0
NO_ANSWER = 1
MISTAKE = 2
NEEDS_ANSWER = 3
SHOWN_RUNS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("text", nargs="?", help='the request, such as "every Monday at 9 send the report"')
    parser.add_argument(
        "--now", metavar="TIME", help="read it as if said then: ISO 8601, in --timezone without an offset"
    )
    parser.add_argument("--timezone", metavar="ZONE", default="UTC", help="IANA name of the user's zone (UTC)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a model to read what the rules can't (OPENAI_API_KEY, OPENAI_BASE_URL); auto: the one in AGENTKIT_MODEL",
    )
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="read JSON lines with id, text, now and tz, and print one line for each; - is stdin",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code.

    0 is understood, 1 no answer from the model, 2 a mistake in the call, 3 a question to answer.
    """
    try:
        if arguments.batch is not None:
            return _run_batch(arguments)
        if arguments.text is None:
            return _mistake("nothing to parse; give a text in quotes, or --batch FILE")
        return _run_one(arguments)
    except ParseError as error:
        print(f"agentkit parse: {printable(str(error))}", file=sys.stderr)
        return NO_ANSWER
    except (AgentKitError, OSError, UnicodeDecodeError) as error:
        return _mistake(str(error))
    except BrokenPipeError:
        return UNDERSTOOD


def _run_one(arguments: argparse.Namespace) -> int:
    from agentkit.schedules.wall_clock import zone_named

    zone = zone_named(arguments.timezone)
    now = SystemClock().now() if arguments.now is None else moment_of(arguments.now, zone)
    plan = asyncio.run(_parser(arguments.model).parse(arguments.text, now=now, timezone=arguments.timezone))
    if arguments.json:
        print(json.dumps(record_of(plan, arguments.timezone), ensure_ascii=False))
    else:
        print("\n".join(_lines(plan, now, zone)))
    return UNDERSTOOD if plan.question is None else NEEDS_ANSWER


def _run_batch(arguments: argparse.Namespace) -> int:
    name = arguments.batch
    lines = sys.stdin if name == "-" else Path(name).read_text(encoding="utf-8").splitlines()
    return asyncio.run(_answer_lines(name, lines, _parser(arguments.model)))


async def _answer_lines(name: str, lines: Iterable[str], parser: ScheduleParser) -> int:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            identity, text, now_text, timezone = row["id"], row["text"], row["now"], row["tz"]
        except (ValueError, KeyError, TypeError) as error:
            return _mistake(f"{name}, line {number}: not an object with id, text, now and tz ({error})")
        from agentkit.schedules.wall_clock import zone_named

        now = moment_of(str(now_text), zone_named(str(timezone)))
        failure: dict[str, JsonValue] = {}
        try:
            plan = await parser.parse(str(text), now=now, timezone=str(timezone))
        except ParseError as error:
            # One answer that a model couldn't give is no reason to give none: the rules have a question.
            plan = await _parser(None).parse(str(text), now=now, timezone=str(timezone))
            failure = {"error": printable(str(error))}
        print(json.dumps({"id": identity, **record_of(plan, str(timezone)), **failure}, ensure_ascii=False))
    return UNDERSTOOD


def _parser(model: str | None) -> ScheduleParser:
    from agentkit.schedules.parser import ScheduleParser

    return ScheduleParser(model)


def moment_of(text: str, zone: ZoneInfo) -> datetime:
    """Return the moment an ISO 8601 text names, by the zone's clock where it has no offset.

    Raises:
        ScheduleError: If it is no such text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a time; write it like 2027-03-01T09:00 or 2027-03-01T09:00:00+01:00"
        raise ScheduleError(message) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def record_of(plan: ParsedSchedule, timezone: str) -> dict[str, JsonValue]:
    """Return a plan as a JSON object; one with a question has type ``clarify`` and its guess under ``candidate``."""
    from agentkit.schedules.parser import Cron, Delayed, Interval, Rrule, Scheduled

    record: dict[str, JsonValue] = {"type": plan.when.type}
    match plan.when:
        case Scheduled(date=date):
            record["date"] = date.astimezone(ZoneInfo(timezone)).isoformat()
        case Delayed(delay_in_seconds=seconds):
            record["delay_in_seconds"] = seconds
        case Interval(interval_seconds=seconds):
            record["interval_seconds"] = seconds
        case Cron(cron=cron, timezone=zone_name):
            rules = cron.split(" | ")
            record |= {"cron": rules[0] if len(rules) == 1 else list(rules), "timezone": zone_name}
        case Rrule(rrule=rrule, timezone=zone_name):
            record |= {"rrule": rrule, "timezone": zone_name}
        case _:
            pass
    for name, moment in (("start", plan.starts_at), ("until", plan.until)):
        if moment is not None:
            record[name] = moment.astimezone(ZoneInfo(timezone)).isoformat()
    if plan.count is not None:
        record["count"] = plan.count
    if plan.question is None:
        return {**record, "description": plan.description}
    asked: dict[str, JsonValue] = {"type": "clarify", "question": plan.question, "description": plan.description}
    if record["type"] != "no-schedule":
        asked["candidate"] = record
    return asked


def _lines(plan: ParsedSchedule, now: datetime, zone: ZoneInfo) -> Iterator[str]:
    from agentkit.schedules.parser.upcoming import next_runs

    if plan.question is not None:
        yield f"question:  {printable(plan.question)}"
    if plan.when.type == "no-schedule" and plan.question is None:
        yield "nothing to schedule"
        return
    if plan.description:
        yield f"task:      {printable(plan.description)}"
    if plan.when.type == "no-schedule":
        return
    yield f"when:      {in_words(plan, zone)}"
    runs = next_runs(plan, now, SHOWN_RUNS)
    for place, moment in enumerate(runs):
        label = "next runs:" if place == 0 else "          "
        yield f"{label} {_shown(moment, zone)}"


def in_words(plan: ParsedSchedule, zone: ZoneInfo) -> str:
    """Return when a plan runs, in English with its bounds."""
    from agentkit.schedules.parser import Cron, Delayed, Interval, Rrule, Scheduled

    match plan.when:
        case Scheduled(date=date):
            words = f"once, {_shown(date, zone)}"
        case Delayed(delay_in_seconds=seconds):
            words = f"once, in {_length(seconds)}"
        case Interval(interval_seconds=seconds):
            words = f"every {_length(seconds)}"
        case Cron(cron=cron, timezone=name):
            words = f"cron {cron} ({name})"
        case Rrule(rrule=rrule, timezone=name):
            words = f"rrule {rrule} ({name})"
        case _:
            words = "nothing"
    if plan.starts_at is not None and not isinstance(plan.when, Rrule):
        words += f", from {_shown(plan.starts_at, zone)}"
    if plan.until is not None:
        words += f", until {_shown(plan.until, zone)}"
    return words if plan.count is None else f"{words}, {plan.count} times"


def _length(seconds: int) -> str:
    parts = []
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return " ".join(parts)


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%a %Y-%m-%d %H:%M %Z")


def printable(text: str) -> str:
    """Return the text without the control characters that a terminal would act on."""
    return "".join(character if character.isprintable() else " " for character in text)


def _mistake(message: str) -> int:
    print(f"agentkit parse: {printable(message)}", file=sys.stderr)
    return MISTAKE
