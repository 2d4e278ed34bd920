"""The chat-completions decoder: what compatible servers do to the letter of the API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import (
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from harness_core.model.failures import ApiError
from harness_core.model.openai_stream import ChatDecoder, usage


def decoded(
    *deltas: dict[str, Any], reason: str | None = "stop", used: frozenset[str] = frozenset()
) -> list[Chunk]:
    """The chunks of a stream with these deltas and that reason to finish."""
    decoder = ChatDecoder(used)
    chunks: list[Chunk] = []
    for delta in deltas:
        chunks += decoder.feed("", json.dumps({"choices": [{"delta": delta}]}))
    if reason:
        last = {"choices": [{"delta": {}, "finish_reason": reason}]}
        chunks += decoder.feed("", json.dumps(last))
    return [*chunks, *decoder.end()]


def part(
    index: int | None = 0, id: str | None = None, name: str = "", arguments: Any = ""
) -> dict[str, Any]:
    """A delta with one piece of a tool call."""
    call: dict[str, Any] = {"function": {"arguments": arguments}}
    if name:
        call["function"]["name"] = name
    if index is not None:
        call["index"] = index
    if id is not None:
        call["id"] = id
    return {"tool_calls": [call]}


def calls(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    """Names and arguments, by id in order of appearance; the first piece must bring the name."""
    found: dict[str, list[str]] = {}
    for chunk in chunks:
        if isinstance(chunk, ToolCallDelta):
            assert bool(chunk.name) == (chunk.id not in found)
            found.setdefault(chunk.id, [chunk.name, ""])[1] += chunk.arguments
    return [(name, arguments) for name, arguments in found.values()]


DEVIATIONS: dict[str, list[dict[str, Any]]] = {
    "by the letter": [
        part(0, "a", "ls", ""),
        part(0, None, "", '{"x":'),
        part(0, None, "", "1}"),
        part(1, "b", "cat", "{}"),
    ],
    "interleaved": [
        part(0, "a", "ls"),
        part(1, "b", "cat"),
        part(0, None, "", '{"x":'),
        part(1, None, "", "{}"),
        part(0, None, "", "1}"),
    ],
    "id and name repeated": [
        part(0, "a", "ls", '{"x":'),
        part(0, "a", "ls", "1}"),
        part(1, "b", "cat", "{}"),
    ],
    "no ids": [part(0, None, "ls", '{"x":1}'), part(1, None, "cat", "{}")],
    "empty ids": [part(0, "", "ls", '{"x":'), part(0, "", "", "1}"), part(1, "", "cat", "{}")],
    "one index for all": [part(0, "a", "ls", '{"x":1}'), part(0, "b", "cat", "{}")],
    "one index for all, no ids": [part(0, None, "ls", '{"x":1}'), part(0, None, "cat", "{}")],
    "one id for all": [part(0, "a", "ls", '{"x":1}'), part(1, "a", "cat", "{}")],
    "no index": [
        part(None, "a", "ls", '{"x":'),
        part(None, "a", "", "1}"),
        part(None, "b", "cat", "{}"),
    ],
    "no index, id once": [
        part(None, "a", "ls", '{"x":'),
        part(None, None, "", "1}"),
        part(None, "b", "cat", "{}"),
    ],
    "neither index nor id": [part(None, None, "ls", '{"x":1}'), part(None, None, "cat", "{}")],
    "name after the arguments began": [
        part(0, "a", "", '{"x":'),
        part(0, None, "ls", "1}"),
        part(1, "b", "cat", "{}"),
    ],
    "arguments as an object": [part(0, "a", "ls", {"x": 1}), part(1, "b", "cat", {})],
    "arguments null": [
        part(0, "a", "ls", None),
        part(0, None, "", '{"x":1}'),
        part(1, "b", "cat", "{}"),
    ],
    "all in one event": [
        {
            "tool_calls": [
                *part(0, "a", "ls", '{"x":1}')["tool_calls"],
                *part(1, "b", "cat", "{}")["tool_calls"],
            ]
        }
    ],
}


@pytest.mark.parametrize("deviation", DEVIATIONS)
@pytest.mark.parametrize("used", [frozenset(), frozenset("ab")], ids=["new ids", "old ids"])
def test_calls_are_told_apart(deviation: str, used: frozenset[str]) -> None:
    chunks = decoded(*DEVIATIONS[deviation], reason="tool_calls", used=used)
    assert calls(chunks) == [("ls", '{"x":1}'), ("cat", "{}")]
    assert not {chunk.id for chunk in chunks if isinstance(chunk, ToolCallDelta)} & used
    assert chunks[-1] == Finish("tool-calls")


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8), max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.randoms(),
)
def test_fragments_of_parallel_calls_reassemble(arguments: list[dict[str, Any]], dice: Any) -> None:
    """However the arguments are cut and interleaved, each call gets its own back."""
    texts = [json.dumps(given, ensure_ascii=False) for given in arguments]
    queues = []
    for index, text in enumerate(texts):
        cuts = sorted(dice.sample(range(len(text) + 1), k=dice.randint(0, min(4, len(text)))))
        bounds = [0, *cuts, len(text)]
        pieces = [text[a:b] for a, b in pairwise(bounds)]
        first = part(index, f"c{index}", f"tool{index}")
        queues.append([first, *(part(index, None, "", piece) for piece in pieces)])
    deltas = []
    while any(queues):
        deltas.append(dice.choice([queue for queue in queues if queue]).pop(0))
    told = dict(calls(decoded(*deltas, reason="tool_calls")))
    assert told == {f"tool{index}": text for index, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "max-tokens"),
        ("model_length", "max-tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "stop"),
        ("insufficient_system_resource", "error"),
        ("error", "error"),
    ],
)
def test_reasons_to_finish(reason: str, kind: str) -> None:
    *_, last = decoded({"content": "So"}, reason=reason)
    assert isinstance(last, Finish)
    assert last.kind == kind


def test_calls_count_more_than_the_reason() -> None:
    assert decoded(part(0, "a", "ls", "{}"), reason="stop")[-1] == Finish("tool-calls")


def test_a_cut_in_the_middle_of_a_call_is_no_call_to_run() -> None:
    assert decoded(part(0, "a", "ls", '{"x'), reason="length")[-1] == Finish("max-tokens")


def test_the_refusal_field_is_the_explanation() -> None:
    chunks = decoded({"refusal": "I will "}, {"refusal": "not."})
    assert chunks == [Finish("refusal", explanation="I will not.")]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_has_two_names(field: str) -> None:
    assert decoded({field: "hm", "content": ""}, {"content": "So"})[:2] == [
        ReasoningDelta("hm"),
        TextDelta("So"),
    ]


def test_thinking_alone_is_no_answer() -> None:
    *_, last = decoded({"reasoning": "hm"})
    assert isinstance(last, Finish)
    assert last.failure is not None
    assert last.failure.code == "empty"


def test_content_may_be_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    chunks = decoded({"content": [thinking, {"type": "text", "text": "So"}]})
    assert chunks == [ReasoningDelta("hm"), TextDelta("So"), Finish("stop")]


def test_the_done_marker_is_an_end_even_without_a_reason() -> None:
    decoder = ChatDecoder()
    done = []
    for data in ('{"choices":[{"delta":{"content":"So"}}]}', "[DONE]"):
        decoder.feed("", data)
        done.append(decoder.done)
    assert done == [False, True]
    assert decoder.end() == [Finish("stop")]


def test_without_any_marker_there_is_no_finish_but_the_usage() -> None:
    decoder = ChatDecoder()
    decoder.feed("", '{"choices":[{"delta":{"content":"So"}}],"usage":{"prompt_tokens":3}}')
    assert decoder.end() == [UsageReport(Usage(input=3))]


def test_an_error_object_is_raised() -> None:
    with pytest.raises(ApiError):
        ChatDecoder().feed("", '{"error":{"message":"no"}}')
    with pytest.raises(ApiError):
        ChatDecoder().feed("error", '{"message":"no"}')


counts = st.integers(0, 10_000)


@given(counts, counts, counts, counts, counts, st.booleans())
def test_counters_are_disjoint_and_add_up(
    plain: int, read: int, write: int, said: int, thought: int, apart: bool
) -> None:
    """Whether a provider counts reasoning within its completion tokens or beside them."""
    given_tokens, made = plain + read + write, said if apart else said + thought
    told = usage(
        {
            "prompt_tokens": given_tokens,
            "completion_tokens": made,
            "total_tokens": given_tokens + said + thought,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
    )
    assert told == Usage(plain, read, write, said, thought)
    assert told.context == given_tokens + said + thought


def test_counters_of_smaller_servers() -> None:
    assert usage({"prompt_tokens": 8, "completion_tokens": 2}) == Usage(input=8, output=2)
    hit = {"prompt_tokens": 8, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}
    assert usage(hit) == Usage(input=3, cache_read=5, output=2)
    assert usage({"prompt_tokens": None, "prompt_tokens_details": None}) == Usage()
