"""How runs end, and how they go on after a crash (SPEC 13.3, 13.6)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agentkit import current_agent
from agentkit.errors import ConfigurationError, ModelError
from agentkit.harness import AnswerEntry, CallEntry, Limits, Run, ToolContext, tool
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, beats, stored, until


async def log_of(runtime: ManualRuntime) -> list[Any]:
    """Return the log of ada's harness."""
    return await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.log())


def endless() -> ScriptedModel:
    """Return a model that always has one thing more to do."""
    return ScriptedModel(*[tool_call("look_up", name=str(number)) for number in range(99)])


# --- errors


class Unopened(ScriptedModel):
    """Can't be opened."""

    async def __aenter__(self) -> None:
        raise LookupError("secret details")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError


class Broken:
    """Tools that can't even be asked for."""

    def open(self, clock: Any) -> Any:
        return self

    async def tools(self) -> Any:
        raise LookupError("secret details")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("model", "more"), [(Unopened("Hello."), []), (ScriptedModel("Hello."), [Broken()])])
async def test_error_that_nobody_foresaw(manual_runtime: Start, model: Any, more: list[Any]) -> None:
    """The run fails and names the kind at once; those behind it have their turn."""
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=more))
    ada = runtime.get(Clerk, "ada")
    runs = [await ada.submit(word) for word in ("one", "two")]

    outcomes = [await run.wait() for run in runs]

    assert [str(outcome) for outcome in outcomes] == ['failed("it failed with LookupError")'] * 2
    assert await beats(runtime) == []


async def test_usage_outlives_an_error(manual_runtime: Start) -> None:
    """What the answer took that brought it about is kept."""
    more = Broken()
    model = ScriptedModel(tool_call("look_up", name="bob"))

    async def tools() -> list[Any]:
        if model.requests:
            raise LookupError
        return []

    more.tools = tools  # type: ignore[method-assign]  # from the second time on
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[more]))
    run = await runtime.get(Clerk, "ada").submit("hi")

    outcome = await run.wait()

    [call] = [line for line in await log_of(runtime) if isinstance(line, CallEntry)]
    assert str(outcome) == 'failed("it failed with LookupError")'
    assert outcome.usage.tokens == 15
    assert len(await run.usage()) == 1
    assert call.state == "done"


async def test_model_and_tools_that_cannot_be_closed(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """The run is over all the same, and the next one begins at once."""

    class Clinging(ScriptedModel):
        async def __aenter__(self) -> None:
            pass

        async def __aexit__(self, *_: object) -> None:
            raise LookupError

    class Sticky(Broken):
        async def tools(self) -> Any:
            return []

        async def close(self) -> None:
            raise LookupError

    model = Clinging("One.", "Two.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[Sticky()]))
    ada = runtime.get(Clerk, "ada")

    answers = [await ada.ask(word) for word in ("one", "two")]

    assert answers == ["One.", "Two."]
    assert "background work failed" not in caplog.text
    assert "can't be closed" in caplog.text


# --- limits


async def test_limit_of_turns(manual_runtime: Start) -> None:
    """The last turn's tools run; then the run ends normally, and the history stays one that a provider takes."""
    model, office = endless(), Office(limits=Limits(turns=3))
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    run = await runtime.get(Clerk, "ada").submit("go")

    outcome = await run.wait()

    assert str(outcome) == 'stopped("turns")'
    assert outcome.turns == 3
    assert office.read == ["0", "1", "2"]
    last = (await log_of(runtime))[-1]
    assert isinstance(last, AnswerEntry)
    assert last.text == "[This run was stopped by its limit: turns.]"


async def test_limit_of_tokens(manual_runtime: Start) -> None:
    """Counted over all model calls of the run."""
    runtime = await manual_runtime(Clerk, model=endless(), deps=Office(limits=Limits(tokens=40)))
    run = await runtime.get(Clerk, "ada").submit("go")

    outcome = await run.wait()

    assert (str(outcome), outcome.usage.tokens) == ('stopped("tokens")', 45)


async def test_limit_of_seconds(manual_runtime: Start) -> None:
    """It cuts off whatever is under way, and the call has its result."""

    @tool
    async def nap() -> None:
        """Nap."""
        await current_agent().lifecycle.clock.sleep(100)

    model = ScriptedModel(*[tool_call("nap") for _ in range(99)])
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[nap], limits=Limits(seconds=150)))
    run = await runtime.get(Clerk, "ada").submit("go")

    await runtime.advance(149)
    early = await run.outcome()
    await runtime.advance(1)
    outcome = await run.outcome()

    calls = [line for line in await log_of(runtime) if isinstance(line, CallEntry)]
    assert early is None
    assert str(outcome) == 'stopped("seconds")'
    assert [call.ending for call in calls] == ["result", "cancelled"]


async def test_time_without_a_process_does_not_count(manual_runtime: Start) -> None:
    """Nor does time spent parked: a run that nobody worked at isn't late."""
    office = Office(limits=Limits(seconds=100))
    model = ScriptedModel(tool_call("wait"), tool_call("sign", paper="a"), "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("go")
    await until(lambda: model.requests)
    await runtime.crash()
    runtime.clock.move_to(runtime.clock.now_ms() + 10_000_000)  # type: ignore[attr-defined]  # a fake clock
    office.gate.set()
    await runtime.advance(31)
    await runtime.advance(10_000)

    [pending] = await ada.use(lambda clerk: clerk.harness.pending())
    await ada.use(lambda clerk: clerk.harness.decide(pending.call_id, True, "eve"))
    await runtime.advance(1)
    outcome = await ada.use(lambda clerk: clerk.harness.outcome_of(run.id))

    assert str(outcome) == "completed"


@pytest.mark.parametrize("limits", [{"turns": 0}, {"turns": True}, {"tokens": -1}, {"seconds": 0}, {"turns": None}])
def test_impossible_limits_are_refused(limits: dict[str, Any]) -> None:
    """When they are given, naming the field."""
    with pytest.raises(ConfigurationError, match=next(iter(limits))):
        Limits(**limits)


# --- cancelling


async def test_cancelled_run(manual_runtime: Start) -> None:
    """What is under way is stopped, every call has a result, and the next run begins."""
    seen: list[ToolContext] = []

    @tool
    async def nap(context: ToolContext) -> None:
        """Nap."""
        seen.append(context)
        await current_agent().lifecycle.clock.sleep(100)

    model = ScriptedModel([tool_call("nap"), tool_call("send", to="bob", text="hi")], "Hello.")
    office = Office(more=[nap])
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    run, other = await ada.submit("go"), await ada.submit("hi")
    await until(lambda: seen)

    was_open = await run.cancel()
    outcome = await run.wait()
    again = await run.cancel()

    calls = [line for line in await log_of(runtime) if isinstance(line, CallEntry)]
    assert (was_open, again, str(outcome)) == (True, False, "cancelled")
    assert seen[0].cancelled
    assert [call.ending for call in calls] == ["cancelled", "cancelled"]
    assert office.sent == []
    assert (await other.wait()).text == "Hello."


async def test_cancelled_answer_keeps_what_was_said(manual_runtime: Start) -> None:
    """The partial text is in the log, the usage is counted, and the model sees that it was cut off."""

    class Slow(ScriptedModel):
        async def reply(self, request: Any) -> Any:
            if request.answers == 0 and len(request.messages) == 1:
                yield (await anext(ScriptedModel("Once upon").reply(request)))
                await asyncio.sleep(3_600)
            async for part in super().reply(request):
                yield part

    model = Slow("Well.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("go")
    await until(lambda: run._harness._driving.live.text)

    await run.cancel()
    outcome = await run.wait()
    await ada.ask("go on")

    assert (outcome.status, outcome.text) == ("cancelled", "Once")
    assert outcome.usage.output_tokens > 0
    assert outcome.usage.is_estimated
    assert model.requests[-1].messages[1].text == "Once\n[This run was cancelled.]"


async def test_cancelled_before_its_turn(manual_runtime: Start) -> None:
    """It never enters the conversation."""
    office = Office()
    model = ScriptedModel(tool_call("wait"), "One.", "Three.")
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    first, second, third = [await ada.submit(word) for word in ("one", "two", "three")]

    await second.cancel()
    cancelled = await second.wait()
    office.gate.set()

    assert str(cancelled) == "cancelled"
    assert [(await run.wait()).text for run in (first, third)] == ["One.", "Three."]
    assert "two" not in [line.text for line in await log_of(runtime)]


async def test_cancelled_after_a_crash(manual_runtime: Start) -> None:
    """The mark is durable: a crash right behind it changes nothing."""
    model = ScriptedModel(tool_call("wait"), "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    run = await ada.submit("go")
    await until(lambda: model.requests)

    async def mark(clerk: Clerk) -> None:
        async with clerk.transaction():  # what follows the mark is put off, and lost
            await clerk.harness.cancel(run.id)
        raise LookupError

    with pytest.raises(LookupError):
        await ada.use(mark)
    await runtime.crash()
    await runtime.advance(31)

    outcome = await ada.use(lambda clerk: clerk.harness.outcome_of(run.id))
    assert str(outcome) == "cancelled"


async def test_cancelled_while_a_server_is_waited_for(manual_runtime: Start) -> None:
    """It ends at once, whether the wait is short or a later job."""
    for seconds in (50, 5_000):
        wait = ModelError("busy", is_passing=True, wait=timedelta(seconds=seconds))
        runtime = await manual_runtime(Clerk, model=ScriptedModel(wait, "Hello."), deps=Office())
        run = await runtime.get(Clerk, "ada").submit("hi")
        await runtime.advance(1)

        await run.cancel()
        await runtime.advance(1)

        assert str(await run.outcome()) == "cancelled"
        assert await beats(runtime) == []


async def test_postponed_run_is_cancelled_right_before_a_crash(manual_runtime: Start) -> None:
    """The next heartbeat ends it, not the moment that a server named; what is behind it has its turn."""
    wait = ModelError("busy", is_passing=True, wait=timedelta(hours=20))
    runtime = await manual_runtime(Clerk, model=ScriptedModel(wait, "Hello."), deps=Office())
    ada = runtime.get(Clerk, "ada")
    run, other = [await ada.submit(word) for word in ("one", "two")]
    await runtime.advance(1)

    async def mark(clerk: Clerk) -> None:
        async with clerk.transaction():  # what follows the mark is put off, and lost
            await clerk.harness.cancel(run.id)
        raise LookupError

    with pytest.raises(LookupError):
        await ada.use(mark)
    await runtime.crash()
    await runtime.advance(31)

    async def look(clerk: Clerk) -> list[str]:
        return [str(await clerk.harness.outcome_of(each.id)) for each in (run, other)]

    assert await ada.use(look) == ["cancelled", "completed"]


async def test_cancelling_what_is_not_there(manual_runtime: Start) -> None:
    """False, and nothing is stored."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel(), deps=Office())

    found = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.cancel("nobody"))

    assert found is False
    assert await stored(runtime) == {}


# --- after a crash


async def crashed_in(runtime: ManualRuntime, model: ScriptedModel, office: Office) -> Run:
    """Submit, crash in the middle of the first tool, and let the heart beat."""
    run: Run = await runtime.get(Clerk, "ada").submit("go")
    await until(lambda: office.read)
    await runtime.crash()
    office.gate.set()
    await runtime.advance(31)
    return run


def paused(office: Office, effect: Any) -> Any:
    """Return a tool of some effect that a crash comes upon in the middle, the first time."""

    @tool(effect=effect)
    async def work(context: ToolContext) -> str:
        """Work."""
        office.read.append(context.idempotency_key)
        await office.gate.wait()
        return "done"

    return work


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_call_that_may_be_repeated_is(manual_runtime: Start, effect: str) -> None:
    """With the same key."""
    model, office = ScriptedModel(tool_call("work"), "Done."), Office()
    office.more = [paused(office, effect)]
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await crashed_in(runtime, model, office)

    assert len(office.read) == 2
    assert len(set(office.read)) == 1
    assert model.requests[-1].messages[-1].text == "done"


async def test_call_that_happens_once_is_not_repeated(manual_runtime: Start) -> None:
    """Its outcome is unknown, and the model is told so."""
    model, office = ScriptedModel(tool_call("work"), "Done."), Office()
    office.more = [paused(office, "once")]
    runtime = await manual_runtime(Clerk, model=model, deps=office)

    await crashed_in(runtime, model, office)

    assert len(office.read) == 1
    assert "Outcome unknown" in model.requests[-1].messages[-1].text
    [call] = [line for line in await log_of(runtime) if isinstance(line, CallEntry)]
    assert call.ending == "unknown"
    assert runtime.events.count("harness:interrupted") == 1


async def test_settled_calls_are_never_run_again(manual_runtime: Start) -> None:
    """Those of the same answer that have their result keep it, whatever kind they are; those behind have their turn."""
    office = Office()
    calls = [
        tool_call("look_up", name="bob"),
        tool_call("send", to="bob", text="one"),
        tool_call("work"),
        tool_call("send", to="bob", text="two"),
    ]
    model = ScriptedModel(calls, "Done.")
    cut_off = asyncio.Event()

    @tool(effect="idempotent")
    async def work() -> str:
        """Work."""
        cut_off.set()
        await office.gate.wait()
        return "worked"

    office.more = [work]
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    await runtime.get(Clerk, "ada").submit("go")
    await cut_off.wait()

    await runtime.crash()
    office.gate.set()
    await runtime.advance(31)

    assert office.read == ["bob"]
    assert [text for text, _ in office.sent] == ["bob: one", "bob: two"]
    assert [message.text for message in model.requests[-1].messages[2:]] == [
        "bob lives in Main Street",
        "sent",
        "worked",
        "sent",
    ]


async def test_run_that_never_gets_further_is_given_up(manual_runtime: Start) -> None:
    """It may be what ends the process; the run behind it has its turn."""
    model, office = ScriptedModel(tool_call("work"), "Hello."), Office()
    office.more = [paused(office, "idempotent")]
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    run, other = await ada.submit("go"), await ada.submit("hi")

    for number in range(1, 7):
        await until(lambda number=number: len(office.read) == number)
        await runtime.crash()
        await ada.submit("wake up", key="once")
    await runtime.advance(31)

    async def look(clerk: Clerk) -> list[Any]:
        return [await clerk.harness.outcome_of(each.id) for each in (run, other)]

    outcome, behind = await ada.use(look)
    assert outcome.status == "failed"
    assert "without getting any further" in outcome.reason
    assert len(office.read) == 6
    assert behind.text == "Hello."
    [call] = [line for line in await log_of(runtime) if isinstance(line, CallEntry)]
    assert call.ending == "unknown"


async def test_tool_that_is_gone_after_a_deploy(manual_runtime: Start) -> None:
    """The call has its result, and the run goes on."""
    model, office = ScriptedModel(tool_call("work"), "Done."), Office()
    office.more = [paused(office, "idempotent")]
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    await runtime.get(Clerk, "ada").submit("go")
    await until(lambda: office.read)

    office.more = []
    await runtime.crash()
    await runtime.advance(31)

    assert model.requests[-1].messages[-1].text == "There is no tool 'work' any more."


async def test_heart_beats_only_while_there_is_something_to_do(manual_runtime: Start) -> None:
    """Every 30 s while a run is open; it leaves no lines in the history (SPEC 13.4)."""
    office = Office()

    @tool
    async def nap() -> None:
        """Nap."""
        await current_agent().lifecycle.clock.sleep(100)

    office.more = [nap]
    runtime = await manual_runtime(Clerk, model=ScriptedModel(tool_call("nap"), "Done."), deps=office)
    run = await runtime.get(Clerk, "ada").submit("go")

    await runtime.advance(95)
    during = await beats(runtime)
    await runtime.advance(10)

    history = await runtime.get(Clerk, "ada").use(
        lambda clerk: clerk.lifecycle.session.store.history(clerk.lifecycle.session.agent, 10)
    )
    assert during == ["harness:beat"]
    assert await beats(runtime) == []
    assert (await run.wait()).text == "Done."
    assert history == []
