"""Cutting lines: the same lines whatever the chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conformance.lines import LineCutter


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"d\ne", b""]), max_size=12))
def test_chunking_does_not_matter(chunks: list[bytes]) -> None:
    cutter = LineCutter()
    lines = [line for chunk in chunks for line in cutter.feed(chunk)]
    assert [*lines, cutter.rest()] == b"".join(chunks).split(b"\n")
