"""The chat-completions dialect over a real connection: what is sent, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import pairwise
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.model_server import (
    Call,
    Cut,
    Hang,
    Malformed,
    ModelServer,
    Repeat,
    Reply,
    Think,
)
from conformance.model_server import Failure as HttpFailure
from conformance.model_server import Finish as Ending
from conformance.model_server import Text as Says
from conformance.model_server import Usage as Counts
from harness_core.content import (
    AssistantMessage,
    Audio,
    Chunk,
    Failure,
    Finish,
    FinishKind,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Resource,
    ResourceLink,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UsageReport,
    UserMessage,
)
from harness_core.model.http import Endpoint
from harness_core.model.openai import PICTURES_FOLLOW, OpenAIModel
from harness_core.model.protocol import ModelConfig, ModelInfo, ModelRequest, ToolSpec

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]
RawServer: TypeAlias = Callable[..., AbstractAsyncContextManager[str]]
Sent: TypeAlias = Callable[..., Awaitable[Any]]

KEY = "sk-proj-0123456789abcdef"
HELLO = UserMessage("m1", (Text("Hello"),))
PNG = Image("iVBORw0KGgo=", "image/png")
LS = ToolSpec("ls", "Lists files.", {"type": "object", "properties": {}})


def model(base_url: str, *, images: bool = True, audio: bool = False, **rest: Any) -> OpenAIModel:
    info = ModelInfo("openai", "gpt-x", images=images, audio=audio)
    headers = {"authorization": f"Bearer {KEY}"}
    endpoint = Endpoint("openai", base_url, headers, secrets=(KEY,), hint="check OPENAI_API_KEY")
    return OpenAIModel(info, endpoint, **rest)


def failure(chunks: Sequence[Chunk]) -> Failure:
    (finish,) = [chunk for chunk in chunks if isinstance(chunk, Finish)]
    assert finish.kind == "error"
    assert finish.failure is not None
    return finish.failure


# --- what comes back ---------------------------------------------------------------------------


async def test_text_reasoning_calls_and_usage_stream_as_they_come(ask: Ask) -> None:
    reply = Reply.of(
        Think("hm, hm", 2),
        Says("Hello!", 2),
        Call("ls", '{"a": 1}', "c1", fragments=2),
        Call("ls", "{}", "c2"),
        usage=Counts(input=10, output=20, cached=5, reasoning=6),
    )
    async with ModelServer([reply]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    assert chunks == [
        ReasoningDelta("hm,"),
        ReasoningDelta(" hm"),
        TextDelta("Hel"),
        TextDelta("lo!"),
        ToolCallDelta("c1", "ls", ""),
        ToolCallDelta("c1", arguments='{"a"'),
        ToolCallDelta("c1", arguments=": 1}"),
        ToolCallDelta("c2", "ls", ""),
        ToolCallDelta("c2", arguments="{}"),
        UsageReport(Usage(input=10, cache_read=5, output=20, reasoning=6)),
        Finish("tool-calls"),
    ]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(Ending.STOP, "stop"), (Ending.LENGTH, "max-tokens"), (Ending.REFUSAL, "refusal")],
)
async def test_the_reason_to_finish_is_told_truly(
    ask: Ask, ending: Ending, kind: FinishKind
) -> None:
    async with ModelServer([Reply.of(Says("So"), finish=ending)]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    assert chunks[-1] == Finish(kind)


async def test_an_answer_of_nothing_is_a_failure(ask: Ask) -> None:
    async with ModelServer([Reply.of()]) as server:
        assert failure(await ask(model(server.openai_base_url), HELLO)).code == "empty"


@pytest.mark.parametrize("reason", ["stop", "network_error"])
async def test_a_failure_found_in_an_answer_has_the_name_of_the_call(
    ask: Ask, raw_server: RawServer, reason: str
) -> None:
    event = b'data: {"choices":[{"delta":{},"finish_reason":"%s"}]}\n\n' % reason.encode()
    async with raw_server([event, b"data: [DONE]\n\n"], headers={"x-request-id": "r-7"}) as url:
        assert failure(await ask(model(url), HELLO)).request_id == "r-7"


async def test_a_stream_without_its_finish_just_ends(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Once"), Cut(clean=True))]) as server:
        assert await ask(model(server.openai_base_url), HELLO) == [TextDelta("Once")]


async def test_a_dropped_connection_is_a_transport_failure_after_what_came(
    ask: Ask, raw_server: RawServer
) -> None:
    piece = b'data: {"choices":[{"delta":{"content":"Once"}}]}\n\n'
    async with raw_server([piece], complete=False) as url:
        first, *rest = await ask(model(url), HELLO)
    assert first == TextDelta("Once")
    assert failure(rest).code == "transport"


async def test_a_malformed_event_is_a_transport_failure(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Once"), Malformed())]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    assert failure(chunks).code == "transport"


async def test_an_error_in_the_stream_has_its_own_code(ask: Ask, raw_server: RawServer) -> None:
    event = b'data: {"error":{"code":429,"message":"provider busy"}}\n\n'
    async with raw_server([event], headers={"x-request-id": "r-1"}) as url:
        told = failure(await ask(model(url), HELLO))
    assert (told.code, told.request_id) == ("rate-limit", "r-1")
    assert told.message == "openai broke off: provider busy"


STATUSES = {
    400: "bad-request",
    401: "auth",
    403: "auth",
    404: "bad-request",
    408: "timeout",
    413: "context-overflow",
    429: "rate-limit",
    500: "server",
    502: "server",
    503: "overloaded",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_an_http_error_is_a_typed_failure(ask: Ask, status: int) -> None:
    async with ModelServer([HttpFailure(status, "Because.")]) as server:
        told = failure(await ask(model(server.openai_base_url), HELLO))
    assert (told.code, told.status) == (STATUSES[status], status)
    hint = " (check OPENAI_API_KEY)" if told.code == "auth" else ""
    assert told.message == f"openai answered HTTP {status}: Because.{hint}"


async def test_the_wait_and_the_request_id_are_passed_on(ask: Ask, raw_server: RawServer) -> None:
    headers = {"retry-after": "7", "x-request-id": "req-9", "content-type": "application/json"}
    async with raw_server([b"{}"], status=429, headers=headers) as url:
        told = failure(await ask(model(url), HELLO))
    assert (told.retry_after, told.request_id) == (7.0, "req-9")


async def test_the_key_is_never_repeated(ask: Ask) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}).encode()
    async with ModelServer([HttpFailure(401, body=body)]) as server:
        told = failure(await ask(model(server.openai_base_url), HELLO))
    assert KEY not in told.message
    assert "Incorrect API key provided" in told.message


async def test_a_page_in_place_of_a_stream_says_what_to_check(
    ask: Ask, raw_server: RawServer
) -> None:
    async with raw_server([b"<html>Welcome"], headers={"content-type": "text/html"}) as url:
        told = failure(await ask(model(url), HELLO))
    assert told.code == "bad-request"
    assert "base_url" in told.message


async def test_an_answer_that_was_not_streamed_is_understood(
    ask: Ask, raw_server: RawServer
) -> None:
    call = {"id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Yes", "tool_calls": [call]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    headers = {"content-type": "application/json"}
    async with raw_server([json.dumps(body).encode()], headers=headers) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [TextDelta("Yes"), ToolCallDelta("c1", "ls", "{}"), Finish("tool-calls")]


async def test_nobody_listening_is_a_transport_failure(ask: Ask) -> None:
    async with ModelServer() as server:
        url = server.openai_base_url
    told = failure(await ask(model(url), HELLO))
    assert told.code == "transport"
    assert url in told.message


async def test_silence_is_a_timeout(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Wait"), Hang())]) as server:
        endpoint = Endpoint("openai", server.openai_base_url, idle_timeout=0.05)
        chunks = await ask(OpenAIModel(ModelInfo("openai", "x"), endpoint), HELLO)
    assert chunks[0] == TextDelta("Wait")
    assert failure(chunks).code == "timeout"


async def test_closing_the_stream_closes_the_connection() -> None:
    async with ModelServer([Reply.of(Says("Wait"), Hang())]) as server:
        asked = model(server.openai_base_url)
        request = ModelRequest(ModelConfig("openai:gpt-x"), "", [HELLO])
        with anyio.fail_after(10):
            async with aclosing(asked.stream(request)) as stream:
                assert await anext(stream) == TextDelta("Wait")
            await server.requests[0].finished.wait()
            await asked.aclose()
    assert server.requests[0].aborted


async def test_cancelling_whoever_listens_closes_the_connection() -> None:
    async with ModelServer([Reply.of(Says("Wait"), Hang())]) as server:
        request = ModelRequest(ModelConfig("openai:gpt-x"), "", [HELLO])
        asked, seen = model(server.openai_base_url), anyio.Event()

        async def listen() -> None:
            async for _ in asked.stream(request):
                seen.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await seen.wait()
                group.cancel_scope.cancel()
            await server.requests[0].finished.wait()
            await asked.aclose()
    assert server.requests[0].aborted


async def test_many_deltas_keep_their_order(ask: Ask) -> None:
    async with ModelServer([Reply.of(Repeat("{i} ", 5000))]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    assert texts == [f"{i} " for i in range(5000)]


async def test_one_model_answers_many_calls_and_can_be_closed(ask: Ask) -> None:
    async with ModelServer([Reply.say("one"), Reply.say("two")]) as server:
        asked = model(server.openai_base_url)
        answers = [(await ask(asked, HELLO, keep=True))[0] for _ in range(2)]
        await asked.aclose()
        await asked.aclose()
    assert answers == [TextDelta("one"), TextDelta("two")]


EVENTS = (
    ": keep-alive\r\n\r\n"
    'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    'data: {"choices":[{"delta":{"content":"Grüße \u2028\u0085 🎈"}}]}\n\n'
    'data: {"choices":[{"delta":{"reasoning":"tiefe Gedanken"}}]}\r\n\r\n'
    'event: message\ndata: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1",'
    '"function":{"name":"ls","arguments":"{\\"a\\""}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,'
    '"function":{"arguments":": \\"é\\"}"}}]}}]}\n\n'
    'data: {"choices":[{"delta":{},\ndata: "finish_reason":"tool_calls"}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    "data: [DONE]\n\n"
).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.integers(1, len(EVENTS) - 1), max_size=40))
async def test_any_chunking_of_the_bytes_says_the_same(
    ask: Ask, raw_server: RawServer, cuts: set[int]
) -> None:
    bounds = [0, *sorted(cuts), len(EVENTS)]
    pieces = [EVENTS[a:b] for a, b in pairwise(bounds)]
    async with raw_server(pieces) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [
        TextDelta("Grüße \u2028\u0085 🎈"),
        ReasoningDelta("tiefe Gedanken"),
        ToolCallDelta("c1", "ls", '{"a"'),
        ToolCallDelta("c1", arguments=': "é"}'),
        UsageReport(Usage(input=3, output=2)),
        Finish("tool-calls"),
    ]


# --- what is sent ------------------------------------------------------------------------------


@pytest.fixture
def sent(ask: Ask) -> Sent:
    """The body that the server really received for a conversation."""

    async def sent(
        *messages: Message, model_options: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        async with ModelServer([Reply.say("ok")]) as server:
            asked = model(server.openai_base_url, **(model_options or {}))
            await ask(asked, *messages, **options)
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
            return server.requests[0].body

    return sent


async def test_a_plain_request_says_no_more_than_it_must(sent: Sent) -> None:
    assert await sent(HELLO) == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_system_tools_and_knobs(sent: Sent) -> None:
    body = await sent(
        HELLO, system="Be kind.", tools=[LS], max_output=99, temperature=0.5, effort="low"
    )
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}
    function = {"name": "ls", "description": "Lists files.", "parameters": LS.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    knobs = {key: body[key] for key in ("max_tokens", "temperature", "reasoning_effort")}
    assert knobs == {"max_tokens": 99, "temperature": 0.5, "reasoning_effort": "low"}


async def test_the_limit_can_have_its_newer_name(sent: Sent) -> None:
    options = {"limit_field": "max_completion_tokens"}
    body = await sent(HELLO, max_output=9, model_options=options)
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


async def test_resources_are_readable_text(sent: Sent) -> None:
    message = UserMessage(
        "m1",
        (
            Text("See"),
            ResourceLink("file:///a.py", "a.py", description="a module", size=12),
            Resource("file:///b.py", text="x = 1"),
            Resource("file:///c.bin", blob="AAEC", mime_type="application/octet-stream"),
        ),
    )
    body = await sent(message)
    assert body["messages"][0]["content"] == (
        "See\n"
        "[a.py](file:///a.py) (a module, 12 bytes)\n"
        '<resource uri="file:///b.py">\nx = 1\n</resource>\n'
        "[resource of type application/octet-stream at file:///c.bin, 3 bytes, not shown]"
    )


async def test_images_are_data_urls_beside_the_text(sent: Sent) -> None:
    embedded = Resource("file:///b.gif", blob="R0lG", mime_type="image/gif")
    body = await sent(UserMessage("m1", (Text("Look"), PNG, embedded)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}},
    ]


async def test_a_conversation_with_tools(sent: Sent) -> None:
    said = AssistantMessage(
        (
            Reasoning("secret thoughts", "seal"),
            Text("Let me look."),
            ToolCall("c1", "ls", '{"a": 1}'),
            ToolCall("c2", "ls", ""),
            ToolCall("c3", "ls", '{"broken'),
        )
    )
    results = [ToolMessage(f"c{n}", "ls", (Text(f"result {n}"),)) for n in (1, 2, 3)]
    body = await sent(HELLO, said, *results, UserMessage("m2", (Text("Go on"),), "steering"))

    def call(id: str, arguments: str) -> Any:
        return {"id": id, "type": "function", "function": {"name": "ls", "arguments": arguments}}

    quoted = json.dumps({"not_a_json_object": '{"broken'}, separators=(",", ":"))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [call("c1", '{"a": 1}'), call("c2", "{}"), call("c3", quoted)],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "result 1"},
        {"role": "tool", "tool_call_id": "c2", "content": "result 2"},
        {"role": "tool", "tool_call_id": "c3", "content": "result 3"},
        {"role": "user", "content": "Go on"},
    ]


async def test_images_from_tools_follow_their_results(sent: Sent) -> None:
    said = AssistantMessage((ToolCall("c1", "shot", "{}"), ToolCall("c2", "ls", "{}")))
    shot = ToolMessage("c1", "shot", (Text("Here:"), PNG))
    body = await sent(HELLO, said, shot, ToolMessage("c2", "ls", (Text("files"),)))
    _, asked, first, second, pictures = body["messages"]
    assert asked["content"] is None
    assert first["content"] == "Here:\n[image of type image/png, 8 bytes, not shown]"
    assert second["content"] == "files"
    assert pictures["role"] == "user"
    assert pictures["content"][0]["text"] == PICTURES_FOLLOW
    assert pictures["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


async def test_reasoning_goes_back_only_where_it_is_wanted(sent: Sent) -> None:
    thought = AssistantMessage((Reasoning("hm"), ToolCall("c1", "ls", "{}")))
    blank = AssistantMessage((ToolCall("c2", "ls", "{}"),))
    turn = [HELLO, thought, ToolMessage("c1", "ls", ()), blank, ToolMessage("c2", "ls", ())]
    assert "hm" not in json.dumps(await sent(*turn))
    wanted = {"reasoning_field": "reasoning_content"}
    _, first, _, second, _ = (await sent(*turn, model_options=wanted))["messages"]
    assert (first["reasoning_content"], second["reasoning_content"]) == ("hm", "")


async def test_what_was_only_thought_leaves_no_empty_message(sent: Sent) -> None:
    body = await sent(HELLO, AssistantMessage((Reasoning("hm"),)), HELLO)
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


@pytest.mark.parametrize("block", [Audio("AAAA", "audio/wav"), PNG])
async def test_what_the_model_cannot_take_is_refused_before_it_is_sent(
    ask: Ask, block: Image | Audio
) -> None:
    async with ModelServer([]) as server:
        asked = model(server.openai_base_url, images=False)
        told = failure(await ask(asked, UserMessage("m1", (block,))))
        assert server.requests == []
    assert told.code == "bad-request"
    assert "openai:gpt-x takes no" in told.message


async def test_what_was_refused_before_is_only_named_afterwards(sent: Sent) -> None:
    refused = UserMessage("m1", (Text("Listen"), Audio("AAAA", "audio/wav")))
    body = await sent(refused, UserMessage("m2", (Text("Never mind"),)))
    note = "Listen\n[audio of type audio/wav, 3 bytes, not shown]"
    assert body["messages"][0]["content"] == note


async def test_a_model_that_listens_gets_the_sound(sent: Sent) -> None:
    message = UserMessage("m1", (Audio("AAAA", "audio/mpeg"),))
    body = await sent(message, model_options={"audio": True})
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    assert body["messages"][0]["content"] == [sound]


async def test_settings_add_to_the_body_and_replace_its_fields(ask: Ask) -> None:
    async with ModelServer([Reply.say("ok")]) as server:
        extra = {"service_tier": "flex", "stream_options": {"include_usage": False}}
        endpoint = Endpoint("openai", server.openai_base_url, body=extra)
        await ask(OpenAIModel(ModelInfo("openai", "x"), endpoint), HELLO)
        body = server.requests[0].body
    assert (body["service_tier"], body["stream_options"]) == ("flex", {"include_usage": False})


async def test_fields_that_a_server_rejects_can_be_left_out(ask: Ask) -> None:
    async with ModelServer([Reply.say("ok")]) as server:
        omit = frozenset(("stream_options", "user"))
        endpoint = Endpoint("openai", server.openai_base_url, body={"user": "me"}, omit=omit)
        await ask(OpenAIModel(ModelInfo("openai", "x"), endpoint), HELLO)
        body = server.requests[0].body
    assert "stream_options" not in body
    assert body["user"] == "me"
