"""The form of a text file survives what is done to its text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness_core.tools.text import (
    BOM,
    decode,
    encode,
    in_form_of,
    lines,
    newline_of,
    split,
    visible,
)

words = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


@given(st.binary())
def test_any_bytes_survive_decoding(data: bytes) -> None:
    assert encode(decode(data)) == data


@given(st.binary())
def test_what_is_shown_is_valid_unicode(data: bytes) -> None:
    visible(decode(data)).encode("utf-8")


@given(st.text("ab\r\n\u2028\x0c"))
def test_only_line_feeds_end_lines(text: str) -> None:
    assert "".join(split(text)) == text
    expected = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    assert lines(text) == expected


newlines = st.sampled_from(["\n", "\r\n"])


@given(st.lists(words, min_size=1), st.lists(words, min_size=1), newlines)
def test_new_text_takes_line_endings_and_final_newline_of_the_old(
    old: list[str], new: list[str], newline: str
) -> None:
    shaped = in_form_of("".join(line + newline for line in old), "\n".join(new))
    body = newline.join(new)
    assert shaped in (body, body + newline)
    assert shaped == "" or shaped.endswith(newline)


@given(words, words)
def test_the_byte_order_mark_stays(old: str, new: str) -> None:
    assert in_form_of(BOM + old, new).removeprefix(BOM) == new.removeprefix(BOM)
    assert in_form_of(BOM + old, new).startswith(BOM)


def test_line_endings_that_are_spelled_out_are_kept() -> None:
    assert in_form_of("a\nb\n", "x\r\ny\r\n") == "x\r\ny\r\n"


def test_the_prevailing_line_ending_counts() -> None:
    assert newline_of("a\r\nb\r\nc\n") == "\r\n"
    assert newline_of("a\r\nb\nc\n") == "\n"
    assert newline_of("a") is None
