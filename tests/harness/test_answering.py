"""A model that is busy, silent, broken or far away (SPEC 13.5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import respx
from pydantic import BaseModel

from agentkit.clock import to_ms
from agentkit.errors import ConfigurationError, ModelError
from agentkit.harness import AssistantMessage, Delta, OpenAIModel, Reply, Usage
from agentkit.store.store import AgentId
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, stored
from tests.harness.wire import CHAT, URL, call, end, refused, response, serving, sse, streamed, text

ADA = AgentId("Clerk", "ada")


def busy(seconds: float | None = None) -> ModelError:
    """Return the error of a busy server."""
    wait = None if seconds is None else timedelta(seconds=seconds)
    return ModelError("it is busy", is_passing=True, wait=wait)


async def outcome_after(runtime: ManualRuntime, duration: Any, message: str = "hi") -> Any:
    """Submit a message, let time pass, and return the outcome."""
    run = await runtime.get(Clerk, "ada").submit(message)
    await runtime.advance(duration)
    return await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.outcome_of(run.id))


async def test_busy_server_is_asked_again(manual_runtime: Start) -> None:
    """After the wait it asks for, not before."""
    model = ScriptedModel(busy(40), "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    early = await outcome_after(runtime, 39)
    await runtime.advance(1)
    outcome = await runtime.get(Clerk, "ada").ask("hi", key="other") if early else None
    [run] = (await stored(runtime, "run:")).values()

    assert early is None
    assert outcome is None
    assert (run["status"], run["text"], len(model.requests)) == ("completed", "Hello.", 2)


async def test_long_wait_frees_the_agent(manual_runtime: Start) -> None:
    """It becomes a later job: nothing of the agent is under way, and a crash meanwhile changes nothing."""
    model = ScriptedModel(busy(3_600), "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(), idle_timeout=60)

    run = await runtime.get(Clerk, "ada").submit("hi")
    await runtime.advance(120)
    is_live = await runtime.evict(Clerk, "ada")
    [job] = await runtime.store.jobs(ADA)
    await runtime.crash()
    await runtime.advance(3_600 - 121)
    asked_early = len(model.requests)
    await runtime.advance(2)

    outcome = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.outcome_of(run.id))
    assert is_live is False
    assert job.due_ms == to_ms(datetime(2026, 1, 1, 1, tzinfo=UTC))
    assert asked_early == 1
    assert outcome is not None
    assert outcome.text == "Hello."
    assert runtime.events.count("harness:interrupted") == 0


async def test_server_that_stays_busy(manual_runtime: Start) -> None:
    """After six tries the run fails, with the reason."""
    model = ScriptedModel(*[busy() for _ in range(9)], "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    outcome = await outcome_after(runtime, 600)

    assert (outcome.status, outcome.reason) == ("failed", "it is busy, 6 times in a row")
    assert len(model.requests) == 6


async def test_wait_of_days_is_a_failure(manual_runtime: Start) -> None:
    """An account that is empty until next week is not waited for."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(busy(7 * 86_400), "Hello."), deps=Office())

    outcome = await outcome_after(runtime, 60)

    assert outcome.status == "failed"
    assert "7 days" in outcome.reason


async def test_failures_are_counted_in_a_row(manual_runtime: Start) -> None:
    """An answer in between makes them good."""
    steps = [step for number in range(4) for step in (busy(), busy(), tool_call("look_up", name=str(number)))]
    runtime = await manual_runtime(Clerk, model=ScriptedModel(*steps, "Hello."), deps=Office())

    outcome = await outcome_after(runtime, 3_600)

    assert outcome.text == "Hello."


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelError("it makes no sense"), "it makes no sense"),
        (ConfigurationError("the key is wrong"), "the key is wrong"),
        (ZeroDivisionError("secret details"), "scripted raised ZeroDivisionError"),
    ],
)
async def test_error_that_no_wait_mends(manual_runtime: Start, error: Exception, reason: str) -> None:
    """The run fails at once; of an error that isn't ours only the kind is told."""
    model = ScriptedModel(error, "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    outcome = await outcome_after(runtime, 1)

    assert (outcome.status, outcome.reason, len(model.requests)) == ("failed", reason, 1)


async def test_conversation_goes_on_after_a_failure(manual_runtime: Start) -> None:
    """Its turn was closed: no provider gets two messages of a user in a row."""
    model = ScriptedModel(ModelError("no"), "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    await outcome_after(runtime, 1, "one")

    answer = await runtime.get(Clerk, "ada").ask("two")

    assert answer == "Hello."
    assert [message.text for message in model.requests[1].messages] == [
        "one",
        "[This run was given up after an error.]",
        "two",
    ]


# --- answers that are none


@pytest.mark.parametrize("reply", [Reply(), Reply(text="  \n")])
async def test_empty_answer_is_asked_again(manual_runtime: Start, reply: Reply) -> None:
    """It may have been an accident."""
    steps = [reply, Reply(text="Hello.")]
    runtime = await manual_runtime(Clerk, model=ScriptedModel(lambda _: steps.pop(0)), deps=Office())

    outcome = await outcome_after(runtime, 60)

    assert outcome.text == "Hello."


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(finish="refused"), "refused to answer"),
        (Reply(text="x" * 400_000), "349,525 can be kept"),
        (Reply(text="x", extra={"thoughts": "x" * 400_000}), "can be kept"),
        (Reply(text="x", extra={"score": float("nan")}), "which JSON can't carry"),
        (Reply(text="x", calls=[None]), "raised AttributeError"),  # type: ignore[arg-type]  # what a model of somebody's gets wrong,
    ],
)
async def test_answer_that_cannot_be_used(manual_runtime: Start, reply: Reply, reason: str) -> None:
    """The run fails and says why."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(reply), deps=Office())

    outcome = await outcome_after(runtime, 60)

    assert outcome.status == "failed"
    assert reason in outcome.reason


async def test_flood_of_calls_is_nonsense(manual_runtime: Start) -> None:
    """It is asked again, and fails in the end."""
    model = ScriptedModel(lambda _: [tool_call("fail")] * 300)
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    outcome = await outcome_after(runtime, 600)

    assert outcome.status == "failed"
    assert "300 tools at once" in outcome.reason


async def test_answer_without_an_end_is_left(manual_runtime: Start) -> None:
    """One that goes on for ever would fill the memory; the run fails."""

    class Endless:
        name = "endless"

        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            while True:
                yield Delta(text="again and " * 1_000)

    runtime = await manual_runtime(Clerk, model=Endless(), deps=Office())

    outcome = await outcome_after(runtime, 60)

    assert outcome.status == "failed"
    assert "can be kept" in outcome.reason


@pytest.mark.parametrize("character", ["\x00", "語", "\U0001f600", '"'])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_answer_that_is_long_as_json(manual_runtime: Start, character: str, is_streamed: bool) -> None:
    """However many bytes its characters take there, the run ends, what it took is kept, and the next one begins."""

    class Flood:
        name = "flood"

        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            if len(request.messages) > 1:
                yield Reply(text="Hello.")
                return
            if is_streamed:
                yield Delta(text=character * 600_000)
            yield Reply(text=character * 600_000, usage=Usage(input_tokens=1, output_tokens=2))

    runtime = await manual_runtime(Clerk, model=Flood(), deps=Office())
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("one")
    await runtime.advance(1)

    outcome = await run.wait()

    assert outcome.status == "failed"
    assert "can be kept" in outcome.reason
    assert len(await run.usage()) == 1
    assert await ada.ask("two") == "Hello."


async def test_answer_that_just_fits(manual_runtime: Start) -> None:
    """It is kept, as text and as a value of its form."""

    class Story(BaseModel):
        words: str

    words = "\U0001f600" * 20_000
    model = ScriptedModel(json.dumps({"words": words}, ensure_ascii=False))
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    story = await runtime.get(Clerk, "ada").ask("tell", output=Story)

    assert story.words == words


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(), "empty answer, 6 times in a row"),
        (Reply(text="well", finish="refused"), "refused to answer"),
        (Reply(calls=(tool_call("fail"),) * 300), "300 tools at once"),
        (Reply(text="x", extra={"thoughts": "x" * 400_000}), "can be kept"),
    ],
)
async def test_what_a_useless_answer_took_is_counted(manual_runtime: Start, reply: Reply, reason: str) -> None:
    """As the server counted it, each time."""
    used = Usage(input_tokens=1_000, output_tokens=8_000)
    model = ScriptedModel(lambda _: replace(reply, usage=used))
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hi")
    await runtime.advance(600)

    outcome = await run.wait()

    assert reason in outcome.reason
    assert await run.usage() == [used] * len(model.requests)
    assert outcome.usage.tokens == 9_000 * len(model.requests)


async def test_cut_off_answer_is_a_normal_end(manual_runtime: Start) -> None:
    """Its text is there, and that it was cut off."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(Reply(text="Once upon", finish="length")), deps=Office())

    outcome = await outcome_after(runtime, 1)

    assert (str(outcome), outcome.text) == ('stopped("length")', "Once upon")


@pytest.mark.parametrize("said", ["", " \n"])
async def test_answer_that_was_cut_off_before_it_began(manual_runtime: Start, said: str) -> None:
    """All of its length was thinking: no provider is sent an empty message for it later."""
    cut_off = Reply(text=said, finish="length", extra={"reasoning_content": "hm"})
    model = ScriptedModel(cut_off, "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    outcome = await outcome_after(runtime, 1, "one")

    answer = await runtime.get(Clerk, "ada").ask("two")

    sent = model.requests[1].messages[1]
    assert (str(outcome), answer) == ('stopped("length")', "Hello.")
    assert sent == AssistantMessage(text="[This answer was cut off before it said anything.]")


# --- silence


class Halting:
    """Says a word, then nothing for a while, the first time it is asked."""

    name = "halting"

    def __init__(self, pause: float, clock: Any) -> None:
        self.asked = 0
        self.closed = 0
        self._pause = pause
        self._clock = clock

    async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
        self.asked += 1
        first = self.asked == 1
        try:
            for word in ("one ", "two ", "three"):
                yield Delta(text=word)
                if first:
                    await self._clock.sleep(self._pause)
            yield Reply(text="one two three")
        finally:
            self.closed += 1


async def test_silent_stream_is_left(manual_runtime: Start) -> None:
    """After 120 s; it is asked again, and what had come is void."""
    runtime = await manual_runtime(Clerk, deps=(office := Office()))
    model = office.options["model"] = Halting(10_000, runtime.clock)

    early = await outcome_after(runtime, 119)
    await runtime.advance(11)
    [run] = (await stored(runtime, "run:")).values()

    assert early is None
    assert (run["status"], run["text"]) == ("completed", "one two three")
    assert (model.asked, model.closed) == (2, 2)


async def test_slow_stream_is_not_left(manual_runtime: Start) -> None:
    """An answer may take as long as it likes while something comes."""
    runtime = await manual_runtime(Clerk, deps=(office := Office()))
    model = office.options["model"] = Halting(119, runtime.clock)

    outcome = await outcome_after(runtime, 3 * 119)

    assert outcome.text == "one two three"
    assert model.asked == 1


async def test_model_that_ignores_its_end_is_given_up(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """It holds the run up for 5 s, no longer."""
    over = asyncio.Event()

    class Clinging(Halting):
        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            self.asked += 1
            while self.asked == 1 and not over.is_set():
                with suppress(asyncio.CancelledError):
                    await self._clock.sleep(10_000)
            yield Reply(text="Hello.")

    runtime = await manual_runtime(Clerk, deps=(office := Office()))
    office.options["model"] = Clinging(0, runtime.clock)
    run = await runtime.get(Clerk, "ada").submit("hi")

    await runtime.advance(130)

    outcome = await run.outcome()
    over.set()
    assert outcome is not None
    assert outcome.text == "Hello."
    assert "given up" in caplog.text


# --- usage


async def test_usage_is_estimated_where_nobody_counted(manual_runtime: Start) -> None:
    """Flagged as such, by the length of the text; failed calls that had begun to answer count as well."""

    class Breaking(Halting):
        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            self.asked += 1
            yield Delta(text="abcd" * 10)
            if self.asked == 1:
                raise ModelError("it broke", is_passing=True)
            yield Reply(text="abcd" * 10)

    runtime = await manual_runtime(Clerk, deps=(office := Office()))
    office.options["model"] = Breaking(0, runtime.clock)
    run = await runtime.get(Clerk, "ada").submit("12345678")
    await runtime.advance(60)

    used = await run.usage()

    assert used == [Usage(input_tokens=2, output_tokens=10, is_estimated=True)] * 2


async def test_usage_of_a_stream_that_breaks_off_without_text(manual_runtime: Start) -> None:
    """The model was at work: it had begun to write arguments."""

    class Breaking(Halting):
        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            yield Delta()
            raise ModelError("it broke")

    runtime = await manual_runtime(Clerk, deps=(office := Office()))
    office.options["model"] = Breaking(0, runtime.clock)
    run = await runtime.get(Clerk, "ada").submit("12345678")
    await run.wait()

    used = await run.usage()

    assert used == [Usage(input_tokens=2, output_tokens=0, is_estimated=True)]


# --- over the wire


async def test_rate_limit_over_the_wire(manual_runtime: Start) -> None:
    """The server's wait is kept by our clock, and its answer is used."""
    with respx.mock:
        route = respx.post(CHAT)
        route.side_effect = [refused(429, headers={"retry-after": "30"}), streamed([*text("Hello."), end()])]
        async with httpx.AsyncClient() as client:
            model = OpenAIModel("small", base_url=URL, http_client=client)
            runtime = await manual_runtime(Clerk, deps=Office(model=model))

            early = await outcome_after(runtime, 29)
            calls = route.call_count
            await runtime.advance(1)

    [run] = (await stored(runtime, "run:")).values()
    assert (early, calls) == (None, 1)
    assert run["text"] == "Hello."


async def test_tools_over_the_wire(manual_runtime: Start) -> None:
    """A dropped stream is asked again; then a call, its result, an answer."""
    dropped = response(sse(text("I am")), cut=10)
    called = response(sse([call(0, "c1", "look_up", '{"name":'), call(0, None, None, ' "bob"}'), end("tool_calls")]))
    async with serving(dropped, called, response(sse([*text("Main ", "Street."), end()]))) as server:
        office = Office(model=OpenAIModel("small", base_url=server.url))
        runtime = await manual_runtime(Clerk, deps=office)

        outcome = await outcome_after(runtime, 60)

    assert outcome.text == "Main Street."
    assert office.read == ["bob"]
    assert [message["role"] for message in server.bodies[-1]["messages"]] == ["user", "assistant", "tool"]
    assert server.bodies[-1]["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "bob lives in Main Street",
    }


async def test_model_by_its_name(manual_runtime: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is a model at the endpoint that the environment names."""
    async with serving(response(sse([*text("Hello."), end()]))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("AGENTKIT_MODEL", "from-the-environment")
        runtime = await manual_runtime(Clerk, deps=(office := Office(model="small")))
        await runtime.get(Clerk, "ada").ask("hi")
        office.options["model"] = None
        await runtime.crash()
        await runtime.get(Clerk, "ada").ask("hi")

    assert [body["model"] for body in server.bodies] == ["small", "from-the-environment"]


async def test_model_is_entered_and_left(manual_runtime: Start) -> None:
    """One that is a context manager is open while a run is driven, and only then."""
    log: list[str] = []

    class Guarded(ScriptedModel):
        async def __aenter__(self) -> None:
            log.append("in")

        async def __aexit__(self, *_: object) -> None:
            log.append("out")

    runtime = await manual_runtime(Clerk, model=Guarded("One.", "Two."), deps=Office())
    ada = runtime.get(Clerk, "ada")

    await ada.ask("hi")
    await asyncio.sleep(0)
    between = list(log)
    await ada.ask("hi")
    await runtime.advance(1)

    assert between == ["in", "out"]
    assert log == ["in", "out"] * 2
