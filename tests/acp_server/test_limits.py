"""Limits: what is too long is cut with a mark, and what is said to fit does fit."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from acp_server.framing import encode
from acp_server.limits import DEEPEST, LONGEST_STRING, Budget, cost, cut, last

TEXT = st.text(st.sampled_from('ab "\\\n\0\x1b\u2028é日\U0001f600'), max_size=12)
LONG = st.builds(str.__mul__, TEXT, st.sampled_from([1, 2, 50, 900]))
MARK = len("… (1000000000 more)".encode()) + 2
JSON = st.recursive(
    LONG | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | st.floats(),
    lambda inner: (
        st.builds(list.__mul__, st.lists(inner, max_size=4), st.sampled_from([1, 30]))
        | st.dictionaries(TEXT, inner, max_size=4)
    ),
    max_leaves=5,
)


@given(LONG, st.integers(-5, 20_000))
@example("", 0)
@example("a" * 1000, 0)
@example("\0" * 1000, 3000)
def test_a_cut_text_fits_and_begins_as_the_whole(text: str, size: int) -> None:
    shown = cut(text, size)
    assert cost(shown) <= max(size, 0) + MARK
    head, mark, _ = shown.partition("…")
    assert shown == text if not mark else text.startswith(head)


@given(LONG, st.integers(0, 20_000))
def test_a_text_is_cut_only_if_it_must_be_and_not_by_much_more(text: str, size: int) -> None:
    shown = cut(text, size)
    if cost(text) - 2 <= size:
        assert shown == text
    else:
        assert cost(shown) >= min(size * 0.85, size - 20)


@given(LONG, st.integers(0, 20_000))
def test_the_end_of_a_text_fits_and_ends_as_the_whole(text: str, size: int) -> None:
    shown = last(text, size)
    assert cost(shown) <= size + MARK
    assert shown == text if not shown.startswith("…") else text.endswith(shown[1:])


@given(JSON)
def test_a_window_on_json_is_small_and_has_no_null_member(value: Any) -> None:
    room = 10_000
    shown = Budget(room).windowed(value)
    assert len(encode(shown)) <= 2 * room
    assert not nulls(shown)


@given(JSON)
def test_what_is_small_is_shown_as_it_is(value: Any) -> None:
    if cost(value) < 2_000 and not nulls(value):
        assert encode(Budget(1 << 20).windowed(value)) == encode(value)


def nulls(value: Any) -> bool:
    match value:
        case dict():
            return None in value.values() or any(map(nulls, value.values()))
        case list():
            return any(map(nulls, value))
    return False


def test_a_window_has_a_bottom() -> None:
    value: Any = {"a": "x"}
    for _ in range(900):
        value = {"inner": [value]}
    shown = encode(Budget(1 << 20).windowed(value))
    assert shown.count(b"[") <= DEEPEST
    assert "…".encode() in shown


def test_one_long_string_does_not_take_the_room_of_the_others() -> None:
    shown = Budget(12_000).windowed({"text": "x" * 100_000, "path": "/a"})
    assert shown["path"] == "/a"
    assert len(shown["text"]) <= LONGEST_STRING + MARK


def test_a_budget_is_spent_once() -> None:
    room = Budget(100)
    assert room.take("x" * 60)
    assert not room.take("y" * 60)
    assert room.take("y" * 20)
    assert len(room.cut("z" * 1000)) < 40
