"""What a journal offers: sessions by id, one writer each, a list of them.

Methods block for the short time that local I/O takes; callers that must not block run them in a
thread. A journal knows lines and headers; what facts mean it knows only as far as the list needs
(the title).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol, Self

from harness_core.session import Log, SessionEvent, SessionHeader


class JournalError(Exception):
    """Something is wrong with a stored session. The message tells the user what to do."""

    def __init__(self, message: str, session: str) -> None:
        super().__init__(message)
        self.session = session


class SessionNotFound(JournalError):
    """No session of that id is stored."""

    @classmethod
    def of(cls, session: str) -> Self:
        """The error for an id that nothing is stored under, however it looks."""
        return cls(f"there is no session {session[:128]!r}", session)


class SessionExists(JournalError):
    """A new session was given an id that is taken."""

    @classmethod
    def of(cls, session: str) -> Self:
        """The error for an id that is taken."""
        return cls(f"there is a session {session} already: choose another id", session)


class SessionLocked(JournalError):
    """Somebody is writing the session; ``pid`` is the process that does, if known."""

    def __init__(self, message: str, session: str, pid: int | None = None) -> None:
        super().__init__(message, session)
        self.pid = pid

    @classmethod
    def by(cls, session: str, pid: int | None) -> Self:
        """The error for a session that ``pid`` is writing."""
        where = f"process {pid}" if pid else "another process"
        if pid == os.getpid():
            where = "this process"
        return cls(f"session {session} is in use by {where}: close it there first", session, pid)


class CorruptLog(JournalError):
    """A line in the middle of a log is bad: the log is readable up to it, and not writable.

    ``path`` and ``line`` (1-based) say where.
    """

    def __init__(self, message: str, session: str, path: str, line: int) -> None:
        super().__init__(message, session)
        self.path = path
        self.line = line


class FormatTooNew(JournalError):
    """A log was written by a newer version, in a format that this one does not read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A session as read back. ``torn`` is the number of bytes dropped from an unfinished last line;
    ``damage`` is set if reading stopped at a bad line."""

    header: SessionHeader
    events: tuple[SessionEvent, ...]
    torn: int = 0
    damage: CorruptLog | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A session in a list. Times are epoch milliseconds.

    ``updated`` is the time of the last event, other than those that a resume, a fork or a repair
    writes.
    """

    id: str
    cwd: str
    created: int
    updated: int
    title: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list; ``cursor`` leads to the next part, ``None`` on the last."""

    sessions: tuple[Summary, ...]
    cursor: str | None = None


class Journal(Protocol):
    """Where sessions are kept."""

    def create(self, header: SessionHeader) -> Log:
        """A log for a new session. Nothing is stored until its first event.

        Raises ``SessionExists``, or ``ValueError`` for a header that cannot be stored.
        """
        ...

    def open(self, session: str) -> tuple[Stored, Log]:
        """Read a session and take its lock to write on.

        A torn last line is dropped from the file. Raises ``SessionNotFound``, ``SessionLocked``,
        ``CorruptLog`` (use ``read`` to look up to the damage), ``FormatTooNew``, ``UnknownFact``,
        or ``OSError``.
        """
        ...

    def read(self, session: str) -> Stored:
        """Read a session, up to damage if there is any, without lock or change.

        Raises ``SessionNotFound``, ``CorruptLog`` (if not even the header is readable),
        ``FormatTooNew``, ``UnknownFact``, or ``OSError``.
        """
        ...

    def header(self, session: str) -> SessionHeader:
        """Read a session's header alone, without lock or change.

        Raises ``SessionNotFound``, ``FormatTooNew``, or ``CorruptLog`` if the header is bad.
        """
        ...

    def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        matching: str | None = None,
    ) -> Page:
        """Sessions that have events, last updated first: of ``cwd`` if given.

        ``matching`` is text that must be in the title, the directory or the id, whatever its case.
        The cursor is a keyset: it stays right while sessions come and go. Raises ``ValueError`` for
        a cursor that is not one of ours.
        """
        ...

    def delete(self, session: str) -> bool:
        """Remove a session and all it stored; whether there was one. Raises ``SessionLocked``."""
        ...

    def path(self, session: str) -> str | None:
        """Where a person finds the log, ``None`` if nowhere."""
        ...

    def close(self) -> None:
        """Release what the journal itself holds."""
        ...
