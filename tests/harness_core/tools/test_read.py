"""``read``: numbered lines in pages, images, and errors that help."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.content import Image, Text
from harness_core.tools.read import PAGE_BYTES, image_type, page
from harness_core.tools.tool import ToolError, ToolOutput

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[ToolOutput]]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


def test_lines_are_numbered() -> None:
    assert page("a\nb\n") == "     1\ta\n     2\tb"
    assert page("a\r\n\r\nb") == "     1\ta\n     2\t\n     3\tb"
    assert page("\ufeffa\u2028b\n") == "     1\ta\u2028b"
    assert page("") == "(the file is empty)"


def test_a_page_says_how_to_go_on() -> None:
    text = "".join(f"{number}\n" for number in range(1, 11))
    assert page(text, 4, 2) == "     4\t4\n     5\t5\n(lines 4 to 5 of 10; go on with offset=6)"
    assert page(text, 9).endswith("    10\t10\n(lines 9 to 10 of 10)")
    with pytest.raises(ToolError, match="10 lines: there is no line 11"):
        page(text, 11)


@given(st.lists(st.text(st.sampled_from("aé😀"), max_size=50), min_size=1), st.integers(1, 7))
def test_pages_together_are_the_whole_file(rows: list[str], limit: int) -> None:
    text = "".join(row + "\n" for row in rows)
    read: list[str] = []
    while len(read) < len(rows):
        shown = page(text, len(read) + 1, limit).split("\n")
        read += [row.partition("\t")[2] for row in shown if not row.startswith("(")]
    assert read == rows


@given(st.integers(1, 3000), st.integers(0, 3000))
@settings(max_examples=20, deadline=None)
def test_a_page_is_bounded(rows: int, width: int) -> None:
    assert len(page(("x" * width + "\n") * rows).encode()) < PAGE_BYTES + 200


async def test_a_file_is_read_by_relative_and_by_absolute_path(cwd: Path, call: Call) -> None:
    (cwd / "a.txt").write_text("hello\n")
    assert text_of(await call("read", path="a.txt")) == "     1\thello"
    assert text_of(await call("read", path=str(cwd / "a.txt"))) == "     1\thello"


async def test_an_image_comes_as_an_image(cwd: Path, call: Call) -> None:
    (cwd / "shot.png").write_bytes(PNG)
    _, image = (await call("read", path="shot.png")).content
    assert isinstance(image, Image)
    assert image.mime_type == "image/png"
    assert image.uri == (cwd / "shot.png").as_uri()


async def test_an_image_that_is_too_large_is_refused(cwd: Path, call: Call) -> None:
    (cwd / "shot.png").write_bytes(PNG + bytes(4_000_000))
    with pytest.raises(ToolError, match="make a smaller copy"):
        await call("read", path="shot.png")


def test_images_are_told_by_their_content() -> None:
    assert image_type(PNG[:16]) == "image/png"
    assert image_type(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert image_type(b"RIFF1234WEBPVP8 ") == "image/webp"
    assert image_type(b"hello") is None
