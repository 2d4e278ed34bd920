"""Cards: every call and every result has one, and one message holds it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.cards import Card, card_of_call, card_of_result, content_item, raw_input
from acp_server.content import LONGEST_DATA
from harness_core.content import Audio, Image, Resource, ResourceLink, ResultBlock, Text
from harness_core.facts import ToolReturned
from harness_core.tools.tool import Card as Presented
from harness_core.tools.tool import Diff, Location
from tests.acp_server.judge import sound
from tests.acp_server.presenting import Presenting

SIZES = st.sampled_from([1, 40, 20_000])
LONG = st.builds(str.__mul__, st.sampled_from(["a", '"', "\0", "日", "\u2028", "\n"]), SIZES)
PATHS = LONG.map(lambda text: f"/{text}")
BLOCKS: st.SearchStrategy[ResultBlock] = st.one_of(
    st.builds(Text, LONG),
    st.builds(Image, LONG, st.just("image/png")),
    st.builds(Audio, LONG, st.just("audio/wav")),
    st.builds(ResourceLink, LONG, LONG),
    st.builds(lambda uri, text: Resource(uri, text=text), LONG, LONG),
    st.builds(lambda uri, blob: Resource(uri, blob=blob), LONG, LONG),
)


def many(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    few = st.lists(items, max_size=3).map(tuple)
    return st.builds(tuple.__mul__, few, st.sampled_from([1, 60]))


CARDS = st.builds(
    Presented,
    st.none() | LONG,
    st.none() | st.sampled_from(["read", "edit", "execute", "other"]),
    many(st.builds(Location, PATHS, st.none() | st.integers(1, 2**31))),
    many(st.builds(Diff, PATHS, LONG, st.none() | LONG)),
    many(BLOCKS),
    st.booleans(),
)
ARGUMENTS = st.dictionaries(LONG, LONG | st.lists(LONG | st.none()) | st.none(), max_size=5)


def update(card: Card, arguments: dict[str, Any]) -> dict[str, Any]:
    """The largest update that a card becomes part of: everything of it at once."""
    fields: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c" * 100,
        "title": card.title,
        "status": "completed",
        "rawInput": raw_input(arguments),
    }
    optional = {"kind": card.kind, "locations": card.locations, "content": card.content}
    return fields | {key: value for key, value in optional.items() if value}


def inline(block: ResultBlock) -> bool:
    """Whether a block carries data that cannot be cut."""
    return isinstance(block, Image | Audio) or (
        isinstance(block, Resource) and block.blob is not None
    )


@given(CARDS, ARGUMENTS)
def test_one_message_holds_a_card_whatever_a_tool_shows(
    presented: Presented, arguments: dict[str, Any]
) -> None:
    card = card_of_call(Presenting(presented), "presenting", {}, "/")
    pictures = any(map(inline, presented.content))
    sound(update(card, arguments), longest=1 << (20 if pictures else 16))
    assert card.terminal is presented.terminal


def test_a_small_card_is_shown_whole() -> None:
    presented = Presented(
        title="Edit a.py",
        kind="edit",
        locations=(Location("/p/a.py", 3), Location("/p/b.py")),
        diffs=(Diff("/p/a.py", "new", "old"), Diff("/p/b.py", "new")),
        content=(Text("done"),),
    )
    assert card_of_call(Presenting(presented), "presenting", {}, "/p") == Card(
        title="Edit a.py",
        kind="edit",
        locations=[{"path": "/p/a.py", "line": 3}, {"path": "/p/b.py"}],
        content=[
            {"type": "diff", "path": "/p/a.py", "newText": "new", "oldText": "old"},
            {"type": "diff", "path": "/p/b.py", "newText": "new", "oldText": None},
            {"type": "content", "content": {"type": "text", "text": "done"}},
        ],
        terminal=False,
    )


def test_a_long_text_is_cut_with_a_mark() -> None:
    presented = Presented(content=(Text("x" * 100_000),))
    (item,) = card_of_call(Presenting(presented), "presenting", {}, "/").content
    text = item["content"]["text"]
    assert text.startswith("xxx")
    assert text.endswith(" more)")


def test_a_location_is_never_another_one() -> None:
    places = (Location("/" + "x" * 100_000), Location("/a"))
    card = card_of_call(Presenting(Presented(locations=places)), "presenting", {}, "/")
    assert card.locations == [{"path": "/a"}]


def test_a_picture_too_large_for_a_message_is_named() -> None:
    picture = Image("A" * (LONGEST_DATA // 2), "image/png")
    presented = Presented(content=(picture, picture, Text("two pictures")))
    first, second, text = card_of_call(Presenting(presented), "presenting", {}, "/").content
    assert first["content"]["type"] == "image"
    assert "image/png" in second["content"]["text"]
    assert text == content_item({"type": "text", "text": "two pictures"})


# --- tools that do not help -----------------------------------------------------------------------

RETURNED = ToolReturned(1, 1, "c1", "presenting", (Text("what the model was told"),), "failed")
TOLD = [content_item({"type": "text", "text": "what the model was told"})]


def test_a_call_of_a_tool_that_is_gone_has_a_plain_card() -> None:
    assert card_of_call(None, "old", {"a": 1}, "/") == Card("old", "other", [], [], False)


def test_a_call_that_its_tool_cannot_present_has_a_plain_card() -> None:
    tool = Presenting(KeyError("command"), kind="execute")
    assert card_of_call(tool, "presenting", {}, "/") == Card("presenting", "execute", [], [], False)


@pytest.mark.parametrize("tool", [None, Presenting(ValueError("no"))], ids=["gone", "failing"])
def test_a_result_that_nobody_presents_shows_what_the_model_was_told(
    tool: Presenting | None,
) -> None:
    assert card_of_result(tool, RETURNED, {}, "/") == Card("", "", [], TOLD, False)


def test_a_result_shows_what_its_tool_says() -> None:
    card = card_of_result(Presenting(Presented(), Presented(title="Read it")), RETURNED, {}, "/")
    assert card == Card("Read it", "", [], [], False)


def test_a_tool_name_of_any_length_is_a_title() -> None:
    assert len(card_of_call(None, "x" * 100_000, {}, "/").title) < 2_000


def test_arguments_are_shown_without_null_members() -> None:
    assert raw_input({"a": None, "b": {"c": None, "d": 1}}) == {"b": {"d": 1}}
