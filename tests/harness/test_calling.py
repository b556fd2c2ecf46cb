"""Tools that hang, raise, flood, block or are called wrongly: each has one result (SPEC 13.2)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from agentkit import AgentOptions, current_agent, from_thread
from agentkit.errors import AgentGoneError, RunEndedError, ToolError
from agentkit.harness import AssistantMessage, CallEntry, Reply, Tool, ToolCall, ToolContext, tool
from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start


async def result_of(manual_runtime: Start, more: Callable[..., Any] | Tool, **arguments: Any) -> CallEntry:
    """Return what became of one call of a tool, once a model has seen it."""
    name = more.name if isinstance(more, Tool) else more.__name__
    model = ScriptedModel(tool_call(name, **arguments), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[more]))
    run = await runtime.get(Clerk, "ada").submit("do it")
    await runtime.advance(3_600)
    assert (await run.wait()).text == "I see."
    log = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.log())
    [entry] = [line for line in log if isinstance(line, CallEntry)]
    assert model.requests[1].messages[-1].text == entry.text
    return entry


class Paper(BaseModel):
    """A paper."""

    title: str
    pages: int = 1


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("text", "text"),
        (None, ""),
        (7, "7"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (Paper(title="x"), '{"title": "x", "pages": 1}'),
        ([Paper(title="x", pages=2)], '[{"title": "x", "pages": 2}]'),
        (b"ab\xff", "ab\\xff"),
        (object, "<class 'object'>"),
        ("half \ud800", "half \\ud800"),
    ],
)
async def test_what_a_tool_returns_is_told_as_text(manual_runtime: Start, value: Any, told: str) -> None:
    """Text as it is, values as JSON, anything else by its ``str``."""

    @tool
    async def give() -> Any:
        """Give."""
        return value

    entry = await result_of(manual_runtime, give)

    assert (entry.ending, entry.text) == ("result", told)


async def test_tool_that_raises(manual_runtime: Start) -> None:
    """The model is told of the error."""

    @tool
    async def fail() -> None:
        """Fail."""
        raise LookupError("the drawer is empty")

    fail.__name__ = "drop"
    entry = await result_of(manual_runtime, fail)

    assert (entry.ending, entry.text) == ("error", "The tool failed with LookupError: the drawer is empty")


async def test_tool_that_says_why_it_failed(manual_runtime: Start) -> None:
    """The model is told that, and nothing else."""

    @tool
    async def fetch() -> None:
        """Fetch."""
        raise ToolError("There is no such page; list_pages tells which there are.")

    entry = await result_of(manual_runtime, fetch)

    assert (entry.ending, entry.text) == ("error", "There is no such page; list_pages tells which there are.")


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit()])]
)
async def test_tool_that_raises_what_ends_processes(manual_runtime: Start, error: BaseException) -> None:
    """It ends nothing but its call."""

    @tool
    async def leave() -> None:
        """Leave."""
        raise error

    entry = await result_of(manual_runtime, leave)

    assert entry.ending == "error"


@pytest.mark.parametrize("kind", [Exception, ToolError])
async def test_tool_that_raises_what_cannot_be_shown(manual_runtime: Start, kind: type[Exception]) -> None:
    """The kind of the error has to do."""

    class Mute(kind):  # type: ignore[valid-type,misc]  # of either kind
        def __str__(self) -> str:
            raise LookupError

    @tool
    async def work() -> None:
        """Work."""
        raise Mute

    entry = await result_of(manual_runtime, work)

    assert entry.ending == "error"


async def test_tool_that_cancels_its_own_task(manual_runtime: Start) -> None:
    """As a time-out of a library may, by accident: it is a failure of the tool, which isn't run again."""
    effects = []

    @tool
    async def pay() -> str:
        """Pay."""
        effects.append("paid")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "paid"

    @tool
    async def hasty() -> str:
        """Be hasty."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    entry = await result_of(manual_runtime, pay)
    other = await result_of(manual_runtime, hasty)

    assert (entry.ending, other.ending) == ("error", "error")
    assert "cancelled. What it had done by then stays done" in entry.text
    assert effects == ["paid"]


async def test_siblings_of_a_failing_call_finish(manual_runtime: Start) -> None:
    """Each call has its own result, under its own id, in the order of the calls."""
    calls = [tool_call("look_up", name="bob"), tool_call("fail"), tool_call("look_up", name="eve")]
    model = ScriptedModel(calls, "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    await runtime.get(Clerk, "ada").ask("look")

    _, answer, *results = model.requests[1].messages
    assert [result.text.split()[0] for result in results] == ["bob", "The", "eve"]
    assert [call.id for call in answer.calls] == [result.call_id for result in results]  # type: ignore[union-attr]  # by the script


async def test_tool_that_hangs(manual_runtime: Start) -> None:
    """It is cancelled at its timeout; what it may have done is pointed out."""
    cancelled = []

    @tool(timeout=30)
    async def hang() -> None:
        """Hang."""
        try:
            await current_agent().lifecycle.clock.sleep(10_000)
        except asyncio.CancelledError:
            cancelled.append(current_agent().lifecycle.clock.now_ms())
            raise

    entry = await result_of(manual_runtime, hang)

    assert entry.ending == "error"
    assert "took longer than 30 s" in entry.text
    assert "stays done" in entry.text
    assert len(cancelled) == 1


async def test_tool_that_ignores_its_end(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """It is given up 5 s after its timeout, and can't write any more."""
    refused: list[Exception] = []
    over = asyncio.Event()

    @tool(timeout=30)
    async def cling() -> None:
        """Cling."""
        agent = current_agent()
        while not over.is_set():
            try:
                await agent.lifecycle.clock.sleep(100)
                await agent.storage.put("late", True)
            except asyncio.CancelledError:
                pass
            except AgentGoneError as error:
                refused.append(error)
                over.set()

    entry = await result_of(manual_runtime, cling)

    assert entry.ending == "error"
    assert "given up" in caplog.text
    assert len(refused) == 1


async def test_tool_that_has_a_result_though_it_is_late(manual_runtime: Start) -> None:
    """What it returns while it is being cancelled is its result."""

    @tool(timeout=30)
    async def tidy() -> str:
        """Tidy."""
        with suppress(asyncio.CancelledError):
            await current_agent().lifecycle.clock.sleep(100)
        return "half done"

    entry = await result_of(manual_runtime, tidy)

    assert (entry.ending, entry.text) == ("result", "half done")


async def test_tool_that_returns_fifty_megabytes(manual_runtime: Start) -> None:
    """The model sees its beginning and its end, the store keeps as much as fits."""
    size = 50_000_000

    @tool(effect="read")
    async def flood() -> str:
        """Flood."""
        return "a" * (size // 2) + "z" * (size // 2)

    model = ScriptedModel(tool_call("flood"), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[flood]))
    ada = runtime.get(Clerk, "ada")
    await ada.ask("do it")

    log = await ada.use(lambda clerk: clerk.harness.log())
    [entry] = [line for line in log if isinstance(line, CallEntry)]
    full = await ada.use(lambda clerk: clerk.harness.full_result(entry.call_id))
    assert len(entry.text) < 30_100
    assert entry.text.startswith("aaa")
    assert entry.text.endswith("zzz")
    assert "49,970,000 of 50,000,000 characters left out" in entry.text
    assert entry.is_clipped
    assert full is not None
    assert 900_000 < len(full) < 1 << 20


async def test_agent_that_keeps_small_values_only(manual_runtime: Start) -> None:
    """Results are shortened to what one can hold, and an answer that is too long for it fails the run."""

    class Small(Clerk):
        options = AgentOptions(max_value_bytes=5_000)

    @tool(effect="read")
    async def flood() -> str:
        """Flood."""
        return "é" * 100_000

    model = ScriptedModel(tool_call("flood"), "I see.", "x" * 2_000)
    runtime = await manual_runtime(Small, model=model, deps=Office(more=[flood]))
    ada = runtime.get(Small, "ada")

    answer = await ada.ask("do it")
    with pytest.raises(RunEndedError, match="1,666 can be kept"):
        await ada.ask("talk")

    assert answer == "I see."
    assert len(model.requests[1].messages[-1].text) < 800


async def test_full_result(manual_runtime: Start) -> None:
    """A short one is what the model saw; a call that isn't there has none."""
    model = ScriptedModel(tool_call("look_up", name="bob"), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("look")
    await run.wait()

    async def look(clerk: Clerk) -> list[str | None]:
        ids = (f"{run.id}-2", f"{run.id}-1", "x-2", "-", "9" * 5_000)
        return [await clerk.harness.full_result(id) for id in ids]

    found = await ada.use(look)

    assert found == ["bob lives in Main Street", None, None, None, None]


# --- plain functions


async def test_plain_function_runs_in_a_thread(manual_runtime: Start) -> None:
    """It may block, and reaches the agent with ``from_thread``."""
    threads: list[threading.Thread] = []

    @tool
    def block(word: str, context: ToolContext) -> str:
        """Block."""
        threads.append(threading.current_thread())
        from_thread(current_agent().storage.put("word", word))
        return f"{word} {context.agent.name} {context.cancelled}"

    entry = await result_of(manual_runtime, block, word="hi")

    assert entry.text == "hi ada False"
    assert threads[0] is not threading.main_thread()


async def test_plain_function_that_hangs(manual_runtime: Start) -> None:
    """The run goes on without its thread, which can't write any more."""
    begun, gate, done = threading.Event(), threading.Event(), threading.Event()
    refused = []

    @tool(timeout=30)
    def block() -> None:
        """Block."""
        begun.set()
        gate.wait(60)
        try:
            from_thread(current_agent().storage.put("late", True))
        except AgentGoneError as error:
            refused.append(error)
        finally:
            done.set()

    model = ScriptedModel(tool_call("block"), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[block]))
    run = await runtime.get(Clerk, "ada").submit("do it")
    await asyncio.to_thread(begun.wait, 10)
    runtime.clock.move_to(runtime.clock.now_ms() + 31_000)  # type: ignore[attr-defined]  # a fake clock
    outcome = await run.wait()
    gate.set()
    await asyncio.to_thread(done.wait, 10)

    assert outcome.text == "I see."
    assert "took longer than 30 s" in model.requests[1].messages[-1].text
    assert "may still be at it" in model.requests[1].messages[-1].text
    assert len(refused) == 1


# --- calls that are wrong


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ({}, "name: Field required"),
        ({"name": ["bob"]}, "name: Input should be a valid string"),
        ({"name": "bob", "zip": 1}, "zip: Extra inputs are not permitted"),
    ],
)
async def test_wrong_arguments_go_back_to_the_model(
    manual_runtime: Start, arguments: dict[str, Any], about: str
) -> None:
    """With what is wrong; the tool does not run."""
    office = Office()
    model = ScriptedModel(tool_call("look_up", **arguments), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await runtime.get(Clerk, "ada").ask("look")

    assert about in model.requests[1].messages[-1].text
    assert office.read == []


@pytest.mark.parametrize("arguments", ['{"name": "bo', "[1]", "nothing", '"x"', "[" * 10_000])
async def test_arguments_that_are_no_object(manual_runtime: Start, arguments: str) -> None:
    """They are not run, and what goes back to the provider is an object that it takes."""
    call = ToolCall(id="a", name="look_up", arguments=arguments)
    model = ScriptedModel(Reply(calls=(call,)), "I see.")
    office = Office()
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await runtime.get(Clerk, "ada").ask("look")

    _, answer, result = model.requests[1].messages
    assert "arguments are wrong" in result.text
    assert answer.calls[0].arguments.startswith('{"invalid_arguments": ')  # type: ignore[union-attr]  # by the script
    assert office.read == []


ZONES = {"Berlin": "noon"}
Zone = Annotated[str, AfterValidator(lambda name: ZONES[name])]


async def test_validator_that_raises_anything(manual_runtime: Start) -> None:
    """Only a ``ValueError`` is one that pydantic knows; the model is told of all of them, and may try again."""

    def read(_: str) -> Any:
        raise TypeError("never right")

    @tool(effect="read")
    async def tell(zone: Zone) -> str:
        """Tell the time."""
        return zone

    async def call(_: Any, __: ToolContext) -> str:
        return "never"

    picky = Tool(name="picky", description="", schema={"type": "object"}, read=read, call=call)
    wrong = [tool_call("tell", zone="Atlantis"), tool_call("picky")]
    model = ScriptedModel(wrong, tool_call("tell", zone="Berlin"), "Noon.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[tell, picky]))

    answer = await runtime.get(Clerk, "ada").ask("what time is it?")

    assert answer == "Noon."
    assert [message.text for message in model.requests[1].messages[-2:]] == [
        "Not run, the arguments are wrong: KeyError: 'Atlantis'",
        "Not run, the arguments are wrong: TypeError: never right",
    ]
    assert model.requests[2].messages[-1].text == "noon"


async def test_approved_call_that_is_no_longer_valid(manual_runtime: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was right when it was asked for may be wrong when a person has decided: the model is told."""

    @tool(approve=True)
    async def tell(zone: Zone) -> str:
        """Tell the time."""
        return zone

    model = ScriptedModel(tool_call("tell", zone="Berlin"), "It is unknown.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[tell]))
    ada = runtime.get(Clerk, "ada")
    await ada.submit("what time is it?")
    await runtime.advance(1)
    [pending] = await ada.use(lambda clerk: clerk.harness.pending())

    monkeypatch.delitem(ZONES, "Berlin")
    await ada.use(lambda clerk: clerk.harness.decide(pending.call_id, True, "eve"))
    await runtime.advance(1)

    assert model.requests[1].messages[-1].text == "Not run, the arguments are wrong: KeyError: 'Berlin'"


@pytest.mark.parametrize("arguments", ['{"x": NaN}', '{"x": 1e999}', '{"x": "\\ud800"}', "[1]", '{"x": ' * 2_000])
async def test_arguments_that_strict_servers_refuse(manual_runtime: Start, arguments: str) -> None:
    """They are sent back as JSON that any server reads, wrapped up."""
    model = ScriptedModel(ToolCall(id="", name="look_up", arguments=arguments), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    await runtime.get(Clerk, "ada").ask("go")

    asked = model.requests[1].messages[1]
    assert isinstance(asked, AssistantMessage)
    assert json.loads(asked.calls[0].arguments) == {"invalid_arguments": arguments[:1_000]}


async def test_unknown_tool(manual_runtime: Start) -> None:
    """The model is told which there are; a name that no provider takes back is mended."""
    model = ScriptedModel(tool_call("look up!"), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    await runtime.get(Clerk, "ada").ask("look")

    _, answer, result = model.requests[1].messages
    assert "There is no tool 'look up!'; there are: look_up, send" in result.text
    assert answer.calls[0].name == result.name == "look_up_"  # type: ignore[union-attr]  # by the script


async def test_cut_off_calls_never_run(manual_runtime: Start) -> None:
    """Their arguments may look whole and be wrong; the model is told to send less."""
    call = ToolCall(id="a", name="send", arguments='{"to": "bob", "text": "half of"}')
    model, office = ScriptedModel(Reply(calls=(call,), finish="length"), "I see."), Office()
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await runtime.get(Clerk, "ada").ask("write")

    assert office.sent == []
    assert "cut off" in model.requests[1].messages[-1].text


async def test_ids_are_mended(manual_runtime: Start) -> None:
    """Each call has one of its own, whatever the server sent: none, the same twice, one that was there before."""
    same = ToolCall(id="same", name="fail")
    model = ScriptedModel(Reply(calls=(same, same, ToolCall(id="", name="fail"))), Reply(calls=(same,)), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    await runtime.get(Clerk, "ada").ask("fail")

    ids = [message.call_id for message in model.requests[2].messages if hasattr(message, "call_id")]
    assert len(set(ids)) == 4
    assert ids[0] == "same"


async def test_ids_that_look_like_ours(manual_runtime: Start) -> None:
    """Whatever a model calls its calls, before or after: no two have one id."""
    ids = [["call_3", ""], ["", "call_6"], ["call_3", "call_11", "", ""], ["", ""]]
    numbers = count()
    steps: list[Any] = [
        [ToolCall(id=id, name="look_up", arguments=f'{{"name": "{next(numbers)}"}}') for id in each] for each in ids
    ]
    model = ScriptedModel(*steps, "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    await runtime.get(Clerk, "ada").submit("go")
    await runtime.advance(1)

    messages = model.requests[-1].messages
    used = [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    assert len(set(used)) == len(used) == 10


async def test_more_calls_than_anybody_wants(manual_runtime: Start) -> None:
    """The first 32 run, the others are told to come later."""
    calls = [tool_call("look_up", name=str(number)) for number in range(40)]
    model, office = ScriptedModel(calls, "I see."), Office()
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await runtime.get(Clerk, "ada").ask("look")

    assert sorted(office.read, key=int) == [str(number) for number in range(32)]
    assert "more than 32 calls" in model.requests[1].messages[-1].text


# --- what runs when


async def test_reading_calls_run_side_by_side_and_others_in_order(manual_runtime: Start) -> None:
    """A call that changes something waits for those before it, and those behind wait for it."""
    log: list[str] = []

    @tool(effect="read")
    async def read(word: str) -> None:
        """Read."""
        log.append(f"begin {word}")
        await asyncio.sleep(0)
        log.append(f"end {word}")

    @tool
    async def write(word: str) -> None:
        """Write."""
        log.append(f"begin {word}")
        await asyncio.sleep(0)
        log.append(f"end {word}")

    calls = [
        tool_call("read", word="a"),
        tool_call("read", word="b"),
        tool_call("write", word="c"),
        tool_call("write", word="d"),
        tool_call("read", word="e"),
    ]
    model = ScriptedModel(calls, "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[read, write]))

    await runtime.get(Clerk, "ada").ask("work")

    assert log == [
        *("begin a", "begin b", "end a", "end b"),
        *("begin c", "end c", "begin d", "end d", "begin e", "end e"),
    ]


async def test_context_of_a_tool(manual_runtime: Start) -> None:
    """It knows its agent and its call; each call has a key of its own, which never comes again."""
    contexts: list[ToolContext] = []

    @tool
    async def note(context: ToolContext) -> None:
        """Note."""
        contexts.append(context)

    model = ScriptedModel([tool_call("note"), tool_call("note")], "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[note]))
    run = await runtime.get(Clerk, "ada").submit("note")
    await run.wait()

    first, second = contexts
    assert isinstance(first.agent, Clerk)
    assert first.agent.name == "ada"
    assert first.run_id == run.id
    assert first.idempotency_key != second.idempotency_key
    assert run.id in first.idempotency_key


async def test_memory_limit_in_a_tool_is_for_the_lifecycle(manual_runtime: Start) -> None:
    """Section 7 counts it; after that the call's outcome is unknown, and the run goes on (SPEC 7.1)."""

    @tool
    async def hoard() -> None:
        """Hoard."""
        raise MemoryError

    model = ScriptedModel(tool_call("hoard"), "I see.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[hoard]))
    run = await runtime.get(Clerk, "ada").submit("hoard")
    await runtime.advance(120)

    found = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.get(run.id))
    assert found is not None
    assert (await found.wait()).text == "I see."
    assert "Outcome unknown" in model.requests[1].messages[-1].text
    assert runtime.events.count("alarm:memory_limit_reset") == 1


async def test_run_that_exhausts_the_memory_is_ended(manual_runtime: Start) -> None:
    """When the limit is reached; the run behind it has its turn (SPEC 7.2)."""

    @tool(effect="read")
    async def hoard() -> None:
        """Hoard."""
        raise MemoryError

    model = ScriptedModel(tool_call("hoard"), "Hello.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[hoard]))
    ada = runtime.get(Clerk, "ada")
    run, other = await ada.submit("hoard"), await ada.submit("hi")
    await runtime.advance(600)

    async def look(clerk: Clerk) -> list[Any]:
        return [await clerk.harness.outcome_of(each.id) for each in (run, other)]

    outcomes = await ada.use(look)
    assert [outcome.status if outcome else None for outcome in outcomes] == ["failed", "completed"]
    assert runtime.events.count("alarm:memory_limit_reset") == 3
