"""ACP content blocks to the harness's, and back."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from acp_server.framing import INVALID_PARAMS
from acp_server.limits import Budget, cut
from acp_server.rpc import RpcError
from acp_server.wire.v1 import (
    BlobResource,
    Block,
    ImageBlock,
    LinkBlock,
    ResourceBlock,
    TextBlock,
    TextResource,
)
from harness_core.content import (
    Audio,
    Image,
    Resource,
    ResourceLink,
    ResultBlock,
    Text,
    UserBlock,
)
from harness_core.model.readable import PICTURES, blank
from harness_core.tools.read import image_type

LONGEST_RESOURCE = 20_000
"""Bytes of an embedded text that are shown."""

LONGEST_DATA = 900_000
"""Bytes of inline data that one message carries: some clients drop lines above 1 MiB."""


def shown(block: ResultBlock, room: Budget, data: Budget) -> dict[str, Any]:
    """A block as an ACP content block, or a note in its place if there is no room for it.

    Text is cut to ``room``; inline data, which cannot be cut, has a ``data`` budget of its own.
    """
    match block:
        case Text(text=text):
            return block_of(Text(room.cut(text)))
        case Resource(text=str(text)):
            block = replace(block, text=cut(text, LONGEST_RESOURCE))
        case Image() | Audio() | Resource():
            room = data
    wire = block_of(block)
    if room.take(wire):
        return wire
    name = wire.get("name") or wire.get("mimeType") or wire["type"]
    return block_of(Text(f"({cut(name, 200)}: too large to be shown here)"))


def block_of(block: ResultBlock) -> dict[str, Any]:
    """A harness block as an ACP content block; absent fields are omitted."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(data=data, mime_type=mime, uri=uri):
            return _without_none({"type": "image", "data": data, "mimeType": mime, "uri": uri})
        case Audio(data=data, mime_type=mime):
            return {"type": "audio", "data": data, "mimeType": mime}
        case ResourceLink():
            return _without_none(
                {
                    "type": "resource_link",
                    "uri": block.uri,
                    "name": block.name,
                    "title": block.title,
                    "description": block.description,
                    "mimeType": block.mime_type,
                    "size": block.size,
                }
            )
        case Resource(uri=uri, text=text, blob=blob, mime_type=mime):
            inner = {"uri": uri, "text": text, "blob": blob, "mimeType": mime}
            return {"type": "resource", "resource": _without_none(inner)}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def blocks_of(prompt: Sequence[Block]) -> tuple[UserBlock, ...]:
    """A validated prompt's blocks, without empty text. Raises ``RpcError`` (-32602) for a prompt
    that says nothing or a block that no model can be given (V1-TURN-01, V1-TURN-10)."""
    blocks = tuple(block for block in map(_block, prompt) if block != Text(""))
    if all(map(blank, blocks)):
        raise RpcError(INVALID_PARAMS, "prompt is empty: write something, or attach something")
    return blocks


def _block(block: Block) -> UserBlock:
    match block:
        case TextBlock(text=text):
            return Text(text)
        case ImageBlock(data=data, mime_type=named, uri=uri):
            return Image(data, _image_type(data, named), uri)
        case LinkBlock():
            return ResourceLink(
                block.uri, block.name, block.title, block.description, block.mime_type, block.size
            )
        case ResourceBlock(resource=TextResource() as inner):
            return Resource(inner.uri, text=inner.text, mime_type=inner.mime_type)
        case ResourceBlock(resource=BlobResource() as inner):
            return Resource(inner.uri, blob=inner.blob, mime_type=inner.mime_type)
    raise RpcError(INVALID_PARAMS, f"{block.type} content was not offered by this agent")


def _image_type(data: str, named: str) -> str:
    """What an image is: its first bytes say so, and else whoever sent it.

    A provider refuses an image under a wrong name, again with every later request of the session.
    """
    mime = image_type(b64decode(data[:24])) or named
    if mime not in PICTURES:
        raise RpcError(INVALID_PARAMS, "an image must be a PNG, JPEG, GIF or WebP: convert it")
    return mime
