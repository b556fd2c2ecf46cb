"""Messages in, replies out (SPEC 13.1, 13.4)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_validator

from agentkit import Agent
from agentkit.errors import AgentGoneError, ConfigurationError, HarnessError, PayloadError, QuotaError, RunEndedError
from agentkit.harness import (
    AssistantMessage,
    ChatRequest,
    Harness,
    Limits,
    ToolContext,
    ToolMessage,
    Usage,
    UserMessage,
    tool,
)
from agentkit.host import AgentContext
from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, beats, stored


async def test_answer(manual_runtime: Start) -> None:
    """A message is answered after the tools that the model asked for have run."""
    model = ScriptedModel(tool_call("send", to="bob", text="hi"), "Done: it is sent.")
    office = Office(instructions="Be brief.")
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    answer = await runtime.get(Clerk, "ada").ask("write to bob")

    first, second = model.requests
    asked, called, result = second.messages
    assert answer == "Done: it is sent."
    assert [text for text, _ in office.sent] == ["bob: hi"]
    assert (first.instructions, first.messages) == ("Be brief.", (UserMessage(text="write to bob"),))
    assert isinstance(called, AssistantMessage)
    assert asked == UserMessage(text="write to bob")
    assert result == ToolMessage(call_id=called.calls[0].id, name="send", text="sent")


async def test_conversation_goes_on(manual_runtime: Start) -> None:
    """The next message finds what was said before it, also in another life of the agent."""
    model = ScriptedModel("Hello Ada.", "You are Ada.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("I am Ada")

    await runtime.crash()
    answer = await ada.ask("Who am I?")

    assert answer == "You are Ada."
    assert [message.text for message in model.requests[1].messages] == ["I am Ada", "Hello Ada.", "Who am I?"]


async def test_outcome_tells_what_a_run_took(manual_runtime: Start) -> None:
    """Text, turns, and the tokens of all its model calls, one line for each."""
    model = ScriptedModel(tool_call("look_up", name="bob"), "Main Street.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("where is bob?")

    outcome = await run.wait()

    assert (outcome.status, outcome.text, outcome.turns) == ("completed", "Main Street.", 2)
    assert outcome.usage == Usage(input_tokens=20, output_tokens=10)
    assert await run.usage() == [Usage(input_tokens=10, output_tokens=5)] * 2
    assert await run.outcome() == outcome


async def test_message_under_a_key_is_taken_once(manual_runtime: Start) -> None:
    """The same key is the same run, also after a crash."""
    model = ScriptedModel("One.", "Two.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")

    first = await ada.ask("count", key="webhook:42")
    await runtime.crash()
    second = await ada.ask("count", key="webhook:42")
    other = await ada.ask("count", key="webhook:43")

    assert (first, second, other) == ("One.", "One.", "Two.")


async def test_runs_go_one_after_another(manual_runtime: Start) -> None:
    """In submit order, though all were submitted at once."""
    model = ScriptedModel(tool_call("look_up", name="a"), "One.", tool_call("look_up", name="b"), "Two.", "Three.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")

    answers = await asyncio.gather(*(ada.ask(f"message {number}") for number in range(3)))

    assert answers == ["One.", "Two.", "Three."]
    assert [message.text for message in model.requests[4].messages if isinstance(message, UserMessage)] == [
        "message 0",
        "message 1",
        "message 2",
    ]


async def test_nothing_is_left_when_all_is_done(manual_runtime: Start) -> None:
    """No job stays behind, and nothing keeps the agent awake."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel("Hello."), deps=Office(), idle_timeout=10)
    ada = runtime.get(Clerk, "ada")
    await ada.ask("hi")

    await runtime.advance(11)

    assert await beats(runtime) == []
    assert await runtime.evict(Clerk, "ada") is False


async def test_run_is_found_again(manual_runtime: Start) -> None:
    """By its id; an id that there isn't is None."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel("Hello."), deps=Office())
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("hi")
    await run.wait()

    await runtime.crash()
    found = await ada.use(lambda clerk: clerk.harness.get(run.id))
    missing = await ada.use(lambda clerk: clerk.harness.get("nobody"))

    assert found is not None
    assert (await found.wait()).text == "Hello."
    assert missing is None


async def test_whole_log_is_kept(manual_runtime: Start) -> None:
    """Each message and each call is one line, in order."""
    model = ScriptedModel([tool_call("look_up", name="bob"), tool_call("fail")], "Main Street.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("where is bob?")

    log = await ada.use(lambda clerk: clerk.harness.log())
    later = await ada.use(lambda clerk: clerk.harness.log(start=3, limit=1))

    assert [(line.number, line.role) for line in log] == [
        (0, "user"),
        (1, "assistant"),
        (2, "tool"),
        (3, "tool"),
        (4, "assistant"),
    ]
    assert later == [log[3]]


# --- where it may be waited for


async def test_ask_in_a_job(manual_runtime: Start) -> None:
    """A callback may wait for an answer, and survives a crash while it does (SPEC 13.4)."""
    heard: list[str] = []

    class Reader(Clerk):
        async def read(self) -> None:
            heard.append(await self.harness.ask("what is new?", key="today"))

    model = ScriptedModel(tool_call("wait"), "Nothing.")
    office = Office()
    runtime = await manual_runtime(Reader, model=model, deps=office)
    await runtime.get(Reader, "ada").schedule(10, "read")
    runtime.clock.move_to(runtime.clock.now_ms() + 10_000)  # type: ignore[attr-defined]  # a fake clock
    while not model.requests:
        await asyncio.sleep(0)

    await runtime.crash()
    office.gate.set()
    await runtime.advance(60)

    assert heard == ["Nothing."]


async def test_submit_in_a_transaction(manual_runtime: Start) -> None:
    """The run begins when the block is left, and never if it is left with an error."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel("Hello."), deps=Office())
    ada = runtime.get(Clerk, "ada")

    async def submit(clerk: Clerk) -> Any:
        with suppress(LookupError):
            async with clerk.transaction():
                await clerk.harness.submit("dropped")
                raise LookupError
        async with clerk.transaction():
            await clerk.storage.put("asked", True)
            run = await clerk.harness.submit("kept")
            with pytest.raises(HarnessError, match="transaction"):
                await run.wait()
        return await run.wait()

    outcome = await ada.use(submit)

    assert outcome.text == "Hello."
    assert [line["text"] for line in (await stored(runtime, "msg:")).values()] == ["kept", "Hello."]


class Caller(Agent):
    """Asks the agents that it is told to, from within a tool."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.harness = self.lifecycle.use(Harness(tools=[self.call, self.follow]))

    async def ask(self, message: str) -> str:
        return await self.harness.ask(message)

    async def stream(self, message: str) -> str:
        run = await self.harness.submit(message)
        return str([event async for event in run.stream()][-1])

    @tool(timeout=None)
    async def call(self, name: str) -> str:
        """Call another one."""
        return await self.get(Caller, name).ask(f"from {self.name}")

    @tool(timeout=None)
    async def follow(self, name: str) -> str:
        """Follow another one."""
        return await self.get(Caller, name).stream(f"from {self.name}")


@pytest.mark.parametrize("how", ["call", "follow"])
@pytest.mark.parametrize("names", [("ada", "bob"), ("ada", "bob", "eve")])
async def test_agents_that_ask_one_another_in_a_circle(manual_runtime: Start, names: tuple[str, ...], how: str) -> None:
    """They would wait for one another for ever: the last is told, and all of them come to an end."""
    following = dict(zip(names, (*names[1:], names[0]), strict=True))
    callers = {f"from {name}": following[following[name]] for name in names}

    def answer(request: ChatRequest) -> Any:
        message = request.messages[-1].text
        if message == "go":
            return tool_call(how, name=following[names[0]])
        return tool_call(how, name=callers[message]) if message in callers else message

    runtime = await manual_runtime(Caller, model=ScriptedModel(*[answer] * 4))

    told = await runtime.get(Caller, names[0]).ask("go")

    assert "in a circle" in told


async def test_what_a_tool_has_started_outlives_it(manual_runtime: Start) -> None:
    """It may wait for the harness once the call is over, and is in nobody's way."""
    started: list[asyncio.Task[str]] = []
    over = asyncio.Event()

    class Starter(Caller):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.other = self.lifecycle.use(Harness(tools=[self.start], id="other"))

        async def ask_other(self, message: str) -> str:
            return await self.other.ask(message)

        @tool
        async def start(self) -> str:
            """Start something."""

            async def later() -> str:
                await over.wait()
                return await self.get(Starter, "ada").ask_other("later")

            started.append(asyncio.create_task(later()))
            return "started"

    model = ScriptedModel(tool_call("start"), "Started.", "It is later.")
    runtime = await manual_runtime(Starter, model=model)

    first = await runtime.get(Starter, "ada").ask_other("go")
    over.set()
    second = await asyncio.wait_for(started[0], 5)

    assert (first, second) == ("Started.", "It is later.")


async def test_tool_cannot_wait_for_its_own_harness(manual_runtime: Start) -> None:
    """It would never end; the model is told of the error."""

    class Asker(Agent):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.harness = self.lifecycle.use(Harness(tools=[self.think]))

        async def ask(self, message: str) -> str:
            return await self.harness.ask(message)

        @tool
        async def think(self) -> str:
            """Think."""
            return await self.harness.ask("think for me")

    model = ScriptedModel(tool_call("think"), "I can't think.")
    runtime = await manual_runtime(Asker, model=model)

    answer = await runtime.get(Asker, "ada").ask("hi")

    assert answer == "I can't think."
    assert "can't wait for a run of its own harness" in model.requests[1].messages[-1].text


async def test_sub_agent_is_found_again_after_a_crash(manual_runtime: Start) -> None:
    """A tool may ask an agent of its own, named and keyed by the call: one run of it, one result."""

    class Chief(Clerk):
        @tool(effect="idempotent")
        async def delegate(self, task: str, context: ToolContext) -> str:
            """Delegate."""
            return str(await self.get(Clerk, "helper").ask(task, key=context.idempotency_key))

        def __init__(self, context: AgentContext) -> None:
            context.deps.more = [self.delegate]
            super().__init__(context)

    def speak(request: Any) -> Any:
        if request.messages[0].text == "sub":
            return [tool_call("wait"), "Sub is done."][request.answers]
        return [tool_call("delegate", task="sub"), "All is done."][request.answers]

    model, office = ScriptedModel(speak, speak), Office()
    runtime = await manual_runtime(Chief, Clerk, model=model, deps=office)
    asking = asyncio.ensure_future(runtime.get(Chief, "ada").ask("main", key="k"))
    while len(model.requests) < 2:
        await asyncio.sleep(0)

    await runtime.crash()
    with pytest.raises(AgentGoneError):
        await asking
    office.gate.set()
    await runtime.advance(61)
    answer = await runtime.get(Chief, "ada").ask("main", key="k")

    helper = await runtime.get(Clerk, "helper").use(lambda clerk: clerk.harness.log())
    assert answer == "All is done."
    assert [line.text for line in helper if line.role == "user"] == ["sub"]


async def test_caller_that_gives_up_leaves_the_run_alone(manual_runtime: Start) -> None:
    """Somebody who doesn't wait any longer has cancelled nothing."""
    office = Office()
    runtime = await manual_runtime(Clerk, model=ScriptedModel(tool_call("wait"), "Done."), deps=office)
    run = await runtime.get(Clerk, "ada").submit("wait")
    waiting = asyncio.ensure_future(run.wait())
    await asyncio.sleep(0)

    waiting.cancel()
    office.gate.set()
    outcome = await run.wait()

    assert outcome.text == "Done."


async def test_waiting_ends_with_the_instance(manual_runtime: Start) -> None:
    """Who waits for a run whose instance is dropped is told; the run goes on later."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(tool_call("sign", paper="a"), "Done."), deps=Office())
    run = await runtime.get(Clerk, "ada").submit("sign")
    await runtime.advance(1)
    waiting = asyncio.ensure_future(run.wait())
    await asyncio.sleep(0)

    await runtime.evict(Clerk, "ada")

    with pytest.raises(AgentGoneError):
        await waiting


# --- what is refused


async def test_ask_that_gets_no_answer_raises(manual_runtime: Start) -> None:
    """With the outcome; waiting for the run does not."""
    model = ScriptedModel(*[tool_call("look_up", name=str(number)) for number in range(9)])
    runtime = await manual_runtime(Clerk, model=model, deps=Office(limits=Limits(turns=2)))

    with pytest.raises(RunEndedError, match=r'stopped\("turns"\)') as caught:
        await runtime.get(Clerk, "ada").ask("look")

    assert str(caught.value.outcome) == 'stopped("turns")'


@pytest.mark.parametrize("message", ["", "  \n"])
async def test_blank_message_is_refused(manual_runtime: Start, message: str) -> None:
    """Nothing is stored."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(), deps=Office())

    with pytest.raises(PayloadError, match="message"):
        await runtime.get(Clerk, "ada").ask(message)

    assert await stored(runtime) == {}


async def test_number_of_waiting_runs_is_limited(manual_runtime: Start) -> None:
    """The error names the option."""
    office = Office(max_queued=2)
    runtime = await manual_runtime(Clerk, model=ScriptedModel(tool_call("wait"), "a", "b"), deps=office)
    ada = runtime.get(Clerk, "ada")
    await ada.submit("1")
    await ada.submit("2")

    with pytest.raises(QuotaError, match="max_queued=2"):
        await ada.submit("3")

    office.gate.set()
    await runtime.advance(1)
    assert (await (await ada.submit("3")).outcome()) is None


async def test_message_that_is_too_long_is_refused(manual_runtime: Start) -> None:
    """It would not fit into the store; nothing is stored."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(), deps=Office())

    with pytest.raises(QuotaError, match="max_value_bytes"):
        await runtime.get(Clerk, "ada").ask("x" * 1_100_000)

    assert await stored(runtime) == {}


async def test_harness_without_a_model_is_refused(manual_runtime: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a message comes in, with what to do; nothing is accepted that nobody could answer."""
    for name in ("AGENTKIT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    runtime = await manual_runtime(Clerk, deps=Office())

    with pytest.raises(ConfigurationError, match="AGENTKIT_MODEL"):
        await runtime.get(Clerk, "ada").ask("hi")

    assert await stored(runtime) == {}


async def test_two_harnesses_are_two_conversations(manual_runtime: Start) -> None:
    """Each with an id, a log and runs of its own; a tool of one may wait for the other."""

    class Pair(Agent):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.inner = self.lifecycle.use(Harness(model=context.deps, id="inner"))
            self.outer = self.lifecycle.use(Harness(tools=[self.think], id="outer", model=context.deps))

        async def ask(self, message: str) -> str:
            return await self.outer.ask(message)

        @tool
        async def think(self) -> str:
            """Think."""
            return await self.inner.ask("think for me")

    def speak(request: Any) -> Any:
        return "A thought." if request.messages[0].text == "think for me" else tool_call("think")

    model = ScriptedModel(speak, lambda request: f"I thought: {request.messages[-1].text}")
    runtime = await manual_runtime(Pair, deps=model)

    answer = await runtime.get(Pair, "ada").ask("hi")

    assert answer == "I thought: A thought."


# --- answers with a form


class Address(BaseModel):
    """Where somebody lives."""

    name: str
    street: str
    number: int | None = None


async def test_answer_with_a_form(manual_runtime: Start) -> None:
    """The answer is an object; the model has been told its schema."""
    model = ScriptedModel(tool_call("look_up", name="bob"), 'It is:\n```json\n{"name": "bob", "street": "Main"}\n```')
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    address = await runtime.get(Clerk, "ada").ask("where is bob?", output=Address)

    assert address == Address(name="bob", street="Main")
    assert model.requests[0].output is not None
    assert model.requests[0].output.name == "Address"
    assert '"street"' in model.requests[0].instructions


async def test_answer_that_has_not_the_form_is_sent_back(manual_runtime: Start) -> None:
    """With the reason, twice at most; each is a turn."""
    model = ScriptedModel("Main Street", '{"name": "bob"}', '{"name": "bob", "street": "Main"}')
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    address = await runtime.get(Clerk, "ada").ask("where is bob?", output=Address)

    assert address.street == "Main"
    assert "no JSON object" in model.requests[1].messages[-1].text
    assert "street: Field required" in model.requests[2].messages[-1].text


async def test_answer_that_never_has_the_form_fails(manual_runtime: Start) -> None:
    """After two corrections."""
    model = ScriptedModel(*["Main Street"] * 9)
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("where is bob?", output=Address)

    outcome = await run.wait()

    assert outcome.status == "failed"
    assert "has not the form" in outcome.reason
    assert len(model.requests) == 3


async def test_form_of_a_class_that_is_gone(manual_runtime: Start) -> None:
    """After a crash, a class that a function made can't be found: whoever asks again validates."""

    class Local(BaseModel):
        street: str

    office = Office()
    model = ScriptedModel(tool_call("wait"), '{"street": "Main"}')
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    await ada.submit("where?", output=Local, key="k")
    await runtime.crash()
    office.gate.set()

    found = await ada.ask("where?", output=Local, key="k")

    assert found == Local(street="Main")


class Login(BaseModel):
    password: SecretStr


class Box(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int

    @computed_field  # type: ignore[prop-decorator]  # a property below it is what pydantic asks for
    @property
    def area(self) -> int:
        """Of the box."""
        return self.width**2


class Price(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def to_cents(cls, euros: int) -> int:
        """Take euros."""
        return euros * 100


class Renamed(BaseModel):
    there: int = Field(validation_alias="given", serialization_alias="shown")
    hidden: str = Field(exclude=True)


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (Login, {"password": "hunter2"}),
        (Box, {"width": 2}),
        (Price, {"cents": 5}),
        (Renamed, {"given": 1, "hidden": "x"}),
    ],
)
async def test_object_is_what_the_model_said(manual_runtime: Start, form: type[BaseModel], answer: Any) -> None:
    """Read once from its JSON, not from a dump of the object."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(json.dumps(answer)), deps=Office())

    found = await runtime.get(Clerk, "ada").ask("what?", output=form)

    assert found == form.model_validate(answer)


class Zone(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def is_known(cls, name: str) -> str:
        """Raise what pydantic lets through."""
        return {"Berlin": name}[name]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ('{"name": "Atlantis"}', "KeyError: 'Atlantis'"),
        ('{"name": "Berlin", "size": NaN}', "which JSON can't carry"),
        ('{"name": "Berlin", "size": 1e999}', "which JSON can't carry"),
        ('{"name": "Berlin", "size": ' + "[" * 300 + "]" * 300 + "}", "nested too deeply"),
    ],
)
async def test_answer_that_cannot_be_read_is_sent_back(manual_runtime: Start, wrong: str, reason: str) -> None:
    """Whatever its validators raise, and whatever JSON can't carry."""
    model = ScriptedModel(wrong, '{"name": "Berlin"}')
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    zone = await runtime.get(Clerk, "ada").ask("where?", output=Zone)

    assert zone == Zone(name="Berlin")
    assert reason in model.requests[1].messages[-1].text


async def test_known_key_and_another_form(manual_runtime: Start) -> None:
    """The run of a key has the form that it was asked for first."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel("Main Street"), deps=Office())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("where?", key="k")

    with pytest.raises(HarnessError, match="the answer is no Address"):
        await ada.ask("where?", output=Address, key="k")


@pytest.mark.parametrize(
    "given",
    [
        {"limits": 5},
        {"limits": {"turns": 3}},
        {"instructions": None},
        {"model": 5},
        {"context_tokens": 0},
        {"max_tokens": -1},
        {"max_queued": True},
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any]) -> None:
    """When they are given, naming the option."""
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        Harness(**given)


@pytest.mark.parametrize("message", [None, 5, b"hi"])
async def test_message_must_be_text(manual_runtime: Start, message: Any) -> None:
    """Anything else is refused before anything is stored."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(), deps=Office())

    with pytest.raises(PayloadError, match="not text"):
        await runtime.get(Clerk, "ada").ask(message)

    assert await stored(runtime) == {}


async def test_form_must_be_a_model(manual_runtime: Start) -> None:
    """Anything else is refused before anything is stored."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(), deps=Office())

    with pytest.raises(ConfigurationError, match="pydantic model"):
        await runtime.get(Clerk, "ada").ask("where?", output=dict)

    assert await stored(runtime) == {}
