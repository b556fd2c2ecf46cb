"""Conversations that grow longer than the model's context (SPEC 13.6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentkit.errors import ContextOverflowError, HarnessError, ModelError
from agentkit.harness import (
    AssistantMessage,
    CallEntry,
    ChatRequest,
    Reply,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    tool,
)
from agentkit.harness.compacting import cut_at, to_record
from agentkit.harness.messages import check_history
from agentkit.harness.records import AnswerEntry, UserEntry
from agentkit.testing import ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, stored
from tests.harness.test_growth import CountingStore


@tool(effect="read")
async def read(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "words " * 500


def reading(pages: int, *rest: Any) -> ScriptedModel:
    """Return a model that reads many pages, and doesn't count tokens."""
    calls = [tool_call("read", page=page) for page in range(pages)]
    return ScriptedModel(*calls, *(rest or ("Read.",)), usage=None)


def small(**options: Any) -> Office:
    """Return an office whose model takes 4,000 tokens: about five pages."""
    return Office(more=[read], context_tokens=4_000, max_tokens=500, **options)


def size(request: ChatRequest) -> int:
    """Return how many characters a request has."""
    return sum(len(message.text) for message in request.messages)


async def test_long_run_is_compacted(manual_runtime: Start) -> None:
    """Every request fits, keeps the request of the user, and is a history that a provider takes; the log is whole."""
    model = reading(30)
    runtime = await manual_runtime(Clerk, model=model, deps=small())
    ada = runtime.get(Clerk, "ada")

    answer = await ada.ask("Read all of it, but nothing about cats.")

    log = await ada.use(lambda clerk: clerk.harness.log(limit=1_000))
    summaries = [request for request in model.requests if request.purpose == "summary"]
    assert answer == "Read."
    assert len(summaries) > 3
    assert all(size(request) < 4 * 4_000 for request in model.requests)
    for request in model.requests:
        check_history(request.messages)
        assert "but nothing about cats" in request.messages[0].text
    assert "Much was said." in model.requests[-1].messages[0].text
    assert len(log) == 1 + 30 * 2 + 1
    assert all(len(line.text) > 3_000 for line in log if isinstance(line, CallEntry))
    assert runtime.events.count("harness:compact") == len(summaries)


async def test_long_conversation_is_compacted(manual_runtime: Start) -> None:
    """Between its runs as well; each summary is made of the one before and what came since."""
    answers = [f"Answer {number}. " + "words " * 400 for number in range(40)]
    model = ScriptedModel(*answers, summary="They talked.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=small())
    ada = runtime.get(Clerk, "ada")

    for number in range(40):
        await ada.ask(f"Question {number}?")

    asked = [request for request in model.requests if request.purpose == "answer"]
    summaries = [request for request in model.requests if request.purpose == "summary"]
    assert all(size(request) < 4 * 4_000 for request in model.requests)
    assert [request.messages[-1].text.endswith(f"Question {number}?") for number, request in enumerate(asked)] == [
        True
    ] * 40
    assert "They talked." in summaries[-1].messages[0].text
    assert all(isinstance(request.messages[0], UserMessage) for request in asked)
    assert all(not isinstance(request.messages[1:2], UserMessage) for request in asked)


async def test_counted_tokens_decide(manual_runtime: Start) -> None:
    """What the server counted is trusted more than the length of the text."""

    def answer(_: ChatRequest) -> Reply:
        return Reply(text="short " * 300, usage=Usage(input_tokens=3_500, output_tokens=10))

    model = ScriptedModel(answer, answer)
    runtime = await manual_runtime(Clerk, model=model, deps=small())
    ada = runtime.get(Clerk, "ada")

    await ada.ask("one")
    await ada.ask("two")

    assert [request.purpose for request in model.requests] == ["answer", "summary", "answer"]


async def test_view_after_a_crash_is_the_compacted_one(manual_runtime: Start) -> None:
    """Only the lines from the summary on are read."""
    store = CountingStore()
    model = reading(30, "Read.", "Again.")
    runtime = await manual_runtime(Clerk, store=store, model=model, deps=small())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("Read all of it")
    await runtime.crash()
    store.counts()

    await ada.ask("Again?")

    assert store.counts()[0] < 30
    assert "Much was said." in model.requests[-1].messages[0].text


@pytest.mark.parametrize("tries", [1, 3])
async def test_overflow_is_mended(manual_runtime: Start, tries: int) -> None:
    """A model that takes less than was thought: the conversation is shortened until it fits."""
    overflow = [ContextOverflowError("too long") for _ in range(tries)]
    model = ScriptedModel(*[tool_call("read", page=page) for page in range(9)], *overflow, "Read.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[read]))

    answer = await runtime.get(Clerk, "ada").ask("Read all of it")

    asked = [request for request in model.requests if request.purpose == "answer"]
    before, last = size(asked[9]), size(asked[-1])
    assert answer == "Read."
    assert last < before / 2**tries


async def test_overflow_that_stays_is_a_failure(manual_runtime: Start) -> None:
    """In the end the run says that its conversation is too long."""
    model = ScriptedModel(*[ContextOverflowError("too long for it") for _ in range(9)])
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    run = await runtime.get(Clerk, "ada").submit("hello " * 1_000)

    outcome = await run.wait()

    assert (outcome.status, outcome.reason) == ("failed", "too long for it")


async def test_results_of_one_turn_that_are_too_long(manual_runtime: Start) -> None:
    """They are shortened together, and kept as they were."""

    @tool(effect="read")
    async def dump(number: int) -> str:
        """Dump."""
        return f"{number}" * 20_000

    office = small()
    office.more.append(dump)
    model = ScriptedModel([tool_call("dump", number=number) for number in range(9)], "Read.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")

    await ada.ask("Read all of it")

    log = await ada.use(lambda clerk: clerk.harness.log())
    [first, *_] = [line for line in log if isinstance(line, CallEntry)]
    full = await ada.use(lambda clerk: clerk.harness.full_result(first.call_id))
    assert size(model.requests[-1]) < 4 * 4_000
    assert len([message for message in model.requests[-1].messages if isinstance(message, ToolMessage)]) == 9
    assert full == "0" * 20_000


async def test_model_that_makes_no_summary_is_done_without(manual_runtime: Start) -> None:
    """A poor memory is better than none."""

    class Speechless(ScriptedModel):
        async def reply(self, request: ChatRequest) -> Any:
            if request.purpose == "summary":
                self.requests.append(request)
                raise ModelError("no")
            async for part in super().reply(request):
                yield part

    model = Speechless(*[tool_call("read", page=page) for page in range(20)], "Read.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=small())

    assert await runtime.get(Clerk, "ada").ask("Read all of it") == "Read."
    assert all(size(request) < 4 * 4_000 for request in model.requests)


@pytest.mark.parametrize("useless", [Reply(), Reply(finish="length"), Reply(calls=(tool_call("read", page=1),))])
async def test_summary_that_says_nothing_is_done_without(manual_runtime: Start, useless: Reply) -> None:
    """It costs two tries at most, and doesn't count against the answers."""

    class Speechless(ScriptedModel):
        def _to_reply(self, answer: Any) -> Reply:
            return useless if answer is self.summary else super()._to_reply(answer)

    hiccups = [ModelError("hiccup", is_passing=True)] * 4
    steps: list[Any] = [step for page in range(8) for step in (*hiccups, tool_call("read", page=page))]
    model = Speechless(*steps, "Read.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=small())
    run = await runtime.get(Clerk, "ada").submit("Read all of it")
    await runtime.advance(3_600)

    outcome = await run.outcome()

    summaries = [request for request in model.requests if request.purpose == "summary"]
    compactions = runtime.events.count("harness:compact")
    assert str(outcome) == "completed"
    assert compactions > 0
    assert len(summaries) <= 2 * compactions
    assert "page 0" in model.requests[-1].messages[0].text


async def test_busy_server_while_a_summary_is_made(manual_runtime: Start) -> None:
    """It is asked again, as for any answer; the usage of all is counted."""

    class Busy(ScriptedModel):
        is_busy = True

        async def reply(self, request: ChatRequest) -> Any:
            if request.purpose == "summary" and self.is_busy:
                self.is_busy = False
                raise ModelError("busy", is_passing=True, wait=timedelta(hours=1))
            async for part in super().reply(request):
                yield part

    model = Busy(*[tool_call("read", page=page) for page in range(6)], "Read.", usage=None)
    runtime = await manual_runtime(Clerk, model=model, deps=small())
    run = await runtime.get(Clerk, "ada").submit("Read all of it")
    await runtime.advance(3_599)
    early = await run.outcome()
    await runtime.advance(1)

    outcome = await run.outcome()
    assert early is None
    assert outcome is not None
    assert outcome.text == "Read."
    assert len(await stored(runtime, "usage:")) == len(model.requests)


# --- where it is cut


def line(number: int, text: str = "") -> Any:
    """Return a line of a log: of a user, an answer, and two calls, again and again."""
    match number % 4:
        case 0:
            return UserEntry(number=number, run="r", text=text)
        case 1:
            return AnswerEntry(number=number, run="r", text=text, source="m")
        case _:
            return CallEntry(number=number, run="r", id=str(number), name="t", effect="read", text=text, state="done")


@pytest.mark.parametrize("tokens", range(0, 300, 7))
def test_cut_is_never_within_a_turn(tokens: int) -> None:
    """A call stays with its result, the latest turn is kept, and no more than wanted besides."""
    entries = [line(number, "four" * 10) for number in range(24)]

    start = cut_at(entries, tokens)

    kept = entries[start:]
    assert not isinstance(kept[0], CallEntry)
    assert len(kept) >= 3
    assert len(kept) * 10 <= max(tokens, 30)


def test_record_is_bounded() -> None:
    """However long the lines and however many."""
    entries = [line(number, "x" * 5_000) for number in range(100)]

    record = to_record(entries, longest=10_000)

    assert len(record) < 10_200


def test_history_that_no_provider_takes_is_noticed() -> None:
    """A result that is missing, one too many, one in the wrong place."""
    asked = AssistantMessage(text="", calls=(ToolCall(id="a", name="t"), ToolCall(id="b", name="t")))
    results = [ToolMessage(call_id=id, name="t", text="") for id in ("a", "b")]
    user = UserMessage(text="hi")

    wrong: list[list[Any]] = [
        [asked],
        [asked, results[0]],
        [asked, results[1], results[0]],
        [asked, user, *results],
        [asked, *results, results[0]],
        [results[0]],
    ]
    for messages in wrong:
        with pytest.raises(HarnessError):
            check_history(messages)
    check_history([user, asked, *results, user])
