"""Calls that a person decides about (SPEC 13.8)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from agentkit.harness import CallEntry, PendingCall
from agentkit.store.store import AgentId
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, beats

DAY = timedelta(days=1)


async def pending(runtime: ManualRuntime) -> list[PendingCall]:
    """Return what waits for a decision."""
    return await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.pending())


async def decide(runtime: ManualRuntime, call_id: str, approved: bool) -> bool:
    """Decide as eve does."""
    return await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.decide(call_id, approved, "eve"))


async def parked(manual_runtime: Start, *answers: Any, office: Office | None = None) -> ManualRuntime:
    """Return a runtime in which a run of ada's waits for a person."""
    model = ScriptedModel(*answers, "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=office or Office(), idle_timeout=10)
    await runtime.get(Clerk, "ada").submit("sign it", key="k")
    await runtime.advance(1)
    return runtime


async def test_other_spellings_of_a_call_id_are_none(manual_runtime: Start) -> None:
    """A list of those that may be approved is not passed by."""
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"))
    [call] = await pending(runtime)
    run, _, number = call.call_id.rpartition("-")

    wrong: list[Any] = [f"{run}-0{number}", f"{run} -{number}", f"-{number}", number, "", None]
    found = [await decide(runtime, id, True) for id in wrong]

    assert found == [False] * 6
    assert await pending(runtime) == [call]


async def test_approved_call_runs(manual_runtime: Start) -> None:
    """Once it is approved, and not before; who did is in the log."""
    office = Office()
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"), office=office)
    [call] = await pending(runtime)
    before = list(office.sent)

    was_waiting = await decide(runtime, call.call_id, True)
    answer = await runtime.get(Clerk, "ada").ask("sign it", key="k")

    log = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.log())
    [entry] = [line for line in log if isinstance(line, CallEntry)]
    assert (call.tool, json.loads(call.arguments)) == ("sign", {"paper": "lease"})
    assert (before, office.sent) == ([], [("lease", "signed")])
    assert (was_waiting, answer, entry.by, entry.ending) == (True, "Done.", "eve", "result")
    assert await pending(runtime) == []


async def test_declined_call_does_not_run(manual_runtime: Start) -> None:
    """The model is told."""
    office = Office()
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"), office=office)
    [call] = await pending(runtime)

    await decide(runtime, call.call_id, False)
    await runtime.get(Clerk, "ada").ask("sign it", key="k")

    log = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.log())
    [entry] = [line for line in log if isinstance(line, CallEntry)]
    assert (entry.ending, entry.text, entry.by) == ("denied", "A person declined this call.", "eve")
    assert office.sent == []


async def test_parked_run_costs_nothing(manual_runtime: Start) -> None:
    """No job, no live instance, for days; a crash changes nothing, and the decision is still awaited."""
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"))

    await runtime.advance(11)
    jobs = await runtime.store.jobs(AgentId("Clerk", "ada"))
    was_live = await runtime.evict(Clerk, "ada")
    await runtime.advance(20 * DAY)
    await runtime.crash()
    await runtime.advance(20 * DAY)
    [call] = await pending(runtime)
    await decide(runtime, call.call_id, True)
    await runtime.advance(1)

    assert (list(jobs), was_live) == ([], False)
    assert await runtime.get(Clerk, "ada").ask("sign it", key="k") == "Done."
    assert runtime.events.count("harness:interrupted") == 0


async def test_decision_survives_a_crash(manual_runtime: Start) -> None:
    """Right behind it: the heart beats again from the commit that decides."""
    office = Office()
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"), office=office)
    [call] = await pending(runtime)

    async def decide_and_die(clerk: Clerk) -> None:
        async with clerk.transaction():  # what follows the decision is put off, and lost
            await clerk.harness.decide(call.call_id, True, "eve")
        raise LookupError

    with pytest.raises(LookupError):
        await runtime.get(Clerk, "ada").use(decide_and_die)
    await runtime.crash()
    await runtime.advance(31)

    assert office.sent == [("lease", "signed")]


async def test_decision_counts_once(manual_runtime: Start) -> None:
    """A second one, one about nothing, one about a call that needs none: False, and nothing changes."""
    runtime = await parked(manual_runtime, [tool_call("look_up", name="bob"), tool_call("sign", paper="lease")])
    [call] = await pending(runtime)
    run, _, number = call.call_id.rpartition("-")

    decisions = [
        await decide(runtime, call.call_id, False),
        await decide(runtime, call.call_id, True),
        await decide(runtime, f"{run}-{int(number) - 1}", True),
        await decide(runtime, f"other-{number}", True),
        await decide(runtime, "nonsense", True),
    ]

    assert decisions == [True, False, False, False, False]


async def test_calls_behind_one_that_waits_wait_too(manual_runtime: Start) -> None:
    """The model may have counted on its result; those before it have run."""
    office = Office()
    calls = [
        tool_call("look_up", name="bob"),
        tool_call("sign", paper="one"),
        tool_call("send", to="bob", text="signed"),
        tool_call("sign", paper="two"),
    ]
    runtime = await parked(manual_runtime, calls, office=office)
    first, second = await pending(runtime)
    state = [(list(office.read), list(office.sent))]

    await decide(runtime, second.call_id, True)
    await runtime.advance(1)
    state.append((list(office.read), list(office.sent)))
    await decide(runtime, first.call_id, False)
    await runtime.advance(1)

    assert state == [(["bob"], [])] * 2
    assert [text for text, _ in office.sent] == ["bob: signed", "two"]
    assert await runtime.get(Clerk, "ada").ask("sign it", key="k") == "Done."


async def test_decision_while_other_calls_run(manual_runtime: Start) -> None:
    """It is not lost on the way to being parked."""
    office = Office()
    model = ScriptedModel([tool_call("wait"), tool_call("sign", paper="lease")], "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    asking = asyncio.ensure_future(ada.ask("sign it"))
    while not (calls := await pending(runtime)):
        await asyncio.sleep(0)

    was_waiting = await decide(runtime, calls[0].call_id, True)
    office.gate.set()

    assert (was_waiting, await asking) == (True, "Done.")


async def test_runs_behind_a_parked_one_wait(manual_runtime: Start) -> None:
    """In submit order, without a heart that beats for them."""
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"), "Signed.")
    ada = runtime.get(Clerk, "ada")
    other = await ada.submit("and then?")
    await runtime.advance(DAY)
    early = (await ada.use(lambda clerk: clerk.harness.outcome_of(other.id)), await beats(runtime))
    [call] = await pending(runtime)

    await decide(runtime, call.call_id, True)
    await runtime.advance(1)

    outcome = await ada.use(lambda clerk: clerk.harness.outcome_of(other.id))
    assert early == (None, [])
    assert outcome is not None
    assert outcome.text == "Done."


async def test_parked_run_is_cancelled(manual_runtime: Start) -> None:
    """The call is closed, and a decision comes too late."""
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"))
    [call] = await pending(runtime)
    run = await runtime.get(Clerk, "ada").submit("sign it", key="k")

    await run.cancel()
    outcome = await run.wait()

    assert str(outcome) == "cancelled"
    assert await decide(runtime, call.call_id, True) is False
    assert await beats(runtime) == []


async def test_event_says_what_waits(manual_runtime: Start) -> None:
    """With what it takes to decide, and no arguments: those are what people wrote."""
    runtime = await parked(manual_runtime, tool_call("sign", paper="lease"))
    [call] = await pending(runtime)

    [event] = runtime.events.of("harness:approval")

    assert event.payload == {"run_id": call.run_id, "tool": "sign", "call_id": call.call_id}
