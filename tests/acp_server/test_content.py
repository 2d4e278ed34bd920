"""Content: a client's blocks become the harness's and come back as they were."""

from __future__ import annotations

from base64 import b64encode
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
from harness_core.model.readable import PICTURES

TEXT = st.text("aä\n\u2028", max_size=5)
MAYBE = st.none() | TEXT
DATA = st.binary(max_size=5).map(lambda data: b64encode(data).decode())
NOTHING = {"type": "text", "text": ""}
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"


def given_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields}).map(given_only)


BLOCKS = st.one_of(
    block("text", text=TEXT),
    block(
        "image",
        data=DATA.map(lambda data: "AAAA" + data),
        mimeType=st.sampled_from(sorted(PICTURES)),
        uri=MAYBE,
    ),
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
        resource=st.fixed_dictionaries({"uri": TEXT, "blob": DATA, "mimeType": MAYBE}).map(
            given_only
        ),
    ),
)


def taken(*prompt: dict[str, Any]) -> tuple[UserBlock, ...]:
    return blocks_of(validate(Prompt, {"sessionId": "s", "prompt": list(prompt)}).prompt)


def refused(*prompt: dict[str, Any]) -> str:
    """Why a prompt is refused."""
    with pytest.raises(RpcError) as caught:
        taken(*prompt)
    assert caught.value.code == INVALID_PARAMS
    return caught.value.message


def empty(wire: dict[str, Any]) -> bool:
    return wire["type"] == "text" and not wire["text"].strip()


@given(st.lists(BLOCKS, max_size=4))
def test_what_a_client_sends_is_what_it_would_be_shown(prompt: list[dict[str, Any]]) -> None:
    """Requirement V1-TURN-10: but for empty text, and a prompt of nothing else is refused."""
    if all(map(empty, prompt)):
        assert refused(*prompt) == "prompt is empty: write something, or attach something"
    else:
        shown_again = [block_of(block) for block in taken(*prompt)]
        assert shown_again == [wire for wire in prompt if wire != NOTHING]


@given(BLOCKS)
def test_annotations_and_nulls_change_nothing(wire: dict[str, Any]) -> None:
    noisy = {**wire, "annotations": None, "field_meta": None, "_meta": {"a": 1}, "x": 1}
    more = {"type": "text", "text": "a"}
    assert taken(more, noisy) == taken(more, wire)


def test_an_empty_prompt_is_refused() -> None:
    assert "prompt" in refused()


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u2003"])
def test_blank_text_alone_is_an_empty_prompt(blank: str) -> None:
    text = {"type": "text", "text": blank}
    assert "prompt is empty" in refused(text, NOTHING, text)


def image(data: bytes | str, mime: str = "image/png") -> dict[str, Any]:
    """An image of these bytes, or with this as its data."""
    text = data if isinstance(data, str) else b64encode(data).decode()
    return {"type": "image", "data": text, "mimeType": mime}


@pytest.mark.parametrize(
    ("data", "named", "meant"),
    [
        (PNG, "image/png", "image/png"),
        (PNG, "image/jpeg", "image/png"),
        (PNG, "application/octet-stream", "image/png"),
        (JPEG, "image/jpg", "image/jpeg"),
        (b"RIFF1234WEBP", "image/webp; q=1", "image/webp"),
        (b"GIF89a", "IMAGE/GIF", "image/gif"),
        (b"unknown", "image/gif", "image/gif"),
    ],
)
def test_an_image_is_what_its_bytes_say(data: bytes, named: str, meant: str) -> None:
    assert taken(image(data, named)) == (Image(b64encode(data).decode(), meant),)


@pytest.mark.parametrize("mime", ["image/bmp", "image/svg+xml", "application/pdf", "text/plain"])
def test_an_image_that_no_model_can_see_is_refused(mime: str) -> None:
    assert "PNG, JPEG, GIF or WebP" in refused({"type": "text", "text": "a"}, image(b"<x/>", mime))


def test_line_breaks_in_data_are_left_out() -> None:
    assert taken(image("AAAA\r\nAAAA\n")) == (Image("AAAAAAAA", "image/png"),)
    wire = {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA\nAA\n"}}
    assert taken(wire) == (Resource("file:///a", blob="AAAA"),)


def test_what_was_not_offered_is_refused_by_name() -> None:
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    assert "audio" in refused({"type": "text", "text": "a"}, sound)


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
