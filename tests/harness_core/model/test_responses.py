"""The Responses dialect over a real connection: what is sent, and what comes of it."""

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
from harness_core.model.protocol import ModelConfig, ModelInfo, ModelRequest, ToolSpec
from harness_core.model.responses import LONGEST_ID, ResponsesModel
from harness_core.model.seals import seal

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]
RawServer: TypeAlias = Callable[..., AbstractAsyncContextManager[str]]
Sent: TypeAlias = Callable[..., Awaitable[Any]]

KEY = "sk-proj-0123456789abcdef"
HELLO = UserMessage("m1", (Text("Hello"),))
PNG = Image("iVBORw0KGgo=", "image/png")
PDF = Resource("file:///a/plan.pdf", blob="JVBERi0=", mime_type="application/pdf")
LS = ToolSpec("ls", "Lists files.", {"type": "object", "properties": {}})


def model(base_url: str, *, name: str = "gpt-x", images: bool = True) -> ResponsesModel:
    headers = {"authorization": f"Bearer {KEY}"}
    endpoint = Endpoint("acme", base_url, headers, secrets=(KEY,), hint="check OPENAI_API_KEY")
    return ResponsesModel(ModelInfo("acme", name, images=images), endpoint)


def failure(chunks: Sequence[Chunk]) -> Failure:
    (finish,) = [chunk for chunk in chunks if isinstance(chunk, Finish)]
    assert finish.kind == "error"
    assert finish.failure is not None
    return finish.failure


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n"
        % (sent["type"].encode(), json.dumps(sent, ensure_ascii=False).encode())
        for sent in events
    )


def over(status: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **fields}}


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
        assert server.requests[0].dialect == "openai-responses"
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


async def test_an_answer_of_nothing_is_a_failure_with_the_name_of_the_call(
    ask: Ask, raw_server: RawServer
) -> None:
    async with raw_server([stream(over("completed"))], headers={"x-request-id": "r-7"}) as url:
        told = failure(await ask(model(url), HELLO))
    assert (told.code, told.request_id) == ("empty", "r-7")


async def test_a_stream_without_its_finish_just_ends(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Once"), Cut(clean=True))]) as server:
        assert await ask(model(server.openai_base_url), HELLO) == [TextDelta("Once")]


async def test_a_dropped_connection_is_a_transport_failure_after_what_came(
    ask: Ask, raw_server: RawServer
) -> None:
    piece = stream({"type": "response.output_text.delta", "delta": "Once"})
    async with raw_server([piece], complete=False) as url:
        first, *rest = await ask(model(url), HELLO)
    assert first == TextDelta("Once")
    assert failure(rest).code == "transport"


async def test_a_malformed_event_is_a_transport_failure(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Once"), Malformed())]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    assert failure(chunks).code == "transport"


BREAKS = {
    "rate_limit_exceeded": "rate-limit",
    "server_error": "server",
    "context_length_exceeded": "context-overflow",
    "insufficient_quota": "bad-request",
    "invalid_prompt": "bad-request",
    "image_too_large": "bad-request",
    "failed_to_download_image": "bad-request",
}


@pytest.mark.parametrize("code", BREAKS)
async def test_a_failed_response_has_its_own_code(
    ask: Ask, raw_server: RawServer, code: str
) -> None:
    error = {"code": code, "message": "Sorry about that."}
    sent = stream(over("failed", error=error))
    async with raw_server([sent], headers={"x-request-id": "r-1"}) as url:
        told = failure(await ask(model(url), HELLO))
    assert (told.code, told.request_id) == (BREAKS[code], "r-1")
    assert told.message == "acme broke off: Sorry about that."


async def test_an_error_event_is_a_failure(ask: Ask, raw_server: RawServer) -> None:
    event = {"type": "error", "code": "rate_limit_exceeded", "message": f"Slow down, {KEY}"}
    async with raw_server([stream(event)]) as url:
        told = failure(await ask(model(url), HELLO))
    assert told.code == "rate-limit"
    assert told.message == "acme broke off: Slow down, [redacted]"


@pytest.mark.parametrize(("status", "code"), [(400, "bad-request"), (401, "auth"), (500, "server")])
async def test_an_http_error_is_a_typed_failure(ask: Ask, status: int, code: str) -> None:
    async with ModelServer([HttpFailure(status, "Because.")]) as server:
        told = failure(await ask(model(server.openai_base_url), HELLO))
    assert (told.code, told.status) == (code, status)


async def test_an_answer_that_was_not_streamed_is_understood(
    ask: Ask, raw_server: RawServer
) -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Yes"}]}
    call = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
    body = {"object": "response", "status": "completed", "output": [message, call]}
    headers = {"content-type": "application/json"}
    async with raw_server([json.dumps(body).encode()], headers=headers) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [
        TextDelta("Yes"),
        ToolCallDelta("c1", "ls"),
        ToolCallDelta("c1", arguments="{}"),
        Finish("tool-calls"),
    ]


async def test_closing_the_stream_closes_the_connection() -> None:
    async with ModelServer([Reply.of(Says("Wait"), Hang())]) as server:
        asked = model(server.openai_base_url)
        request = ModelRequest(ModelConfig("acme:gpt-x"), "", [HELLO])
        with anyio.fail_after(10):
            async with aclosing(asked.stream(request)) as answer:
                assert await anext(answer) == TextDelta("Wait")
            await server.requests[0].finished.wait()
            await asked.aclose()
    assert server.requests[0].aborted


async def test_many_deltas_keep_their_order(ask: Ask) -> None:
    async with ModelServer([Reply.of(Repeat("{i} ", 5000))]) as server:
        chunks = await ask(model(server.openai_base_url), HELLO)
    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    assert texts == [f"{i} " for i in range(5000)]


CALL = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "ls", "arguments": ""}
EVENTS = (
    b": keep-alive\r\n\r\n"
    + stream(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "tief"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Grüße \u2028\u0085 🎈"},
        {"type": "response.output_item.added", "output_index": 2, "item": CALL},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ': "é"}'},
        over("completed", usage={"input_tokens": 3, "output_tokens": 2}),
    )
    + b"data: [DONE]\n\n"
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.integers(1, len(EVENTS) - 1), max_size=40))
async def test_any_chunking_of_the_bytes_says_the_same(
    ask: Ask, raw_server: RawServer, cuts: set[int]
) -> None:
    bounds = [0, *sorted(cuts), len(EVENTS)]
    async with raw_server([EVENTS[a:b] for a, b in pairwise(bounds)]) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [
        ReasoningDelta("tief"),
        TextDelta("Grüße \u2028\u0085 🎈"),
        ToolCallDelta("c1", "ls"),
        ToolCallDelta("c1", arguments='{"a"'),
        ToolCallDelta("c1", arguments=': "é"}'),
        UsageReport(Usage(input=3, output=2)),
        Finish("tool-calls"),
    ]


# --- what is sent ------------------------------------------------------------------------------


@pytest.fixture
def sent(ask: Ask) -> Sent:
    """The body that the server really received for a conversation."""

    async def sent(*messages: Message, told: dict[str, Any] | None = None, **options: Any) -> Any:
        async with ModelServer([Reply.say("ok")]) as server:
            await ask(model(server.openai_base_url, **(told or {})), *messages, **options)
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
            return server.requests[0].body

    return sent


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}


async def test_a_plain_request_stores_nothing_and_says_no_more_than_it_must(sent: Sent) -> None:
    content = [{"type": "input_text", "text": "Hello"}]
    assert await sent(HELLO) == {
        "model": "gpt-x",
        "input": [{"type": "message", "role": "user", "content": content}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


async def test_system_tools_and_knobs(sent: Sent) -> None:
    body = await sent(
        HELLO, system="Be kind.", tools=[LS], max_output=99, temperature=0.5, effort="low"
    )
    assert body["instructions"] == "Be kind."
    described = {"name": "ls", "description": "Lists files.", "parameters": LS.parameters}
    assert body["tools"] == [{"type": "function", **described, "strict": False}]
    knobs = {key: body[key] for key in ("max_output_tokens", "temperature", "reasoning")}
    assert knobs == {
        "max_output_tokens": 99,
        "temperature": 0.5,
        "reasoning": {"effort": "low", "summary": "auto"},
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("gpt-5.2", True),
        ("o3", True),
        ("gpt-oss-20b", True),
        ("gpt-4.1-mini", False),
        ("openai/gpt-4o", False),
        ("gpt-5-chat-latest", False),
    ],
)
async def test_models_that_do_not_reason_are_not_asked_for_reasoning(
    sent: Sent, name: str, asked: bool
) -> None:
    assert ("include" in await sent(HELLO, told={"name": name})) is asked


async def test_a_conversation_with_tools(sent: Sent) -> None:
    answer = AssistantMessage(
        (
            Reasoning("**Plan**", seal("acme", "rs_1", "gAAA=")),
            Text("Let me look."),
            ToolCall("c1", "ls", '{"a": 1}'),
            ToolCall("c2", "ls", ""),
            ToolCall("c3", "ls", '{"broken'),
        )
    )
    results = [ToolMessage(f"c{n}", "ls", (Text(f"result {n}"),)) for n in (1, 2, 3)]
    body = await sent(HELLO, answer, *results, UserMessage("m2", (Text("Go on"),), "steering"))

    def call(id: str, arguments: str) -> Any:
        return {"type": "function_call", "call_id": id, "name": "ls", "arguments": arguments}

    def output(id: str, text: str) -> Any:
        return {"type": "function_call_output", "call_id": id, "output": text}

    quoted = json.dumps({"not_a_json_object": '{"broken'}, separators=(",", ":"))
    assert body["input"][1:-1] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "**Plan**"}],
            "encrypted_content": "gAAA=",
        },
        said("Let me look."),
        call("c1", '{"a": 1}'),
        call("c2", "{}"),
        call("c3", quoted),
        output("c1", "result 1"),
        output("c2", "result 2"),
        output("c3", "result 3"),
    ]


async def test_what_was_thought_goes_back_as_it_came(ask: Ask, raw_server: RawServer) -> None:
    """Encrypted in one answer, decrypted by nobody, and at its place in the next request."""
    summary = [{"type": "summary_text", "text": "hm"}]
    item = {"type": "reasoning", "id": "rs_9", "summary": summary, "encrypted_content": "x:y=="}
    thought = {"type": "response.output_item.done", "output_index": 0, "item": item}
    async with raw_server([stream(thought, over("completed"))]) as url:
        (delta, _) = await ask(model(url), HELLO)
    answer = AssistantMessage((Reasoning(delta.text, delta.signature), ToolCall("c1", "ls", "{}")))
    async with ModelServer([Reply.say("ok")]) as server:
        await ask(model(server.openai_base_url), HELLO, answer, ToolMessage("c1", "ls", ()))
        assert server.requests[0].body["input"][1] == item


@pytest.mark.parametrize(
    "signature", [None, "c2lnbmF0dXJl", "redacted:abc", seal("other", "rs_1", "gAAA=")]
)
async def test_the_thoughts_of_others_stay_where_they_are(
    sent: Sent, signature: str | None
) -> None:
    answer = AssistantMessage((Reasoning("hm", signature), Text("So.")))
    body = await sent(HELLO, answer, HELLO)
    assert body["input"][1] == said("So.")


async def test_a_thought_that_nothing_came_of_is_not_sent(sent: Sent) -> None:
    alone = AssistantMessage((Reasoning("hm", seal("acme", "rs_1", "e")),))
    after = AssistantMessage((Text("So."), Reasoning("hm", seal("acme", "rs_2", "e")), Text("")))
    body = await sent(HELLO, alone, HELLO, after, HELLO)
    assert [item.get("role") for item in body["input"]] == ["user", "user", "assistant", "user"]


async def test_images_and_pdf_files_are_shown_where_they_stand(sent: Sent) -> None:
    shot = ToolMessage("c1", "shot", (Text("Here:"), PNG))
    asked = AssistantMessage((ToolCall("c1", "shot", "{}"),))
    body = await sent(UserMessage("m1", (Text("Look"), PNG, PDF)), asked, shot)
    picture = {
        "type": "input_image",
        "image_url": "data:image/png;base64,iVBORw0KGgo=",
        "detail": "auto",
    }
    data = "data:application/pdf;base64,JVBERi0="
    paper = {"type": "input_file", "filename": "plan.pdf", "file_data": data}
    assert body["input"][0]["content"] == [{"type": "input_text", "text": "Look"}, picture, paper]
    assert body["input"][2]["output"] == [{"type": "input_text", "text": "Here:"}, picture]


async def test_a_model_without_eyes_is_told_what_was_there(sent: Sent) -> None:
    asked = AssistantMessage((ToolCall("c1", "shot", "{}"),))
    shot = ToolMessage("c1", "shot", (Text("Here:"), PNG))
    body = await sent(HELLO, asked, shot, told={"images": False})
    assert body["input"][2]["output"] == "Here:\n[image of type image/png, 8 bytes, not shown]"


@pytest.mark.parametrize("block", [Audio("AAAA", "audio/wav"), PNG])
async def test_what_the_model_cannot_take_is_refused_before_it_is_sent(
    ask: Ask, block: Image | Audio
) -> None:
    async with ModelServer([]) as server:
        asked = model(server.openai_base_url, images=False)
        told = failure(await ask(asked, UserMessage("m1", (block,))))
        assert server.requests == []
    assert told.code == "bad-request"


async def test_ids_that_are_too_long_for_the_api_are_shortened_alike(sent: Sent) -> None:
    ids = ["x" * 200 + "1", "x" * 200 + "2"]
    asked = AssistantMessage(tuple(ToolCall(id, "ls", "{}") for id in ids))
    body = await sent(HELLO, asked, *(ToolMessage(id, "ls", ()) for id in ids))
    one, two, first, second = (item["call_id"] for item in body["input"][1:])
    assert (one, two) == (first, second)
    assert one != two
    assert max(len(one), len(two)) <= LONGEST_ID
