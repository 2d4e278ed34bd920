"""What the list says of a session, folded from its log as cheaply as a log can be read.

Of most lines only the type and the time are looked at, so a damaged log, or one with facts that
nobody here knows, still has its entry. A scan goes on where the last one stopped.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from harness_core.facts import (
    AssistantSaid,
    Reason,
    SeedEnd,
    SessionTitle,
    StepEnd,
    ToolCalled,
    ToolReturned,
    TurnEnd,
)
from harness_core.journal.protocol import Summary
from harness_core.journal.recovery import decode_header
from harness_core.session import SessionEvent, SessionHeader, decode_line

_PREFIX = re.compile(rb'\{"seq":\d+,"time":(\d{1,18}),"type":"([^"\\]+)"')
"""How every line begins that ``encode`` has written."""

_TELLING = frozenset((SeedEnd.type, SessionTitle.type, TurnEnd.type))
"""Types of which the data matters."""

_CLOSING = frozenset(fact.type for fact in (AssistantSaid, ToolCalled, ToolReturned, StepEnd))
"""Types that repair writes, besides the end of the turn. What it repairs is not activity."""


class Stamp(NamedTuple):
    """The state of a log file: while it is the same, nothing was written."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file as ``stat`` sees it."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


NEVER_SEEN = Stamp(0, 0, 0)


@dataclass(slots=True)
class Entry:
    """A session in the list. ``cwd`` is ``None`` if its log has no readable header.

    ``updated`` is the time of the last event, ``None`` before the first; ``active`` of the last one
    that no repair can have written. ``scanned`` counts the log's bytes that are in the entry.
    """

    id: str
    cwd: str | None = None
    created: int = 0
    parent: str | None = None
    title: str | None = None
    updated: int | None = None
    active: int | None = None
    scanned: int = 0
    stamp: Stamp = NEVER_SEEN

    @classmethod
    def of(cls, header: SessionHeader) -> Entry:
        """The entry of a session that has no events yet."""
        return cls(header.id, header.cwd, header.created, header.parent)

    @property
    def summary(self) -> Summary | None:
        """What is shown; ``None`` if the session is empty or unreadable."""
        if self.cwd is None or self.updated is None:
            return None
        updated = max(self.created, self.updated)  # a fork begins with events older than itself
        return Summary(self.id, self.cwd, self.created, updated, self.title, self.parent)

    @property
    def words(self) -> str:
        """The text that a search looks into."""
        return "\n".join((self.title or "", self.cwd or "", self.id)).casefold()

    def feed(self, event: SessionEvent) -> None:
        """Take the next event."""
        match event.fact:
            case SeedEnd():
                self._inherit()
            case TurnEnd(reason=Reason(kind="interrupted")):
                self.updated = self.created if self.active is None else self.active
            case SessionTitle(title=title):
                self.title = title
                self._tick(event.time, event.fact.type)
            case fact:
                self._tick(event.time, fact.type)

    def _inherit(self) -> None:
        if self.updated is None:
            self.updated = self.created

    def _tick(self, time: int, type: str) -> None:
        self.updated = time
        if type not in _CLOSING:
            self.active = time

    def scan(self, log: BinaryIO) -> None:
        """Take what the log has beyond ``scanned``, up to an unfinished last line."""
        log.seek(self.scanned)
        for line in log:
            if not line.endswith(b"\n"):
                break
            if self.scanned == 0:
                self._take_header(line)
            else:
                self._take_line(line)
            self.scanned += len(line)

    def _take_header(self, line: bytes) -> None:
        with suppress(ValueError):
            header = decode_header(line)
            if header.id == self.id:
                self.cwd, self.created, self.parent = header.cwd, header.created, header.parent

    def _take_line(self, line: bytes) -> None:
        match = _PREFIX.match(line)
        type = match[2].decode(errors="replace") if match else ""
        if match and type not in _TELLING:
            self._tick(int(match[1]), type)
            return
        with suppress(ValueError):
            self.feed(decode_line(self.id, line))
