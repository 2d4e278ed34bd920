"""Content of servers: what cannot be shown to a model is named in its place."""

from __future__ import annotations

from mcp_types import BlobResourceContents, ImageContent, ReadResourceResult

from harness_core.content import Image, Text
from harness_core.plugins.mcp.blocks import block_of, contents_of


def test_an_image_that_is_no_base64_is_named() -> None:
    """A provider would refuse it, and every later request that has it in its history."""
    broken = ImageContent(data="%%%", mime_type="image/png")
    assert block_of(broken) == Text("(an image of type image/png, not base64)")
    blob = BlobResourceContents(uri="tiny://a", blob="AAA", mime_type="image/gif")
    (read,) = contents_of(ReadResourceResult(contents=[blob])).content
    assert read == Text("(an image of type image/gif, not base64)")


def test_an_image_that_is_one_is_an_image() -> None:
    assert block_of(ImageContent(data="AAAA", mime_type="image/png")) == Image("AAAA", "image/png")
