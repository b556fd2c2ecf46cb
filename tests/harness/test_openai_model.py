"""What goes over the wire, and what is made of what comes back (SPEC 13.5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import respx

from agentkit.errors import AgentKitError, ConfigurationError, ContextOverflowError, ModelError
from agentkit.harness import (
    AssistantMessage,
    ChatRequest,
    Delta,
    OpenAIModel,
    OutputSpec,
    Reply,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from tests.harness.wire import CHAT, URL, call, chunk, end, refused, response, serving, sse, streamed, text, usage

KEY = "sk-secret-key"
HELLO = ChatRequest(instructions="Be kind.", messages=(UserMessage(text="hello"),))


@pytest.fixture
async def http_client() -> AsyncIterator[httpx.AsyncClient]:
    """A client that respx sees."""
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
def model(http_client: httpx.AsyncClient) -> OpenAIModel:
    """A model behind respx."""
    return OpenAIModel("small", base_url=URL, api_key=KEY, http_client=http_client)


async def answer(model: OpenAIModel, request: ChatRequest = HELLO) -> Reply:
    """Return the answer to a request."""
    *_, reply = [part async for part in model.reply(request)]
    assert isinstance(reply, Reply)
    return reply


async def error_of(model: OpenAIModel, request: ChatRequest = HELLO) -> AgentKitError:
    """Return the error that a request ends with; no key is in it."""
    with pytest.raises(AgentKitError) as caught:
        await answer(model, request)
    assert KEY not in str(caught.value)
    return caught.value


@respx.mock
async def test_text_comes_bit_by_bit(model: OpenAIModel) -> None:
    """Then the whole of it, with what it took."""
    respx.post(CHAT).mock(return_value=streamed([*text("Good ", "day"), end(), usage(12, 3)]))

    parts = [part async for part in model.reply(HELLO)]

    bits = [part.text for part in parts if isinstance(part, Delta)]
    assert [bit for bit in bits if bit] == ["Good ", "day"]
    assert parts[-1] == Reply(text="Good day", usage=Usage(input_tokens=12, output_tokens=3))


@respx.mock
async def test_request(model: OpenAIModel) -> None:
    """The conversation as the wire has it: calls with an empty text, each result after its call."""
    route = respx.post(CHAT).mock(return_value=streamed([*text("ok"), end()]))
    asked = AssistantMessage(text="", calls=(ToolCall(id="a", name="add", arguments='{"a": 1}'),))
    request = ChatRequest(
        instructions="Be kind.",
        messages=(UserMessage(text="add"), asked, ToolMessage(call_id="a", name="add", text="2")),
        tools=(ToolSpec(name="add", description="Add.", schema={"type": "object"}),),
        output=OutputSpec(name="Sum", schema={"type": "object"}),
        max_tokens=77,
    )

    await answer(model, request)

    sent = json.loads(route.calls[0].request.content)
    assert route.calls[0].request.headers["authorization"] == f"Bearer {KEY}"
    assert sent == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "add"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "2"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 77,
        "tools": [
            {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "Sum", "schema": {"type": "object"}}},
    }


CALLS = [
    pytest.param(
        [call(0, "a", "add", '{"a"'), call(0, None, None, ": 1}"), call(1, "b", "sub", "{}")],
        [("a", "add", '{"a": 1}'), ("b", "sub", "{}")],
        id="in parts",
    ),
    pytest.param(
        [call(0, "a", "add", "{"), call(0, "a", "add", '"a": 1'), call(0, "a", "add", "}")],
        [("a", "add", '{"a": 1}')],
        id="name in each part",
    ),
    pytest.param(
        [call(0, "a", "add", '{"a": 1}'), call(0, "b", "add", '{"a": 2}')],
        [("a", "add", '{"a": 1}'), ("b", "add", '{"a": 2}')],
        id="all numbered 0",
    ),
    pytest.param(
        [
            call(0, "a", "add", ""),
            call(0, None, None, '{"a": 1}'),
            call(0, "b", "add", '{"a"'),
            call(0, None, None, ": 2}"),
        ],
        [("a", "add", '{"a": 1}'), ("b", "add", '{"a": 2}')],
        id="all numbered 0, named in the first part",
    ),
    pytest.param(
        [
            chunk({"tool_calls": [{"id": "a", "function": {"name": "add", "arguments": ""}}]}),
            chunk({"tool_calls": [{"function": {"arguments": '{"a": 1}'}}]}),
            chunk({"tool_calls": [{"id": "b", "function": {"name": "add", "arguments": ""}}]}),
            chunk({"tool_calls": [{"function": {"arguments": '{"a": 2}'}}]}),
        ],
        [("a", "add", '{"a": 1}'), ("b", "add", '{"a": 2}')],
        id="not numbered, named in the first part",
    ),
    pytest.param(
        [
            call(0, "a", "add", '{"a"'),
            call(1, "b", "sub", '{"b"'),
            call(0, None, None, ": 1}"),
            call(1, "", "", ": 2}"),
        ],
        [("a", "add", '{"a": 1}'), ("b", "sub", '{"b": 2}')],
        id="interleaved",
    ),
    pytest.param([call(0, "a", "add", {"a": [1]})], [("a", "add", '{"a": [1]}')], id="an object"),
    pytest.param([call(0, "a", "add", [1])], [("a", "add", "[1]")], id="a list, which is invalid"),
    pytest.param([call(0, "a", "add", 0)], [("a", "add", "0")], id="a number, which is invalid"),
    pytest.param(
        [call(0, "a", "add", {}), call(0, None, None, '{"a": 1}')], [("a", "add", '{"a": 1}')], id="object, text"
    ),
    pytest.param([call(0, "a", "add", None)], [("a", "add", "{}")], id="nothing"),
    pytest.param([call(0, "a", "add", "")], [("a", "add", "{}")], id="no arguments"),
    pytest.param(
        [
            chunk(
                {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "add", "arguments": "{}"}},
                        {"id": "b", "function": {"name": "sub", "arguments": "{}"}},
                    ]
                }
            )
        ],
        [("a", "add", "{}"), ("b", "sub", "{}")],
        id="not numbered",
    ),
]


@pytest.mark.parametrize(("chunks", "calls"), CALLS)
@respx.mock
async def test_calls_are_put_together(model: OpenAIModel, chunks: list[Any], calls: list[tuple[str, str, str]]) -> None:
    """However a server sends their parts."""
    respx.post(CHAT).mock(return_value=streamed([*chunks, end("tool_calls")]))

    reply = await answer(model)

    assert [(each.id, each.name, each.arguments) for each in reply.calls] == calls
    assert reply.finish == "stop"


@respx.mock
async def test_what_a_provider_adds_goes_back_to_it_alone(model: OpenAIModel, http_client: httpx.AsyncClient) -> None:
    """Thinking and signatures, word for word; another provider would refuse them."""
    thinking = [chunk({"reasoning_content": "I "}), chunk({"reasoning_content": "think", "content": ""})]
    signed = call(0, "a", "add", "{}", extra_content={"signature": "xyz"})
    route = respx.post(CHAT).mock(return_value=streamed([*thinking, signed, end("tool_calls")]))
    reply = await answer(model)
    said = AssistantMessage(text="", calls=reply.calls, source=model.name, extra=reply.extra)
    messages = (UserMessage(text="add"), said, ToolMessage(call_id="a", name="add", text="2"))
    other = OpenAIModel("large", base_url=URL, api_key=KEY, http_client=http_client)

    for each in (model, other):
        await answer(each, ChatRequest(instructions="", messages=messages))

    own, others = (json.loads(sent.request.content)["messages"][1] for sent in list(route.calls)[1:])
    assert own["reasoning_content"] == "I think"
    assert own["tool_calls"][0]["extra_content"] == {"signature": "xyz"}
    assert others.keys() == {"role", "content", "tool_calls"}
    assert others["tool_calls"][0].keys() == {"id", "type", "function"}


@pytest.mark.parametrize(("finish", "told"), [("length", "length"), ("content_filter", "refused"), ("eos", "stop")])
@respx.mock
async def test_why_it_ended(model: OpenAIModel, finish: str, told: str) -> None:
    """An end that nobody knows is one; one that was cut off or held back is told apart."""
    respx.post(CHAT).mock(return_value=streamed([*text("well"), end(finish)]))

    reply = await answer(model)

    assert reply.finish == told


# --- what servers get wrong


@respx.mock
async def test_whole_answer_with_arguments_as_an_object(model: OpenAIModel) -> None:
    """Also where nothing is streamed."""
    called = {"id": "a", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    whole = {"choices": [{"message": {"role": "assistant", "tool_calls": [called]}, "finish_reason": "tool_calls"}]}
    respx.post(CHAT).mock(return_value=httpx.Response(200, json=whole))

    reply = await answer(model)

    assert [each.arguments for each in reply.calls] == ['{"a": 1}']


@pytest.mark.parametrize("length", range(240, 301, 10))
@respx.mock
async def test_no_part_of_a_key_is_told(model: OpenAIModel, length: int) -> None:
    """A server may quote it anywhere in its message, and messages are cut."""
    respx.post(CHAT).mock(return_value=refused(400, f"{'x' * length} {KEY} is wrong"))

    error = await error_of(model)

    assert KEY[:4] not in str(error)


@pytest.mark.parametrize("is_done", [True, False])
@respx.mock
async def test_end_without_a_reason_is_a_failure(model: OpenAIModel, is_done: bool) -> None:
    """The connection was lost without anybody saying so."""
    respx.post(CHAT).mock(return_value=streamed(text("Good "), is_done=is_done))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert error.is_passing


def test_key_from_a_file(http_client: httpx.AsyncClient) -> None:
    """Its newline is no part of it; what no header can carry is refused at once, and not shown."""
    kept = OpenAIModel("small", api_key=None, environment={"OPENAI_API_KEY": f" {KEY}\n"}, http_client=http_client)

    assert kept._settings.api_key == KEY
    for wrong in ("sk-é", "sk-a\nb", "sk-\x00"):
        with pytest.raises(ConfigurationError, match="no header can carry") as caught:
            OpenAIModel("small", api_key=wrong)
        assert wrong not in str(caught.value)


@respx.mock
async def test_page_instead_of_an_answer(model: OpenAIModel) -> None:
    """The URL is wrong: trying again doesn't help."""
    page = httpx.Response(200, headers={"content-type": "text/html"}, content=b"<html>Welcome</html>")
    respx.post(CHAT).mock(return_value=page)

    error = await error_of(model)

    assert isinstance(error, ConfigurationError)
    assert "OPENAI_BASE_URL" in str(error)


@respx.mock
async def test_answer_that_is_not_streamed(model: OpenAIModel) -> None:
    """A server that doesn't stream is understood all the same."""
    message = {"role": "assistant", "content": "Good day"}
    whole = {
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    respx.post(CHAT).mock(return_value=httpx.Response(200, json=whole))

    reply = await answer(model)

    assert reply == Reply(text="Good day", usage=Usage(input_tokens=1, output_tokens=2))


NONSENSE = [
    pytest.param(["this is no json"], id="no json"),
    pytest.param([[1, 2, 3], end()], id="a list"),
    pytest.param([{"choices": "many"}, end()], id="choices of another kind"),
    pytest.param([{"choices": [{"delta": {"tool_calls": "no"}}]}, end()], id="calls of another kind"),
    pytest.param(["[" * 100_000], id="deep"),
]


@pytest.mark.parametrize("chunks", NONSENSE)
@respx.mock
async def test_nonsense_is_a_failure(model: OpenAIModel, chunks: list[Any]) -> None:
    """Of the kind that another try may mend, and nothing else."""
    respx.post(CHAT).mock(return_value=streamed(chunks))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert error.is_passing


@respx.mock
async def test_json_that_is_no_completion(model: OpenAIModel) -> None:
    """An empty answer in the wrong form."""
    respx.post(CHAT).mock(return_value=httpx.Response(200, json={"status": "ok"}))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert error.is_passing


@respx.mock
async def test_error_in_the_middle_of_an_answer(model: OpenAIModel) -> None:
    """A server may tell of it in the stream."""
    respx.post(CHAT).mock(return_value=streamed([*text("Good "), {"error": {"message": "overloaded"}}]))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert error.is_passing
    assert "overloaded" in str(error)


# --- statuses


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (429, {"retry-after": "5"}, timedelta(seconds=5)),
        (429, {"retry-after-ms": "1500"}, timedelta(seconds=1.5)),
        (429, {}, None),
        (503, {"retry-after": "7200"}, timedelta(hours=2)),
        (500, {}, None),
        (408, {}, None),
    ],
)
@respx.mock
async def test_busy_server(model: OpenAIModel, status: int, headers: dict[str, str], wait: timedelta | None) -> None:
    """One request, and how long it asks to wait: waiting is the harness's business."""
    route = respx.post(CHAT).mock(return_value=refused(status, headers=headers))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert (error.is_passing, error.wait) == (True, wait)
    assert route.call_count == 1


@pytest.mark.parametrize(
    ("status", "error", "about"),
    [
        (401, {}, "OPENAI_API_KEY"),
        (403, {}, "OPENAI_API_KEY"),
        (404, {}, "knows no model 'small'"),
        (429, {"code": "insufficient_quota"}, "billing"),
    ],
)
@respx.mock
async def test_what_only_people_can_mend(model: OpenAIModel, status: int, error: dict[str, Any], about: str) -> None:
    """One clear error, without the key."""
    respx.post(CHAT).mock(return_value=refused(status, f"wrong key {KEY}", **error))

    found = await error_of(model)

    assert isinstance(found, ConfigurationError)
    assert about in str(found)


@respx.mock
async def test_refused_request_is_final_and_shows_no_key(model: OpenAIModel) -> None:
    """The server's reason is in the message."""
    respx.post(CHAT).mock(return_value=refused(400, f"bad request of {KEY}"))

    error = await error_of(model)

    assert isinstance(error, ModelError)
    assert not error.is_passing
    assert "bad request of …" in str(error)


@pytest.mark.parametrize(
    "response",
    [
        refused(400, "too long", code="context_length_exceeded"),
        refused(400, "This model's maximum context length is 4096 tokens"),
        refused(500, "the request exceeds the available context size"),
        refused(413, "payload too large"),
        streamed([{"error": {"message": "context window exceeded"}}]),
    ],
)
@respx.mock
async def test_conversation_that_is_too_long(model: OpenAIModel, response: httpx.Response) -> None:
    """Told apart, since it can be shortened."""
    respx.post(CHAT).mock(return_value=response)

    error = await error_of(model)

    assert isinstance(error, ContextOverflowError)


# --- what it learns


@pytest.mark.parametrize(
    ("response", "gone", "instead"),
    [
        (refused(400, "Unsupported parameter", param="max_tokens"), "max_tokens", "max_completion_tokens"),
        (refused(422, "stream_options: extra inputs are not permitted"), "stream_options", None),
        (refused(500, "response_format of type json_schema is not supported"), "response_format", None),
    ],
)
@respx.mock
async def test_field_that_a_server_refuses_is_left_out(
    model: OpenAIModel, response: httpx.Response, gone: str, instead: str | None
) -> None:
    """At once, and in every request from then on."""
    good = streamed([*text("ok"), end()])
    route = respx.post(CHAT).mock(side_effect=[response, good, good])
    request = ChatRequest(
        instructions="", messages=HELLO.messages, output=OutputSpec(name="Any", schema={"type": "object"})
    )

    await answer(model, request)
    await answer(model, request)

    first, *later = (json.loads(sent.request.content) for sent in route.calls)
    assert gone in first
    assert all(gone not in body for body in later)
    assert instead is None or all(instead in body for body in later)


@respx.mock
async def test_further_options_are_sent(http_client: httpx.AsyncClient) -> None:
    """They win over what would be sent without them."""
    route = respx.post(CHAT).mock(return_value=streamed([*text("ok"), end()]))
    options = {"temperature": 0, "max_tokens": 5}
    model = OpenAIModel("small", base_url=URL, api_key=KEY, options=options, http_client=http_client)

    await answer(model)

    sent = json.loads(route.calls[0].request.content)
    assert (sent["temperature"], sent["max_tokens"]) == (0, 5)


def test_model_without_a_place_is_refused() -> None:
    """When it is put together, with what to do."""
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIModel("small", environment={})
    with pytest.raises(ConfigurationError, match="AGENTKIT_MODEL"):
        OpenAIModel(environment={"OPENAI_API_KEY": KEY})


# --- over a socket, with the client that users have


@pytest.mark.parametrize("cut", [20, 140])
async def test_connection_that_breaks_in_an_answer(cut: int) -> None:
    """The transport's own error becomes one of ours."""
    content = sse([*text("Good ", "day"), end()])
    async with serving(response(content, cut=cut)) as server:
        error = await error_of(OpenAIModel("small", base_url=server.url, api_key=KEY))

    assert isinstance(error, ModelError)
    assert error.is_passing


async def test_connection_that_breaks_before_an_answer() -> None:
    """The same, at another place."""
    async with serving(b"") as server:
        error = await error_of(OpenAIModel("small", base_url=server.url, api_key=KEY))

    assert isinstance(error, ModelError)
    assert error.is_passing


async def test_nobody_listens() -> None:
    """A server that is gone may come back."""
    async with serving(b"") as server:
        pass

    error = await error_of(OpenAIModel("small", base_url=server.url, api_key=KEY))

    assert isinstance(error, ModelError)
    assert error.is_passing


async def test_answer_over_a_socket() -> None:
    """Nothing stands in for anything."""
    content = sse([*text("Good ", "day"), end(), usage(1, 2)])
    async with serving(response(content)) as server, OpenAIModel("small", base_url=server.url) as model:
        replies = [await answer(model), await answer(model)]

    assert [reply.text for reply in replies] == ["Good day"] * 2
    assert len(server.bodies) == 2
