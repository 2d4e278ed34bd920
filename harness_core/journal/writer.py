"""The write-behind log of one live session.

``write`` only fills a buffer. ``drain`` hands all of it to the operating system in one call, so
that what a client has seen survives a kill; ``flush`` syncs it from a worker thread, so that what
was answered survives a power cut. A write that fails is kept, said once, and tried again by the
next drain from the very byte where it stopped: no line is torn, doubled or lost by a full disk.

``write``, ``drain``, ``flush`` and ``close`` belong to one thread (the event loop's). Nothing here
knows how logs are read, listed, or found.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread

from harness_core.journal.disk import (
    create_file,
    make_directory,
    sync_file,
)
from harness_core.journal.layout import Place, sync_names
from harness_core.journal.lock import Held, Lock
from harness_core.journal.outputs import keep_output, sync_outputs
from harness_core.session import SessionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """What an open log holds: its lock, and its file as a descriptor to append to."""

    lock: Lock
    descriptor: int

    @classmethod
    def create(cls, place: Place) -> Files:
        """The files of a new session. Raises ``OSError``."""
        make_directory(os.path.dirname(place.directory))
        make_directory(place.directory)
        try:
            lock = Lock.acquire(place.lock)
        except Held as held:
            raise FileExistsError(errno.EEXIST, f"session {held}", place.log) from None
        try:
            return cls(lock, create_file(place.log))
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Close the file, then let others write."""
        os.close(self.descriptor)
        self.lock.release()


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync has covered: these events, in this many first bytes of the file."""

    events: list[SessionEvent]
    size: int
    status: os.stat_result


class Follower(Protocol):
    """Who wants to know what becomes of a log."""

    def synced(self, done: Synced) -> None:
        """More is safe now. Called in the worker thread, one call at a time."""
        ...

    def closed(self) -> None:
        """The log is closed and its lock is free."""
        ...


class JsonlLog:
    """A ``Log`` in a file. ``header`` is the first line of a log that is still to be made.

    ``files`` is what a log that exists holds, ``size`` its length in bytes and ``events`` what is
    in it.
    """

    def __init__(
        self,
        place: Place,
        follower: Follower,
        *,
        header: bytes = b"",
        files: Files | None = None,
        size: int = 0,
        events: tuple[SessionEvent, ...] = (),
    ) -> None:
        self.place = place
        self._files = files
        self._fresh = files is None
        """Whether the names of the files are still to be synced."""
        self._head = header + b"\n" if header else b""
        self._lines: list[bytes] = []
        self._rest = b""
        """Bytes that a failed write has left over; they come first."""
        self._size = size
        self._safe = size
        """Bytes handed to the operating system, and those of them that are on the medium."""
        self._events = deque(events)
        """Events that the follower was not told of yet."""
        self._seq = len(events) - 1
        self._spilled: deque[str] = deque()
        self._failure: OSError | None = None
        self._lost: OSError | None = None
        """A failed sync. It stays: the system may have forgotten what it could not write."""
        self._follower = follower
        self._closed = False
        self._turnstile = anyio.Lock()
        self._syncing = threading.Lock()
        """A sync whose flush was cancelled may still run when the next one begins."""
        self._guard = threading.Lock()
        """Held while the descriptor is closed or duplicated; never during I/O."""

    # --- the streaming path ----------------------------------------------------------------

    def write(self, event: SessionEvent, line: bytes) -> None:
        """Take a committed line into the buffer."""
        self._lines.append(line)
        self._events.append(event)
        self._seq = event.seq

    def drain(self) -> None:
        """Hand everything buffered to the operating system, in one write if it takes it."""
        if self._lines:
            self._rest += self._head + b"\n".join(self._lines) + b"\n"
            self._head = b""
            self._lines.clear()
        if self._rest and not self._closed:
            self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self._write_rest()
        except OSError as failure:
            if self._failure is None:
                log.error("cannot save %s: %s; it will be tried again", self.place.log, failure)
            self._failure = failure
            return
        if self._failure is not None:
            log.warning("%s is saved again", self.place.log)
            self._failure = None

    def _write_rest(self) -> None:
        if self._files is None:
            self._files = Files.create(self.place)
        while self._rest:
            written = os.write(self._files.descriptor, self._rest)
            self._rest = self._rest[written:]
            self._size += written

    # --- the durability barrier ------------------------------------------------------------

    async def flush(self) -> None:
        """Drain and sync; flushes that wait for each other share one sync.

        Raises ``OSError`` while something is not safe.
        """
        self.drain()
        self._raise_failure()
        goal = self._size
        async with self._turnstile:
            if self._safe < goal or (self._spilled and self._files):
                await self._sync_in_thread()
        self._raise_failure()

    async def _sync_in_thread(self) -> None:
        self.drain()
        self._raise_failure()
        await anyio.to_thread.run_sync(partial(self._sync, self._size, self._seq))

    def _raise_failure(self) -> None:
        failure = self._failure or self._lost
        if failure is not None:
            raise OSError(failure.errno, failure.strerror, self.place.log)

    def _sync(self, size: int, seq: int) -> None:
        """In a worker thread: make the first ``size`` bytes safe, which end with event ``seq``."""
        with self._syncing:
            try:
                status = self._sync_files()
            except OSError as failure:
                log.error("cannot sync %s: %s", self.place.log, failure)
                self._lost = failure
                return
            self._safe = max(self._safe, size)
            self._tell(Synced(self._covered(seq), size, status))

    def _sync_files(self) -> os.stat_result:
        sync_outputs(self.place, self._spilled)
        descriptor = self._borrow()
        try:
            sync_file(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the log was removed", self.place.log)
        if self._fresh:
            sync_names(self.place)
            self._fresh = False
        return status

    def _covered(self, seq: int) -> list[SessionEvent]:
        covered = []
        while self._events and self._events[0].seq <= seq:
            covered.append(self._events.popleft())
        return covered

    def _tell(self, done: Synced) -> None:
        try:
            self._follower.synced(done)
        except Exception:
            log.exception("what follows the log %s failed", self.place.log)

    def _borrow(self) -> int:
        """A descriptor of the file that nobody else closes."""
        with self._guard:
            if self._files is None or self._closed:
                raise OSError(errno.EBADF, "the log was closed before it was synced")
            return os.dup(self._files.descriptor)

    # --- beside the log --------------------------------------------------------------------

    def spill(self, name: str, data: bytes) -> str:
        """Keep ``data`` in a file of its own; its absolute path. Raises ``OSError``."""
        path = keep_output(self.place, name, data)
        self._spilled.append(path)
        return path

    def close(self) -> None:
        """Drain, and release the file and its lock. A second call has no effect."""
        if self._closed:
            return
        self.drain()
        if self._rest:
            log.error("%s is closed with %d bytes unsaved", self.place.log, len(self._rest))
        with self._guard:
            self._closed = True
            if self._files is not None:
                self._files.close()
        self._follower.closed()
