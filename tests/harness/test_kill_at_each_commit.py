"""A kill right before and after each commit of a run: it goes on, and nothing happens twice (SPEC 13.3)."""

from __future__ import annotations

from collections import Counter

import pytest

from agentkit.harness import AssistantMessage, ChatRequest, ToolMessage, Usage
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, stored
from tests.harness.kills import Killer, When

ANSWER = "All of it is done."
_PER_ANSWER = Usage(input_tokens=10, output_tokens=5)


def script() -> ScriptedModel:
    """Calls of each kind: several that only read, one to be repeated, one that happens once, a wrong one."""
    return ScriptedModel(
        [tool_call("look_up", name="bob"), tool_call("look_up", name="eve"), tool_call("file", paper="map")],
        tool_call("send", to="bob", text="hi"),
        [tool_call("send", to="eve", text="hello"), tool_call("nonsense"), tool_call("fail")],
        ANSWER,
    )


def is_acceptable(request: ChatRequest) -> bool:
    """Tell whether a provider takes it: each call has one result, in order, right behind the answer."""
    messages = list(request.messages)
    while messages:
        first = messages.pop(0)
        if isinstance(first, AssistantMessage):
            results = [messages.pop(0) for _ in first.calls if messages]
            ids = [result.call_id if isinstance(result, ToolMessage) else None for result in results]
            if ids != [call.id for call in first.calls]:
                return False
        elif isinstance(first, ToolMessage):
            return False
    return True


async def live(when: When, number: int) -> bool:
    """Play a run that is killed at one commit; False if there is no such commit."""
    killer, model, office = Killer(when, number), script(), Office()
    store = SqliteStore(":memory:", commit_hook=killer)
    async with ManualRuntime(Clerk, store=store, model=model, deps=office) as runtime:
        ada = runtime.get(Clerk, "ada")
        await ada.use(lambda clerk: clerk.storage.put("ready", True))
        killed = await killer.kill_during(runtime, ada.ask("do it all", key="once"))

        await runtime.advance(31)
        answer = await ada.ask("do it all", key="once")

        [run] = (await stored(runtime, "run:")).values()
        log = await stored(runtime, "msg:")
        usage = await stored(runtime, "usage:")
        jobs = await store.jobs(next(iter(await store.agents())).agent)
    assert answer == ANSWER
    assert all(is_acceptable(request) for request in model.requests)
    check_effects(office)
    assert run["status"] == "completed"
    assert run["turns"] == len(usage) == 4
    assert run["usage"]["input_tokens"] == 4 * _PER_ANSWER.input_tokens
    assert [line["state"] for line in log.values() if line["role"] == "tool"] == ["done"] * 7
    assert jobs == []
    return killed


def check_effects(office: Office) -> None:
    """What happens once happened at most once, and what was repeated had the key of the first time."""
    times = Counter(text for text, _ in office.sent)
    assert times["bob: hi"] <= 1
    assert times["eve: hello"] <= 1
    assert 1 <= times["map"] <= 2
    assert len({key for text, key in office.sent if text == "map"}) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_kill_at_each_commit(when: When) -> None:
    """The same answer, each ``once`` effect at most once, no usage lost, a history that every provider takes."""
    kills = 0

    while await live(when, kills + 1):
        kills += 1

    assert kills >= 10
