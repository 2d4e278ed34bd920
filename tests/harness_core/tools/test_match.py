"""Replacing a passage: exact, ending-agnostic, and helpful when it cannot be done."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness_core.tools.match import NoMatch, explain, replace

parts = st.text(st.sampled_from("ab \t.*\\é😀\ufeff\u2028"), max_size=12)
files = st.lists(st.tuples(parts, st.sampled_from(["\n", "\r\n"])), max_size=8).map(
    lambda rows: "".join(part + ending for part, ending in rows)
)


@given(files, files, parts, parts)
def test_everything_around_a_replaced_passage_stays(
    before: str, after: str, old: str, new: str
) -> None:
    text = f"{before}<{old}>{after}"
    assert replace(text, f"<{old}>", f"<{new}>") == f"{before}<{new}>{after}"


@given(st.lists(parts, min_size=1), st.lists(parts), st.sampled_from(["\n", "\r\n"]), parts)
def test_a_passage_of_lines_keeps_the_files_line_endings(
    old: list[str], new: list[str], newline: str, tail: str
) -> None:
    text = newline.join(["<", *old, ">", tail])
    replaced = replace(text, "\n".join(["<", *old, ">"]), "\n".join(["<", *new, ">"]))
    assert replaced == newline.join(["<", *new, ">", tail])


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3))
def test_all_occurrences_are_replaced_as_str_replace_does(text: str, old: str) -> None:
    assume(old in text)
    assert replace(text, old, "-", every=True) == text.replace(old, "-")


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3))
def test_without_replace_all_a_passage_must_be_unique(text: str, old: str) -> None:
    places = sum(text.startswith(old, at) for at in range(len(text)))
    if places == 1:
        assert replace(text, old, "x") == text.replace(old, "x")
    else:
        with pytest.raises(NoMatch):
            replace(text, old, "x")


def refusal(text: str, old: str, new: str = "new") -> str:
    with pytest.raises(NoMatch) as caught:
        replace(text, old, new)
    return str(caught.value)


def test_several_matches_are_named_by_line() -> None:
    assert "occurs 2 times (lines 1, 3)" in refusal("x = 1\ny\nx = 1\n", "x = 1")


def test_a_difference_in_white_space_is_pointed_out() -> None:
    hint = refusal("def f():\n\tif a:\n\t\treturn\n", "    if a:\n        return")
    assert "white space" in hint
    assert "     2\t\tif a:" in hint


def test_line_numbers_copied_from_read_are_pointed_out() -> None:
    assert "leave out the line numbers" in refusal("a = 1\nb = 2\n", "     1\ta = 1\n     2\tb = 2")


def test_a_change_that_was_made_already_is_pointed_out() -> None:
    assert "there already, at line 2" in refusal("a\nreturn 2\n", "return 1", "return 2")


def test_the_most_similar_passage_is_quoted() -> None:
    text = "import os\n\ndef compute_total(items):\n    return sum(items)\n"
    hint = refusal(text, "def compute_totals(items):\n    return total(items)")
    assert "     3\tdef compute_total(items):\n     4\t    return sum(items)" in hint


def test_nothing_similar_asks_to_read_again() -> None:
    assert "read it again" in refusal("a\n", "something else entirely")


@given(files, st.text(min_size=1), parts)
def test_a_hint_is_always_found_and_bounded(text: str, old: str, new: str) -> None:
    assume(old not in text)
    assert 0 < len(explain(text, old, new)) < 20_000
