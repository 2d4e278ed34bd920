"""The Responses decoder: what is streamed, what only comes whole, and how an answer ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
from harness_core.model.responses_stream import PARAGRAPH, ResponseDecoder
from harness_core.model.seals import unseal

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


def over(status: str = "completed", **fields: Any) -> Event:
    return event(status, response={"status": status, "output": [], **fields})


def decoded(*events: Event, end: Event | None = None) -> list[Chunk]:
    """The chunks of a stream of these events, and of a plain end if none is given."""
    decoder = ResponseDecoder("acme")
    chunks: list[Chunk] = []
    for sent in (*events, over() if end is None else end):
        chunks += decoder.feed("", json.dumps(sent))
    assert decoder.done
    return [*chunks, *decoder.end()]


def call(item: str, call_id: str, name: str, arguments: str = "") -> Event:
    return {
        "type": "function_call",
        "id": item,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


TEXT = event("output_text.delta", output_index=0, delta="So")


# --- text and reasoning ------------------------------------------------------------------------


def test_text_streams() -> None:
    assert decoded(TEXT, TEXT) == [TextDelta("So"), TextDelta("So"), Finish("stop")]


def test_what_was_streamed_is_not_repeated_when_it_is_closed() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "So"}]}
    closed = event("output_item.done", output_index=0, item=message)
    assert decoded(TEXT, closed) == [TextDelta("So"), Finish("stop")]


def test_what_was_not_streamed_is_taken_from_what_is_closed() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "So"}]}
    closed = event("output_item.done", output_index=0, item=message)
    assert decoded(closed) == [TextDelta("So"), Finish("stop")]


def test_the_parts_of_a_summary_are_paragraphs() -> None:
    parts = [
        event("reasoning_summary_part.added", output_index=0, summary_index=0),
        event("reasoning_summary_text.delta", output_index=0, delta="one"),
        event("reasoning_summary_part.added", output_index=0, summary_index=1),
        event("reasoning_summary_text.delta", output_index=0, delta="two"),
    ]
    thoughts = [c.text for c in decoded(*parts, TEXT) if isinstance(c, ReasoningDelta)]
    assert thoughts == ["one", PARAGRAPH, "two"]


@pytest.mark.parametrize("kind", ["reasoning_summary_text.delta", "reasoning_text.delta"])
def test_reasoning_is_shown_whether_it_is_summed_up_or_not(kind: str) -> None:
    chunks = decoded(event(kind, output_index=0, delta="hm"), TEXT)
    assert chunks[0] == ReasoningDelta("hm")


@pytest.mark.parametrize("streamed", [True, False])
def test_encrypted_reasoning_is_sealed_with_the_name_of_its_provider(streamed: bool) -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "g:A="}
    delta = event("reasoning_summary_text.delta", output_index=0, delta="hm")
    closed = event("output_item.done", output_index=0, item=item)
    thoughts = [c for c in decoded(*[delta] * streamed, closed) if isinstance(c, ReasoningDelta)]
    assert "".join(thought.text for thought in thoughts) == "hm"
    assert unseal(thoughts[-1].signature, "acme") == ("rs_1", "g:A=")
    assert unseal(thoughts[-1].signature, "other") is None


def test_reasoning_that_is_not_encrypted_has_no_seal() -> None:
    item: Event = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    assert decoded(event("output_item.done", output_index=0, item=item), TEXT) == [
        TextDelta("So"),
        Finish("stop"),
    ]


# --- calls -------------------------------------------------------------------------------------


def announced(place: int, item: Event) -> Event:
    return event("output_item.added", output_index=place, item={**item, "arguments": ""})


def piece(place: int, arguments: str, item: str = "") -> Event:
    return event("function_call_arguments.delta", output_index=place, item_id=item, delta=arguments)


def closed(place: int, item: Event) -> Event:
    return event("output_item.done", output_index=place, item=item)


def without_places(events: Iterable[Event]) -> list[Event]:
    return [{k: v for k, v in sent.items() if k != "output_index"} for sent in events]


LS, CAT = call("fc_1", "a", "ls", '{"x":1}'), call("fc_2", "b", "cat", "{}")
BY_THE_LETTER = [
    announced(0, LS),
    piece(0, '{"x":', "fc_1"),
    piece(0, "1}", "fc_1"),
    closed(0, LS),
    announced(1, CAT),
    piece(1, "{}", "fc_2"),
    closed(1, CAT),
]
DEVIATIONS: dict[str, list[Event]] = {
    "by the letter": BY_THE_LETTER,
    "no places": without_places(BY_THE_LETTER),
    "ids that change": [
        announced(0, LS),
        piece(0, '{"x":1}', "fc_9"),
        closed(0, {**LS, "id": "fc_8"}),
        announced(1, CAT),
        piece(1, "{}", "fc_7"),
        closed(1, CAT),
    ],
    "one place for all": [
        announced(0, LS),
        piece(0, '{"x":1}', "fc_1"),
        closed(0, LS),
        announced(0, CAT),
        closed(0, CAT),
    ],
    "side by side": [
        announced(0, LS),
        announced(1, CAT),
        piece(1, "{}", "fc_2"),
        piece(0, '{"x":1}', "fc_1"),
        closed(1, CAT),
        closed(0, LS),
    ],
    "arguments only when closed": [
        announced(0, LS),
        closed(0, LS),
        announced(1, CAT),
        closed(1, CAT),
    ],
    "never announced": [closed(0, LS), closed(1, CAT)],
}


def calls(chunks: Sequence[Chunk]) -> list[tuple[str, str, str]]:
    found: dict[str, list[str]] = {}
    for chunk in chunks:
        if isinstance(chunk, ToolCallDelta):
            assert bool(chunk.name) == (chunk.id not in found)
            found.setdefault(chunk.id, [chunk.name, ""])[1] += chunk.arguments
    return [(id, name, arguments) for id, (name, arguments) in found.items()]


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_calls_are_told_apart(deviation: str) -> None:
    chunks = decoded(*DEVIATIONS[deviation])
    assert calls(chunks) == [("a", "ls", '{"x":1}'), ("b", "cat", "{}")]
    assert chunks[-1] == Finish("tool-calls")


def test_a_call_cut_by_the_length_is_no_call_to_run() -> None:
    end = over("incomplete", incomplete_details={"reason": "max_output_tokens"})
    chunks = decoded(announced(0, LS), piece(0, '{"x'), end=end)
    assert chunks[-1] == Finish("max-tokens")


def test_items_and_events_of_other_kinds_are_passed_over() -> None:
    strange = [
        event("queued"),
        event("output_item.added", output_index=0, item={"type": "web_search_call", "id": "w"}),
        event("web_search_call.searching", output_index=0),
        event("output_item.done", output_index=0, item={"type": "web_search_call", "id": "w"}),
        event("output_text.annotation.added", output_index=1),
        piece(7, "{}", "unknown"),
    ]
    assert decoded(*strange, {**TEXT, "output_index": 1}) == [TextDelta("So"), Finish("stop")]


# --- the end -----------------------------------------------------------------------------------

REFUSED = event("refusal.delta", output_index=0, delta="I will not.")


@pytest.mark.parametrize(
    ("events", "end", "finish"),
    [
        ([REFUSED], over(), Finish("refusal", explanation="I will not.")),
        (
            [closed(0, {"type": "message", "content": [{"refusal": "I will not."}]})],
            over(),
            Finish("refusal", explanation="I will not."),
        ),
        (
            [TEXT],
            over("incomplete", incomplete_details={"reason": "content_filter"}),
            Finish("refusal"),
        ),
        (
            [TEXT],
            over("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Finish("max-tokens"),
        ),
        (
            [],
            over("failed", error={"code": "bio_policy", "message": "Not this."}),
            Finish("refusal", explanation="Not this."),
        ),
    ],
)
def test_how_an_answer_ends(events: list[Event], end: Event, finish: Finish) -> None:
    assert decoded(*events, end=end)[-1] == finish


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (over(), "empty"),
        (over("incomplete", incomplete_details={"reason": "steered"}), "server"),
    ],
)
def test_ends_that_are_failures(end: Event, code: str) -> None:
    *_, last = decoded(end=end)
    assert isinstance(last, Finish)
    assert last.failure is not None
    assert last.failure.code == code


@pytest.mark.parametrize(
    "sent",
    [
        over("failed", error={"code": "server_error", "message": "Sorry."}),
        over("failed"),
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slower."},
        {"error": {"message": "Sorry."}},
    ],
)
def test_an_error_is_raised(sent: Event) -> None:
    with pytest.raises(ApiError):
        ResponseDecoder("acme").feed("", json.dumps(sent))


def test_without_its_end_there_is_no_finish() -> None:
    decoder = ResponseDecoder("acme")
    decoder.feed("", json.dumps(TEXT))
    decoder.feed("", "[DONE]")
    assert not decoder.done
    assert decoder.end() == ()


def test_an_answer_may_come_whole() -> None:
    output = [
        {"type": "reasoning", "id": "rs", "summary": [{"text": "hm"}], "encrypted_content": "e"},
        {"type": "message", "content": [{"type": "output_text", "text": "Look:"}]},
        LS,
        CAT,
    ]
    whole = {"object": "response", "status": "completed", "output": output, "error": None}
    decoder = ResponseDecoder("acme")
    chunks = [*decoder.feed("", json.dumps(whole)), *decoder.end()]
    assert chunks[:2] == [ReasoningDelta("hm", "responses:acme:rs:e"), TextDelta("Look:")]
    assert calls(chunks) == [("a", "ls", '{"x":1}'), ("b", "cat", "{}")]
    assert chunks[-1] == Finish("tool-calls")


counts = st.integers(0, 10_000)


@given(counts, counts, counts, counts, counts)
def test_counters_are_disjoint_and_add_up(
    plain: int, read: int, write: int, said: int, thought: int
) -> None:
    told = {
        "input_tokens": plain + read + write,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        "output_tokens": said + thought,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": plain + read + write + said + thought,
    }
    report = decoded(TEXT, end=over(usage=told))[-2]
    assert report == UsageReport(Usage(plain, read, write, said, thought))


def test_counters_of_smaller_servers() -> None:
    report = decoded(TEXT, end=over(usage={"input_tokens": 8, "output_tokens": 2}))[-2]
    assert report == UsageReport(Usage(input=8, output=2))
