"""A kill right before and after each commit of a run: it goes on, and nothing happens twice (SPEC 13.3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentkit.harness import AssistantMessage, ChatRequest, ToolMessage, tool
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, stored
from tests.harness.kills import Killer, When

ANSWER = "All of it is done."


@tool(effect="read")
async def read(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "words " * 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run that is killed, and what is true whenever that happens.

    Attributes:
        script: What the model says.
        office: Where it plays.
        check: Looks at what happened outside.
    """

    script: Callable[[], ScriptedModel]
    office: Callable[[], Office]
    check: Callable[[Office], None]


def check_calls(office: Office) -> None:
    """What happens once happened at most once, and what was repeated had the key of the first time."""
    times = Counter(text for text, _ in office.sent)
    assert times["bob: hi"] <= 1
    assert times["eve: hello"] <= 1
    assert 1 <= times["map"] <= 2
    assert len({key for text, key in office.sent if text == "map"}) == 1


def check_signed(office: Office) -> None:
    """What a person has approved is done at most once, and what was declined never."""
    assert Counter(office.sent)["lease", "signed"] <= 1
    assert ("will", "signed") not in office.sent


STORIES = {
    "calls of each kind": Story(
        script=lambda: ScriptedModel(
            [tool_call("look_up", name="bob"), tool_call("look_up", name="eve"), tool_call("file", paper="map")],
            tool_call("send", to="bob", text="hi"),
            [tool_call("send", to="eve", text="hello"), tool_call("nonsense"), tool_call("fail")],
            ANSWER,
        ),
        office=Office,
        check=check_calls,
    ),
    "decisions of a person": Story(
        script=lambda: ScriptedModel(
            [tool_call("look_up", name="bob"), tool_call("sign", paper="lease"), tool_call("sign", paper="will")],
            ANSWER,
        ),
        office=Office,
        check=check_signed,
    ),
    "more than the model takes": Story(
        script=lambda: ScriptedModel(*[tool_call("read", page=page) for page in range(7)], ANSWER, usage=None),
        office=lambda: Office(more=[read], context_tokens=4_000, max_tokens=500),
        check=lambda office: None,
    ),
}


async def decide(clerk: Clerk) -> None:
    """Decide about what waits: the lease is signed, the will is not."""
    for call in await clerk.harness.pending():
        await clerk.harness.decide(call.call_id, "lease" in call.arguments, "eve")


async def play(ada: Clerk) -> str:
    """Ask, and decide whenever something waits."""
    run = await ada.submit("do it all", key="once")
    while (outcome := await run.outcome()) is None:
        await ada.use(decide)
        await asyncio.sleep(0)
    return outcome.text


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


async def live(story: Story, when: When, number: int) -> bool:
    """Play a story that is killed at one commit; False if there is no such commit."""
    killer, model, office = Killer(when, number), story.script(), story.office()
    store = SqliteStore(":memory:", commit_hook=killer)
    async with ManualRuntime(Clerk, store=store, model=model, deps=office) as runtime:
        ada = runtime.get(Clerk, "ada")
        await ada.use(lambda clerk: clerk.storage.put("ready", True))
        killed = await killer.kill_during(runtime, play(ada))

        await runtime.advance(31)
        answer = await play(ada)

        [run] = (await stored(runtime, "run:")).values()
        log = await stored(runtime, "msg:")
        usage = await stored(runtime, "usage:")
        jobs = await store.jobs(next(iter(await store.agents())).agent)
    assert answer == ANSWER
    assert all(is_acceptable(request) for request in model.requests)
    story.check(office)
    check_record(run, log, usage)
    assert jobs == []
    return killed


def check_record(run: dict[str, Any], log: dict[str, Any], usage: dict[str, Any]) -> None:
    """The run is over, every call has a result, no line is missing, and what the answers took is counted."""
    lines = list(log.values())
    assert run["status"] == "completed"
    assert [line["number"] for line in lines] == list(range(len(lines)))
    assert {line["state"] for line in lines if line["role"] == "tool"} == {"done"}
    assert run["turns"] == sum(1 for line in lines if line["role"] == "assistant") <= len(usage)
    assert run["usage"]["input_tokens"] == sum(used["input_tokens"] for used in usage.values()) > 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", STORIES)
async def test_kill_at_each_commit(name: str, when: When) -> None:
    """The same answer, each ``once`` effect at most once, no usage lost, a history that every provider takes."""
    kills = 0

    while await live(STORIES[name], when, kills + 1):
        kills += 1

    assert kills >= 7
