"""Following a run as it goes (SPEC 13.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agentkit.errors import ModelError
from agentkit.harness import (
    CallEnded,
    CallStarted,
    Delta,
    Reply,
    Run,
    RunEnded,
    StreamEvent,
    TextDelta,
    TextDiscarded,
    Usage,
)
from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start


def shown(events: list[StreamEvent]) -> list[str]:
    """Return events in short."""
    return [_short(event) for event in events]


def _short(event: StreamEvent) -> str:
    match event:
        case TextDelta(text=text):
            return text
        case TextDiscarded():
            return "(void)"
        case CallStarted(tool=name):
            return f"{name}…"
        case CallEnded(tool=name, ending=ending):
            return f"{name}: {ending}"
        case RunEnded(outcome=outcome):
            return f"end: {outcome}"


async def followed(run: Run) -> list[StreamEvent]:
    """Follow a run to its end."""
    return [event async for event in run.stream()]


def joined(events: list[str]) -> list[str]:
    """Return events with neighbouring texts put together: how they are cut is up to who follows when."""
    together: list[str] = []
    for event in events:
        if together and event[-1] not in "…)" and ":" not in event + together[-1] and together[-1][-1] not in "…)":
            together[-1] += event
        else:
            together.append(event)
    return together


async def test_run_is_followed(manual_runtime: Start) -> None:
    """Text as it comes, calls as they begin and end, then the outcome."""
    answer = Reply(text="I look.", calls=(tool_call("look_up", name="bob"), tool_call("fail")))
    runtime = await manual_runtime(Clerk, model=ScriptedModel(answer, "Main Street."), deps=Office())
    run = await runtime.get(Clerk, "ada").submit("where is bob?")

    events = await followed(run)

    assert joined(shown(events)) == [
        "I look.",
        "look_up…",
        "look_up: result",
        "fail…",
        "fail: error",
        "Main Street.",
        "end: completed",
    ]


async def test_run_is_followed_afterwards(manual_runtime: Start) -> None:
    """From its beginning, as often as anybody likes, also in another life of the agent; only that run."""
    model = ScriptedModel("Before.", tool_call("look_up", name="bob"), "Main Street.", "After.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("one")
    run = await ada.submit("two")
    await run.wait()
    await ada.ask("three")
    first = await followed(run)

    await runtime.crash()
    again = await ada.use(lambda clerk: clerk.harness.get(run.id))
    assert again is not None
    second = await followed(again)

    expected = ["look_up…", "look_up: result", "Main Street.", "end: completed"]
    assert joined(shown(first)) == joined(shown(second)) == expected


class Stepwise:
    """Answers a word at a time, each when it is told to."""

    name = "stepwise"

    def __init__(self) -> None:
        self.words: asyncio.Queue[str | Exception | None] = asyncio.Queue()

    async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
        text = ""
        while (word := await self.words.get()) is not None:
            if isinstance(word, Exception):
                raise word
            text += word
            yield Delta(text=word)
        yield Reply(text=text, usage=Usage(input_tokens=1, output_tokens=1))


async def test_text_is_shown_before_the_answer_is_whole(manual_runtime: Start) -> None:
    """To whoever follows, also to one who joins in the middle."""
    model = Stepwise()
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hi")
    first = run.stream()
    model.words.put_nowait("Good ")
    begun = await anext(first)

    second = run.stream()
    joined_late = await anext(second)
    model.words.put_nowait("day")
    more = [await anext(first), await anext(second)]
    model.words.put_nowait(None)
    rest = [event async for event in first]

    assert [begun, joined_late, *more] == [TextDelta(text=word) for word in ("Good ", "Good ", "day", "day")]
    assert shown(rest) == ["end: completed"]


async def test_text_of_a_broken_answer_is_void(manual_runtime: Start) -> None:
    """Who follows is told, then sees the new one from its beginning."""
    model = Stepwise()
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hi")
    stream = run.stream()
    model.words.put_nowait("Goo")
    events = [await anext(stream)]

    for word in (ModelError("it broke", is_passing=True), "Hello.", None):
        model.words.put_nowait(word)
    await runtime.advance(3)
    events += [event async for event in stream]

    assert joined(shown(events)) == ["Goo", "(void)", "Hello.", "end: completed"]


async def test_cancelled_run_is_followed_to_its_end(manual_runtime: Start) -> None:
    """What the harness closes the turn with is no text of the model's."""
    model = Stepwise()
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hi")
    stream = run.stream()
    model.words.put_nowait("Goo")
    events = [await anext(stream)]

    await run.cancel()
    events += [event async for event in stream]

    assert shown(events) == ["Goo", "end: cancelled"]


async def test_leaving_a_stream_cancels_nothing(manual_runtime: Start) -> None:
    """Somebody closes the page; the answer is there when they come back."""
    model = Stepwise()
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hi")
    stream = run.stream()
    model.words.put_nowait("Hello.")
    await anext(stream)

    await stream.aclose()  # type: ignore[attr-defined]  # an async generator
    model.words.put_nowait(None)

    assert (await run.wait()).text == "Hello."


async def test_run_that_waits_is_followed(manual_runtime: Start) -> None:
    """One that is queued, and one that waits for a person: events come once something happens."""
    model = ScriptedModel(tool_call("sign", paper="a"), "One.", "Two.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    ada = runtime.get(Clerk, "ada")
    first, second = await ada.submit("one"), await ada.submit("two")
    following = [asyncio.ensure_future(followed(run)) for run in (first, second)]
    await runtime.advance(1)
    [call] = await ada.use(lambda clerk: clerk.harness.pending())

    await ada.use(lambda clerk: clerk.harness.decide(call.call_id, True, "eve"))
    events = await asyncio.gather(*following)

    assert [joined(shown(each)) for each in events] == [
        ["sign…", "sign: result", "One.", "end: completed"],
        ["Two.", "end: completed"],
    ]


async def test_follower_that_is_slow(manual_runtime: Start) -> None:
    """However long it takes over an event, it gets the text once, and in its place."""

    class Slow(ScriptedModel):
        async def reply(self, request: Any) -> AsyncIterator[Delta | Reply]:
            async for part in super().reply(request):
                yield part
                for _ in range(3):
                    await asyncio.sleep(0)

    calls = tuple(tool_call("look_up", name=name) for name in ("bob", "eve"))
    steps: list[Any] = [
        Reply(text="one two three", calls=calls),
        Reply(text="four five", calls=calls[:1]),
        "six seven eight nine",
    ]
    model = Slow(*steps)
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("go")

    async def follow(pause: int) -> list[str]:
        events = []
        async for event in run.stream():
            events.append(event)
            for _ in range((pause * len(events)) % 23):
                await asyncio.sleep(0)
        return joined(shown(events))

    seen = await asyncio.gather(*(follow(pause) for pause in range(40)))

    once = ["look_up…", "look_up: result"]
    assert all(
        each == ["one two three", *once, *once, "four five", *once, "six seven eight nine", "end: completed"]
        for each in seen
    )
