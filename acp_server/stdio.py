"""The process's standard streams as a transport.

Owns: the guard on fd 0 and 1, one thread that reads and one that writes. Threads, because the
streams may be pipes, sockets, files or ``/dev/null``, on any platform, and must not be made
non-blocking: their other end is shared. Knows bytes only.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable

CHUNK = 1 << 18
"""Bytes read at a time."""

AHEAD = 16
"""Chunks that may wait for the event loop. More stay in the client's pipe, not in our memory."""


def guard() -> tuple[int, int]:
    """Take stdin and stdout for the protocol; returns their private descriptors.

    From here on whatever a library or a child prints goes to stderr, and whatever they read is
    empty (V1-IO-03). To be called before anything that could print is imported.
    """
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:  # started without this stream: nothing else may take its place
        null = os.open(os.devnull, os.O_RDWR)
    source, target = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return source, target


class Reader:
    """Reads a descriptor in a thread and hands chunks to the event loop, ``b""`` at the end.

    The descriptor is its own, and closed at the end.
    """

    def __init__(self, fd: int, feed: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(AHEAD)

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    def _run(self) -> None:
        try:
            while self._pass_on(self._read()):
                pass
        finally:
            os.close(self._fd)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, CHUNK)
        except OSError:  # a broken pipe is the end
            return b""

    def _pass_on(self, data: bytes) -> bool:
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._take, data)
        except RuntimeError:  # the loop has closed
            return False
        return bool(data)

    def _take(self, data: bytes) -> None:
        self._room.release()
        self._feed(data)


class Writer:
    """Writes to a descriptor in a thread, in order.

    ``pending`` is how many bytes were accepted and not yet written. ``on_drained`` runs on the
    event loop whenever it falls to zero; ``on_broken`` once, when the other end is gone. The
    descriptor is its own, and closed at the end.
    """

    def __init__(
        self, fd: int, on_drained: Callable[[], None], on_broken: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._wake = threading.Condition()
        self._parts: list[bytes] = []
        self._closed = False
        self.broken = False
        self.pending = 0
        self._thread = threading.Thread(target=self._run, name="stdout", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Accept ``data``; never blocks. Dropped once the other end is gone."""
        with self._wake:
            if data and not (self.broken or self._closed):
                self._parts.append(data)
                self.pending += len(data)
                self._wake.notify()

    def close(self, timeout: float) -> None:
        """Write what is pending, for at most ``timeout`` seconds, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while data := self._take():
                self._write_all(data)
                with self._wake:
                    self.pending -= len(data)
                    drained = self.pending == 0
                if drained:
                    self._tell(self._on_drained)
        except OSError:
            self.broken = True
            self._tell(self._on_broken)
        finally:
            os.close(self._fd)

    def _take(self) -> memoryview:
        """Everything that waits, as soon as there is something; empty at the end."""
        with self._wake:
            while not (self._parts or self._closed):
                self._wake.wait()
            data = memoryview(b"".join(self._parts))
            self._parts.clear()
            return data

    def _write_all(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def _tell(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop has closed
            return
