"""A model in a conversation: it is asked only what the rules can't read, and never while others wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, Schedule
from agentkit.errors import ConfigurationError, ParseError
from agentkit.schedules.chat import SchedulingChat
from agentkit.schedules.parser import Cron, Delayed, NoSchedule, ParsedSchedule
from agentkit.testing import FakeClock, ManualRuntime

START = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
ZONE = "Europe/Berlin"
MONDAYS = Cron(cron="0 9 * * 1", timezone=ZONE)


class FakeModel:
    """Gives what it is told to give, in order, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[ParsedSchedule | Exception] = []

    def say(self, when: Any = None, description: str = "", question: str | None = None) -> None:
        """Give this reading next."""
        plan = ParsedSchedule(when=when or NoSchedule(), description=description, question=question, source="model")
        self.answers.append(plan)

    async def read(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
        """Give the next answer."""
        self.asked.append(text)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Bot(Agent):
    """Chats with the model that the runtime was given."""

    options = AgentOptions(timezone=ZONE)

    async def say(self, text: str) -> str:
        """Answer."""
        return await SchedulingChat(self, self.remind, model=self.deps).reply(text)

    async def remind(self, payload: dict[str, str], schedule: Schedule) -> None:
        """Do nothing."""


@pytest.fixture
def model() -> FakeModel:
    """Return the model of the conversation."""
    return FakeModel()


@pytest.fixture
async def bot(model: FakeModel) -> AsyncIterator[Bot]:
    """Return a bot that has it."""
    async with ManualRuntime(Bot, clock=FakeClock(START), deps=model) as runtime:
        yield runtime.get(Bot, "ada")


async def test_model_reads_what_the_rules_can_t(bot: Bot, model: FakeModel) -> None:
    """A message in another language is scheduled at once."""
    model.say(MONDAYS, "regar as plantas")

    reply = await bot.say("toda segunda às 9 regar as plantas")

    assert reply.startswith("Scheduled #1 regar as plantas\n  every Monday at 09:00 Europe/Berlin")


@pytest.mark.parametrize(
    "text", ["every Monday at 9 report", "list", "help", "cancel all", "thanks", "remind me", "what time is it?", "yes"]
)
async def test_model_is_not_asked(text: str, bot: Bot, model: FakeModel) -> None:
    """Commands, talk and clear requests are the rules' own."""
    await bot.say(text)

    assert model.asked == []


async def test_model_asks_and_hears_the_answer(bot: Bot, model: FakeModel) -> None:
    """Its question is the chat's; an answer that the rules can't read goes to it with the request."""
    model.say(None, "regar as plantas", question="A que horas?")
    model.say(MONDAYS, "regar as plantas")

    question = await bot.say("toda segunda regar as plantas")
    reply = await bot.say("às nove horas")

    assert question == "A que horas?"
    assert reply.startswith("Scheduled #1 regar as plantas")
    assert model.asked[1] == "toda segunda regar as plantas\nàs nove horas"


async def test_answers_that_the_rules_read_need_no_model(bot: Bot, model: FakeModel) -> None:
    """A clear time completes what the model asked about."""
    model.say(None, "regar as plantas", question="A que horas?")

    await bot.say("toda segunda regar as plantas")
    reply = await bot.say("tomorrow at noon")

    assert reply.startswith("Scheduled #1 regar as plantas\n  once, on Tue 1 Dec 2026 12:00")
    assert len(model.asked) == 1


async def test_a_time_without_a_task_is_asked_about(bot: Bot, model: FakeModel) -> None:
    """The next message names it; both together are read once more."""
    model.say(MONDAYS, "")
    model.say(MONDAYS, "regar")

    question = await bot.say("toda segunda às nove")
    reply = await bot.say("regar")

    assert question == "What should I remind you of then?"
    assert reply.startswith("Scheduled #1 regar")


async def test_no_schedule_of_the_model_changes_nothing(bot: Bot, model: FakeModel) -> None:
    """The rules' reply stands."""
    model.say()
    with_model = await bot.say("bom dia a todos")

    assert with_model.startswith("I read no time in that")


@pytest.mark.parametrize("error", [ParseError("it said secret"), ConfigurationError("it said secret")])
async def test_rules_answer_while_the_model_can_t(
    error: Exception, bot: Bot, model: FakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    """The conversation goes on, and the log tells so without the user's words."""
    model.answers.append(error)

    reply = await bot.say("remind me to call Bob")

    assert reply == "When should that be?"
    assert "the model gave no answer" in caplog.text
    assert "secret" not in caplog.text
    assert "Bob" not in caplog.text


async def test_limits_hold_for_a_model_too(bot: Bot, model: FakeModel) -> None:
    """A plan that runs too often is refused, whoever made it."""
    model.say(Cron(cron="* * * * * | 30 * * * *", timezone=ZONE), "regar")
    await bot.say("toda hora regar as plantas")
    model.say(Delayed(delay_in_seconds=-5), "regar")

    reply = await bot.say("há pouco regar as plantas")

    assert "can't be scheduled" in reply


async def test_model_is_not_asked_again_when_the_view_changed(model: FakeModel) -> None:
    """What was scheduled meanwhile is seen, and the reading of the message is kept."""

    class Busy(Bot):
        """Schedules something else while the model thinks."""

        async def say(self, text: str) -> str:
            """Answer."""
            outer = self

            class Slow:
                async def read(self, text: str, *, now: datetime, timezone: str) -> ParsedSchedule:
                    plan = await model.read(text, now=now, timezone=timezone)
                    await SchedulingChat(outer, outer.remind).reply("in 2 hours stretch")
                    return plan

            return await SchedulingChat(self, self.remind, model=Slow()).reply(text)

    model.say(MONDAYS, "regar as plantas")
    async with ManualRuntime(Busy, clock=FakeClock(START)) as runtime:
        bot = runtime.get(Busy, "ada")
        reply = await bot.say("toda segunda às 9 regar as plantas")

    assert reply.startswith("Scheduled #2 regar as plantas")
    assert len(model.asked) == 1


async def test_an_unusable_model_is_told_when_the_chat_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a key is a mistake in the code, ``auto`` without one is not."""
    for name in ("AGENTKIT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    async with ManualRuntime(Bot, clock=FakeClock(START), deps="small") as runtime:
        with pytest.raises(ConfigurationError, match="needs a key"):
            await runtime.get(Bot, "ada").say("hello there")
    async with ManualRuntime(Bot, clock=FakeClock(START), deps="auto") as runtime:
        reply = await runtime.get(Bot, "ada").say("remind me to call Bob")

    assert reply == "When should that be?"
