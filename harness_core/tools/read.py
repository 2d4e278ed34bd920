"""``read``: a text file as numbered lines, a page at a time, or an image as an image."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness_core.content import Image, Json, ResourceLink, ResultBlock, Text
from harness_core.tools import cards
from harness_core.tools.disk import head, size_of
from harness_core.tools.files import Files
from harness_core.tools.text import lines, visible
from harness_core.tools.tool import (
    Arguments,
    Card,
    Location,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)

PAGE_LINES = 2000
PAGE_BYTES = 48 * 1024
LINE_CHARS = 2000

IMAGE_BYTES = 3_750_000
"""What model APIs take: 5 MB as base64."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class ReadArguments(Arguments):
    path: str = parameter("The file, relative to the working directory or absolute.")
    offset: int = parameter("Number of the first line to read, counted from 1.", 1, ge=1)
    limit: int = parameter("How many lines to read at most.", PAGE_LINES, ge=1)


class Read(Tool[ReadArguments]):
    """Read a file."""

    name = "read"
    description = (
        "Read a file. Text comes as numbered lines: number, tab, line. A long file comes in pages; "
        "the result says how to go on. PNG, JPEG, GIF and WebP files come as images. "
        "A file must be read before it can be edited or overwritten."
    )
    effect = "reads"
    kind = "read"
    schema = Schema(ReadArguments)

    async def execute(self, arguments: ReadArguments, context: ToolContext) -> ToolOutput:
        files, path = context.files, arguments.path
        return ToolOutput(await contents(files, path, arguments.offset, arguments.limit))

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        path = cards.string(arguments, "path")
        offset, limit = cards.number(arguments, "offset"), cards.number(arguments, "limit")
        return Card(
            title=cards.titled(f"Read {cards.shown(path, cwd)}{_range(offset, limit)}"),
            kind=self.kind,
            locations=(Location(cards.absolute(path, cwd), offset),),
        )

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        path = cards.absolute(cards.string(arguments, "path"), cwd)
        images = (block for block in outcome.content if isinstance(block, Image))
        pictures = tuple(_picture(image, path) for image in images)
        return Card(content=pictures or cards.code_blocks(outcome.content))


async def contents(
    files: Files, path: str, offset: int = 1, limit: int = PAGE_LINES
) -> tuple[ResultBlock, ...]:
    """A file as models are shown it: an image and its name, or a ``page`` of text.

    Raises ``ToolError``.
    """
    place = files.resolve(path)
    with files.explained(place):
        mime_type = image_type(head(place))
        if mime_type:
            return _image(place, mime_type, files.name(place))
    return (Text(page(await files.read(place), offset, limit)),)


def page(text: str, offset: int = 1, limit: int = PAGE_LINES) -> str:
    """Lines from ``offset`` on, numbered, and a note how to go on if that is not the rest.

    Raises ``ToolError`` if there is no line ``offset``.
    """
    every = lines(visible(text))
    if not every and offset == 1:
        return "(the file is empty)"
    if offset > len(every):
        raise ToolError(f"the file has {len(every)} lines: there is no line {offset}")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(every[offset - 1 : offset - 1 + limit], offset):
        row = f"{number:6}\t{_cut(line)}"
        size += len(row.encode()) + 1
        if size > PAGE_BYTES:
            break
        shown.append(row)
    last = offset - 1 + len(shown)
    if offset > 1 or last < len(every):
        go_on = f"; go on with offset={last + 1}" if last < len(every) else ""
        shown.append(f"(lines {offset} to {last} of {len(every)}{go_on})")
    return "\n".join(shown)


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS} more characters in this line)"


def image_type(start: bytes) -> str | None:
    """The media type of an image that models can see, told by its first bytes."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((mime_type for magic, mime_type in _MAGIC if start.startswith(magic)), None)


def _image(path: Path, mime_type: str, name: str) -> tuple[ResultBlock, ...]:
    size = path.stat().st_size
    if size > IMAGE_BYTES:
        raise ToolError(
            f"{name} has {size_of(size)}, and models take images up to {size_of(IMAGE_BYTES)}: "
            "make a smaller copy first"
        )
    data = base64.b64encode(path.read_bytes()).decode()
    image = Image(data, mime_type, path.as_uri())
    return Text(f"{name} ({mime_type}, {size_of(size)})"), image


def _picture(image: Image, path: str) -> ResultBlock:
    """An image on a card: itself if it is small, else a link to it."""
    if len(image.data) <= cards.CARD_BYTES:
        return image
    size = len(image.data) * 3 // 4
    name = Path(path).name
    return ResourceLink(image.uri or path, name, mime_type=image.mime_type, size=size)


def _range(offset: int | None, limit: int | None) -> str:
    first = offset or 1
    if limit:
        return f" (lines {first}–{first + limit - 1})"
    return f" (from line {first})" if first > 1 else ""
