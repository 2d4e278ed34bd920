"""Each row of the table on the page of models: what is sent by every dialect, and what comes back.

Without a network: a dialect's request is a value, and its decoder takes events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.content import (
    AssistantMessage,
    Audio,
    Chunk,
    Finish,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Resource,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UsageReport,
    UserMessage,
)
from harness_core.model.anthropic import AnthropicModel
from harness_core.model.catalogue import resolve
from harness_core.model.http import HttpModel, unsupported
from harness_core.model.openai import OpenAIModel
from harness_core.model.protocol import ModelConfig, ModelRequest, ToolSpec
from harness_core.model.responses import ResponsesModel
from harness_core.model.seals import seal
from harness_core.model.settings import ModelSettings, ProviderSettings

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
ROWS: dict[str, Callable[[], None]] = {}
Test: TypeAlias = Callable[[], None]

HELLO = UserMessage("m1", (Text("Hello"),))
PNG = Image("iVBORw0KGgo=", "image/png")
PDF = Resource("file:///plan.pdf", blob="JVBERi0=", mime_type="application/pdf")
WAV = UserMessage("m1", (Audio("AAAA", "audio/wav"),))
LS = ToolSpec("ls", "Lists files.", {"type": "object"})
CALLS = AssistantMessage((ToolCall("c1", "ls", "{}"), ToolCall("c2", "ls", "[1]")))
RESULTS = (ToolMessage("c1", "ls", (Text("a"), PNG)), ToolMessage("c2", "ls", (Text("b"),)))


def row(name: str) -> Callable[[Test], Test]:
    """This test is about the row of that name."""

    def register(test: Test) -> Test:
        ROWS[name] = test
        return test

    return register


def made(kind: str, name: str = "m", **said: Any) -> HttpModel:
    provider = ProviderSettings(kind=kind, base_url="http://localhost:9", **said)
    model = resolve(f"acme:{name}", ModelSettings(None, {"acme": provider}), {})
    assert isinstance(model, HttpModel)
    return model


CHAT, RESPONSES = made("openai"), made("openai-responses")
ANTHROPIC = made("anthropic", "claude-opus-4-6")


def sent(
    model: HttpModel,
    *messages: Message,
    system: str = "",
    tools: tuple[ToolSpec, ...] = (),
    **knobs: Any,
) -> Any:
    config = ModelConfig(model.info.id, **knobs)
    body = model.body(ModelRequest(config, system, messages or (HELLO,), tools))
    return json.loads(json.dumps(body))


def decoded(model: HttpModel, *events: dict[str, Any]) -> list[Chunk]:
    decoder = model.decoder(ModelRequest(ModelConfig(model.info.id), "", [HELLO]))
    chunks: list[Chunk] = []
    for event in events:
        chunks += decoder.feed("", json.dumps(event))
    return [*chunks, *decoder.end()]


def choice(reason: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": reason}], "usage": usage}


def over(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **fields}}


def last_words(reason: str, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def kinds(model: HttpModel, *events: dict[str, Any]) -> str:
    last = decoded(model, *events)[-1]
    assert isinstance(last, Finish)
    return last.kind


@row("system prompt")
def test_system_prompt() -> None:
    first = sent(CHAT, system="Be kind.")["messages"][0]
    assert first == {"role": "system", "content": "Be kind."}
    assert sent(RESPONSES, system="Be kind.")["instructions"] == "Be kind."
    assert sent(ANTHROPIC, system="Be kind.")["system"][0]["text"] == "Be kind."


@row("`max_output`")
def test_max_output() -> None:
    official = resolve("openai:gpt-5", ModelSettings(), {"OPENAI_API_KEY": "k"})
    assert isinstance(official, OpenAIModel)
    assert sent(official, max_output=7)["max_completion_tokens"] == 7
    assert sent(CHAT, max_output=7)["max_tokens"] == 7
    assert sent(RESPONSES, max_output=7)["max_output_tokens"] == 7
    assert sent(ANTHROPIC, max_output=7)["max_tokens"] == 7
    assert sent(ANTHROPIC)["max_tokens"] == 32_000


@row("`temperature`")
def test_temperature() -> None:
    for model in (CHAT, RESPONSES, ANTHROPIC):
        assert sent(model, temperature=0.5)["temperature"] == 0.5
        assert "temperature" not in sent(model)
    assert "temperature" not in sent(ANTHROPIC, temperature=0.5, effort="low")


@row("`effort`")
def test_effort() -> None:
    assert sent(CHAT, effort="low")["reasoning_effort"] == "low"
    assert sent(RESPONSES, effort="low")["reasoning"] == {"effort": "low", "summary": "auto"}
    body = sent(ANTHROPIC, effort="low")
    assert body["thinking"]["type"] == "adaptive"
    assert body["output_config"] == {"effort": "low"}
    older = made("anthropic", "claude-sonnet-4-5")
    budgets = [
        sent(older, effort=effort, max_output=16_000)["thinking"]["budget_tokens"]
        for effort in ("low", "medium", "high")
    ]
    assert budgets == [2_000, 4_000, 8_000]
    for model in (CHAT, RESPONSES, ANTHROPIC):
        assert sent(model).keys().isdisjoint(("reasoning_effort", "reasoning", "thinking"))


@row("reasoning shown")
def test_reasoning_shown() -> None:
    for field in ("reasoning", "reasoning_content"):
        assert ReasoningDelta("hm") in decoded(CHAT, choice(**{field: "hm"}))
    for kind in ("reasoning_summary_text", "reasoning_text"):
        delta = {"type": f"response.{kind}.delta", "output_index": 0, "delta": "hm"}
        assert ReasoningDelta("hm") in decoded(RESPONSES, delta)
    thinking = {"type": "thinking_delta", "thinking": "hm"}
    delta = {"type": "content_block_delta", "index": 0, "delta": thinking}
    assert ReasoningDelta("hm") in decoded(ANTHROPIC, delta)


@row("reasoning sent back")
def test_reasoning_sent_back() -> None:
    def thought(signature: str) -> tuple[Message, ...]:
        block = Reasoning("hm", signature)
        return HELLO, AssistantMessage((block, ToolCall("c1", "ls", "{}"))), *RESULTS[:1]

    ours, theirs = seal("acme", "rs_1", "gAAA="), "c2lnbg=="
    wanting = made("openai", reasoning_field="thoughts")
    assert "hm" not in json.dumps(sent(CHAT, *thought(theirs)))
    assert sent(wanting, *thought(theirs))["messages"][1]["thoughts"] == "hm"
    assert sent(RESPONSES, *thought(ours))["input"][1]["encrypted_content"] == "gAAA="
    assert "hm" not in json.dumps(sent(RESPONSES, *thought(theirs)))
    assert sent(ANTHROPIC, *thought(theirs))["messages"][1]["content"][0]["signature"] == theirs
    assert "hm" not in json.dumps(sent(ANTHROPIC, *thought(ours)))


@row("prompt cache")
def test_prompt_cache() -> None:
    for model in (CHAT, RESPONSES):
        assert "cache" not in json.dumps(sent(model, system="Be kind.", tools=(LS,)))
    body = sent(ANTHROPIC, system="Be kind.", tools=(LS, LS))
    mark = {"type": "ephemeral"}
    assert body["system"][-1]["cache_control"] == mark
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, mark]
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks if isinstance(chunk, ToolCallDelta) and chunk.name]


@row("parallel tool calls")
def test_parallel_tool_calls() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "ls"}} for n in (1, 2)]
    assert ids(decoded(CHAT, choice(tool_calls=calls))) == ["c1", "c2"]
    items = [{"type": "function_call", "call_id": f"c{n}", "name": "ls"} for n in (1, 2)]
    done = [
        {"type": "response.output_item.done", "output_index": n, "item": item}
        for n, item in enumerate(items)
    ]
    assert ids(decoded(RESPONSES, *done)) == ["c1", "c2"]
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": "ls"} for n in (1, 2)]
    begun = [{"type": "content_block_start", "content_block": block} for block in blocks]
    assert ids(decoded(ANTHROPIC, *begun)) == ["c1", "c2"]

    told = [item.get("tool_call_id") for item in sent(CHAT, CALLS, *RESULTS)["messages"][1:3]]
    assert told == ["c1", "c2"]
    items = sent(RESPONSES, CALLS, *RESULTS)["input"][2:]
    assert [item["call_id"] for item in items] == ["c1", "c2"]
    (results,) = sent(ANTHROPIC, CALLS, *RESULTS)["messages"][1:]
    assert [block["tool_use_id"] for block in results["content"]] == ["c1", "c2"]


@row("tool arguments")
def test_tool_arguments() -> None:
    quoted = {"not_a_json_object": "[1]"}
    calls = sent(CHAT, CALLS)["messages"][0]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{}, quoted]
    items = sent(RESPONSES, CALLS)["input"]
    assert [json.loads(item["arguments"]) for item in items] == [{}, quoted]
    blocks = sent(ANTHROPIC, CALLS)["messages"][0]["content"]
    assert [block["input"] for block in blocks] == [{}, quoted]


def shown(model: HttpModel, block: Any) -> str:
    """The type of what stands for a block of the user's."""
    body = sent(model, UserMessage("m1", (PNG, block)))
    message = (body.get("messages") or body["input"])[0]
    return str(message["content"][1]["type"])


@row("images")
def test_images() -> None:
    told = [shown(model, PNG) for model in (CHAT, RESPONSES, ANTHROPIC)]
    assert told == ["image_url", "input_image", "image"]


@row("images of tools")
def test_images_of_tools() -> None:
    *_, result, pictures = sent(CHAT, CALLS, *RESULTS)["messages"]
    assert (result["role"], pictures["role"]) == ("tool", "user")
    assert pictures["content"][-1]["type"] == "image_url"
    first = sent(RESPONSES, CALLS, *RESULTS)["input"][2]
    assert [part["type"] for part in first["output"]] == ["input_text", "input_image"]
    first = sent(ANTHROPIC, CALLS, *RESULTS)["messages"][1]["content"][0]
    assert [part["type"] for part in first["content"]] == ["text", "image"]


@row("PDF files")
def test_pdf_files() -> None:
    told = [shown(model, PDF) for model in (CHAT, RESPONSES, ANTHROPIC)]
    assert told == ["text", "input_file", "document"]


@row("sounds")
def test_sounds() -> None:
    listening = {kind: made(kind, audio=True) for kind in ("openai", "openai-responses")}
    part = sent(listening["openai"], WAV)["messages"][0]["content"][0]
    assert part["type"] == "input_audio"
    for model in (CHAT, RESPONSES, listening["openai-responses"], ANTHROPIC):
        request = ModelRequest(ModelConfig(model.info.id), "", [WAV])
        assert "takes no audio" in (unsupported(request, model.info) or "")


def test_what_cannot_be_shown_is_refused_of_the_newest_words_alone() -> None:
    """Context that was put beside a prompt neither hides what it attaches nor counts itself."""
    picture = UserMessage("m1", (Text("see"), PNG))
    beside = UserMessage("m1-links", (Text("read"),), source="context")
    blind = made("openai", images=False).info

    def complaint(*messages: Message) -> str:
        return unsupported(ModelRequest(ModelConfig("m"), "", messages), blind) or ""

    assert "takes no images" in complaint(picture)
    assert "takes no images" in complaint(picture, beside)
    assert complaint(picture, HELLO) == ""
    assert complaint(HELLO, UserMessage("m2", (PNG,), source="context")) == ""


BLOCKS = st.sampled_from(
    [
        Text(""),
        Text(" \n"),
        Text("a"),
        PNG,
        Image("", "image/png"),
        Resource("file:///empty.png", blob="", mime_type="image/png"),
        Resource("file:///empty.txt", text=""),
    ]
)
SAID = st.lists(BLOCKS, max_size=3).map(tuple)
ANSWERED = st.lists(st.sampled_from([Text(""), Text(" "), Text("a"), Reasoning("")]), max_size=2)
TURNS = st.lists(
    st.builds(lambda said: UserMessage("m", said), SAID)
    | st.builds(lambda said: AssistantMessage(tuple(said)), ANSWERED)
    | st.builds(lambda said: AssistantMessage((*said, ToolCall("c", "ls", "{}"))), ANSWERED)
    | st.builds(lambda said: ToolMessage("c", "ls", said), SAID),
    max_size=5,
)


def empty_parts(value: Any) -> Iterator[Any]:
    """Whatever of a request a provider may refuse as empty."""
    match value:
        case {"role": "tool"}:
            return
        case {"content": ""} | {"content": []} | {"data": ""}:
            yield value
        case {"content": None} if "tool_calls" not in value:
            yield value
        case {"type": "text" | "input_text" | "output_text", "text": str(text)} if not text.strip():
            yield value
        case {"role": str(), "content": str(text)} if not text.strip():
            yield value
        case str(text) if text.endswith(";base64,"):
            yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from empty_parts(one)


@settings(deadline=None)
@given(TURNS)
def test_nothing_empty_is_sent(messages: list[Message]) -> None:
    seeing = (made("openai", images=True), made("openai-responses", images=True), ANTHROPIC)
    for model in (CHAT, RESPONSES, *seeing):
        assert list(empty_parts(sent(model, HELLO, *messages))) == []


@row("links and text files")
def test_links_and_text_files() -> None:
    file = UserMessage("m1", (Resource("file:///a.py", text="x = 1"),))
    for model in (CHAT, RESPONSES, ANTHROPIC):
        assert r"<resource uri=\"file:///a.py\">\nx = 1" in json.dumps(sent(model, file))


@row("stopped by length")
def test_stopped_by_length() -> None:
    assert kinds(CHAT, choice(content="So"), choice("length")) == "max-tokens"
    cut = over("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert kinds(RESPONSES, cut) == "max-tokens"
    for reason in ("max_tokens", "model_context_window_exceeded"):
        assert kinds(ANTHROPIC, last_words(reason)) == "max-tokens"


@row("refused")
def test_refused() -> None:
    assert kinds(CHAT, choice("content_filter")) == "refusal"
    assert kinds(CHAT, choice(refusal="No."), choice("stop")) == "refusal"
    no = {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}
    assert kinds(RESPONSES, no, over()) == "refusal"
    filtered = over("incomplete", incomplete_details={"reason": "content_filter"})
    assert kinds(RESPONSES, filtered) == "refusal"
    assert kinds(RESPONSES, over("failed", error={"code": "bio_policy"})) == "refusal"
    assert kinds(ANTHROPIC, last_words("refusal")) == "refusal"


@row("token counts")
def test_token_counts() -> None:
    def counted(given: str, made: str) -> dict[str, Any]:
        return {
            given: 100,
            f"{given}_details": {"cached_tokens": 60},
            made: 50,
            f"{made}_details": {"reasoning_tokens": 20},
        }

    told = UsageReport(Usage(input=40, cache_read=60, output=30, reasoning=20))
    usage = counted("prompt_tokens", "completion_tokens")
    assert told in decoded(CHAT, choice("stop", usage, content="So"))
    usage = counted("input_tokens", "output_tokens")
    assert told in decoded(RESPONSES, over(usage=usage))
    usage = {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 50}
    usage["output_tokens_details"] = {"thinking_tokens": 20}
    assert told in decoded(ANTHROPIC, last_words("end_turn", **usage))


def test_every_row_of_the_page_is_tested() -> None:
    table = PAGE.partition("## What is sent, and what comes back")[2].partition("\n- ")[0]
    assert [type(m) for m in (CHAT, RESPONSES, ANTHROPIC)] == [
        OpenAIModel,
        ResponsesModel,
        AnthropicModel,
    ]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    assert rows == ["what", "---", *ROWS]
