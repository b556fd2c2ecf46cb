"""What a chat says. Everything in it that people wrote has gone through ``one_line``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from agentkit.plain_text import shortened
from agentkit.schedules.chat.memory import Action
from agentkit.schedules.chat.targets import Entry
from agentkit.schedules.schedule import Schedule

NEXT_RUNS: Final = 3
_LONGEST_TASK: Final = 200

HELP: Final = """\
Tell me what to remind you of, and when:
  in 10 minutes stretch
  every weekday at 9 send the report
  remind me on Friday at 3pm to call Ada
Then, about what is scheduled:
  list                      what is scheduled, and when it runs next
  cancel 2 / cancel the report one / cancel all
  pause the report / resume it
  make that 10 instead / move it to 5pm / rename it to send the invoice"""
HELLO: Final = 'Hello! Tell me what to remind you of, and when: "in 10 minutes stretch". Say "help" for more.'
WELCOME: Final = "You're welcome."
EMPTY: Final = 'I see no text. Say what to remind you of, and when: "in 10 minutes stretch".'
NOTHING_OPEN: Final = 'There is no open question. To drop what was scheduled last, say "cancel it".'
NO_UNDO: Final = 'I can\'t take back what was done. To drop what was scheduled last, say "cancel it".'
ALL_RIGHT: Final = 'All right. Say "list" to see what is scheduled.'
PAUSED: Final = 'That one is paused. Say "resume it" first, then change it.'
BUSY: Final = "Something else changed the schedules meanwhile, so I did nothing. Please say that again."
NOTHING_SCHEDULED: Final = "Nothing is scheduled."
LEFT_ALONE: Final = "All right, nothing was changed."
DROPPED: Final = "All right, I forgot about it. Nothing was scheduled."
WHAT_AND_WHEN: Final = "What should I remind you of, and when?"
WHAT: Final = "What should I remind you of then?"
NOT_UNDERSTOOD: Final = (
    'I read no time in that, so nothing was scheduled. Say what and when, as in "tomorrow at 9 call Ada", or "help".'
)
_DONE: Final[dict[Action, str]] = {"cancel": "Cancelled", "pause": "Paused", "resume": "Resumed"}


def made(entry: Entry, runs: Sequence[datetime], verb: str = "Scheduled") -> str:
    """Say how a schedule was understood, with its zone and next runs."""
    timing, zone = timing_of(entry.schedule), ZoneInfo(entry.schedule.timezone)
    shown = [moment(run, zone, is_exact=_needs_seconds(entry.schedule)) for run in runs]
    lines = [f"{verb} {named(entry)}"]
    if entry.schedule.is_recurring:
        lines.append(f"  {timing}")
        lines.append(f"  next: {'; '.join(shown)}" if shown else "  paused")
    else:
        lines.append(f"  {_once(entry.schedule)}")
    return "\n".join(lines)


def _once(schedule: Schedule) -> str:
    parts = ["once"]
    if schedule.next_run is not None:
        shown = moment(schedule.next_run, ZoneInfo(schedule.timezone), is_exact=_needs_seconds(schedule))
        parts.append(f"on {shown} ({schedule.timezone})")
    return ", ".join([*parts, "paused"] if schedule.paused else parts)


def listed(entries: Sequence[Entry], now: datetime) -> str:
    """Say what is scheduled, the next to run first."""
    if not entries:
        return NOTHING_SCHEDULED
    return "\n".join(_line(entry, now) for entry in entries)


def _line(entry: Entry, now: datetime) -> str:
    schedule = entry.schedule
    zone = ZoneInfo(schedule.timezone)
    if schedule.paused:
        return f"{named(entry)} - {f'{timing_of(schedule)}, paused' if schedule.is_recurring else _once(schedule)}"
    parts = [timing_of(schedule)] if schedule.is_recurring else []
    if schedule.next_run is not None:
        is_exact = _needs_seconds(schedule) or schedule.next_run - now < timedelta(minutes=2)
        next_run = f"next {moment(schedule.next_run, zone, is_exact=is_exact)}"
        parts.append(next_run if schedule.is_recurring else f"{next_run} {schedule.timezone}")
    return f"{named(entry)} - {', '.join(parts)}"


def done(action: Action, entries: Sequence[Entry]) -> str:
    """Say what was done to which schedules."""
    lines = [f"{_DONE[action]} {named(entry)}" for entry in entries]
    return "\n".join(lines)


def next_run(entry: Entry, run: datetime) -> str:
    """Say when a schedule runs next, after something else was said about it."""
    is_exact = _needs_seconds(entry.schedule)
    shown = moment(run, ZoneInfo(entry.schedule.timezone), is_exact=is_exact)
    return f"; next {shown} ({entry.schedule.timezone})"


def already(action: Action, entry: Entry) -> str:
    """Say that there was nothing to do."""
    return f"{named(entry)} is {'paused already' if action == 'pause' else 'not paused'}."


def nothing_to(action: Action, *, is_any: bool) -> str:
    """Say that no schedule is there for an action."""
    if not is_any or action == "cancel":
        return NOTHING_SCHEDULED
    return "Nothing is paused." if action == "resume" else "Everything is paused already."


def zone(timezone: str, now: datetime) -> str:
    """Say which zone times are read in."""
    return f"I read times in {timezone}, where it is {moment(now, ZoneInfo(timezone))}."


def several(entries: Sequence[Entry], now: datetime) -> str:
    """Say that a change may be meant for more than one."""
    again = f"Several go by that. Say it again with a number, as in “move {entries[0].number} to …”:"
    return f"{again}\n{listed(entries, now)}"


def exists(entry: Entry) -> str:
    """Say that a schedule is there already."""
    return f"That is scheduled already: {named(entry)}."


def impossible(reason: str) -> str:
    """Refuse what the scheduler refuses."""
    return f"I can't schedule that: {reason}."


def which(action: Action, entries: Sequence[Entry], now: datetime) -> str:
    """Ask which one is meant."""
    return f"Which one should I {action}?\n{listed(entries, now)}"


def whether(action: Action, entries: Sequence[Entry], now: datetime, *, is_all: bool) -> str:
    """Ask for a yes before something is done to these."""
    if is_all and len(entries) > 1:
        return f"{action.capitalize()} all {len(entries)} schedules? (yes/no)\n{listed(entries, now)}"
    until = " It then rests until you say resume." if action == "pause" else ""
    return f"Do you mean this one?{until} Say yes to {action} it altogether, or no.\n{listed(entries[:1], now)}"


def not_found(target: str, entries: Sequence[Entry], now: datetime) -> str:
    """Say that nothing goes by this name."""
    if not entries:
        return NOTHING_SCHEDULED
    what = f"I find no schedule for “{shortened(target, 80)}”." if target else "I don't know which one you mean."
    return f"{what} These there are:\n{listed(entries, now)}"


def missing(numbers: Sequence[int]) -> str:
    """Say, after something else was said, which numbers no schedule has."""
    if not numbers:
        return ""
    names = [f"#{number}" for number in numbers]
    listed_names = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"\nI find no {shortened(listed_names, 80)}."


def change_or_new(entries: Sequence[Entry], task: str, now: datetime) -> str:
    """Ask whether a request is the new time of a schedule or a task of its own."""
    new = shortened(task, _LONGEST_TASK)
    return f"Should I change this one, or make a new one, “{new}”? (change/new)\n{listed(entries, now)}"


def how_long(task: str, numbers: Sequence[int]) -> str:
    """Ask by how much a reminder is put off."""
    number = "".join(f"#{one} " for one in numbers)
    return f'For how long should I snooze {number}{shortened(task, _LONGEST_TASK)}? Say it as in "10 minutes".'


def over(task: str) -> str:
    """Say that the schedule "it" meant is gone."""
    return f"The last one, “{shortened(task, 80)}”, is over. To have it again, say it with its time."


def not_changed(entry: Entry, words: str) -> str:
    """Say that a new time was not understood."""
    again = 'as in "make it every Monday at 9"' if entry.schedule.is_recurring else 'as in "move it to Friday at 5pm"'
    return f"I don't see how “{shortened(words, 80)}” changes {named(entry)}. Say the whole new time, {again}."


def too_long(count: int, limit: int) -> str:
    """Refuse a message by its length."""
    return f"That message has {count:,} characters, and I read at most {limit:,}. Can you say it shorter?"


def too_many(limit: int) -> str:
    """Refuse one schedule more."""
    return (
        f'There are {limit} schedules already, the most I keep (max_schedules={limit}). Cancel some first: say "list".'
    )


def too_often(seconds: int) -> str:
    """Refuse runs that follow too closely."""
    return f"That repeats too often: at most once in {seconds} seconds (min_interval={seconds}). Say a longer interval."


def asked_again(question: str) -> str:
    """Ask once more."""
    return f"I didn't get that. {question}"


def named(entry: Entry) -> str:
    """Return how a schedule is called: its number and task."""
    return f"#{entry.number} {shortened(entry.task, _LONGEST_TASK)}"


def timing_of(schedule: Schedule) -> str:
    """Return when a schedule runs, without its next run."""
    return schedule.describe().partition(", next ")[0].removesuffix(", paused")


def moment(when: datetime, zone: ZoneInfo, *, is_exact: bool = False) -> str:
    """Return a moment by the wall clock of a zone."""
    local = when.astimezone(zone)
    return (
        f"{local:%a} {local.day} {local:%b %Y} {local:%H:%M:%S}"
        if is_exact
        else f"{local:%a} {local.day} {local:%b %Y} {local:%H:%M}"
    )


def _needs_seconds(schedule: Schedule) -> bool:
    return schedule.type == "delayed" or (schedule.next_run is not None and schedule.next_run.second != 0)
