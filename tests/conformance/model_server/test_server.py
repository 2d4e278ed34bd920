"""The server says what its script says, in every dialect, streamed or whole."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
import pytest

from conformance.model_server import (
    PLAIN,
    Call,
    Cut,
    Failure,
    Finish,
    Hang,
    Malformed,
    ModelRequest,
    ModelServer,
    Repeat,
    Reply,
    Text,
    Think,
    ToolCall,
    Wait,
)
from conformance.model_server.script import Script

pytestmark = pytest.mark.anyio

SHELL: dict[str, Any] = {"type": "object", "properties": {"command": {"type": "string"}}}
TIMEOUT = 10.0


@pytest.fixture(params=["chat", "responses", "anthropic"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def chat(text: str, stream: bool) -> dict[str, Any]:
    function = {"name": "bash", "parameters": SHELL}
    return {
        "model": "m",
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
        "tools": [{"type": "function", "function": function}],
    }


def body(dialect: str, text: str, stream: bool) -> dict[str, Any]:
    """The smallest request with one shell tool, in each dialect."""
    user = {"role": "user", "content": text}
    match dialect:
        case "chat":
            return chat(text, stream)
        case "anthropic":
            tools = [{"name": "bash", "input_schema": SHELL}]
            return {"model": "m", "stream": stream, "messages": [user], "tools": tools}
        case _:
            tools = [{"type": "function", "name": "bash", "parameters": SHELL}]
            return {"model": "m", "stream": stream, "input": [user], "tools": tools}


def url(dialect: str, server: ModelServer) -> str:
    return {
        "chat": f"{server.openai_base_url}/chat/completions",
        "responses": f"{server.openai_base_url}/responses",
        "anthropic": f"{server.anthropic_base_url}/v1/messages",
    }[dialect]


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in response.text.split("\n"))
    return [json.loads(line) for line in lines if line.startswith("{")]


def streamed_text(dialect: str, found: list[dict[str, Any]]) -> str:
    match dialect:
        case "chat":
            choices = [c for event in found for c in event["choices"]]
            return "".join(choice["delta"].get("content") or "" for choice in choices)
        case "responses":
            wanted = "response.output_text.delta"
            return "".join(event["delta"] for event in found if event["type"] == wanted)
        case _:
            texts = [e["delta"] for e in found if e["type"] == "content_block_delta"]
            return "".join(delta.get("text", "") for delta in texts)


def ending(dialect: str, found: list[dict[str, Any]]) -> str:
    match dialect:
        case "chat":
            reasons = [c["finish_reason"] for event in found for c in event["choices"]]
            return str(reasons[-1])
        case "responses":
            response = found[-1]["response"]
            details = response["incomplete_details"]
            return str(details["reason"] if details else response["status"])
        case _:
            return str(found[-2]["delta"]["stop_reason"])


async def ask(
    script: Script | None, dialect: str, text: str = "hi", stream: bool = True
) -> tuple[httpx.Response, ModelRequest]:
    async with ModelServer(script) as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        response = await client.post(url(dialect, server), json=body(dialect, text, stream))
        return response, server.requests[0]


async def test_streamed_text_arrives_whole(dialect: str) -> None:
    text = "one\ntwo\u2028three 😀"
    response, _ = await ask([Reply.say(text, chunks=5)], dialect)
    assert streamed_text(dialect, events(response)) == text


async def test_thousands_of_deltas_keep_their_order(dialect: str) -> None:
    response, _ = await ask([Reply.of(Repeat("{i},", 3000))], dialect)
    expected = "".join(f"{i}," for i in range(3000))
    assert streamed_text(dialect, events(response)) == expected


@pytest.mark.parametrize(
    ("finish", "reasons"),
    [
        (Finish.AUTO, {"stop", "completed", "end_turn"}),
        (Finish.LENGTH, {"length", "max_output_tokens", "max_tokens"}),
        (Finish.REFUSAL, {"content_filter", "refusal"}),
    ],
)
async def test_the_finish_is_told_in_the_dialects_word(
    dialect: str, finish: Finish, reasons: set[str]
) -> None:
    response, _ = await ask([Reply.of(Text("x"), finish=finish)], dialect)
    assert ending(dialect, events(response)) in reasons


async def test_parallel_calls_stream_their_arguments_in_fragments() -> None:
    reply = Reply.of(
        Think("hm"),
        Call("bash", '{"command": "a"}', fragments=4),
        Call("bash", '{"command": "b"}', id="mine"),
    )
    response, _ = await ask([reply], "chat")
    found = events(response)
    calls = [c for e in found for ch in e["choices"] for c in ch["delta"].get("tool_calls", [])]
    texts = ["", ""]
    for call in calls:
        texts[call["index"]] += call["function"]["arguments"]
    assert texts == ['{"command": "a"}', '{"command": "b"}']
    assert [c["id"] for c in calls if "id" in c][1] == "mine"
    assert ending("chat", found) == "tool_calls"


async def test_calls_are_whole_items_in_the_other_dialects() -> None:
    script = [Reply.of(ToolCall("shell", {"command": "ls"}, fragments=3))]
    response, _ = await ask(script, "responses")
    item = events(response)[-1]["response"]["output"][0]
    assert (item["name"], json.loads(item["arguments"])) == ("bash", {"command": "ls"})
    response, _ = await ask(script, "anthropic")
    deltas = [e["delta"] for e in events(response) if e["type"] == "content_block_delta"]
    assert json.loads("".join(d["partial_json"] for d in deltas)) == {"command": "ls"}


async def test_a_meaning_no_tool_fits_is_answered_plainly(dialect: str) -> None:
    response, request = await ask([Reply.of(ToolCall("plan"))], dialect)
    assert "no tool to plan" in streamed_text(dialect, events(response))
    assert request.unfit == ["plan"]


async def test_a_reply_that_is_not_streamed_says_the_same(dialect: str) -> None:
    reply = Reply.of(Think("why"), Text("hello"), ToolCall("shell", {"command": "ls"}))
    response, _ = await ask([reply], dialect, stream=False)
    flat = json.dumps(response.json())
    assert all(word in flat for word in ("why", "hello", "bash", "ls"))


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_failures_carry_status_message_and_retry_after(dialect: str, status: int) -> None:
    response, _ = await ask([Failure(status, "no", retry_after=1.5)], dialect)
    assert response.status_code == status
    assert response.headers["retry-after"] == "1.5"
    assert response.json()["error"]["message"] == "no"


async def test_a_failure_may_bring_its_own_body() -> None:
    response, _ = await ask([Failure(502, body=b"<html>")], "chat")
    assert response.text == "<html>"


async def test_a_cut_stream_has_no_finish_marker(dialect: str) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask([Reply.of(Text("half"), Cut())], dialect)
    response, _ = await ask([Reply.of(Text("half"), Cut(clean=True))], dialect)
    assert streamed_text(dialect, events(response)) == "half"
    assert "[DONE]" not in response.text
    assert "message_stop" not in response.text
    assert "response.completed" not in response.text


async def test_malformed_bytes_are_put_into_the_stream(dialect: str) -> None:
    response, _ = await ask([Reply.of(Text("a"), Malformed(b"data: {oops\n\n"))], dialect)
    assert "data: {oops\n\n" in response.text


async def test_a_script_that_is_used_up_fails_loudly() -> None:
    response, _ = await ask([], "chat")
    assert response.status_code == 500


async def test_a_function_gets_the_parsed_request() -> None:
    def script(request: ModelRequest) -> Reply:
        return Reply.say(f"{request.dialect} {request.entries[-1].text} {request.tools[0].name}")

    response, _ = await ask(script, "responses", "hello")
    said = streamed_text("responses", events(response))
    assert said == "openai-responses hello bash"


async def test_an_awaiting_function_and_a_held_stream() -> None:
    gate = asyncio.Event()

    async def script(_request: ModelRequest) -> Reply:
        await asyncio.sleep(0)
        return Reply.of(Text("a"), Wait(gate), Text("b"))

    async with ModelServer(script) as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        asking = asyncio.create_task(client.post(url("chat", server), json=body("chat", "x", True)))
        await server.wait_for(lambda requests: len(requests) == 1)
        assert not server.requests[0].finished.is_set()
        gate.set()
        assert streamed_text("chat", events(await asking)) == "ab"
        assert server.requests[0].finished.is_set()


async def test_a_client_that_goes_away_is_noticed() -> None:
    async with ModelServer([Reply.of(Text("a"), Hang())]) as server:
        async with httpx.AsyncClient(timeout=TIMEOUT) as client:
            request = body("chat", "x", True)
            async with client.stream("POST", url("chat", server), json=request) as response:
                async for _ in response.aiter_bytes():
                    break
        async with asyncio.timeout(TIMEOUT):
            await server.requests[0].finished.wait()
        assert server.requests[0].aborted


async def test_stopping_ends_hanging_answers() -> None:
    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        async with ModelServer([Reply.of(Hang())]) as server:
            asking = asyncio.create_task(
                client.post(url("chat", server), json=body("chat", "x", True))
            )
            await server.wait_for(lambda requests: len(requests) == 1)
        with pytest.raises(httpx.HTTPError):
            await asking


async def test_a_request_that_makes_no_sense_is_a_400() -> None:
    async with ModelServer() as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        for content in (b"{", b"[]", b'{"messages": 5}'):
            response = await client.post(url("chat", server), content=content)
            assert response.status_code == 400


async def test_models_are_listed_and_nothing_else_is_found() -> None:
    async with ModelServer(models=("a", "b")) as server, httpx.AsyncClient() as client:
        listed = (await client.get(f"{server.openai_base_url}/models")).json()
        assert [model["id"] for model in listed["data"]] == ["a", "b"]
        assert (await client.get(f"{server.openai_base_url}/nope")).status_code == 404


def conversation(dialect: str, prompt: str) -> dict[str, Any]:
    """A prompt, one tool call of the model, its result: the second call of a turn is due."""
    request = body(dialect, prompt, True)
    match dialect:
        case "chat":
            call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            request["messages"] += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "output"},
            ]
        case "anthropic":
            use = {"type": "tool_use", "id": "1", "name": "bash", "input": {}}
            result = {"type": "tool_result", "tool_use_id": "1", "content": "output"}
            request["messages"] += [
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ]
        case _:
            request["input"] += [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "call_id": "1", "name": "bash", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "output"},
            ]
    return request


async def test_directives_follow_the_turn(dialect: str) -> None:
    prompt = '@tool shell {"command": "ls"}\n@then\n@say second'
    async with ModelServer() as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        response = await client.post(url(dialect, server), json=conversation(dialect, prompt))
        assert streamed_text(dialect, events(response)) == "second"
        assert server.requests[0].results() == ["output"]


async def test_directives_of_an_earlier_turn_are_over() -> None:
    request = chat("@say old", True)
    request["messages"] += [
        {"role": "assistant", "content": "old"},
        {"role": "user", "content": "and now?"},
    ]
    async with ModelServer() as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        response = await client.post(url("chat", server), json=request)
        assert streamed_text("chat", events(response)) == PLAIN


async def test_a_repeated_request_is_a_new_attempt() -> None:
    request = chat("@status 500 no\n@retry\n@say yes", True)
    async with ModelServer() as server, httpx.AsyncClient(timeout=TIMEOUT) as client:
        replies = [await client.post(url("chat", server), json=request) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [500, 200, 200]


async def test_a_broken_directive_is_told_to_the_agent() -> None:
    response, _ = await ask(None, "chat", "@status x")
    assert response.status_code == 400
    assert "@status x" in response.json()["error"]["message"]


async def test_it_runs_on_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "conformance.model_server", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT):
            base = (await process.stdout.readline()).decode().strip()
        async with httpx.AsyncClient(timeout=TIMEOUT) as client:
            request = chat("@say hello", True)
            response = await client.post(f"{base}/chat/completions", json=request)
        assert streamed_text("chat", events(response)) == "hello"
    finally:
        process.kill()
        await process.communicate()
