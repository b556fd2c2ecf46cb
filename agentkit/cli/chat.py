"""Talk to a reminder bot in the terminal.

Its reminders appear when they fire, as long as this runs; those that fell due meanwhile appear at the next start.

  agentkit chat
  > in 10 minutes tell me to stretch
  > every weekday at 9 send the report
  > list

Also reads lines from a pipe: it answers each, stays --linger seconds after the last, and exits.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from agentkit.agent import Agent
from agentkit.cli.console import Console
from agentkit.cli.local_zone import local_zone
from agentkit.cli.store_option import add_json, add_store
from agentkit.errors import ConfigurationError
from agentkit.options import AgentOptions
from agentkit.plain_text import one_line
from agentkit.runtime import Runtime
from agentkit.schedules.chat import SchedulingChat
from agentkit.schedules.schedule import Schedule
from agentkit.schedules.wall_clock import zone_named

if TYPE_CHECKING:
    from agentkit.schedules.parser import ScheduleModel

_LEAVING: Final = frozenset({"/quit", "/exit", "/q", "quit", "exit", "bye"})
#: A reminder later than this says so.
_LATE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What the bot is given: where to show reminders, the zone the user asked for, and who helps to read requests."""

    console: Console
    timezone: str | None
    model: ScheduleModel | None


class ReminderChat(Agent):
    """The bot behind ``agentkit chat``.

    Its stored name is no likely name of a user's class: the chat must not run jobs of a program that shares the store.
    """

    options = AgentOptions(name="ReminderChat", timezone=local_zone())

    async def say(self, text: str) -> str:
        """Answer one line."""
        return await SchedulingChat(self, self.remind, self.deps.timezone, model=self.deps.model).reply(text)

    async def zone(self) -> str:
        """Return the zone times are read in."""
        return self.deps.timezone or await self.scheduler.timezone()

    async def remind(self, payload: dict[str, str], schedule: Schedule) -> None:
        """Show a reminder."""
        now = self.lifecycle.clock.now()
        due_at = schedule.due_at or now
        local = now.astimezone(ZoneInfo(schedule.timezone))
        self.deps.console.reminder(
            one_line(payload.get("text", "")), at=f"{local:%H:%M:%S}", note=_note(due_at, now, schedule.timezone)
        )


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    add_store(parser)
    parser.add_argument("--name", default="me", help="whose reminders; each name has its own (default: me)")
    parser.add_argument("--timezone", metavar="ZONE", help="IANA name (default: this machine's)")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a model to read what the rules can't (OPENAI_API_KEY, OPENAI_BASE_URL); auto: the one in AGENTKIT_MODEL",
    )
    parser.add_argument(
        "--linger", type=_seconds, default=0.0, metavar="SECONDS", help="stay so long after the end of piped input"
    )
    add_json(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def run(options: Namespace) -> int:
    """Chat until the input ends or a signal comes; returns the exit code."""
    logging.basicConfig(format="agentkit: %(levelname)s: %(message)s", level=logging.WARNING, stream=sys.stderr)
    if options.timezone is not None:
        zone_named(options.timezone)
    with Console(as_json=options.json) as console:
        asyncio.run(_chat(options, console))
    return 0


async def _chat(options: Namespace, console: Console) -> None:
    terminal = Terminal(console=console, timezone=options.timezone, model=_model(options.model, console))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runtime = Runtime(ReminderChat, store=options.store, deps=terminal, shutdown_grace=5)
    bot = runtime.get(ReminderChat, options.name)
    async with runtime:
        console.note(f"Reminders are kept in {runtime.store.location}; times are in {await bot.zone()}.")
        console.note('Say what to remind you of, and when. "help" shows examples, "/quit" leaves.')
        await _until(stop, _converse(bot, console, linger=options.linger))


def _model(name: str | None, console: Console) -> ScheduleModel | None:
    """Return the model that is asked for; where it can't be had, the chat says so and goes by rules alone."""
    if name is None:
        return None
    from agentkit.schedules.parser.parser import model_for

    try:
        model = model_for(name)
    except ConfigurationError as error:
        console.note(f"Requests are read by rules alone: {one_line(str(error))}.")
        return None
    if model is None:
        console.note("Requests are read by rules alone: set AGENTKIT_MODEL, and OPENAI_API_KEY or OPENAI_BASE_URL.")
    return model


async def _converse(bot: ReminderChat, console: Console, *, linger: float) -> None:
    async for line in console.lines():
        if line.strip().lower() in _LEAVING:
            return
        if line.strip():
            console.reply(await bot.say(line))
    if not console.is_terminal:
        await asyncio.sleep(linger)


async def _until(stop: asyncio.Event, work: object) -> None:
    """Run the conversation until it ends or the event is set."""
    talking = asyncio.ensure_future(work)  # type: ignore[call-overload]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({talking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if talking.done():
            talking.result()
    finally:
        for task in (talking, stopping):
            task.cancel()
        await asyncio.gather(talking, stopping, return_exceptions=True)


def _note(due_at: datetime, now: datetime, timezone: str) -> str:
    if now - due_at < _LATE:
        return ""
    return f"was due {due_at.astimezone(ZoneInfo(timezone)):%Y-%m-%d %H:%M:%S}"
