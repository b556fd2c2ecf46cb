"""Conversations about schedules, on a clock in the test's hand. Monday 2026-11-30, 19:00 in Berlin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, Schedule
from agentkit.errors import ScheduleError
from agentkit.plain_text import one_line, several_lines, shortened
from agentkit.schedules.chat import SchedulingChat
from agentkit.schedules.chat.commands import (
    Act,
    Answer,
    Change,
    Command,
    Request,
    SetZone,
    Show,
    Talk,
    read_command,
)
from agentkit.schedules.chat.memory import Memory, Pending, memory_from_json
from agentkit.schedules.chat.zones import known_name
from agentkit.testing import FakeClock, ManualRuntime

START = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
ESCAPE = "\x1b"

Say = Callable[[str], Awaitable[str]]


class Bot(Agent):
    """Answers, and keeps what it was to remind of."""

    options = AgentOptions(timezone="Europe/Berlin", max_schedules=60)

    async def say(self, text: str, max_schedules: int = 50) -> str:
        return await SchedulingChat(self, self.remind, max_schedules=max_schedules).reply(text)

    async def say_in(self, zone: str, text: str) -> str:
        return await SchedulingChat(self, "remind", zone).reply(text)

    async def say_and_note(self, text: str) -> str:
        async with self.transaction():
            await self.storage.put("noted", text)
            return await self.say(text)

    async def forget(self) -> None:
        await self.storage.delete_all()

    async def say_elsewhere(self, text: str) -> str:
        return await SchedulingChat(self, self.other).reply(text)

    async def remind(self, payload: dict[str, str], schedule: Schedule) -> None:
        reminded = await self.storage.get("reminded", [])
        await self.storage.put("reminded", [*reminded, payload])

    async def other(self, payload: dict[str, str]) -> None:
        """Another callback, of another chat."""

    async def reminded(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = await self.storage.get("reminded", [])
        return found


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    async with ManualRuntime(Bot, store=f"sqlite:///{tmp_path}/bots.db", clock=FakeClock(START)) as runtime:
        yield runtime


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    return runtime.get(Bot, "ada")


@pytest.fixture
def say(bot: Bot) -> Say:
    return bot.say


async def tasks(bot: Bot) -> dict[str, Schedule]:
    """Return the schedules by what they are about."""
    return {schedule.payload["text"]: schedule for schedule in await bot.list_schedules()}


async def said(say: Say, *messages: str) -> str:
    """Say several things and return the last reply."""
    reply = ""
    for message in messages:
        reply = await say(message)
    return reply


# --- scheduling


async def test_a_delay_is_scheduled_and_reminds(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """The callback gets the task in its own words, when the delay is over."""
    reply = await say("in 10 seconds tell me to stretch")

    await runtime.advance(timedelta(seconds=10))

    assert reply == "Scheduled #1 stretch\n  once, on Mon 30 Nov 2026 19:00:10 (Europe/Berlin)"
    assert await bot.reminded() == [{"text": "stretch"}]
    assert await bot.list_schedules() == []


async def test_a_recurrence_is_echoed_with_its_zone_and_three_runs(bot: Bot, say: Say) -> None:
    """People see at once how they were understood."""
    reply = await say("every weekday at 9 send the report")

    assert reply == (
        "Scheduled #1 send the report\n"
        "  every weekday at 09:00 Europe/Berlin\n"
        "  next: Tue 1 Dec 2026 09:00; Wed 2 Dec 2026 09:00; Thu 3 Dec 2026 09:00"
    )
    assert (await tasks(bot))["send the report"].cron == "0 9 * * 1-5"


async def test_the_zone_can_be_given(bot: Bot) -> None:
    """A chat reads times in the zone it was built with, before the agent's."""
    reply = await bot.say_in("America/New_York", "tomorrow at 9 call Ada")

    assert "Tue 1 Dec 2026 09:00 (America/New_York)" in reply
    assert (await tasks(bot))["call Ada"].next_run == datetime(2026, 12, 1, 14, tzinfo=UTC)


async def test_an_unknown_zone_is_found_out_at_once(bot: Bot) -> None:
    """A mistake of the program's, not of the person who chats."""
    with pytest.raises(ScheduleError, match="Mars/Base"):
        await bot.say_in("Mars/Base", "list")


async def test_the_same_recurrence_is_not_made_twice(bot: Bot, say: Say) -> None:
    """A recurring request that exists is pointed at, not doubled; two one-shots are two."""
    await said(say, "every day at 9 drink water", "in 5 minutes stretch", "in 5 minutes stretch")

    reply = await say("every day at 9 drink water")

    assert reply == "That is scheduled already: #1 drink water."
    assert len(await bot.list_schedules()) == 3


@pytest.mark.parametrize(
    "request_",
    ["remind me to cancel Netflix tomorrow at 9", "stop the oven in ten minutes", "make coffee in 5 minutes"],
)
async def test_a_request_may_begin_like_a_command(bot: Bot, say: Say, request_: str) -> None:
    """Verbs that are commands elsewhere are part of a task when the rest says when."""
    reply = await say(request_)

    assert reply.startswith("Scheduled #1")
    assert len(await bot.list_schedules()) == 1


# --- questions and answers


async def test_an_answer_completes_the_request_after_a_crash(runtime: ManualRuntime, bot: Bot) -> None:
    """What was asked last is on disk, so the answer may reach another process."""
    asked = await bot.say("remind me to call mum")

    await runtime.crash()
    reply = await runtime.get(Bot, "ada").say("tomorrow at 5")

    assert asked == "When should that be?"
    assert reply.startswith("Scheduled #1 call mum\n  once, on Tue 1 Dec 2026 17:00")


@pytest.mark.parametrize(
    ("messages", "task", "next_run"),
    [
        pytest.param(("remind me to call mum", "9"), "call mum", "2026-11-30T20:00", id="a bare hour"),
        pytest.param(("remind me to nap", "2 hours"), "nap", "2026-11-30T20:00", id="a bare amount"),
        pytest.param(("tomorrow at 9", "call Ada"), "call Ada", "2026-12-01T08:00", id="the task"),
        pytest.param(("tomorrow at 9", "to call Ada"), "call Ada", "2026-12-01T08:00", id="to do it"),
        pytest.param(("remind me", "to dance", "at noon"), "dance", "2026-12-01T11:00", id="both"),
        pytest.param(("remind me", "tomorrow at 6", "sing"), "sing", "2026-12-01T17:00", id="both, time first"),
        pytest.param(("send the report", "tomorrow at 9"), "send the report", "2026-12-01T08:00", id="unasked"),
        pytest.param(("remind me to nap", "list", "at noon"), "nap", "2026-12-01T11:00", id="after a look"),
        pytest.param(("remind me to nap", "soon", "at noon"), "nap", "2026-12-01T11:00", id="at second try"),
        pytest.param(("remind me to nap", "in 1 hour eat"), "eat", "2026-11-30T19:00", id="another request drops it"),
    ],
)
async def test_answers(bot: Bot, say: Say, messages: tuple[str, ...], task: str, next_run: str) -> None:
    """An answer and the request it belongs to make one schedule."""
    await said(say, *messages)

    found = await tasks(bot)

    assert {text: f"{schedule.next_run:%Y-%m-%dT%H:%M}" for text, schedule in found.items()} == {task: next_run}


@pytest.mark.parametrize(
    ("request_", "answer", "when"),
    [
        (
            "every other friday at 3pm from january walk",
            "starting january 8",
            "every other Friday at 15:00 Europe/Berlin, from 2027-01-08 15:00",
        ),
        (
            "every other friday at 3pm from january walk",
            "from 8 january 2027",
            "every other Friday at 15:00 Europe/Berlin, from 2027-01-08 15:00",
        ),
        ("every other friday at 3pm from january walk", "every friday at 4pm", "every Friday at 16:00 Europe/Berlin"),
        ("every friday at 25:00 walk", "at 4pm", "every Friday at 16:00 Europe/Berlin"),
        ("every friday at 25:00 walk", "16:00", "every Friday at 16:00 Europe/Berlin"),
        ("every now and then walk", "every friday at 4pm", "every Friday at 16:00 Europe/Berlin"),
    ],
)
async def test_an_answer_is_joined_to_a_rhythm(bot: Bot, say: Say, request_: str, answer: str, when: str) -> None:
    """An answer takes the place of the words that were not understood."""
    await said(say, request_, answer)

    (schedule,) = await bot.list_schedules()
    assert schedule.describe().startswith(when)


@pytest.mark.parametrize(
    "answer", ["at 4pm", "4pm", "16:00", "tomorrow at 4pm", "in 2 hours", "2 hours", "on january 8"]
)
@pytest.mark.parametrize(
    "request_",
    ["every other friday at 3pm from january walk", "every now and then walk", "sometimes walk", "every 5 walk"],
)
async def test_no_answer_makes_a_rhythm_run_once(bot: Bot, say: Say, request_: str, answer: str) -> None:
    """A moment alone doesn't say how often, so the question stays; a whole answer then ends it."""
    reply = await said(say, request_, answer)
    unscheduled = await bot.list_schedules()

    await say("every friday at 4pm")

    assert reply.startswith("I didn't get that.")
    assert unscheduled == []
    assert [schedule.cron for schedule in await bot.list_schedules()] == ["0 16 * * 5"]


async def test_a_question_is_dropped_on_request_and_after_two_tries(bot: Bot, say: Say) -> None:
    """Nobody is held in a question."""
    dropped = await said(say, "remind me to nap", "never mind")
    given_up = await said(say, "remind me to nap", "blue", "green")

    assert dropped == "All right, I forgot about it. Nothing was scheduled."
    assert given_up.startswith("I read no time in that")
    assert await bot.list_schedules() == []


@pytest.mark.parametrize(
    "open_",
    [
        "february 30 at 10 pay rent",
        "remind me to nap",
        "every now and then walk",
        "tomorrow at 9",
        "remind me",
        "cancel the water one",
    ],
)
@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ("yesterday at 5pm buy milk", "That time is over already."),
        ("february 31 at 9 buy milk", "That day is not in the calendar."),
        ("remind me to buy milk", "When should that be?"),
        ("tomorrow at 5pm buy milk", "Scheduled #4 buy milk"),
        ("every friday at 5pm buy milk", "Scheduled #4 buy milk"),
        ("snooze 3 by 10 minutes", "Changed #3 oil\n  once, on Fri 4 Dec 2026 09:10"),
        ("snooze number 3 for 10 minutes", "Changed #3 oil\n  once, on Fri 4 Dec 2026 09:10"),
        ("rename 3 to gas", "Changed #3 gas"),
        ("make the oil one 10", "Changed #3 oil\n  once, on Fri 4 Dec 2026 10:00"),
        ("move 3 to 5pm", "Changed #3 oil\n  once, on Fri 4 Dec 2026 17:00"),
        ("list", "#3 oil"),
        ("stop 3", "Cancelled #3 oil"),
        ("cancel 3", "Cancelled #3 oil"),
        ("pause the oil", "Paused #3 oil"),
        ("help", "Tell me what"),
        ("use Tokyo time", "I read times in Asia/Tokyo"),
    ],
)
async def test_requests_and_commands_win_over_a_question(say: Say, open_: str, message: str, reply: str) -> None:
    """What makes sense by itself is no answer."""
    await said(say, "every saturday at 8 water roses", "every sunday at 8 water fish", "on friday at 9 oil", open_)

    assert (await say(message)).startswith(reply)


@pytest.mark.parametrize(
    "answer",
    [
        "on the day after payday",
        "at 25:00",
        "february 31 at 9",
        "once I get home",
        "a bit later",
        "soon, in the evening",
    ],
)
async def test_a_vague_answer_is_no_request(bot: Bot, say: Say, answer: str) -> None:
    """Words of time that are left over are no task."""
    asked_again = await said(say, "remind me to nap", answer)
    await say("at noon")

    assert asked_again.startswith("I didn't get that.")
    assert list(await tasks(bot)) == ["nap"]


async def test_a_late_answer_answers_nothing(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """A yes two days later must not cancel everything."""
    await said(say, "every day at 9 drink", "cancel all")

    await runtime.advance(timedelta(days=2))
    reply = await say("yes")

    assert reply.startswith("All right.")
    assert len(await bot.list_schedules()) == 1


# --- listing, cancelling, pausing


async def test_listing(say: Say) -> None:
    """The next to run comes first; paused ones say so."""
    await said(say, "every friday at 3pm pizza", "in 3 hours nap", "pause the pizza")

    reply = await say("what's scheduled?")

    assert reply == (
        "#2 nap - next Mon 30 Nov 2026 22:00:00 Europe/Berlin\n#1 pizza - every Friday at 15:00 Europe/Berlin, paused"
    )


@pytest.mark.parametrize(
    "command",
    [
        "cancel the report one",
        "cancel 2",
        "delete #2",
        "remove the 9am reminder",
        "stop the report",
        "cancel it",
        "I don't need the report reminder anymore",
    ],
)
async def test_cancelling_one(bot: Bot, say: Say, command: str) -> None:
    """A number, words of the task, its time, or "it" name a schedule."""
    await said(say, "in 3 hours nap", "every weekday at 9 send the report")

    reply = await say(command)

    assert reply == "Cancelled #2 send the report"
    assert list(await tasks(bot)) == ["nap"]


async def test_numbers_stay_when_others_go(bot: Bot, say: Say) -> None:
    """A number means the same schedule for as long as any is left."""
    await said(say, "in 1 hour a", "in 2 hours b", "in 3 hours c", "cancel 1", "cancel 2")

    await said(say, "in 4 hours d", "cancel 4")

    assert list(await tasks(bot)) == ["c"]


async def test_cancelling_all_asks_first(bot: Bot, say: Say) -> None:
    """Only a yes cancels everything."""
    await said(say, "in 1 hour nap", "in 2 hours eat")

    asked, kept = await say("cancel all"), await say("no")
    left = len(await bot.list_schedules())
    done = await said(say, "cancel everything", "yes")

    assert asked.startswith("Cancel all 2 schedules? (yes/no)\n#1 nap")
    assert (kept, left) == ("All right, nothing was changed.", 2)
    assert done == "Cancelled #1 nap\nCancelled #2 eat"
    assert await bot.list_schedules() == []


async def test_a_name_for_two_is_asked_about(bot: Bot, say: Say) -> None:
    """The answer to "which one?" may be a number or a word; a number that was no choice is asked again."""
    await said(say, "in 1 hour nap", "every monday at 8 water the plants", "every tuesday at 8 water the cat")

    asked = await say("cancel the water one")
    again = await say("1")
    done = await say("the plants")

    assert asked.startswith("Which one should I cancel?\n#3 water the cat")
    assert again.startswith("I didn't get that. Which one")
    assert done == "Cancelled #2 water the plants"


@pytest.mark.parametrize(
    ("command", "reply", "left"),
    [
        ("cancel 1 and 99", "Cancelled #1 mow the lawn\nI find no #99.", ["feed the cat", "wash the car"]),
        ("cancel 98, 1, 99 and 97", "Cancelled #1 mow the lawn\nI find no #97, #98 or #99.", None),
        ("cancel 1 and 2", "Cancelled #1 mow the lawn\nCancelled #2 wash the car", ["feed the cat"]),
        ("cancel the lawn and the car", "Cancelled #1 mow the lawn\nCancelled #2 wash the car", ["feed the cat"]),
        ("cancel the lawn, the car and the cat", "Cancelled #1", []),
        ("cancel 1 and the car", "Cancelled #1 mow the lawn\nCancelled #2 wash the car", ["feed the cat"]),
        ("cancel the lawn and 99", "Cancelled #1 mow the lawn\nI find no #99.", ["feed the cat", "wash the car"]),
        ("cancel it and the car", "Cancelled #2 wash the car\nCancelled #3 feed the cat", ["mow the lawn"]),
        ("pause the lawn and 99", "Paused #1 mow the lawn\nI find no #99.", None),
        ("resume 1 and 99", "#1 mow the lawn is not paused.\nI find no #99.", None),
        ("cancel 14 and 99", "I find no schedule for “14 and 99”.", ["feed the cat", "mow the lawn", "wash the car"]),
        ("cancel the lawn and the boat", "Do you mean this one?", ["feed the cat", "mow the lawn", "wash the car"]),
    ],
)
async def test_several_are_named_at_once(bot: Bot, say: Say, command: str, reply: str, left: list[str] | None) -> None:
    """What is there is acted on, and numbers that aren't are told."""
    await said(say, "every day at 9 mow the lawn", "every day at 10 wash the car", "every day at 11 feed the cat")

    assert (await say(command)).startswith(reply)
    assert left is None or sorted(await tasks(bot)) == left


async def test_several_may_be_chosen(bot: Bot, say: Say) -> None:
    """The answer to "which one?" may name more than one, and one that isn't there."""
    await said(say, "every monday at 8 water the plants", "every tuesday at 8 water the cat", "cancel the water one")

    reply = await say("1 and 7")

    assert reply == "Cancelled #1 water the plants\nI find no #7."


async def test_half_a_name_is_asked_about(bot: Bot, say: Say) -> None:
    """Words that are not accounted for ("tomorrow", "for an hour") are never ignored."""
    await say("every weekday at 9 send the report")

    asked = await say("cancel the report next week")
    await say("no")
    paused = await said(say, "pause the report for an hour", "yes")

    assert asked.startswith("Do you mean this one?")
    assert paused == "Paused #1 send the report"


async def test_pausing_and_resuming(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """A paused reminder doesn't run; resumed, it goes on at its next time."""
    await said(say, "every day at 20:00 stretch", "pause the stretch reminder")
    await runtime.advance(timedelta(days=1))
    rested = await bot.reminded()

    reply = await say("resume it")
    await runtime.advance(timedelta(days=1))

    assert rested == []
    assert reply == "Resumed #1 stretch; next Tue 1 Dec 2026 20:00 (Europe/Berlin)"
    assert len(await bot.reminded()) == 1


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("cancel it", "Nothing is scheduled."),
        ("cancel 7", "Nothing is scheduled."),
        ("cancel all", "Nothing is scheduled."),
        ("resume", "Nothing is scheduled."),
        ("make it 10", "Nothing is scheduled."),
        ("yes", 'All right. Say "list" to see what is scheduled.'),
    ],
)
async def test_commands_with_nothing_scheduled(say: Say, command: str, reply: str) -> None:
    """Each has an answer."""
    assert await say(command) == reply


async def test_a_chat_sees_only_its_own(bot: Bot, say: Say) -> None:
    """Schedules of the code and of another chat are not its to list or cancel."""
    await bot.schedule(3600, "remind", {"text": "made by code"})
    await bot.say_elsewhere("in 1 hour elsewhere")

    await said(say, "in 2 hours here", "cancel all", "yes")

    assert sorted(await tasks(bot)) == ["elsewhere", "made by code"]


# --- changing


@pytest.mark.parametrize(
    ("request_", "change", "when"),
    [
        ("every weekday at 9 report", "make that 10 instead", "every weekday at 10:00 Europe/Berlin"),
        ("every weekday at 9 report", "move it to 5pm", "every weekday at 17:00 Europe/Berlin"),
        ("every weekday at 9 report", "no, at 10:30", "every weekday at 10:30 Europe/Berlin"),
        ("every weekday at 9 report", "make it every day", "every day at 09:00 Europe/Berlin"),
        (
            "every weekday at 9 report",
            "change the report to every Friday at noon",
            "every Friday at 12:00 Europe/Berlin",
        ),
        ("every monday at 9 report", "move the report to Friday", "every Friday at 09:00 Europe/Berlin"),
        ("every day at 18:00 report", "actually, 7", "every day at 19:00 Europe/Berlin"),
        ("every day at 18:00 report", "make it 30 minutes earlier", "every day at 17:30 Europe/Berlin"),
        ("every other friday at 3pm report", "make it 4pm", "every other Friday at 16:00 Europe/Berlin"),
        ("on Friday at 9 report", "move it to 5pm", "once, 2026-12-04 17:00 Europe/Berlin"),
        ("on Friday at 9 report", "move it to Saturday", "once, 2026-12-05 09:00 Europe/Berlin"),
        ("on Friday at 9 report", "postpone the report by an hour", "once, 2026-12-04 10:00 Europe/Berlin"),
        ("on Friday at 9 report", "bring it forward by 2 hours", "once, 2026-12-04 07:00 Europe/Berlin"),
        ("in 10 minutes report", "make it 20", "once, 2026-11-30 19:20 Europe/Berlin"),
        ("every 90 minutes report", "make that 100 instead", "every 100 minutes"),
        ("on Friday at 9 report", "move that back 15 minutes", "once, 2026-12-04 09:15 Europe/Berlin"),
        ("on Friday at 9 report", "push the report back an hour", "once, 2026-12-04 10:00 Europe/Berlin"),
        ("on Friday at 9 report", "add 5 minutes", "once, 2026-12-04 09:05 Europe/Berlin"),
    ],
)
async def test_changes(bot: Bot, say: Say, request_: str, change: str, when: str) -> None:
    """What the words leave open, the days or the time of day, stays as it was."""
    await say(request_)

    reply = await say(change)

    (schedule,) = await bot.list_schedules()
    assert reply.startswith("Changed #1 report")
    assert schedule.describe().startswith(when)


@pytest.mark.parametrize(
    ("request_", "change", "when", "next_run"),
    [
        ("in 10 minutes car", "make it 20", "once, 2026-11-30 19:20 Europe/Berlin", "2026-11-30T18:20"),
        ("on Friday at 9 car", "make it 10", "once, 2026-12-04 10:00 Europe/Berlin", "2026-12-04T09:00"),
        ("on Friday at 9 car", "make it an hour later", "once, 2026-12-04 10:00 Europe/Berlin", "2026-12-04T09:00"),
        ("every friday at 9 car", "make it 9:15", "every Friday at 09:15 Europe/Berlin", "2026-12-04T08:15"),
        ("every 90 minutes car", "make it 100", "every 100 minutes", "2026-11-30T19:40"),
        (
            "every other Tuesday at 8:30 car",
            "make the car one 9:15",
            "every other Tuesday at 09:15 Europe/Berlin",
            "2026-12-01T08:15",
        ),
        (
            "every other Tuesday at 8:30 car",
            "move it 45 minutes later",
            "every other Tuesday at 09:15 Europe/Berlin",
            "2026-12-01T08:15",
        ),
    ],
)
async def test_a_paused_one_is_changed_as_one_that_runs(
    bot: Bot, say: Say, request_: str, change: str, when: str, next_run: str
) -> None:
    """A pause keeps the day or the rhythm, so a change of the time keeps it as well; it rests until it is resumed."""
    await said(say, request_, "pause the car")

    changed = await say(change)
    (paused,) = await bot.list_schedules()
    await say("resume the car")

    (schedule,) = await bot.list_schedules()
    assert changed.startswith("Changed #1 car")
    assert changed.endswith("paused")
    assert paused.paused
    assert schedule.describe().startswith(when)
    assert f"{schedule.next_run:%Y-%m-%dT%H:%M}" == next_run


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        ("on Friday at 9 car", "once, on Fri 4 Dec 2026 09:00 (Europe/Berlin), paused"),
        ("in 10 minutes car", "once, on Mon 30 Nov 2026 19:10:00 (Europe/Berlin), paused"),
        ("every friday at 9 car", "every Friday at 09:00 Europe/Berlin, paused"),
        ("every 90 minutes car", "every 90 minutes, paused"),
        (
            "every other Tuesday at 8:30 car",
            "every other Tuesday at 08:30 Europe/Berlin, from 2026-12-01 08:30, paused",
        ),
    ],
)
async def test_a_paused_one_is_shown_with_its_time(say: Say, request_: str, shown: str) -> None:
    """What rests is listed, and named after a change, with its moment or its rhythm."""
    await said(say, request_, "pause the car")

    listed = await say("list")
    renamed = await say("rename it to bike")

    assert listed == f"#1 car - {shown}"
    assert renamed.splitlines()[0] == "Changed #1 bike"
    assert renamed.endswith("paused")
    assert renamed.splitlines()[1].startswith(f"  {shown.partition(',')[0]}")


@pytest.mark.parametrize("messages", [("make it 5pm",), ("pause it", "make it 5pm", "resume it")])
async def test_a_rhythm_keeps_its_days_when_the_new_time_is_over_today(
    bot: Bot, say: Say, messages: tuple[str, ...]
) -> None:
    """Today counts as a day of the rhythm, so the next is in two weeks."""
    await said(say, "every other monday at 8pm car", *messages)

    (schedule,) = await bot.list_schedules()
    assert schedule.describe().startswith("every other Monday at 17:00 Europe/Berlin")
    assert schedule.next_run == datetime(2026, 12, 14, 16, tzinfo=UTC)


async def test_a_paused_rhythm_survives_its_days_and_another_name(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """Every other Tuesday goes on with the Tuesdays it would have had."""
    await said(say, "every other Tuesday at 8:30 car", "pause the car")
    await runtime.advance(timedelta(days=3))

    await said(say, "rename it to bike", "make it 9:15")
    reply = await say("resume it")

    assert reply == "Resumed #1 bike; next Tue 15 Dec 2026 09:15 (Europe/Berlin)"
    assert (await tasks(bot))["bike"].type == "rrule"


@pytest.mark.parametrize(
    ("request_", "change", "bounds"),
    [
        ("every 90 minutes car until friday", "change the car to every 2 hours", ("2026-12-04T22:59", None)),
        ("every 90 minutes car until friday", "make that 100 instead", ("2026-12-04T22:59", None)),
        ("every 90 minutes car 5 times", "make it every 100 minutes", (None, 5)),
        ("every day at 9 car until december 20", "make it 10", ("2026-12-20T22:59", None)),
        ("every day at 9 car until december 20", "make it every Monday", ("2026-12-20T22:59", None)),
        ("every day at 9 car until december 20", "make it every other Monday at 8", ("2026-12-20T22:59", None)),
        ("every day at 9 car 10 times", "make it every weekday at 8", (None, 10)),
        ("every other friday at 3pm car until march 1", "make it 4pm", ("2027-03-01T22:59", None)),
        ("every other friday at 3pm car until march 1", "make it every friday", ("2027-03-01T22:59", None)),
        ("every day at 9 car until december 20", "make it every day at 10 until friday", ("2026-12-04T22:59", None)),
        ("every day at 9 car until december 20", "make it every day at 10 5 times", (None, 5)),
        ("every day at 9 car until december 20", "make it tomorrow at 10", (None, None)),
    ],
)
async def test_a_change_keeps_the_end(
    bot: Bot, say: Say, request_: str, change: str, bounds: tuple[str | None, int | None]
) -> None:
    """A recurrence ends when it would have, unless the new words bring an end of their own or run once."""
    await say(request_)

    reply = await say(change)

    (schedule,) = await bot.list_schedules()
    assert reply.startswith("Changed #1 car")
    assert (schedule.until and f"{schedule.until:%Y-%m-%dT%H:%M}", schedule.remaining) == bounds


async def test_a_change_keeps_a_start_to_come(bot: Bot, say: Say) -> None:
    """What begins next year still does at another rhythm."""
    await say("every day at 9 car starting january 8")

    await say("make it every monday at 10")

    assert f"{(await tasks(bot))['car'].next_run:%Y-%m-%d}" == "2027-01-11"


async def test_a_change_by_another_name_or_text(bot: Bot, say: Say) -> None:
    """A schedule keeps its time when its text changes."""
    await said(say, "every day at 9 drink water", "in 1 hour nap")

    reply = await say("rename the water one to Drink TEA")

    assert reply.startswith("Changed #1 Drink TEA\n  every day at 09:00")
    assert sorted(await tasks(bot)) == ["Drink TEA", "nap"]


async def test_a_change_that_is_not_understood_changes_nothing(bot: Bot, say: Say) -> None:
    """Which of two times is meant can't be told."""
    await say("every day at 9 and 17 take pills")

    reply = await say("make it 10")

    assert reply.startswith("I don't see how “10” changes #1 take pills.")
    assert (await tasks(bot))["take pills"].cron == "0 9,17 * * *"


async def test_a_reminder_that_came_can_be_snoozed(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """The last task is remembered when its schedule is gone; other changes say that it is over."""
    await say("in 1 minute stretch")
    await runtime.advance(timedelta(minutes=1))

    over = await say("make it 5pm")
    snoozed = await say("snooze it for 10 minutes")

    assert over == "The last one, “stretch”, is over. To have it again, say it with its time."
    assert snoozed == "Scheduled #1 stretch\n  once, on Mon 30 Nov 2026 19:11:00 (Europe/Berlin)"


@pytest.mark.parametrize(
    "command", ["snooze", "snooze it", "snooze 1", "snooze #1", "snooze number 1", "snooze the car"]
)
async def test_a_bare_snooze_asks_for_how_long(bot: Bot, say: Say, command: str) -> None:
    """What isn't due yet is put off by what is answered, and never comes earlier."""
    await say("on friday at 9 car")

    asked = await say(command)
    (unchanged,) = await bot.list_schedules()
    reply = await say("10 minutes")

    assert asked == 'For how long should I snooze #1 car? Say it as in "10 minutes".'
    assert unchanged.next_run == datetime(2026, 12, 4, 8, tzinfo=UTC)
    assert reply == "Changed #1 car\n  once, on Fri 4 Dec 2026 09:10 (Europe/Berlin)"


@pytest.mark.parametrize(
    "command",
    [
        "snooze 10 minutes",
        "snooze for 10 minutes",
        "snooze it 10 minutes",
        "snooze 1 10 minutes",
        "snooze 1 for 10 minutes",
        "snooze number 1 by 10 minutes",
        "snooze the car for 10 minutes",
        "snooze 10",
    ],
)
async def test_snoozing_what_is_not_due_puts_it_off(bot: Bot, say: Say, command: str) -> None:
    """The amount counts from its own time."""
    await say("on friday at 9 car")

    reply = await say(command)

    assert reply == "Changed #1 car\n  once, on Fri 4 Dec 2026 09:10 (Europe/Berlin)"


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ("for an hour", "Changed #1 car\n  once, on Fri 4 Dec 2026 10:00"),
        ("15", "Changed #1 car\n  once, on Fri 4 Dec 2026 09:15"),
        ("tomorrow at 9", "Changed #1 car\n  once, on Tue 1 Dec 2026 09:00"),
        ("no", "All right, nothing was changed."),
        ("yes", "For how long"),
        ("cancel it", "Cancelled #1 car"),
        ("in 1 hour nap", "Scheduled #2 nap"),
    ],
)
async def test_answers_to_for_how_long(say: Say, answer: str, reply: str) -> None:
    """An amount, a moment, or something else altogether."""
    await said(say, "on friday at 9 car", "snooze it")

    assert (await say(answer)).startswith(reply)


async def test_snoozing_keeps_a_rhythm(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """A recurring reminder comes once more, and goes on as before."""
    await say("every day at 20:00 stretch")
    await runtime.advance(timedelta(hours=1))

    reply = await say("snooze 1 for 10 minutes")

    assert reply == "Scheduled #2 stretch\n  once, on Mon 30 Nov 2026 20:10:00 (Europe/Berlin)"
    assert sorted(schedule.type for schedule in await bot.list_schedules()) == ["cron", "delayed"]


@pytest.mark.parametrize("command", ["snooze 1 until 5pm", "snooze until 5pm", "snooze it till tomorrow at 17:00"])
async def test_snoozing_until_a_moment_keeps_a_rhythm(bot: Bot, say: Say, command: str) -> None:
    """The daily reminder stays at its time of day."""
    await say("every day at 20:00 stretch")

    reply = await say(command)

    assert reply == "Scheduled #2 stretch\n  once, on Tue 1 Dec 2026 17:00 (Europe/Berlin)"
    assert sorted(schedule.type for schedule in await bot.list_schedules()) == ["cron", "scheduled"]


async def test_a_one_shot_is_snoozed_until_a_moment(say: Say) -> None:
    """On its own day, if only a time of day is said."""
    await say("on friday at 9 car")

    assert await say("snooze 1 until 5pm") == "Changed #1 car\n  once, on Fri 4 Dec 2026 17:00 (Europe/Berlin)"


async def test_a_reminder_that_came_asks_for_how_long(runtime: ManualRuntime, say: Say) -> None:
    """A bare snooze of what is over asks, too."""
    await say("in 1 minute stretch")
    await runtime.advance(timedelta(minutes=1))

    asked = await say("snooze")
    until = await say("snooze it until 8pm")
    await said(say, "cancel it", "in 1 minute stretch")
    await runtime.advance(timedelta(minutes=1))
    await say("snooze")

    assert until == "Scheduled #1 stretch\n  once, on Mon 30 Nov 2026 20:00 (Europe/Berlin)"
    assert asked.startswith("For how long should I snooze stretch?")
    assert (await say("10 minutes")).startswith("Scheduled #1 stretch\n  once, on Mon 30 Nov 2026 19:12:00")


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        ("make tea every 3 hours", "change", {"tea": "every 3 hours"}),
        ("make tea every 3 hours", "change it", {"tea": "every 3 hours"}),
        ("make tea every 3 hours", "1", {"tea": "every 3 hours"}),
        ("make the tea every 3 hours", "the old one", {"tea": "every 3 hours"}),
        ("set tea every friday at 5pm", "change it", {"tea": "every Friday at 17:00"}),
        ("make tea in 10 minutes", "change", {"tea": "once, 2026-11-30 19:10"}),
        ("make tea 5pm", "change", {"tea": "every day at 17:00"}),
        ("make tea at 17:30", "change it", {"tea": "every day at 17:30"}),
        ("make tea every 3 hours", "new", {"tea": "every day at 09:00", "make tea": "every 3 hours"}),
        ("make tea every 3 hours", "a new one", {"tea": "every day at 09:00", "make tea": "every 3 hours"}),
        ("make tea every 3 hours", "make a new one", {"tea": "every day at 09:00", "make tea": "every 3 hours"}),
        ("make tea every 3 hours", "no", {"tea": "every day at 09:00"}),
        ("make tea every 3 hours", "yes", {"tea": "every day at 09:00"}),
        ("make tea every 3 hours", "every 2 hours nap", {"tea": "every day at 09:00", "nap": "every 2 hours"}),
    ],
)
async def test_a_task_that_reads_as_a_change_is_asked_about(
    bot: Bot, say: Say, request_: str, answer: str, expected: dict[str, str]
) -> None:
    """Make is a verb of tasks and of changes; whoever has a task of that name is asked."""
    await say("every day at 9 tea")

    asked = await say(request_)
    await say(answer)

    found = {task: schedule.describe() for task, schedule in (await tasks(bot)).items()}
    assert asked.startswith("Should I change this one, or make a new one")
    assert asked.endswith("\n#1 tea - every day at 09:00 Europe/Berlin, next Tue 1 Dec 2026 09:00")
    assert sorted(found) == sorted(expected)
    assert all(found[task].startswith(when) for task, when in expected.items())


@pytest.mark.parametrize("known", ["every day at 9 make tea", "every day at 9 green tea", "every day at 9 coffee"])
async def test_a_task_of_another_name_is_made(say: Say, known: str) -> None:
    """Only the very name is asked about."""
    await say(known)

    assert (await say("make tea every 3 hours")).startswith("Scheduled #2 make tea")


async def test_messages_at_one_time_each_get_a_number(bot: Bot, say: Say) -> None:
    """Replies interleave, numbers don't."""
    replies = await asyncio.gather(*(say(f"in {minutes} minutes item {minutes}x") for minutes in range(10, 50)))

    found = await bot.list_schedules()

    assert {reply.split()[1] for reply in replies} == {f"#{number}" for number in range(1, 41)}
    assert len(found) == 40


async def test_a_refusal_stores_nothing_in_a_transaction_of_the_caller(bot: Bot) -> None:
    """A chat may be part of something larger, which is stored although the chat refuses."""
    reply = await bot.say_and_note("every 10 seconds say hi")

    assert "min_interval=60" in reply
    assert await bot.list_schedules() == []


async def test_numbers_are_safe_when_the_memory_is_lost(bot: Bot, say: Say) -> None:
    """Code that clears the agent's storage leaves the schedules; a new one must not replace the first."""
    await said(say, "in 1 hour a", "in 2 hours b")
    await bot.forget()

    reply = await say("in 3 hours c")

    assert reply.startswith("Scheduled #3 c")
    assert sorted(await tasks(bot)) == ["a", "b", "c"]


# --- limits


async def test_at_most_so_many_schedules(bot: Bot) -> None:
    """One more is refused by name, and nothing is stored."""
    await said(bot.say, "in 1 hour a", "in 2 hours b")

    reply = await bot.say("in 3 hours c", max_schedules=2)

    assert "max_schedules=2" in reply
    assert sorted(await tasks(bot)) == ["a", "b"]


async def test_fifty_by_default(bot: Bot, say: Say) -> None:
    """The limit of the specification."""
    for hour in range(1, 51):
        await say(f"in {hour} hours item {hour}x")

    reply = await say("in 60 hours one more")

    assert "max_schedules=50" in reply
    assert len(await bot.list_schedules()) == 50


@pytest.mark.parametrize("request_", ["every 10 seconds say hi", "every 59 seconds say hi"])
async def test_recurring_ones_keep_a_distance(bot: Bot, say: Say, request_: str) -> None:
    """Runs closer than a minute are refused; a minute is fine."""
    refused = await say(request_)
    made = await say("every minute say hi")

    assert "min_interval=60" in refused
    assert made.startswith("Scheduled #1")
    assert len(await bot.list_schedules()) == 1


async def test_a_change_keeps_the_distance_too(bot: Bot, say: Say) -> None:
    """A refused change leaves the schedule as it was."""
    await say("every 90 seconds blink")

    reply = await say("make that 10 seconds")

    assert "min_interval=60" in reply
    assert (await tasks(bot))["blink"].interval == timedelta(seconds=90)


async def test_a_long_message_is_refused(bot: Bot, say: Say) -> None:
    """10,000 characters are read, one more is not."""
    reply = await say("x" * 10_001)

    assert reply == "That message has 10,001 characters, and I read at most 10,000. Can you say it shorter?"


async def test_a_full_agent_answers_politely(bot: Bot, say: Say) -> None:
    """The agent's own quota is told, not raised."""
    for number in range(60):
        await bot.schedule(3600, "remind", {"text": f"code {number}"})

    reply = await say("in 1 hour nap")

    assert reply.startswith("I can't schedule that:")
    assert "max_schedules=60" in reply


# --- ugly input


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\n\n", "\x00", f"{ESCAPE}[2J", "\u202e", "💥" * 500, "#", "cancel #", "make it", "move it to",
     "rename it to", "in in in", "0", "-1", "cancel -1", "every", "\ud800", "a\x00b", "'; drop table jobs; --",
     "{}", "%s %d", "snooze", "x later", "cancel " + "1 " * 3000, "cancel " + "x" * 9000, "no, " * 2000,
     "make it " * 1000, "not " + "instead " * 1000],
)  # fmt: skip
async def test_no_message_raises(say: Say, text: str) -> None:
    """Every message has an answer of printable text, with and without something scheduled, in and out of a question."""
    replies = [await say(text)]
    await say("every day at 9 drink water")
    replies.append(await say(text))
    await say("remind me to nap")
    replies.append(await say(text))
    await say("cancel all")
    replies.append(await say(text))

    assert all(reply.strip() for reply in replies)
    assert all(several_lines(reply) == reply for reply in replies)


async def test_control_sequences_are_stripped_before_they_are_stored(bot: Bot, say: Say) -> None:
    """What is stored is what was shown."""
    reply = await say(f"in 5 minutes {ESCAPE}[31mlook{ESCAPE}]0;title\x07 \u202eback")

    assert "look back" in reply
    assert list(await tasks(bot)) == ["look back"]


async def test_what_other_code_stored_is_shown_safely(runtime: ManualRuntime, bot: Bot, say: Say) -> None:
    """A payload from elsewhere can't reach the terminal either."""
    await bot.schedule(3600, "remind", {"text": f"{ESCAPE}[2Jboo"}, key="chat:remind:1")

    assert (await say("list")).startswith("#1 boo - ")


# --- the pieces


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("help", Talk("help")),
        ("?", Talk("help")),
        ("Hello!", Talk("greeting")),
        ("thank you", Talk("thanks")),
        ("what time zone?", Talk("zone")),
        ("list", Show()),
        ("LIST", Show()),
        ("show me all my reminders", Show()),
        ("What do I have scheduled?", Show()),
        ("what’s coming up?", Show()),
        ("how many reminders do I have?", Show()),
        ("anything scheduled?", Show()),
        ("when's my next reminder?", Show("my next reminder")),
        ("is the report paused?", Show("the report")),
        ("undo", Talk("undo")),
        ("any chance of rain", Request()),
        ("yes", Answer(is_yes=True)),
        ("never mind", Answer(is_yes=False)),
        ("please cancel the report one, thanks", Act("cancel", "the report one")),
        ("can you pause 2?", Act("pause", "2")),
        ("turn off the alarm", Act("cancel", "the alarm", is_sure=False)),
        ("turn off the oven", Request()),
        ("use Berlin time", SetZone("berlin")),
        ("call mum", Request()),
        ("remind me to cancel 2", Request()),
    ],
)
def test_commands(text: str, command: Command) -> None:
    """What kind of message it is, by its words alone."""
    assert read_command(text) == command


def test_a_change_has_several_readings() -> None:
    """Where the schedule's name ends and the time begins can't be told by words alone."""
    command = read_command("move the letter to Anna to Friday")

    assert isinstance(command, Change)
    assert [(reading.target, reading.words) for reading in command.readings] == [
        ("the letter", "anna to friday"),
        ("the letter to anna", "friday"),
    ]


@pytest.mark.parametrize("stored", [None, {}, [], "x", {"count": 1, "unknown": 2}, {"pending": {"kind": 1, "x": 2}}])
def test_a_memory_that_is_no_memory_is_a_new_one(stored: Any) -> None:
    """What another version stored never breaks the chat."""
    assert memory_from_json(stored) == Memory()


def test_a_memory_survives_storage() -> None:
    """All of it."""
    pending = Pending(kind="which", asked_at_ms=5, action="pause", numbers=(1, 2), is_all=True, tries=1)
    memory = Memory(count=3, last=2, last_task="nap", pending=pending)

    assert memory_from_json(memory.to_json()) == memory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        (f"{ESCAPE}[1;31mred{ESCAPE}[0m", "red"),
        (f"{ESCAPE}]8;;http://x{ESCAPE}\\link{ESCAPE}]8;;{ESCAPE}\\", "link"),
        (f"{ESCAPE}Pq#0{ESCAPE}\\a", "a"),
        ("\x9b31mc1", "c1"),
        ("a\x08\x08b", "a b"),
        ("tab\tand\nline", "tab and line"),
        ("\u202eabc\u2066", "abc"),
        ("é 你好 👩‍👩‍👧", "é 你好 👩‍👩‍👧"),
        (f"end{ESCAPE}", "end"),
        (f"{ESCAPE}]0;never ended", ""),
        ("\ud83d", ""),
    ],
)
def test_control_sequences_go(text: str, shown: str) -> None:
    """Colours, titles, links, cursor moves and turned directions are gone, the text stays."""
    assert one_line(text) == shown


def test_shortened() -> None:
    """An ellipsis stands for what was cut off."""
    assert [shortened("abcdef", 6), shortened("abcdef", 4)] == ["abcdef", "abc…"]


@pytest.mark.parametrize(
    ("words", "name"),
    [("berlin", "Europe/Berlin"), ("Europe/berlin", "Europe/Berlin"), ("utc", "UTC"), ("Mars", "Mars")],
)
def test_zone_names(words: str, name: str) -> None:
    """Zones by their city, in any case."""
    assert known_name(words) == name
