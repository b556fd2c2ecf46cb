"""Events: who hears what, in which order, and what is never in a log."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent, AgentOptions, JobContext, RetryPolicy, Schedule, events
from agentkit.events import Event, EventBus
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker, at


class Talker(Worker):
    """Emits what a test says."""

    async def say(self, event_type: str, **facts: Any) -> None:
        self.lifecycle.emit("agents:test", event_type, facts)


async def test_envelope_says_what_who_and_when(manual_runtime: Start) -> None:
    """Type, class and name of the agent, facts, and the moment by the runtime's clock."""
    heard: list[Event] = []
    runtime = await manual_runtime(Talker)
    runtime.events.subscribe("agents:test", heard.append)
    await runtime.advance(5)

    await runtime.get(Talker, "ada").say("test:spoken", n=1)

    [event] = heard
    assert (event.type, event.agent, event.name, event.timestamp) == ("test:spoken", "Talker", "ada", at(5))
    assert dict(event.payload) == {"n": 1}


async def test_event_cannot_be_changed(manual_runtime: Start) -> None:
    """A handler can't spoil what the next one hears."""
    runtime = await manual_runtime(Talker)
    await runtime.get(Talker, "ada").say("test:spoken", n=1)
    [event] = runtime.events.of("test:spoken")

    with pytest.raises(AttributeError):
        event.type = "other"  # type: ignore[misc]  # what the test is about
    with pytest.raises(TypeError):
        event.payload["n"] = 2  # type: ignore[index]  # what the test is about


async def test_handlers_are_called_in_the_order_of_their_subscription(manual_runtime: Start) -> None:
    """One after another, each once an event."""
    heard: list[str] = []
    runtime = await manual_runtime(Talker)
    for name in ("first", "second", "third"):
        runtime.events.subscribe("agents:test", lambda event, name=name: heard.append(f"{name} {event.type}"))  # type: ignore[misc]  # bound early

    await runtime.get(Talker, "ada").say("a")
    await runtime.get(Talker, "ada").say("b")

    assert heard == ["first a", "second a", "third a", "first b", "second b", "third b"]


async def test_raising_handler_breaks_nothing(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the other handlers and the run go on."""
    heard: list[str] = []

    def broken(event: Event) -> None:
        raise ValueError("the handler is broken")

    runtime = await manual_runtime(Talker)
    runtime.events.subscribe("agents:test", broken)
    runtime.events.subscribe("agents:test", lambda event: heard.append(event.type))

    await runtime.get(Talker, "ada").say("a")

    assert heard == ["a"]
    assert any(record.exc_info and "handler is broken" in str(record.exc_info[1]) for record in caplog.records)


async def test_unsubscribed_handler_hears_nothing_more(manual_runtime: Start) -> None:
    """Ending a subscription twice is no error, and ends only that one."""
    heard: list[str] = []
    runtime = await manual_runtime(Talker)
    handler = heard.append
    first = runtime.events.subscribe("agents:test", lambda event: handler("first"))
    runtime.events.subscribe("agents:test", lambda event: handler("second"))
    await runtime.get(Talker, "ada").say("a")

    first()
    first()
    await runtime.get(Talker, "ada").say("b")

    assert heard == ["first", "second", "second"]


def test_handler_may_unsubscribe_and_subscribe_while_it_is_called() -> None:
    """The event under way goes to those who listened when it came; changes count from the next one."""
    bus, heard = EventBus(), list[str]()
    unsubscribes: list[events.Unsubscribe] = []

    def once(event: Event) -> None:
        heard.append("once")
        for unsubscribe in unsubscribes:
            unsubscribe()
        bus.subscribe("c", lambda event: heard.append("new"))

    unsubscribes.append(bus.subscribe("c", once))
    unsubscribes.append(bus.subscribe("c", lambda event: heard.append("second")))
    event = Event(type="a", agent="A", name="a", payload={}, timestamp=at(0))

    bus.publish("c", event)
    bus.publish("c", event)

    assert heard == ["once", "second", "new"]


def test_same_handler_subscribed_twice_hears_twice_until_each_is_ended() -> None:
    """Each subscription is its own."""
    bus, heard = EventBus(), list[Event]()
    first = bus.subscribe("c", heard.append)
    bus.subscribe("c", heard.append)
    event = Event(type="a", agent="A", name="a", payload={}, timestamp=at(0))

    bus.publish("c", event)
    first()
    first()
    bus.publish("c", event)

    assert len(heard) == 3


async def test_channels_are_apart_and_a_star_hears_all(manual_runtime: Start) -> None:
    """A channel's handlers hear only that channel."""
    heard: list[str] = []
    runtime = await manual_runtime(Talker, deps=Script())
    runtime.events.subscribe("agents:schedule", lambda event: heard.append("schedule " + event.type))
    runtime.events.subscribe("*", lambda event: heard.append("all " + event.type))

    await runtime.get(Talker, "ada").say("a")

    assert heard == ["all a"]


async def test_process_hears_every_runtime_and_a_runtime_only_itself() -> None:
    """``agentkit.events.subscribe`` hears all runtimes, ``runtime.events`` one (SPEC 10.1)."""
    heard: list[str] = []
    unsubscribe = events.subscribe("agents:test", lambda event: heard.append("process " + event.name))
    async with ManualRuntime(Talker) as first, ManualRuntime(Talker) as second:
        first.events.subscribe("agents:test", lambda event: heard.append("first " + event.name))

        await first.get(Talker, "ada").say("a")
        await second.get(Talker, "bob").say("a")
        unsubscribe()
        await first.get(Talker, "eve").say("a")

    assert heard == ["first ada", "process ada", "process bob", "first eve"]


async def test_events_of_a_schedule_are_told(manual_runtime: Start) -> None:
    """Creating, executing and cancelling are heard on ``agents:schedule`` (SPEC 10.2)."""
    heard: list[str] = []

    class Clock(Worker):
        async def begin(self) -> str:
            await self.schedule(60, self.tick)
            return (await self.schedule("0 * * * *", self.tick)).id

        async def tick(self) -> None:
            """Do nothing."""

    runtime = await manual_runtime(Clock, deps=Script())
    runtime.events.subscribe("agents:schedule", lambda event: heard.append(event.type))
    ada = runtime.get(Clock, "ada")

    id = await ada.begin()
    await runtime.advance(61)
    await ada.cancel_schedule(id)

    assert heard == ["schedule:create", "schedule:create", "schedule:execute", "schedule:cancel"]


# --- the log (SPEC 10.3)


async def test_event_is_a_structured_log_record(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Its logger is named after the channel; the facts are attributes of the record."""
    caplog.set_level(logging.DEBUG, "agentkit")
    runtime = await manual_runtime(Talker)

    await runtime.get(Talker, "ada").say("test:spoken", n=1)

    [record] = [record for record in caplog.records if getattr(record, "event", None) == "test:spoken"]
    facts = record.__dict__
    assert record.name == "agentkit.test"
    assert (facts["agent_class"], facts["agent_name"], facts["facts"]) == ("Talker", "ada", {"n": 1})


@pytest.mark.parametrize(
    ("event_type", "level"),
    [("job:failed", "ERROR"), ("job:slow_dispatch", "WARNING"), ("schedule:execute", "DEBUG")],
)
async def test_level_says_whether_there_is_something_to_do(
    manual_runtime: Start, caplog: pytest.LogCaptureFixture, event_type: str, level: str
) -> None:
    """Failures are errors, odd things warnings, and what is normal is for debugging."""
    caplog.set_level(logging.DEBUG, "agentkit")
    runtime = await manual_runtime(Talker)

    await runtime.get(Talker, "ada").say(event_type)

    assert [r.levelname for r in caplog.records if getattr(r, "event", None) == event_type] == [level]


SECRET = "buy the ring"


class Wish(BaseModel):
    text: str


class Diary(Agent):
    """Keeps secrets in payloads, values and schedules."""

    options = AgentOptions(name="Diary", retry=RetryPolicy(max_attempts=2, base_delay=0), hung_timeout=1)

    async def on_job(self, context: JobContext) -> None:
        await self.lifecycle.clock.sleep(2)
        raise ValueError("no")

    async def begin(self) -> None:
        await self.lifecycle.jobs.push("work", after=1, payload={"text": SECRET})
        await self.storage.put("wish", SECRET)
        await self.schedule(1, self.remind, Wish(text=SECRET))
        await self.schedule("* * * * *", self.fail, Wish(text=SECRET))
        for _ in range(12):
            await self.schedule(30, self.remind, Wish(text=SECRET), idempotent=False)

    async def remind(self, wish: Wish, schedule: Schedule) -> None:
        """Do nothing."""

    async def fail(self, wish: Wish) -> None:
        raise ValueError("no")


class LaterWish(BaseModel):
    amount: int


class LaterDiary(Diary):
    """A deploy in which the payloads no longer validate."""

    async def remind(self, wish: LaterWish, schedule: Schedule) -> None:  # type: ignore[override]  # what a deploy may do
        """Do nothing."""


async def test_user_data_is_in_no_event_and_no_log_record(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Neither running, failing nor orphaned jobs show their payloads above the debug level, nor events at all."""
    caplog.set_level(logging.INFO, "agentkit")
    store = f"sqlite:///{tmp_path}/diary.db"
    seen: list[Event] = []

    async with ManualRuntime(Diary, store=store) as runtime:
        await runtime.get(Diary, "ada").begin()
        await runtime.advance(20)
        seen += runtime.events
    async with ManualRuntime(LaterDiary, store=store) as runtime:
        await runtime.advance(timedelta(minutes=3))
        seen += runtime.events
        kinds = {event.type for event in seen}

    texts = [record.getMessage() + str(record.__dict__) + str(record.exc_text) for record in caplog.records]
    assert {"job:failed", "job:slow_dispatch", "job:backlog_warning", "job:orphaned"} <= kinds
    assert not [text for text in texts if SECRET in text]
    assert not [event for event in seen if SECRET in str(event)]
