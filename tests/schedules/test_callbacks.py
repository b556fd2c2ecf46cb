"""Callbacks: found by name, called with what they take, and what happens when they are gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agentkit import Agent, AgentContext, AgentOptions, DurableObject, Lifecycle, Scheduler, current_agent, from_thread
from agentkit.errors import PayloadError, ScheduleError
from agentkit.schedules.schedule import Schedule
from agentkit.testing import ManualRuntime

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Reminder(BaseModel):
    """A payload with a date and a name that Python has taken."""

    model_config = ConfigDict(populate_by_name=True)

    text: str
    on: date = date(2026, 1, 1)
    sender: str = Field(default="nobody", alias="from")


class Strict(BaseModel, strict=True):
    """A payload that takes no text for a datetime, except from JSON."""

    at: datetime
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A payload without pydantic."""

    room: str
    floor: int


class Bot(Agent[None]):
    """Notes what its callbacks are given; ``deps`` is the list."""

    async def both(self, payload: Any, schedule: Schedule) -> None:
        """Take everything."""
        self.deps.append(("both", payload, schedule))

    async def payload_only(self, payload: Any) -> None:
        """Take the payload."""
        self.deps.append(("payload_only", payload))

    async def nothing(self) -> None:
        """Take nothing."""
        self.deps.append(("nothing",))

    async def optional(self, payload: Any = None, schedule: Schedule | None = None, more: int = 3) -> None:
        """Take everything, but need nothing."""
        self.deps.append(("optional", payload, schedule is not None, more))

    async def whatever(self, *given: Any) -> None:
        """Take what comes."""
        self.deps.append(("whatever", given[0], type(given[1]), len(given)))

    async def typed(self, payload: Reminder, schedule: Schedule) -> None:
        """Take a model."""
        self.deps.append(("typed", payload, schedule.payload))

    async def strict(self, payload: Strict) -> None:
        """Take a strict model."""
        self.deps.append(("strict", payload))

    async def place(self, payload: Place) -> None:
        """Take a dataclass."""
        self.deps.append(("place", payload))

    async def number(self, payload: int) -> None:
        """Take a number."""
        self.deps.append(("number", payload))

    def plain(self, payload: Any, schedule: Schedule) -> None:
        """Take everything, outside of the event loop."""
        from_thread(self.storage.put("seen", payload))
        where = threading.current_thread()
        self.deps.append(("plain", payload, where is threading.main_thread(), where.daemon, current_agent() is self))

    def plain_nothing(self) -> None:
        """Take nothing, outside of the event loop."""
        self.deps.append(("plain_nothing",))

    async def seen(self) -> Any:
        """Return what ``plain`` stored."""
        return await self.storage.get("seen")

    async def schedule_bound(self) -> Schedule:
        """Schedule a bound method."""
        return await self.schedule(60, self.both, {"by": "method"})

    async def schedule_of_another(self, other: str) -> Schedule:
        """Try to schedule another agent's method."""
        return await self.schedule(60, self.get(Bot, other).both)


@pytest.fixture
def log() -> list[Any]:
    """Return where callbacks note what they were given."""
    return []


@pytest.fixture
async def runtime(log: list[Any]) -> AsyncIterator[ManualRuntime]:
    """Return a runtime whose clock stands at the start of 2026."""
    async with ManualRuntime(Bot, deps=log) as runtime:
        yield runtime


@pytest.fixture
def bot(runtime: ManualRuntime) -> Bot:
    """Return an agent."""
    return runtime.get(Bot, "ada")


async def test_payload_and_schedule(runtime: ManualRuntime, bot: Bot, log: list[Any]) -> None:
    """A callback of two takes the payload and the schedule as it fires."""
    made = await bot.schedule(60, "both", {"text": "stand up", "items": [1, 2.5, None, True]})

    await runtime.advance(MINUTE)

    [(_, payload, schedule)] = log
    assert payload == {"text": "stand up", "items": [1, 2.5, None, True]}
    assert (schedule.id, schedule.callback, schedule.type) == (made.id, "both", "delayed")
    assert schedule.due_at == START + MINUTE
    assert schedule.skipped == 0
    assert schedule.run_id


async def test_bound_method_is_stored_by_its_name(runtime: ManualRuntime, bot: Bot, log: list[Any]) -> None:
    """A method of this agent and its name are the same."""
    made = await bot.schedule_bound()

    await runtime.evict(Bot, "ada")
    await runtime.advance(MINUTE)

    assert made.callback == "both"
    assert log[0][1] == {"by": "method"}


async def test_method_of_another_agent_is_refused(bot: Bot) -> None:
    """A stub's method belongs to another agent; the error shows what to pass."""
    with pytest.raises(ScheduleError, match="pass a bound method such as"):
        await bot.schedule_of_another("bob")


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        ("payload_only", ("payload_only", 7)),
        ("nothing", ("nothing",)),
        ("optional", ("optional", 7, True, 3)),
        ("whatever", ("whatever", 7, Schedule, 2)),
        ("plain_nothing", ("plain_nothing",)),
        ("plain", ("plain", 7, False, True, True)),
    ],
)
async def test_callback_is_given_what_it_takes(
    runtime: ManualRuntime, bot: Bot, log: list[Any], callback: str, expected: tuple[Any, ...]
) -> None:
    """Payload and schedule, the payload, or nothing; plain functions run in a daemon thread."""
    await bot.schedule(60, callback, 7)

    await runtime.advance(MINUTE)

    assert log == [expected]


async def test_plain_function_reaches_storage(runtime: ManualRuntime, bot: Bot) -> None:
    """``from_thread`` runs a coroutine of the agent for a plain-function callback."""
    await bot.schedule(60, "plain", "put by a thread")

    await runtime.advance(MINUTE)

    assert await bot.seen() == "put by a thread"


@pytest.mark.parametrize(
    "payload",
    [
        Reminder(text="stand up", on=date(2026, 5, 1), sender="bob"),
        {"text": "stand up", "on": "2026-05-01", "from": "bob"},
        {"text": "stand up", "on": date(2026, 5, 1), "sender": "bob"},
    ],
    ids=["model", "dict", "dict by name"],
)
async def test_model_payload_arrives_as_that_model(
    runtime: ManualRuntime, bot: Bot, log: list[Any], payload: Any
) -> None:
    """What is annotated as a model arrives as it, aliases and dates included; the schedule shows its JSON."""
    await bot.schedule(60, "typed", payload)

    await runtime.crash()
    await runtime.advance(MINUTE)

    reminder = Reminder(text="stand up", on=date(2026, 5, 1), sender="bob")
    assert log == [("typed", reminder, {"text": "stand up", "on": "2026-05-01", "from": "bob"})]


async def test_strict_model_is_read_as_json(runtime: ManualRuntime, bot: Bot, log: list[Any]) -> None:
    """A strict model takes text for a datetime, since that is what JSON has."""
    await bot.schedule(60, "strict", {"at": "2026-05-01T09:00:00Z", "tags": ["a"]})

    await runtime.advance(MINUTE)

    assert log == [("strict", Strict(at=datetime(2026, 5, 1, 9, tzinfo=UTC), tags=("a",)))]


async def test_strict_model_may_be_passed_itself(runtime: ManualRuntime, bot: Bot, log: list[Any]) -> None:
    """A model is stored whatever its strictness."""
    payload = Strict(at=datetime(2026, 5, 1, 9, tzinfo=UTC), tags=("a",))
    await bot.schedule(60, "strict", payload)

    await runtime.advance(MINUTE)

    assert log == [("strict", payload)]


@pytest.mark.parametrize("payload", [Place("attic", 3), {"room": "attic", "floor": 3}])
async def test_dataclass_payload(runtime: ManualRuntime, bot: Bot, log: list[Any], payload: Any) -> None:
    """A dataclass works like a model."""
    await bot.schedule(60, "place", payload)

    await runtime.advance(MINUTE)

    assert log == [("place", Place("attic", 3))]


async def test_payload_is_stored_as_its_annotation_reads_it(bot: Bot) -> None:
    """A text that stands for a number is a number from then on."""
    schedule = await bot.schedule(60, "number", "7")

    assert schedule.payload == 7


async def test_payload_is_copied(runtime: ManualRuntime, bot: Bot, log: list[Any]) -> None:
    """What the caller does with its object afterwards changes no schedule."""
    payload = {"items": [1]}
    await bot.schedule(60, "payload_only", payload)

    payload["items"].append(2)
    await runtime.advance(MINUTE)

    assert log == [("payload_only", {"items": [1]})]


# --- a deploy changes things


class Old(Agent[None]):
    """The agent before a deploy."""

    options = AgentOptions(name="Deployed")

    async def renamed(self, payload: Any) -> None:
        """Be called something else after the deploy."""

    async def retyped(self, payload: Any) -> None:
        """Take a model after the deploy."""


class New(Agent[None]):
    """The same agent after it."""

    options = AgentOptions(name="Deployed")

    async def retyped(self, payload: Reminder) -> None:
        """Take a model."""
        self.deps.append(payload)

    async def missed_runs(self) -> list[Any]:
        """Return the history, which a stub reaches as well."""
        return await self.history()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URL of a store that outlives its runtime."""
    return f"sqlite:///{tmp_path}/agents.db"


async def test_one_shot_whose_callback_is_gone(store: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, ends as failed in the history with the name it looked for, and is not tried again."""
    async with ManualRuntime(Old, store=store) as runtime:
        await runtime.get(Old, "ada").schedule(60, "renamed", 1)

    async with ManualRuntime(New, store=store, deps=[]) as runtime:
        with caplog.at_level(logging.ERROR, "agentkit"):
            await runtime.advance(MINUTE)
        bot = runtime.get(New, "ada")
        [run] = await bot.history()
        left = await bot.list_schedules()

        assert (run.callback, run.outcome, run.attempts) == ("renamed", "failed", 1)
        assert run.error is not None
        assert "there is no callback 'renamed' any more" in run.error
        assert "there is no callback 'renamed' any more" in caplog.text
        assert left == []
        assert runtime.events.count("schedule:retry") == 0


async def test_recurring_schedule_whose_callback_is_gone_stays(store: str) -> None:
    """The schedule goes on failing until a deploy brings the callback back: nothing is deleted."""
    async with ManualRuntime(Old, store=store) as runtime:
        made = await runtime.get(Old, "ada").schedule("0 * * * *", "renamed")

    async with ManualRuntime(New, store=store, deps=[]) as runtime:
        await runtime.advance(timedelta(hours=3))
        bot = runtime.get(New, "ada")
        runs = await bot.history()
        [left] = await bot.list_schedules()

        assert [run.outcome for run in runs] == ["failed"] * 3
        assert left.id == made.id
        assert left.next_run == START + timedelta(hours=4)


async def test_failed_one_shot_can_be_brought_back_after_a_deploy(store: str) -> None:
    """The history keeps the whole job of a callback that was gone; requeue runs it when it is there again."""
    async with ManualRuntime(Old, store=store) as runtime:
        await runtime.get(Old, "ada").schedule(60, "retyped", {"text": "stand up"})
    log: list[Any] = []

    class Between(Agent[None]):
        options = AgentOptions(name="Deployed")

    async with ManualRuntime(Between, store=store) as runtime:
        await runtime.advance(MINUTE)
        [run] = await runtime.get(Between, "ada").history()

    async with ManualRuntime(New, store=store, deps=log) as runtime:
        await runtime.requeue(New, "ada", run.run_id)
        await runtime.advance(1)

        assert log == [Reminder(text="stand up")]


@pytest.mark.parametrize("when", [60, "* * * * *"], ids=["one-shot", "recurring"])
async def test_payload_that_no_longer_validates(store: str, when: Any) -> None:
    """It leaves the queue without retries and is kept whole as orphaned; after another deploy it runs."""
    async with ManualRuntime(Old, store=store) as runtime:
        await runtime.get(Old, "ada").schedule(when, "retyped", {"words": "stand up"})
    log: list[Any] = []

    async with ManualRuntime(New, store=store, deps=log) as runtime:
        await runtime.advance(MINUTE)
        bot = runtime.get(New, "ada")
        [run] = await bot.history()

        assert (run.outcome, run.attempts) == ("orphaned", 1)
        assert run.error is not None
        assert "payload.text" in run.error
        assert await bot.list_schedules() == []
        assert runtime.events.count("schedule:retry") == 0
        assert log == []

    async with ManualRuntime(Old, store=store) as runtime:
        await runtime.requeue(Old, "ada", run.run_id)
        await runtime.advance(1)

        assert [run.outcome for run in await runtime.get(Old, "ada").history()] == ["completed"]


# --- a Scheduler on any host


class Host(DurableObject):
    """A plain host with callbacks by name."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.lifecycle = Lifecycle(self)
        callbacks: dict[str, Any] = {"greet": self.hello, "count": lambda payload: self.deps.append(("count", payload))}
        self.schedules = self.lifecycle.use(Scheduler(callbacks))

    async def hello(self, payload: Reminder, schedule: Schedule) -> None:
        """Be known under another name."""
        self.deps.append((schedule.callback, payload))

    async def plan(self, callback: Any, payload: Any = None) -> Schedule:
        """Schedule something."""
        return await self.schedules.set(60, callback, payload)

    async def plan_hello(self) -> Schedule:
        """Schedule by the function itself."""
        return await self.schedules.set(60, self.hello, {"text": "hi"})


async def test_callbacks_given_by_name(log: list[Any]) -> None:
    """The mapping's names are what is stored; a function is found in it by itself, and a lambda has a name."""
    async with ManualRuntime(Host, deps=log) as runtime:
        host = runtime.get(Host, "ada")
        by_function = await host.plan_hello()
        await host.plan("count", 3)

        await runtime.advance(MINUTE)

        assert by_function.callback == "greet"
        assert log == [("greet", Reminder(text="hi")), ("count", 3)]


async def test_unknown_name_of_a_mapping(log: list[Any]) -> None:
    """Only names of the mapping are callbacks of a plain host; the error lists them."""
    async with ManualRuntime(Host, deps=log) as runtime:
        host = runtime.get(Host, "ada")

        with pytest.raises(ScheduleError, match=r"no callback 'hello'; callbacks are count, greet"):
            await host.plan("hello", {"text": "hi"})
        with pytest.raises(PayloadError, match=r"payload\.text"):
            await host.plan("greet", {"words": "hi"})
