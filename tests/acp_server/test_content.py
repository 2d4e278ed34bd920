"""Content: a client's blocks become the harness's and come back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.content import LONGEST_DATA, LONGEST_RESOURCE, block_of, blocks_of, shown
from acp_server.framing import INVALID_PARAMS
from acp_server.limits import Budget
from acp_server.rpc import RpcError
from acp_server.wire.v1 import Prompt, validate
from harness_core.content import Audio, Image, Resource, ResourceLink, Text, UserBlock

TEXT = st.text("aä\n\u2028", max_size=5)
MAYBE = st.none() | TEXT


def given_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields}).map(given_only)


BLOCKS = st.one_of(
    block("text", text=TEXT),
    block("image", data=TEXT, mimeType=TEXT, uri=MAYBE),
    block(
        "resource_link",
        uri=TEXT,
        name=TEXT,
        title=MAYBE,
        description=MAYBE,
        mimeType=MAYBE,
        size=st.none() | st.integers(0, 2**53),
    ),
    block(
        "resource",
        resource=st.fixed_dictionaries({"uri": TEXT, "text": TEXT, "mimeType": MAYBE}).map(
            given_only
        ),
    ),
    block(
        "resource",
        resource=st.fixed_dictionaries({"uri": TEXT, "blob": TEXT, "mimeType": MAYBE}).map(
            given_only
        ),
    ),
)


def taken(*prompt: dict[str, Any]) -> tuple[UserBlock, ...]:
    return blocks_of(validate(Prompt, {"sessionId": "s", "prompt": list(prompt)}).prompt)


@given(st.lists(BLOCKS, min_size=1, max_size=4))
def test_what_a_client_sends_is_what_it_would_be_shown(prompt: list[dict[str, Any]]) -> None:
    assert [block_of(block) for block in taken(*prompt)] == prompt


@given(BLOCKS)
def test_annotations_and_nulls_change_nothing(wire: dict[str, Any]) -> None:
    noisy = {**wire, "annotations": None, "field_meta": None, "_meta": {"a": 1}, "x": 1}
    assert taken(noisy) == taken(wire)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(RpcError) as caught:
        taken()
    assert caught.value.code == INVALID_PARAMS
    assert "prompt" in caught.value.message


def test_what_was_not_offered_is_refused_by_name() -> None:
    with pytest.raises(RpcError) as caught:
        taken({"type": "text", "text": "a"}, {"type": "audio", "data": "", "mimeType": "audio/wav"})
    assert caught.value.code == INVALID_PARAMS
    assert "audio" in caught.value.message


def test_a_sound_of_a_tool_is_a_block_like_others() -> None:
    assert block_of(Audio("AA==", "audio/wav")) == {
        "type": "audio",
        "data": "AA==",
        "mimeType": "audio/wav",
    }


# --- what there is no room for --------------------------------------------------------------------


def room() -> tuple[Budget, Budget]:
    return Budget(2 * LONGEST_RESOURCE), Budget(LONGEST_DATA)


@pytest.mark.parametrize(
    "large",
    [
        Image("A" * LONGEST_DATA, "image/png"),
        Audio("A" * LONGEST_DATA, "audio/wav"),
        Resource("file:///a", blob="A" * LONGEST_DATA),
        ResourceLink("data:," + "A" * LONGEST_DATA, "a.txt"),
    ],
    ids=lambda block: block.type,
)
def test_what_cannot_be_cut_and_has_no_room_is_named(large: UserBlock) -> None:
    note = shown(large, *room())
    assert note["type"] == "text"
    assert "too large" in note["text"]
    assert len(note["text"]) < 300


def test_a_picture_that_fits_is_shown() -> None:
    picture = Image("A" * (LONGEST_DATA - 1_000), "image/png")
    assert shown(picture, *room()) == block_of(picture)


def test_an_embedded_text_is_cut() -> None:
    wire = shown(Resource("file:///a", text="x" * 100_000), *room())
    assert wire["resource"]["uri"] == "file:///a"
    assert len(wire["resource"]["text"]) < LONGEST_RESOURCE + 40


def test_a_text_is_cut_to_the_room_there_is() -> None:
    assert shown(Text("x" * 100), Budget(1_000), Budget(0)) == {"type": "text", "text": "x" * 100}
    assert len(shown(Text("x" * 100_000), Budget(1_000), Budget(0))["text"]) < 1_100
