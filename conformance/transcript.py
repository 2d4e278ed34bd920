"""Transcripts: what travelled between a client and an agent, as a file of lines.

One header line, then one line per frame or event. The format is described in
``docs/conformance/format.md``. A frame that is sound JSON stands in the file as it
was sent; anything else is kept as text or base64, so that nothing is ever lost.
Pure: this module turns bytes into objects and back. It knows no processes and
does not judge what it holds.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from conformance.frames import Direction, Frame

FORMAT = 1
"""The version this kit writes; it reads this one and all before."""

VERBATIM = re.compile(
    rb'\{"dir": "(c2a|a2c)"(?:, "t": ([0-9.e+-]+))?(, "eol": false)?, "msg": (.*)\}', re.DOTALL
)
BREAKS = ("\r", "\u2028", "\u2029", "\u0085")
"""Characters at which some tools would cut a line of the file."""
RAW_BREAKS = tuple(mark.encode() for mark in ("\n", *BREAKS))


class TranscriptError(ValueError):
    """The file is not a transcript this kit can read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened beside the frames.

    ``eof``: the stream of this direction ended. ``signal``: the client's side sent
    one (``detail`` is its name). ``exit``: the agent ended (``detail`` is the exit
    status, negative for the signal that killed it). Readers ignore other names.
    """

    name: str
    time: float
    direction: Direction | None = None
    detail: str | int | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """What a reader wants to know before the frames.

    ``cwd`` is where the session works and ``files`` are the small text files it
    starts with, by path relative to ``cwd``. ``facts`` holds everything else: who
    spoke, which version and capabilities, which kit wrote it.
    """

    command: tuple[str, ...] = ()
    cwd: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


Entry = Frame | Event


@dataclass(frozen=True, slots=True)
class Transcript:
    """A header and the entries in the order they happened."""

    header: Header = Header()
    entries: tuple[Entry, ...] = ()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames without the events."""
        return tuple(entry for entry in self.entries if isinstance(entry, Frame))


# -- writing ---------------------------------------------------------------------------


def render(transcript: Transcript) -> bytes:
    """The whole file."""
    lines = [render_header(transcript.header), *map(render_entry, transcript.entries)]
    return b"".join(lines)


def render_header(header: Header) -> bytes:
    """The first line of a file, with its line feed."""
    line: dict[str, Any] = {"acp-transcript": FORMAT, "command": list(header.command)}
    if header.cwd is not None:
        line["cwd"] = header.cwd
    if header.files:
        line["files"] = header.files
    return _dump(line | header.facts)


def render_entry(entry: Entry) -> bytes:
    """One line of a file, with its line feed."""
    if isinstance(entry, Event):
        return _dump(_event_fields(entry))
    if _embeddable(entry.raw):
        return _verbatim(entry)
    head = _frame_head(entry)
    try:
        return _dump(head | {"text": entry.raw.decode("utf-8")})
    except UnicodeDecodeError:
        return _dump(head | {"base64": base64.b64encode(entry.raw).decode("ascii")})


def _event_fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"event": event.name}
    if event.direction is not None:
        fields["dir"] = event.direction.value
    if event.time:
        fields["t"] = round(event.time, 6)
    if event.detail is not None:
        fields["detail"] = event.detail
    return fields


def _frame_head(frame: Frame) -> dict[str, Any]:
    head: dict[str, Any] = {"dir": frame.direction.value}
    if frame.time:
        head["t"] = round(frame.time, 6)
    if not frame.terminated:
        head["eol"] = False
    return head


def _verbatim(frame: Frame) -> bytes:
    """The frame in a line that ``VERBATIM`` matches."""
    time = f', "t": {round(frame.time, 6)!r}' if frame.time else ""
    open_end = "" if frame.terminated else ', "eol": false'
    head = f'{{"dir": "{frame.direction.value}"{time}{open_end}, "msg": '
    return head.encode() + frame.raw + b"}\n"


def _embeddable(raw: bytes) -> bool:
    """Whether these bytes can stand in a line of the file as they are."""
    if any(mark in raw for mark in RAW_BREAKS):
        return False
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


def _dump(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False)
    for mark in BREAKS:
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text.encode("utf-8", "surrogatepass") + b"\n"


# -- reading ---------------------------------------------------------------------------


def load(path: Path) -> Transcript:
    """Read a transcript file.

    Raises ``TranscriptError`` if it is not one and ``OSError`` if it cannot be read.
    """
    try:
        return parse(path.read_bytes())
    except TranscriptError as error:
        raise TranscriptError(f"{path}: {error}") from None


def parse(data: bytes) -> Transcript:
    """Read a transcript from bytes.

    A torn last line, as a killed recorder leaves it, is dropped. Raises
    ``TranscriptError``.
    """
    first, _, rest = data.partition(b"\n")
    return Transcript(_parse_header(first), tuple(_parse_entries(rest)))


def _parse_header(line: bytes) -> Header:
    fields = _object(line, 1, "the header; is this a transcript?")
    version = fields.pop("acp-transcript", None)
    if not isinstance(version, int):
        raise TranscriptError('line 1: no "acp-transcript" version; this is not a transcript')
    if version > FORMAT:
        raise TranscriptError(f"line 1: format {version} is newer than this kit; update the kit")
    return Header(
        command=tuple(map(str, fields.pop("command", ()))),
        cwd=fields.pop("cwd", None),
        files=dict(fields.pop("files", {})),
        facts=fields,
    )


def _parse_entries(data: bytes) -> Iterator[Entry]:
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, start=2):
        if line.strip():
            yield _parse_entry(line, number)
    if torn.strip() and _is_json(torn):
        yield _parse_entry(torn, len(lines) + 2)


def _parse_entry(line: bytes, number: int) -> Entry:
    fields = _object(line, number, "a frame or an event")
    if "event" in fields:
        return _parse_event(fields, number)
    verbatim = VERBATIM.fullmatch(line)
    if verbatim and list(fields)[-1] == "msg":
        direction, time, open_end, raw = verbatim.groups()
        return Frame(Direction(direction.decode()), float(time or 0), raw, open_end is None)
    return _parse_frame(fields, number)


def _parse_event(fields: dict[str, Any], number: int) -> Event:
    direction = _direction(fields, number) if "dir" in fields else None
    return Event(str(fields["event"]), float(fields.get("t", 0)), direction, fields.get("detail"))


def _parse_frame(fields: dict[str, Any], number: int) -> Frame:
    raw = _raw(fields, number)
    time = float(fields.get("t", 0))
    return Frame(_direction(fields, number), time, raw, fields.get("eol", True) is not False)


def _raw(fields: dict[str, Any], number: int) -> bytes:
    match fields:
        case {"msg": message}:
            return orjson.dumps(message)
        case {"text": str(text)}:
            return text.encode("utf-8")
        case {"base64": str(text)}:
            return _decoded(text, number)
    raise TranscriptError(f'line {number}: a frame needs "msg", "text" or "base64"')


def _decoded(text: str, number: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise TranscriptError(f"line {number}: the base64 text is damaged") from None


def _direction(fields: dict[str, Any], number: int) -> Direction:
    try:
        return Direction(str(fields.get("dir")))
    except ValueError:
        raise TranscriptError(f'line {number}: "dir" is neither c2a nor a2c') from None


def _object(line: bytes, number: int, expected: str) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise TranscriptError(f"line {number}: expected {expected} ({error})") from None
    if not isinstance(value, dict):
        raise TranscriptError(f"line {number}: expected {expected}")
    return value


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
