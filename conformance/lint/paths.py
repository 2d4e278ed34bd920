"""Rules about paths and line numbers on the wire: absolute, and counted from one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from conformance.dialogue import A2C, Dialogue, Message, Role, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\|\$\{(cwd\d*|home)\}")
"""How a path begins that depends on nothing; portable transcripts begin with a placeholder."""
FILE_CALLS = ("fs/read_text_file", "fs/write_text_file")


@rule(
    "path.absolute",
    Level.MUST,
    "paths are absolute",
    "V1-RPC-05",
    "V1-TOOL-07",
    "V1-FS-03",
    "V1-TERM-03",
)
def absolute(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        for where, path in _paths(message):
            if isinstance(path, str) and not ABSOLUTE.match(path):
                yield broken(f"{where} is the relative path {path!r}", message)


@rule("path.line", Level.MUST, "lines are counted from one", "V1-RPC-05", "V1-TOOL-07", "V1-FS-03")
def counted_from_one(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        for where, line in _lines(message):
            if line == 0 and not isinstance(line, bool):
                yield broken(f"{where} is line 0", message)


def _paths(message: Message) -> Iterator[tuple[str, Any]]:
    call = _tool_call(message)
    yield from (
        (f"locations[{i}].path", dig(item, "path")) for i, item in _items(call, "locations")
    )
    for index, item in _items(call, "content"):
        if dig(item, "type") == "diff":
            yield f"content[{index}].path", dig(item, "path")
    if message.method in FILE_CALLS and message.role is Role.REQUEST:
        yield "path", message.params.get("path")
    if message.method == "terminal/create" and message.role is Role.REQUEST:
        yield "cwd", message.params.get("cwd")
    if message.method == "session/list":
        yield from (
            (f"sessions[{i}].cwd", dig(s, "cwd")) for i, s in _items(message.result, "sessions")
        )


def _lines(message: Message) -> Iterator[tuple[str, Any]]:
    for index, item in _items(_tool_call(message), "locations"):
        yield f"locations[{index}].line", dig(item, "line")
    if message.method == "fs/read_text_file" and message.role is Role.REQUEST:
        yield "line", message.params.get("line")


def _tool_call(message: Message) -> Any:
    """The tool call a message describes: an update or the subject of a permission request."""
    if message.kind in ("tool_call", "tool_call_update"):
        return message.update
    return message.params.get("toolCall") if message.role is Role.REQUEST else None


def _items(holder: Any, key: str) -> Iterator[tuple[int, Any]]:
    value = dig(holder, key)
    return iter(enumerate(value if isinstance(value, list) else []))
