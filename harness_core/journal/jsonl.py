"""The default journal: a directory for each session, with its log in lines of JSON.

``<root>/<session id>/`` holds ``log.jsonl``, the lock of its writer, and large outputs. Nothing is
on disk before a session's first event. This room puts the others together; each knows one thing.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from harness_core.journal.disk import append_to_file, remove_tree, sync_directory
from harness_core.journal.entry import Entry, Stamp
from harness_core.journal.layout import Layout, Place, check_id, is_id
from harness_core.journal.listing import Query
from harness_core.journal.lock import Held, Lock
from harness_core.journal.protocol import (
    JournalError,
    Page,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    Stored,
)
from harness_core.journal.recovery import Recovered, encode_header, recover, recover_header
from harness_core.journal.writer import Files, JsonlLog, Synced
from harness_core.session import SessionHeader

if TYPE_CHECKING:
    from harness_core.journal.index import Index

log = logging.getLogger(__name__)

_READ_AHEAD = 1 << 20


class JsonlJournal:
    """A ``Journal`` under the directory ``root``, which is made when it is first needed."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._layout = Layout(os.fspath(root))
        self._live: set[str] = set()
        self._guard = threading.Lock()
        self._index: Index | None = None
        self._later: Executor | None = None

    def create(self, header: SessionHeader) -> JsonlLog:
        """A log for a new session. Nothing is on disk until its first event is drained.

        Raises ``SessionExists``, or ``ValueError`` for a header that cannot be stored.
        """
        check_id(header.id)
        first, place = encode_header(header), self._layout.place(header.id)
        with self._guard:
            if header.id in self._live or os.path.exists(place.log):
                raise SessionExists.of(header.id)
            self._live.add(header.id)
        return JsonlLog(place, _Follower(self, header), header=first)

    def open(self, session: str) -> tuple[Stored, JsonlLog]:
        """Read a session and take its lock to write on; see ``Journal.open``."""
        place = self._layout.place(session)
        if not os.path.exists(place.log):
            raise SessionNotFound.of(session)
        lock = _lock(session, place)
        try:
            found = _read(session, place)
            if found.stored.damage is not None:
                raise found.stored.damage
            files = Files(lock, _open_good_part(place, found))
        except BaseException:
            lock.release()
            raise
        self._live.add(session)
        stored, follower = found.stored, _Follower(self, found.stored.header)
        return stored, JsonlLog(place, follower, files=files, size=found.size, events=stored.events)

    def read(self, session: str) -> Stored:
        """Read a session without lock or change; see ``Journal.read``."""
        return _read(session, self._layout.place(session)).stored

    def header(self, session: str) -> SessionHeader:
        """Read a session's header alone; see ``Journal.header``."""
        place = self._layout.place(session)
        with _lines(session, place) as lines:
            return recover_header(session, place.log, lines.readline())

    def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        matching: str | None = None,
    ) -> Page:
        """Sessions, last updated first; see ``Journal.list`` (V1-LIST-02 to V1-LIST-09)."""
        query = Query.parse(cwd, cursor, limit, matching)
        if not os.path.isdir(self._layout.root):
            return Page(())
        return query.page(self._listing().find(query))

    def delete(self, session: str) -> bool:
        """Remove a session and all it stored; whether there was one (V1-DEL-02, V1-DEL-03).

        Its directory gets another name first, so that a crash leaves a whole session or none.
        Raises ``SessionLocked``, or ``JournalError`` if something could not be removed.
        """
        if session in self._live:
            raise SessionLocked.by(session, os.getpid())
        if not is_id(session) or not os.path.isdir(self._layout.place(session).directory):
            return False
        place, trash = self._layout.place(session), self._layout.trash()
        try:
            _lock(session, place).release_and_move(place.directory, trash)
        except FileNotFoundError:  # another process was faster
            return False
        sync_directory(self._layout.root)
        if not remove_tree(trash):
            raise JournalError(f"not all of session {session} could be removed: {trash}", session)
        self._layout.sweep()
        return True

    def path(self, session: str) -> str | None:
        """The log's absolute path, for a live session also before it is there."""
        if not is_id(session):
            return None
        path = self._layout.place(session).log
        return path if session in self._live or os.path.exists(path) else None

    def close(self) -> None:
        """Bring the index up to date and close it. Logs belong to whoever opened them."""
        with self._guard:
            later, self._later = self._later, None
        if later is not None:
            later.shutdown()
        if self._index is not None:
            self._index.close()

    def note(self, entry: Entry) -> None:
        """Store in the index what is known of a session: soon, and nobody waits for it."""
        with self._guard:
            if self._later is None:
                self._later = ThreadPoolExecutor(1, "journal-index")
            self._later.submit(lambda: self._listing().note(entry))

    def release(self, session: str) -> None:
        """A log was closed: its session is no longer live."""
        self._live.discard(session)

    def _listing(self) -> Index:
        with self._guard:
            if self._index is None:
                from harness_core.journal.index import Index

                self._index = Index(self._layout)
            return self._index


class _Follower:
    """Keeps the journal up with one log, sync by sync."""

    def __init__(self, journal: JsonlJournal, header: SessionHeader) -> None:
        self._journal = journal
        self._entry = Entry.of(header)

    def synced(self, done: Synced) -> None:
        """What is safe now belongs in the list."""
        for event in done.events:
            self._entry.feed(event)
        self._entry.scanned = done.size
        self._entry.stamp = Stamp.of(done.status)._replace(size=done.size)
        self._journal.note(replace(self._entry))

    def closed(self) -> None:
        """Others may have the session."""
        self._journal.release(self._entry.id)


def _lock(session: str, place: Place) -> Lock:
    try:
        return Lock.acquire(place.lock)
    except Held as held:
        raise SessionLocked.by(session, held.pid) from None


def _read(session: str, place: Place) -> Recovered:
    with _no_collection(), _lines(session, place) as lines:
        return recover(session, place.log, lines)


def _lines(session: str, place: Place) -> BinaryIO:
    """The log's bytes, line by line. Raises ``SessionNotFound``."""
    try:
        return open(place.log, "rb", buffering=_READ_AHEAD)
    except (FileNotFoundError, NotADirectoryError):
        raise SessionNotFound.of(session) from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """A log is many objects without a cycle: looking for some takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _open_good_part(place: Place, found: Recovered) -> int:
    """A descriptor to append to a log with; its unfinished last line goes."""
    descriptor = append_to_file(place.log)
    torn = found.stored.torn
    if torn:
        log.warning("%s: dropped %d bytes of an unfinished last line", place.log, torn)
        os.ftruncate(descriptor, found.size)
    return descriptor
