"""A model that goes round in circles (SPEC 13.6)."""

from __future__ import annotations

from typing import Any

from agentkit.harness import tool
from agentkit.harness.repetition import digest_of
from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, until


def circling(*calls: Any) -> ScriptedModel:
    """Return a model that makes the same calls in every turn."""
    return ScriptedModel(lambda _: list(calls), *[lambda _: list(calls)] * 30)


def results(model: ScriptedModel) -> list[str]:
    """Return the results that the model saw last."""
    return [message.text for message in model.requests[-1].messages if hasattr(message, "call_id")]


async def test_same_call_with_the_same_result_ends_the_run(manual_runtime: Start) -> None:
    """From the third on the model is warned, after the fifth the run is stopped."""
    model = circling(tool_call("look_up", name="bob"))
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("look")

    outcome = await run.wait()

    assert str(outcome) == 'stopped("loop")'
    assert outcome.turns == 5
    assert ["3 times" in text or "4 times" in text for text in results(model)] == [False, False, True, True]


async def test_same_turn_of_several_calls_ends_the_run(manual_runtime: Start) -> None:
    """Though no call equals the one before it."""
    model = circling(tool_call("look_up", name="bob"), tool_call("look_up", name="eve"))
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("look")

    outcome = await run.wait()

    assert (str(outcome), outcome.turns) == ('stopped("loop")', 5)


async def test_wrong_calls_count_as_well(manual_runtime: Start) -> None:
    """A model that can't get its arguments right."""
    model = circling(tool_call("look_up", nonsense="bob"))
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("look")

    assert str(await run.wait()) == 'stopped("loop")'


async def test_other_results_are_no_loop(manual_runtime: Start) -> None:
    """Looking again and again at something that changes is work."""
    count = 0

    @tool(effect="read")
    async def watch() -> int:
        """Watch."""
        nonlocal count
        count += 1
        return count

    model = ScriptedModel(*[tool_call("watch")] * 10, "Ten.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[watch]))

    assert await runtime.get(Clerk, "ada").ask("watch") == "Ten."
    assert all("in a row" not in text for text in results(model))


async def test_next_run_begins_to_count_anew(manual_runtime: Start) -> None:
    """What is asked for five times may be done five times."""
    steps = [step for _ in range(6) for step in (tool_call("look_up", name="bob"), "Main Street.")]
    model = ScriptedModel(*steps)
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")

    answers = [await ada.ask("where is bob?") for _ in range(6)]

    assert answers == ["Main Street."] * 6
    assert all("in a row" not in text for text in results(model))


async def test_loop_is_noticed_across_a_crash(manual_runtime: Start) -> None:
    """The count is taken from the log."""
    model = ScriptedModel(*[tool_call("look_up", name="bob")] * 4, [tool_call("wait")], "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=(office := Office()))
    run = await runtime.get(Clerk, "ada").submit("look")
    await until(lambda: len(model.requests) == 5)

    await runtime.crash()
    office.gate.set()
    await runtime.advance(31)

    assert await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.outcome_of(run.id))
    assert ["3 times" in text or "4 times" in text for text in results(model)] == [False, False, True, True, False]


def test_arguments_are_compared_by_their_meaning() -> None:
    """However they were written."""
    assert digest_of("a", '{"x": 1, "y": 2}', "r") == digest_of("a", '{"y":2,"x":1}', "r")
    assert digest_of("a", "{}", "r") != digest_of("a", "{}", "s")
    assert digest_of("a", "[" * 10_000, "r") != digest_of("a", "{", "r")
