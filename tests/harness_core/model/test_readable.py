"""Content as text, and what providers take as it is."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Image, Resource, Text
from harness_core.model.readable import blank, byte_size, is_base64, picture


@given(st.binary())
def test_what_was_encoded_is_base64_and_its_size_is_known(data: bytes) -> None:
    text = b64encode(data).decode()
    assert is_base64(text)
    assert byte_size(text) == len(data)
    assert not is_base64(text + "=")
    assert not is_base64(text[1:]) or not text


@given(st.text("Az09+/=-_ \n", max_size=12))
def test_what_counts_as_base64_can_be_decoded(text: str) -> None:
    if is_base64(text):
        assert len(b64decode(text, validate=True)) == byte_size(text)


@pytest.mark.parametrize(
    "text", ["A", "AA", "AAA", "AA=A", "====", "AAAA=", "AA A", "é===", "AA\n="]
)
def test_what_is_no_base64(text: str) -> None:
    assert not is_base64(text)


def test_an_empty_picture_is_none() -> None:
    assert picture(Image("", "image/png")) is None
    assert picture(Resource("file:///a.png", blob="", mime_type="image/png")) is None
    assert picture(Resource("file:///a.png", blob="AAAA", mime_type="image/png")) is not None


def test_only_text_can_be_blank() -> None:
    assert blank(Text(" \n"))
    assert not blank(Text(" a"))
    assert not blank(Resource("file:///a", text=""))
