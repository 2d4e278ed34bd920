"""The Messages dialect over a real connection: what is sent, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.model_server import Call, Cut, ModelServer, Repeat, Reply, Think
from conformance.model_server import Failure as HttpFailure
from conformance.model_server import Finish as Ending
from conformance.model_server import Text as Says
from conformance.model_server import Usage as Counts
from conformance.model_server.anthropic import SIGNATURE
from harness_core.content import (
    AssistantMessage,
    Audio,
    Chunk,
    Failure,
    Finish,
    FinishKind,
    Image,
    Json,
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
from harness_core.model.anthropic import DEFAULT_MAX_TOKENS, AnthropicModel
from harness_core.model.http import Endpoint
from harness_core.model.protocol import ModelInfo, ToolSpec
from harness_core.model.seals import seal

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]
RawServer: TypeAlias = Callable[..., AbstractAsyncContextManager[str]]
Sent: TypeAlias = Callable[..., Awaitable[Any]]

HELLO = UserMessage("m1", (Text("Hello"),))
PNG = Image("iVBORw0KGgo=", "image/png")
CACHED = {"type": "ephemeral"}
HELLO_CACHED = {"type": "text", "text": "Hello", "cache_control": CACHED}


def model(base_url: str, name: str = "claude-opus-4-7") -> AnthropicModel:
    info = ModelInfo("anthropic", name, images=True)
    endpoint = Endpoint("anthropic", base_url, {"x-api-key": "k"}, hint="check ANTHROPIC_API_KEY")
    return AnthropicModel(info, endpoint)


def failure(chunks: Sequence[Chunk]) -> Failure:
    (finish,) = [chunk for chunk in chunks if isinstance(chunk, Finish)]
    assert finish.kind == "error"
    assert finish.failure is not None
    return finish.failure


# --- what comes back ---------------------------------------------------------------------------


async def test_text_thinking_calls_and_usage_stream_as_they_come(ask: Ask) -> None:
    reply = Reply.of(
        Think("hm, hm", 2),
        Says("Hello!", 2),
        Call("ls", '{"a": 1}', "c1", fragments=2),
        Call("ls", "{}", "c2"),
        usage=Counts(input=10, output=20, cached=5),
    )
    async with ModelServer([reply]) as server:
        chunks = await ask(model(server.anthropic_base_url), HELLO)
    assert chunks == [
        ReasoningDelta("hm,"),
        ReasoningDelta(" hm"),
        ReasoningDelta("", SIGNATURE),
        TextDelta("Hel"),
        TextDelta("lo!"),
        ToolCallDelta("c1", "ls", ""),
        ToolCallDelta("c1", arguments='{"a"'),
        ToolCallDelta("c1", arguments=": 1}"),
        ToolCallDelta("c2", "ls", ""),
        ToolCallDelta("c2", arguments="{}"),
        UsageReport(Usage(input=10, cache_read=5, output=20)),
        Finish("tool-calls"),
    ]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(Ending.STOP, "stop"), (Ending.LENGTH, "max-tokens"), (Ending.REFUSAL, "refusal")],
)
async def test_the_reason_to_stop_is_told_truly(ask: Ask, ending: Ending, kind: FinishKind) -> None:
    async with ModelServer([Reply.of(Says("So"), finish=ending)]) as server:
        chunks = await ask(model(server.anthropic_base_url), HELLO)
    assert chunks[-1] == Finish(kind)


async def test_an_answer_of_nothing_is_a_failure(ask: Ask) -> None:
    async with ModelServer([Reply.of()]) as server:
        assert failure(await ask(model(server.anthropic_base_url), HELLO)).code == "empty"


async def test_a_stream_without_its_end_has_no_finish(ask: Ask) -> None:
    async with ModelServer([Reply.of(Says("Once"), Cut(clean=True))]) as server:
        chunks = await ask(model(server.anthropic_base_url), HELLO)
    assert chunks[0] == TextDelta("Once")
    assert not any(isinstance(chunk, Finish) for chunk in chunks)


STATUSES = {
    400: "bad-request",
    401: "auth",
    403: "auth",
    404: "bad-request",
    413: "context-overflow",
    429: "rate-limit",
    500: "server",
    529: "overloaded",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_an_http_error_is_a_typed_failure(ask: Ask, status: int) -> None:
    async with ModelServer([HttpFailure(status, "Because.", retry_after=2)]) as server:
        told = failure(await ask(model(server.anthropic_base_url), HELLO))
    assert (told.code, told.status) == (STATUSES[status], status)
    assert "Because." in told.message


async def test_an_overlong_prompt_is_recognised(ask: Ask) -> None:
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    async with ModelServer([HttpFailure(400, words)]) as server:
        assert failure(await ask(model(server.anthropic_base_url), HELLO)).code == (
            "context-overflow"
        )


def events(*bodies: Json) -> list[bytes]:
    texts = ((body["type"], json.dumps(body, ensure_ascii=False)) for body in bodies)
    return [f"event: {name}\ndata: {text}\n\n".encode() for name, text in texts]


def ending(reason: str, **delta: Json) -> tuple[Json, Json]:
    last = {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {}}
    return last, {"type": "message_stop"}


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    where = {"index": index}
    return [
        {"type": "content_block_start", **where, "content_block": start},
        *({"type": "content_block_delta", **where, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **where},
    ]


SAID = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "So"})


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate-limit"),
        ("api_error", "server"),
        ("authentication_error", "auth"),
        ("invalid_request_error", "bad-request"),
        ("timeout_error", "timeout"),
    ],
)
async def test_an_error_event_ends_the_answer(
    ask: Ask, raw_server: RawServer, kind: str, code: str
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "Sorry"}}
    async with raw_server(events(*SAID, error), headers={"request-id": "r-1"}) as url:
        chunks = await ask(model(url), HELLO)
    told = failure(chunks)
    assert chunks[0] == TextDelta("So")
    assert (told.code, told.request_id) == (code, "r-1")
    assert told.message == "anthropic broke off: Sorry"


async def test_a_refusal_carries_the_providers_explanation(ask: Ask, raw_server: RawServer) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not this."}
    async with raw_server(events(*SAID, *ending("refusal", stop_details=details))) as url:
        assert (await ask(model(url), HELLO))[-1] == Finish("refusal", explanation="Not this.")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "max-tokens"),
        ("something_new", "stop"),
        ("pause_turn", "error"),
    ],
)
async def test_rarer_reasons_to_stop(
    ask: Ask, raw_server: RawServer, reason: str, kind: str
) -> None:
    async with raw_server(events(*SAID, *ending(reason))) as url:
        assert (await ask(model(url), HELLO))[-1].kind == kind


async def test_a_call_without_input_has_an_empty_object(ask: Ask, raw_server: RawServer) -> None:
    bare = block(0, {"type": "tool_use", "id": "c1", "name": "ls", "input": {}})
    whole = block(1, {"type": "tool_use", "id": "c2", "name": "ls", "input": {"a": 1}})
    async with raw_server(events(*bare, *whole, *ending("tool_use"))) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [
        ToolCallDelta("c1", "ls"),
        ToolCallDelta("c1", arguments="{}"),
        ToolCallDelta("c2", "ls"),
        ToolCallDelta("c2", arguments='{"a":1}'),
        Finish("tool-calls"),
    ]


async def test_what_is_not_known_is_ignored(ask: Ask, raw_server: RawServer) -> None:
    new = block(0, {"type": "hologram", "size": 3}, {"type": "hologram_delta", "light": "x"})
    ping = {"type": "ping"}
    odd = {"type": "weather_report", "sky": "clear"}
    async with raw_server(events(ping, *new, odd, *SAID, *ending("end_turn"))) as url:
        assert await ask(model(url), HELLO) == [TextDelta("So"), Finish("stop")]


async def test_counters_accumulate_and_stay_disjoint(ask: Ask, raw_server: RawServer) -> None:
    start = {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 5,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 11,
                "output_tokens": 1,
            }
        },
    }
    last, stop = ending("end_turn")
    last["usage"] = {
        "output_tokens": 30,
        "cache_read_input_tokens": None,
        "output_tokens_details": {"thinking_tokens": 20},
    }
    async with raw_server(events(start, *SAID, last, stop)) as url:
        chunks = await ask(model(url), HELLO)
    counted = Usage(input=5, cache_read=11, cache_write=7, output=10, reasoning=20)
    assert chunks[-2] == UsageReport(counted)
    assert counted.context == 5 + 7 + 11 + 30


STREAM = b"".join(
    events(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Gründe \u2028"},
            {"type": "signature_delta", "signature": "seal"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "cipher"}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Ja 🎈"}),
        *block(
            3,
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"ü'},
            {"type": "input_json_delta", "partial_json": '": 1}'},
        ),
        *ending("tool_use"),
    )
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=40))
async def test_any_chunking_of_the_bytes_says_the_same(
    ask: Ask, raw_server: RawServer, cuts: set[int]
) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    async with raw_server([STREAM[a:b] for a, b in pairwise(bounds)]) as url:
        chunks = await ask(model(url), HELLO)
    assert chunks == [
        ReasoningDelta("Gründe \u2028"),
        ReasoningDelta("", "seal"),
        ReasoningDelta("", "redacted:cipher"),
        TextDelta("Ja 🎈"),
        ToolCallDelta("c1", "ls"),
        ToolCallDelta("c1", arguments='{"ü'),
        ToolCallDelta("c1", arguments='": 1}'),
        Finish("tool-calls"),
    ]


async def test_many_deltas_keep_their_order(ask: Ask) -> None:
    async with ModelServer([Reply.of(Repeat("{i} ", 5000))]) as server:
        chunks = await ask(model(server.anthropic_base_url), HELLO)
    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    assert texts == [f"{i} " for i in range(5000)]


# --- what is sent ------------------------------------------------------------------------------


@pytest.fixture
def sent(ask: Ask) -> Sent:
    """The body that the server really received for a conversation."""

    async def sent(*messages: Message, name: str = "claude-opus-4-7", **options: Any) -> Json:
        async with ModelServer([Reply.say("ok")]) as server:
            await ask(model(server.anthropic_base_url, name), *messages, **options)
            return server.requests[0].body

    return sent


async def test_a_plain_request_says_no_more_than_it_must(sent: Sent) -> None:
    assert await sent(HELLO) == {
        "model": "claude-opus-4-7",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [HELLO_CACHED]}],
        "stream": True,
    }


async def test_system_and_tools_are_marked_for_the_cache(sent: Sent) -> None:
    schema = {"type": "object", "properties": {}}
    tools = [ToolSpec("ls", "Lists.", schema), ToolSpec("cat", "Prints.", schema)]
    body = await sent(HELLO, system="Be kind.", tools=tools, max_output=99, temperature=0.5)
    assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": CACHED}]
    assert body["tools"] == [
        {"name": "ls", "description": "Lists.", "input_schema": schema},
        {"name": "cat", "description": "Prints.", "input_schema": schema, "cache_control": CACHED},
    ]
    assert (body["max_tokens"], body["temperature"]) == (99, 0.5)


async def test_a_conversation_with_tools(sent: Sent) -> None:
    said = AssistantMessage(
        (
            Reasoning("deep", "seal"),
            Reasoning("", "redacted:cipher"),
            Reasoning("somebody else's", seal("openai", "rs_1", "gAAA=")),
            Reasoning("somebody else's"),
            Text("Let me look."),
            ToolCall("c1", "ls", '{"a": 1}'),
            ToolCall("functions.ls:2", "ls", "oops"),
        )
    )
    results = [
        ToolMessage("c1", "ls", (Text("files"), PNG)),
        ToolMessage("functions.ls:2", "ls", (Text("bad arguments"),), error=True),
    ]
    body = await sent(HELLO, said, *results, UserMessage("m2", (Text("Go on"),), "steering"))
    picture = {"type": "base64", "media_type": "image/png", "data": PNG.data}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "deep", "signature": "seal"},
                {"type": "redacted_thinking", "data": "cipher"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "c1", "name": "ls", "input": {"a": 1}},
                {
                    "type": "tool_use",
                    "id": "functions_ls_2",
                    "name": "ls",
                    "input": {"not_a_json_object": "oops"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [
                        {"type": "text", "text": "files"},
                        {"type": "image", "source": picture},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "functions_ls_2",
                    "content": [{"type": "text", "text": "bad arguments"}],
                    "is_error": True,
                },
                {"type": "text", "text": "Go on", "cache_control": CACHED},
            ],
        },
    ]


async def test_consecutive_messages_of_one_role_are_one(sent: Sent) -> None:
    body = await sent(
        HELLO,
        UserMessage("m2", (Text("and hello again"),)),
        AssistantMessage((Text("Hi"),)),
        AssistantMessage((Text("there"),)),
        HELLO,
    )
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [len(message["content"]) for message in body["messages"]] == [2, 2, 1]


async def test_blank_text_and_empty_messages_are_left_out(sent: Sent) -> None:
    body = await sent(HELLO, AssistantMessage((Text(" \n"),)), HELLO)
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, HELLO_CACHED]}
    ]


async def test_pictures_and_pdf_files_are_shown_and_others_named(sent: Sent) -> None:
    blocks = (
        PNG,
        Resource("file:///a.pdf", blob="JVBE", mime_type="application/pdf"),
        Image("PHN2", "image/svg+xml"),
    )
    body = await sent(UserMessage("m1", blocks))
    image, document, note = body["messages"][0]["content"]
    assert image["source"]["media_type"] == "image/png"
    assert (document["type"], document["source"]["data"]) == ("document", "JVBE")
    assert note["text"] == "[image of type image/svg+xml, 3 bytes, not shown]"


async def test_sound_is_refused_before_it_is_sent(ask: Ask) -> None:
    async with ModelServer([]) as server:
        sound = UserMessage("m1", (Audio("AAAA", "audio/wav"),))
        told = failure(await ask(model(server.anthropic_base_url), sound))
        assert server.requests == []
    assert (told.code, "no audio" in told.message) == ("bad-request", True)


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("name", "thinking"),
    [
        ("claude-opus-4-7", ADAPTIVE),
        ("claude-sonnet-4-6", ADAPTIVE),
        ("claude-opus-5", ADAPTIVE),
        ("some-gateway-name", ADAPTIVE),
        ("claude-opus-4-5-20251101", {"type": "enabled", "budget_tokens": 8000}),
        ("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 8000}),
        ("claude-3-7-sonnet-20250219", {"type": "enabled", "budget_tokens": 8000}),
        ("claude-3-5-haiku-20241022", None),
    ],
)
async def test_effort_is_put_as_the_model_understands_it(
    sent: Sent, name: str, thinking: Json
) -> None:
    body = await sent(HELLO, name=name, effort="medium", temperature=0.3)
    assert body.get("thinking") == thinking
    assert ("output_config" in body) == (thinking == ADAPTIVE)
    assert ("temperature" in body) == (thinking is None)


async def test_a_budget_needs_room(sent: Sent) -> None:
    body = await sent(HELLO, name="claude-opus-4-5", effort="low", max_output=1000)
    assert "thinking" not in body


@pytest.mark.parametrize(
    ("signature", "thinks"), [(None, False), ("seal", True), (seal("openai", "rs_1", "e"), False)]
)
async def test_thinking_with_a_budget_does_not_begin_between_a_call_and_its_result(
    sent: Sent, signature: str | None, thinks: bool
) -> None:
    called = AssistantMessage((Reasoning("hm", signature), ToolCall("c1", "ls", "{}")))
    turn = [HELLO, called, ToolMessage("c1", "ls", (Text("files"),))]
    body = await sent(*turn, name="claude-opus-4-5", effort="low")
    assert ("thinking" in body) == thinks
