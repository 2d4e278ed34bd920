"""The way out: in order, one write a tick, and no more memory than the text itself needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.framing import INTERNAL_ERROR
from acp_server.outbox import HIGH_WATER, LONGEST_TEXT, Outbox
from tests.acp_server.sink import MemorySink

pytestmark = pytest.mark.anyio

Message = dict[str, Any]


def chunk(
    text: str, message: str = "m1", session: str = "s1", kind: str = "agent_message_chunk"
) -> Message:
    update = {
        "sessionUpdate": kind,
        "content": {"type": "text", "text": text},
        "messageId": message,
    }
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def answer(id: int) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": {}}


def status(session: str = "s1") -> Message:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def image(message: str = "m1") -> Message:
    picture = chunk("", message)
    picture["params"]["update"]["content"] = {"type": "image", "data": "", "mimeType": "image/png"}
    return picture


async def tick() -> None:
    await asyncio.sleep(0)


async def test_what_is_put_in_one_tick_leaves_in_one_write_in_order() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    messages = [answer(1), chunk("a"), chunk("b"), status(), answer(2)]
    for message in messages:
        outbox.put(message)
    assert sink.writes == []
    await tick()
    assert len(sink.writes) == 1
    assert sink.messages == messages


async def test_each_tick_writes_what_was_put_in_it() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    outbox.put(chunk("a"))
    await tick()
    outbox.put(chunk("b"))
    await tick()
    await tick()
    assert len(sink.writes) == 2
    assert sink.messages == [chunk("a"), chunk("b")]


async def test_facts_are_handed_over_before_the_updates_they_caused_leave() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)

    def drain() -> None:
        sink.order.append("drain")

    outbox.put(chunk("a"), drain)
    outbox.put(chunk("b"), drain)
    outbox.put(answer(1))
    await tick()
    outbox.put(answer(2))
    await tick()
    assert sink.order == ["drain", "write", "write"]


async def test_nothing_is_merged_while_the_client_reads() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    for _ in range(3):
        outbox.put(chunk("a"))
    await tick()
    assert sink.messages == [chunk("a")] * 3


async def test_text_of_one_message_is_merged_while_the_client_does_not_read() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    sink.pending = HIGH_WATER + 1
    for letter in "abc":
        outbox.put(chunk(letter))
        await tick()
    assert sink.writes == []
    sink.pending = 0
    outbox.flush()
    assert sink.messages == [chunk("abc")]


@pytest.mark.parametrize(
    "other",
    [
        chunk("b", message="m2"),
        chunk("b", session="s2"),
        chunk("b", kind="agent_thought_chunk"),
        chunk("b" * LONGEST_TEXT),
        image(),
        status(),
        answer(1),
    ],
    ids=["message", "session", "kind", "length", "image", "status", "answer"],
)
@pytest.mark.parametrize("turned", [False, True])
async def test_only_neighbouring_text_of_one_message_is_merged(
    other: Message, turned: bool
) -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    sink.pending = HIGH_WATER + 1
    pair = [chunk("a"), other] if not turned else [other, chunk("a")]
    for message in deepcopy(pair):
        outbox.put(message)
    sink.pending = 0
    outbox.flush()
    assert sink.messages == pair


async def test_memory_is_bounded_by_the_text_while_the_client_does_not_read() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    sink.pending = HIGH_WATER + 1
    for number in range(20_000):
        outbox.put(chunk(f"{number} "))
    sink.pending = 0
    outbox.flush()
    text = "".join(f"{number} " for number in range(20_000))
    assert len(sink.messages) <= len(text) // (LONGEST_TEXT - 10) + 1
    assert "".join(m["params"]["update"]["content"]["text"] for m in sink.messages) == text


async def test_what_is_left_at_the_end_is_handed_over_even_if_nobody_reads() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    sink.pending = HIGH_WATER + 1
    outbox.put(answer(1))
    await tick()
    outbox.finish()
    outbox.finish()
    assert sink.messages == [answer(1)]


async def test_a_message_that_is_not_json_takes_no_other_with_it() -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    outbox.put(chunk("a"))
    outbox.put({"jsonrpc": "2.0", "method": "session/update", "params": {"x": object()}})
    outbox.put({"jsonrpc": "2.0", "id": 1, "result": {"x": deep}})
    outbox.put({"jsonrpc": "2.0", "id": "2", "result": {"x": "\ud800"}})
    outbox.put(chunk("b"))
    await tick()
    first, *failed, last = sink.messages
    assert (first, last) == (chunk("a"), chunk("b"))
    assert [(m["id"], m["error"]["code"]) for m in failed] == [
        (1, INTERNAL_ERROR),
        ("2", INTERNAL_ERROR),
    ]


# --- whatever happens ---------------------------------------------------------------------------

CHUNKS = st.builds(
    chunk,
    st.text("ab", max_size=3) | st.just("x" * (LONGEST_TEXT - 2)),
    st.sampled_from(["m1", "m2"]),
    st.sampled_from(["s1", "s2"]),
    st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]),
)
MESSAGES = CHUNKS | st.builds(answer, st.integers(0, 9)) | st.builds(status) | st.builds(image)
STEPS = st.lists(MESSAGES | st.sampled_from(["tick", "congest", "relieve"]))


def merged(messages: Sequence[Message]) -> list[Any]:
    """What a client has seen: neighbouring chunks of one message are one text."""

    def key(message: Message) -> Any:
        params = message.get("params", {})
        update = deepcopy(params.get("update", {}))
        if "text" not in update.get("content", {}):
            return ("whole", repr(message))
        del update["content"]["text"]
        return ("text", params["sessionId"], repr(update))

    return [
        (what, "".join(m["params"]["update"]["content"]["text"] for m in group))
        if what[0] == "text"
        else (what, len(list(group)))
        for what, group in groupby(messages, key)
    ]


@given(STEPS)
async def test_no_text_is_lost_doubled_or_moved_whatever_the_client_does(
    steps: list[Message | str],
) -> None:
    sink = MemorySink()
    outbox = Outbox(sink)
    put: list[Message] = []
    calm = True
    for step in steps:
        match step:
            case "tick":
                await tick()
            case "congest":
                sink.pending, calm = HIGH_WATER + 1, False
            case "relieve":
                sink.pending = 0
                outbox.flush()
            case dict():
                put.append(deepcopy(step))
                outbox.put(deepcopy(step))
    outbox.finish()
    assert merged(sink.messages) == merged(put)
    if calm:
        assert sink.messages == put
