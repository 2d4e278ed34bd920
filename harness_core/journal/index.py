"""The list of sessions in SQLite: a cache of what the logs say, and never more.

Whatever is missing, stale, damaged or from another version is made again from the logs; if the
database cannot be had at all, one in memory takes its place. Several processes may use it at once.
Import this room only when a list is asked for or a session was synced: SQLite takes its time.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from harness_core.journal.disk import PRIVATE_FILE
from harness_core.journal.entry import Entry, Stamp
from harness_core.journal.layout import Layout
from harness_core.journal.listing import Query
from harness_core.journal.protocol import Summary

R = TypeVar("R")

log = logging.getLogger(__name__)

VERSION = 1
"""Version of the table; another one is dropped."""

_PATIENCE = 2.0
"""Seconds to wait for another process that is writing."""

_BATCH = 200
"""Entries stored in one transaction: short enough that nobody waits for long."""

_MEMORY = ":memory:"

_SCHEMA = """
DROP TABLE IF EXISTS sessions;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, cwd TEXT, created INTEGER, parent TEXT, title TEXT,
    updated INTEGER, active INTEGER, scanned INTEGER, stamp TEXT,
    shown INTEGER, words TEXT
) WITHOUT ROWID;
CREATE INDEX by_time ON sessions (shown DESC, id);
PRAGMA user_version = {version};
"""

_ROW = "id, cwd, created, parent, title, updated, active, scanned, stamp"
_STORE = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Index:
    """The entries of all sessions under one root. Any thread may use it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._path = os.path.join(layout.root, ".index.sqlite3")
        self._db: sqlite3.Connection | None = None
        self._guard = threading.Lock()

    def find(self, query: Query) -> list[Summary]:
        """The sessions asked for, and one more if there are more, as the logs are now.

        Raises ``OSError`` if the root cannot be read.
        """
        with self._guard:
            return self._surely(lambda db: self._select(db, query))

    def note(self, entry: Entry) -> None:
        """Store what a writer knows of its own session. The next list makes up for a failure."""
        with self._guard:
            try:
                _store(self._connection(), [entry])
            except sqlite3.Error as failure:
                log.debug("%s is not up to date: %s", self._path, failure)
                self._disconnect()

    def close(self) -> None:
        """Let the database go; it is opened again when needed."""
        with self._guard:
            self._disconnect()

    # --- the database and what can be wrong with it --------------------------------------------

    def _surely(self, work: Callable[[sqlite3.Connection], R]) -> R:
        for remedy in (self._discard, self._retreat):
            try:
                return work(self._connection())
            except sqlite3.Error as failure:
                remedy(failure)
        return work(self._connection())

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = _connect(self._path)
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            db.close()

    def _discard(self, failure: sqlite3.Error) -> None:
        """A damaged database is made anew; one that is only busy is tried again."""
        self._disconnect()
        if not _is_busy(failure) and self._path != _MEMORY:
            log.info("%s is made again: %s", self._path, failure)
            for suffix in ("", "-wal", "-shm", "-journal"):
                with suppress(OSError):
                    os.unlink(self._path + suffix)

    def _retreat(self, failure: sqlite3.Error) -> None:
        self._disconnect()
        log.warning("cannot use %s, sessions are listed without it: %s", self._path, failure)
        self._path = _MEMORY

    # --- keeping up with the logs --------------------------------------------------------------

    def _select(self, db: sqlite3.Connection, query: Query) -> list[Summary]:
        """What changes comes first: only the first page has to look at every log."""
        entries = _entries(db, query) if query.after else []
        if not query.after or any(self._stamp(e.id) != _text(e.stamp) for e in entries):
            self._refresh(db)
            entries = _entries(db, query)
        summaries = [entry.summary for entry in entries]
        return [summary for summary in summaries if summary is not None]

    def _refresh(self, db: sqlite3.Connection) -> None:
        """Bring the entries up to date with what is there now."""
        known: dict[str, str] = dict(db.execute("SELECT id, stamp FROM sessions"))
        there = {id: stamp for id in self._layout.ids() if (stamp := self._stamp(id))}
        changed = [id for id, stamp in there.items() if known.get(id) != stamp]
        for start in range(0, len(changed), _BATCH):
            batch = changed[start : start + _BATCH]
            _store(db, [self._scan(_load(db, id) or Entry(id), there[id]) for id in batch])
        if gone := known.keys() - there.keys():
            _forget(db, gone)

    def _stamp(self, id: str) -> str:
        """The state of a log as text; empty while there is none."""
        status = self._layout.status(id)
        return _text(Stamp.of(status)) if status else ""

    def _scan(self, known: Entry, stamp: str) -> Entry:
        """The entry of a log that has changed; what it has in common with before is not read."""
        state, path = _parse(stamp), self._layout.place(known.id).log
        grown = known.stamp.inode == state.inode and known.stamp.size < state.size
        entry = known if grown else Entry(known.id)
        try:
            with open(path, "rb") as file:
                entry.scan(file)
        except OSError as failure:
            log.warning("cannot read %s, it is not listed: %s", path, failure)
        if entry.scanned and entry.cwd is None:
            log.warning("%s does not begin as the log of its session: it is not listed", path)
        entry.stamp = state
        return entry


def _connect(path: str) -> sqlite3.Connection:
    if path != _MEMORY:
        with suppress(OSError):  # SQLite says better what is wrong
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if _version(db) != VERSION:
            _create(db)
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _create(db: sqlite3.Connection) -> None:
    with _transaction(db):
        if _version(db) != VERSION:  # another process may have been faster
            for statement in _SCHEMA.format(version=VERSION).split(";"):
                db.execute(statement)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _is_busy(failure: sqlite3.Error) -> bool:
    code = getattr(failure, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _statement(query: Query) -> tuple[str, list[Any]]:
    """The statement for a query, with its values; it asks for one more than a page holds."""
    terms, values = ["shown IS NOT NULL"], list[Any]()
    if query.cwd is not None:
        terms.append("cwd = ?")
        values.append(query.cwd)
    if query.matching is not None:
        terms.append("instr(words, ?)")
        values.append(query.matching)
    if query.after is not None:
        terms.append("(shown < ? OR (shown = ? AND id > ?))")
        values += [query.after.updated, query.after.updated, query.after.id]
    where = " AND ".join(terms)
    order = "ORDER BY shown DESC, id LIMIT ?"
    return f"SELECT {_ROW} FROM sessions WHERE {where} {order}", [*values, query.limit + 1]


def _entries(db: sqlite3.Connection, query: Query) -> list[Entry]:
    return [_entry(row) for row in db.execute(*_statement(query))]


def _load(db: sqlite3.Connection, id: str) -> Entry | None:
    row = db.execute(f"SELECT {_ROW} FROM sessions WHERE id = ?", (id,)).fetchone()
    return _entry(row) if row else None


def _store(db: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    with _transaction(db):
        db.executemany(_STORE, map(_row, entries))


def _forget(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    with _transaction(db):
        db.executemany("DELETE FROM sessions WHERE id = ?", [(id,) for id in ids])


def _row(entry: Entry) -> tuple[Any, ...]:
    summary = entry.summary
    return (
        entry.id,
        entry.cwd,
        entry.created,
        entry.parent,
        entry.title,
        entry.updated,
        entry.active,
        entry.scanned,
        _text(entry.stamp),
        summary and summary.updated,
        entry.words,
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    *values, stamp = row
    return Entry(*(*values, _parse(stamp)))


def _text(stamp: Stamp) -> str:
    """Text, since inodes may be larger than SQLite's integers."""
    return f"{stamp.size} {stamp.modified} {stamp.inode}"


def _parse(text: str) -> Stamp:
    """Raises ``sqlite3.DatabaseError`` for what ``_text`` has not written."""
    try:
        return Stamp(*map(int, text.split()))
    except (TypeError, ValueError):
        raise sqlite3.DatabaseError(f"{text!r} is no stamp") from None
