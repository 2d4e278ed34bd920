"""A session: an append-only log of facts, and the contract of appending to it.

``Session.append`` is synchronous and never does I/O: it refuses, or it commits and tells. This room
knows neither what facts mean beyond their shape, nor where logs live, nor who listens.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Protocol

import anyio
import orjson

from harness_core.bus import Bus, Emit, Parallel
from harness_core.facts import Fact, FactError, FactRefused, Opaque, decode, field_names
from harness_core.frozen import FrozenDict, FrozenList
from harness_core.plain import plain
from harness_core.structure import Structure

log = logging.getLogger(__name__)

FLUSH_GRACE = 30.0
"""Seconds that listeners of the durability barrier may take."""

FORMAT = 1
"""Version of the log format. A reader refuses a newer one."""


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What is fixed when a session begins. ``created`` is epoch milliseconds; ``cwd`` absolute.

    ``parent`` and ``forked_at`` (a seq, exclusive) tell where a fork came from.
    """

    id: str
    cwd: str
    created: int
    parent: str | None = None
    forked_at: int | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A committed fact. ``seq`` is its index in the log; ``time`` (epoch ms) never orders."""

    session: str
    seq: int
    time: int
    fact: Fact


SESSION_CREATED = Emit[SessionHeader]("session/created", "A session became live.")
SESSION_EVENT = Emit[SessionEvent]("session/event", "A fact was committed; one per append.")
SESSION_DISPOSED = Emit[SessionHeader]("session/disposed", "A session is no longer live.")
SESSION_FLUSH = Parallel[SessionHeader](
    "session/flush", "The durability barrier: the log is synced; save what else you keep of it."
)


class ReentrantAppend(RuntimeError):
    """An observer tried to append while an append runs: use ``session.defer``."""


class SessionClosed(RuntimeError):
    """The session was disposed; nothing can be appended any more."""


class Log(Protocol):
    """Where the lines of one live session go: the journal's side of the append contract."""

    def write(self, event: SessionEvent, line: bytes) -> None:
        """Take a committed line into the buffer. No I/O, no failure."""
        ...

    def drain(self) -> None:
        """Hand everything buffered to the operating system. A failure is kept for ``flush``."""
        ...

    async def flush(self) -> None:
        """Drain and sync to disk. Raises ``OSError``, also for an earlier failure that stays."""
        ...

    def spill(self, name: str, data: bytes) -> str:
        """Keep a large output beside the log; its absolute path."""
        ...

    def close(self) -> None:
        """Release the log and its lock."""
        ...


Validator = Callable[["Session", Fact], None]


class Session:
    """A live session. Read ``events``; change it by ``append`` alone."""

    def __init__(
        self,
        header: SessionHeader,
        log: Log,
        bus: Bus,
        events: Sequence[SessionEvent] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.header = header
        self.log = log
        self.bus = Bus(bus)
        self.events: list[SessionEvent] = list(events)
        self.structure = Structure()
        for event in self.events:
            self.structure.accept(event.fact)
        self.validators: list[Validator] = []
        """Each may raise ``FactRefused`` before a fact is committed."""
        self.closed = False
        self._clock = clock
        self._appending = False
        self._deferring = False
        self._deferred: deque[Callable[[], object]] = deque()

    @property
    def id(self) -> str:
        """The session's id, unique among all sessions."""
        return self.header.id

    def append(self, fact: Fact) -> SessionEvent:
        """Commit ``fact`` and tell every observer, each contained.

        What is committed is what a reader of the log will get: a copy of ``fact`` that nobody can
        change. Raises ``ReentrantAppend``, ``SessionClosed``, or ``FactRefused``; then
        nothing is in the log.
        """
        if self._appending:
            raise ReentrantAppend("an observer may not append: use session.defer")
        if self.closed:
            raise SessionClosed(f"session {self.id} is closed")
        self._appending = True
        try:
            event = self._commit(fact)
            self.bus.emit(SESSION_EVENT, event)
        finally:
            self._appending = False
            if self._deferred:
                self._run_deferred()
        return event

    def _commit(self, fact: Fact) -> SessionEvent:
        now = int(self._clock() * 1000)
        line = _line(len(self.events), now, fact)
        event = self._read_back(fact, now, line)
        for validator in self.validators:
            validator(self, event.fact)
        self.structure.accept(event.fact)
        self.events.append(event)
        self.log.write(event, line)
        return event

    def _read_back(self, fact: Fact, time: int, line: bytes) -> SessionEvent:
        """What ``line`` says, which must be what ``fact`` says."""
        if plain(fact):
            return SessionEvent(self.id, len(self.events), time, fact)
        try:
            event = decode_line(self.id, line)
        except ValueError as failure:
            _require_lossless(fact)
            raise FactRefused(str(failure)) from None
        if event.fact != fact:
            _require_lossless(fact)
        return event

    def defer(self, function: Callable[[], object]) -> None:
        """Run ``function`` after the current append has been observed; at once if none runs.

        Deferred functions run one after the other, in order, each contained; they may append.
        """
        self._deferred.append(function)
        if not self._appending:
            self._run_deferred()

    def _run_deferred(self) -> None:
        if self._deferring:
            return
        self._deferring = True
        try:
            while self._deferred:
                self._run_contained(self._deferred.popleft())
        finally:
            self._deferring = False

    def _run_contained(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception:
            log.exception("a deferred function of session %s failed", self.id)

    async def flush(self) -> None:
        """The durability barrier: the log is safe, and listeners have saved what is theirs.

        When all have settled, raises a listener's failure, or else the log's ``OSError``; and
        ``TimeoutError`` for listeners that take longer than ``FLUSH_GRACE``.
        """
        try:
            await self.log.flush()
        finally:
            with anyio.move_on_after(FLUSH_GRACE) as grace:
                await self.bus.parallel(SESSION_FLUSH, self.header)
            if grace.cancelled_caught:
                raise TimeoutError(f"a plugin did not save its part within {FLUSH_GRACE:.0f} s")

    def close(self) -> None:
        """Refuse further appends, drop the session's listeners, release the log."""
        if not self.closed:
            self.closed = True
            self.bus.scope.close()
            self.log.close()


def encode(event: SessionEvent) -> bytes:
    """The log's line for an event, without line feed. Raises ``FactRefused`` if not lossless."""
    _require_lossless(event.fact)
    return _line(event.seq, event.time, event.fact)


def _line(seq: int, time: int, fact: Fact) -> bytes:
    line: dict[str, Any] = {"seq": seq, "time": time, "type": fact.type, "data": fact}
    if fact.ignorable:
        line["ignorable"] = True
    if isinstance(fact, Opaque):
        line["type"], line["data"] = fact.original, fact.data
    if writer := _writer(fact):
        line["writer"] = writer
    try:
        return orjson.dumps(line)
    except TypeError as failure:
        raise FactRefused(f"{fact.type} is not lossless JSON: {failure}") from None


def decode_line(session: str, line: bytes) -> SessionEvent:
    """An event from a log's line. Raises ``FactError`` or ``ValueError``."""
    record = orjson.loads(line)
    try:
        seq, time, type, data = record["seq"], record["time"], record["type"], record["data"]
    except (KeyError, TypeError):
        raise FactError("not an event: seq, time, type and data are needed") from None
    if not (isinstance(seq, int) and isinstance(time, int) and isinstance(type, str)):
        raise FactError("not an event: seq and time are integers, type is text")
    writer, ignorable = record.get("writer"), record.get("ignorable") is True
    return SessionEvent(session, seq, time, decode(type, data, writer=writer, ignorable=ignorable))


def _writer(fact: Fact) -> str | None:
    """Who defined the fact's type, if not the kernel."""
    if isinstance(fact, Opaque):
        return fact.writer
    module = type(fact).__module__
    return module if module != _KERNEL else None


def _require_lossless(fact: Fact) -> None:
    try:
        problem = lossy(fact)
    except RecursionError:
        problem = " is nested too deeply"
    if problem:
        raise FactRefused(f"{fact.type}{problem}")


_KERNEL = Fact.__module__
_EXACT = frozenset((str, int, bool, type(None)))
_LISTS: frozenset[type] = frozenset((tuple, list, FrozenList))
_DICTS: frozenset[type] = frozenset((dict, FrozenDict))


def lossy(value: Any) -> str:
    """Where and why ``value`` would not survive as JSON; empty if it would.

    What orjson refuses by itself (non-string keys, lone surrogates, integers beyond 64 bits) is
    left to it; what it would silently change is found here.
    """
    kind = type(value)
    if kind in _EXACT:
        return ""
    if kind is float:
        return "" if math.isfinite(value) else f": {value} is not JSON"
    if kind in _LISTS:
        for index, item in enumerate(value):
            if problem := lossy(item):
                return f"[{index}]{problem}"
        return ""
    if kind in _DICTS:
        for key, item in value.items():
            if problem := lossy(item):
                return f".{key}{problem}"
        return ""
    if is_dataclass(kind):
        for name in field_names(kind):
            if problem := lossy(getattr(value, name)):
                return f".{name}{problem}"
        return ""
    return f": a {kind.__name__} is not JSON"
