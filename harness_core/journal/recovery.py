"""Reading a log back: from lines to events, up to the first that is not right.

Pure: lines come in, a ``Stored`` comes out, whatever a crash or a person did to them. An unfinished
last line was never acknowledged to anybody and is dropped, and said. Every other flaw is damage: it
is named by file and line, and nothing after it is read. Nothing is ever skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from harness_core.facts import FactError, UnknownFact
from harness_core.journal.protocol import CorruptLog, FormatTooNew, SessionNotFound, Stored
from harness_core.session import FORMAT, SessionEvent, SessionHeader, decode_line
from harness_core.structure import Structure

_TIME_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a log held, and ``size``: how many of its first bytes are good."""

    stored: Stored
    size: int


def encode_header(header: SessionHeader) -> bytes:
    """The first line of a log, without line feed.

    Raises ``ValueError`` if the header is not text that every reader can read.
    """
    fields: dict[str, Any] = {
        "format": header.format,
        "id": header.id,
        "created": header.created,
        "cwd": header.cwd,
    }
    if header.parent is not None:
        fields |= {"parent": header.parent, "forked_at": header.forked_at}
    try:
        return orjson.dumps(fields)
    except TypeError as failure:
        raise ValueError(f"a session cannot begin in {header.cwd!r}: {failure}") from None


def decode_header(line: bytes) -> SessionHeader:
    """A header from the first line of a log, of whatever format. Raises ``ValueError``."""
    record = orjson.loads(line)
    if not isinstance(record, dict):
        raise ValueError("the header is not an object")
    return SessionHeader(
        id=_text(record, "id"),
        cwd=_text(record, "cwd"),
        created=_number(record, "created"),
        parent=_text(record, "parent") if record.get("parent") is not None else None,
        forked_at=_number(record, "forked_at") if record.get("forked_at") is not None else None,
        format=_number(record, "format"),
    )


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise ValueError(f"the header has no {name}")
    return value


def _number(record: dict[str, Any], name: str) -> int:
    value = record.get(name)
    if type(value) is not int or not 0 <= value < _TIME_LIMIT:
        raise ValueError(f"the header has no {name}")
    return value


def recover(session: str, path: str, lines: Iterable[bytes]) -> Recovered:
    """What the log at ``path`` holds; ``lines`` end with their line feed, save a torn last one.

    Raises ``SessionNotFound`` if there is no header, ``CorruptLog`` if it is bad, ``FormatTooNew``,
    and ``UnknownFact``.
    """
    header: SessionHeader | None = None
    reader = _Reader(session, path)
    torn = 0
    for line in lines:
        if not line.endswith(b"\n"):
            torn = len(line)
            break
        if header is None:
            header = reader.header(line)
        elif not reader.event(line):
            break
    if header is None:
        raise SessionNotFound.of(session)
    return Recovered(Stored(header, tuple(reader.events), torn, reader.damage), reader.size)


def recover_header(session: str, path: str, line: bytes) -> SessionHeader:
    """The header in the first line of the log at ``path``; raises as ``recover`` does for it."""
    if not line.endswith(b"\n"):
        raise SessionNotFound.of(session)
    return _Reader(session, path).header(line)


class _Reader:
    """The lines of one log, judged one by one."""

    def __init__(self, session: str, path: str) -> None:
        self.session = session
        self.path = path
        self.events: list[SessionEvent] = []
        self.structure = Structure()
        self.damage: CorruptLog | None = None
        self.size = 0
        self._line = 0

    def header(self, line: bytes) -> SessionHeader:
        """Take the first line."""
        self._line = 1
        try:
            header = decode_header(line)
        except ValueError as failure:
            raise self._corrupt(str(failure)) from None
        if header.format > FORMAT:
            raise FormatTooNew(
                f"session {self.session} was written in log format {header.format} and this version"
                f" reads up to {FORMAT}: update acp-harness to open it",
                self.session,
            )
        if header.id != self.session:
            raise SessionNotFound.of(self.session)
        self.size += len(line)
        return header

    def event(self, line: bytes) -> bool:
        """Take the next line; whether it is good. Raises ``UnknownFact``."""
        self._line += 1
        try:
            event = decode_line(self.session, line)
            if event.seq != len(self.events):
                raise FactError(f"seq {event.seq} stands where {len(self.events)} belongs")
            self.structure.accept(event.fact)
        except UnknownFact as failure:
            raise UnknownFact(f"{self.path}, line {self._line}: {failure}") from None
        except ValueError as failure:
            self.damage = self._corrupt(str(failure))
            return False
        self.events.append(event)
        self.size += len(line)
        return True

    def _corrupt(self, why: str) -> CorruptLog:
        advice = "It can be read up to there; to continue it, cut the file before that line."
        if self._line == 1:
            advice = "Restore the line, or delete the session."
        return CorruptLog(
            f"the log of session {self.session} is damaged: {self.path}, line {self._line}: {why}."
            f" {advice}",
            self.session,
            self.path,
            self._line,
        )
