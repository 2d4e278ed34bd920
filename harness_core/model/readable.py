"""Content blocks as text a model can read: for what a dialect has no better place.

Pure and provider-neutral. Inlined resources are fenced with their address, so that the model can
tell a quoted file from what the person said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness_core.content import (
    Audio,
    Image,
    Resource,
    ResourceLink,
    ResultBlock,
    Text,
    UserBlock,
)

PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The image types that every model with eyes can see."""

_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")


def readable(block: UserBlock | ResultBlock) -> str:
    """The block as text. What is not text is named, with its type and size, never decoded."""
    match block:
        case Text(text=text):
            return text
        case Image(data=data, mime_type=mime, uri=uri):
            return _absent("image", mime, data, uri)
        case Audio(data=data, mime_type=mime):
            return _absent("audio", mime, data, None)
        case ResourceLink():
            return _link(block)
        case Resource(text=None, blob=blob, mime_type=mime, uri=uri):
            return _absent("resource", mime, blob or "", uri)
        case Resource(uri=uri, text=text):
            return f'<resource uri="{uri}">\n{text}\n</resource>'


def joined(blocks: Iterable[UserBlock | ResultBlock]) -> str:
    """Several blocks as one text, a line break between any two."""
    return "\n".join(readable(block) for block in blocks)


def blank(block: object) -> bool:
    """Whether a block is text that says nothing: some providers refuse a whole request for it."""
    return isinstance(block, Text) and not block.text.strip()


def picture(block: object) -> Image | None:
    """The image that a block is or embeds, of a type that models can see."""
    match block:
        case Image(data=data, mime_type=mime) if data and mime in PICTURES:
            return block
        case Resource(blob=str(data), mime_type=str(mime), uri=uri) if data and mime in PICTURES:
            return Image(data, mime, uri)
    return None


def is_base64(text: str) -> bool:
    """Whether ``text`` is base64 in its strict form: nothing else in it, and padded."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def byte_size(base64: str) -> int:
    """How many bytes a base64 text stands for, without decoding it."""
    return len(base64) * 3 // 4 - base64.count("=", -2)


def _absent(what: str, mime: str | None, data: str, uri: str | None) -> str:
    kind = f" of type {mime}" if mime else ""
    address = f" at {uri}" if uri else ""
    return f"[{what}{kind}{address}, {byte_size(data)} bytes, not shown]"


def _link(link: ResourceLink) -> str:
    notes = [
        note
        for note in (
            link.description,
            link.mime_type,
            f"{link.size} bytes" if link.size is not None else None,
        )
        if note
    ]
    label = link.title or link.name
    return f"[{label}]({link.uri})" + (f" ({', '.join(notes)})" if notes else "")
