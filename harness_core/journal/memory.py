"""A journal that keeps sessions in memory: for tests, and for embedders that store nothing.

It keeps lines, not events, so that what comes out of it went through the same codec as on disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field

from harness_core.journal.entry import Entry
from harness_core.journal.layout import Place, check_id
from harness_core.journal.listing import Query
from harness_core.journal.outputs import keep_output
from harness_core.journal.protocol import (
    Page,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    Stored,
)
from harness_core.journal.recovery import encode_header, recover, recover_header
from harness_core.session import SessionEvent, SessionHeader


@dataclass(slots=True)
class _Kept:
    """What is kept of a session."""

    header: bytes
    entry: Entry
    lines: list[bytes] = field(default_factory=list)
    live: bool = True


class MemoryLog:
    """A ``Log`` of which every line is safe as soon as it is written."""

    def __init__(self, journal: MemoryJournal, kept: _Kept) -> None:
        self._journal = journal
        self._kept = kept
        self._closed = False

    def write(self, event: SessionEvent, line: bytes) -> None:
        """Keep a line."""
        self._kept.lines.append(line + b"\n")
        self._kept.entry.feed(event)

    def drain(self) -> None:
        """Nothing is left to do."""

    async def flush(self) -> None:
        """Nothing is left to do."""

    def spill(self, name: str, data: bytes) -> str:
        """Keep ``data`` in a temporary file that goes with the session. Raises ``OSError``."""
        return keep_output(self._journal.place(self._kept.entry.id), name, data)

    def close(self) -> None:
        """Let the session be opened again. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._journal.release(self._kept)


class MemoryJournal:
    """A ``Journal`` that forgets everything with the process."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._outputs: str | None = None

    def create(self, header: SessionHeader) -> MemoryLog:
        """A log for a new session. Raises ``SessionExists``, ``ValueError``; see ``Journal``."""
        check_id(header.id)
        if header.id in self._kept:
            raise SessionExists(f"there is a session {header.id} already", header.id)
        kept = _Kept(encode_header(header) + b"\n", Entry.of(header))
        self._kept[header.id] = kept
        return MemoryLog(self, kept)

    def open(self, session: str) -> tuple[Stored, MemoryLog]:
        """Read a session and take it to write on; see ``Journal.open``."""
        stored = self.read(session)
        kept = self._kept[session]
        if kept.live:
            raise SessionLocked.by(session, os.getpid())
        kept.live = True
        return stored, MemoryLog(self, kept)

    def read(self, session: str) -> Stored:
        """Read a session; see ``Journal.read``."""
        kept = self._stored(session)
        return recover(session, "memory", (kept.header, *kept.lines)).stored

    def header(self, session: str) -> SessionHeader:
        """Read a session's header alone; see ``Journal.header``."""
        return recover_header(session, "memory", self._stored(session).header)

    def _stored(self, session: str) -> _Kept:
        kept = self._kept.get(session)
        if kept is None or not kept.lines:
            raise SessionNotFound.of(session)
        return kept

    def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        matching: str | None = None,
    ) -> Page:
        """Sessions, last updated first; see ``Journal.list``."""
        query = Query.parse(cwd, cursor, limit, matching)
        return query.page(query.choose(kept.entry for kept in self._kept.values()))

    def delete(self, session: str) -> bool:
        """Forget a session; whether there was one. Raises ``SessionLocked``."""
        kept = self._kept.get(session)
        if kept is None:
            return False
        if kept.live:
            raise SessionLocked.by(session, os.getpid())
        del self._kept[session]
        if self._outputs is not None:
            shutil.rmtree(self.place(session).directory, ignore_errors=True)
        return True

    def path(self, session: str) -> str | None:
        """Nowhere."""
        return None

    def close(self) -> None:
        """Sessions stay until the journal itself is gone."""

    def release(self, kept: _Kept) -> None:
        """A session is no longer live; one that never had an event is forgotten."""
        kept.live = False
        if not kept.lines:
            del self._kept[kept.entry.id]

    def place(self, session: str) -> Place:
        """Where the outputs of a session go."""
        if self._outputs is None:
            self._outputs = tempfile.mkdtemp(prefix="acp-harness-")
            weakref.finalize(self, shutil.rmtree, self._outputs, ignore_errors=True)
        return Place(os.path.join(self._outputs, session))
