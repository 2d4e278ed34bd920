"""Where log records go: stderr or a file, never stdout, and never in the way.

A client may not read stderr, so a thread of its own writes what waits in a bounded queue: when that
is full, records are dropped instead of blocking the agent (V1-IO-04). The thread writes with
nothing but the system's call: while it is stuck there, it holds no lock that the end of the process
would need.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from logging.handlers import QueueHandler
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness_core.config import Settings

WAITING = 10_000
"""Records that may wait."""

LAST_RECORDS = 0.5
"""Seconds that there are to write what still waits at the end."""

STDERR = 2
CHATTY = ("httpx", "httpcore", "jsonrpcserver")


class Logging:
    """Sends records of the settings' level where the settings say, until the block is left.

    Warnings are records too. Raises ``OSError`` if the file that is set cannot be opened.
    """

    def __init__(self, settings: Settings) -> None:
        self._level = settings.log_level.upper()
        self._writer = _Writer(_target(settings.log_file))
        self._before: tuple[list[logging.Handler], int] = ([], logging.WARNING)

    def __enter__(self) -> None:
        root = logging.getLogger()
        self._before = (root.handlers[:], root.level)
        root.handlers[:] = [_Dropping(self._writer.records)]
        root.setLevel(self._level)
        for name in CHATTY:
            logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
        logging.captureWarnings(True)

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        logging.captureWarnings(False)
        handlers, level = self._before
        if handlers:  # else what comes now is dropped: without a handler it would go to stderr
            root.handlers[:] = handlers
            root.setLevel(level)
        self._writer.close()


def _target(file: str | None) -> int:
    if not file:
        return os.dup(STDERR)
    return os.open(Path(file).expanduser(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class _Dropping(QueueHandler):
    """Drops a record that finds no room."""

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


class _Writer:
    """Writes records to a descriptor, which is its own, in a thread."""

    def __init__(self, target: int) -> None:
        self.records: queue.Queue[logging.LogRecord | None] = queue.Queue(WAITING)
        self._target = target
        self._format = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s").format
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for a short time, and end the thread."""
        try:
            self.records.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(LAST_RECORDS)

    def _run(self) -> None:
        try:
            while (record := self.records.get()) is not None:
                self._write(f"{self._format(record)}\n".encode("utf-8", "backslashreplace"))
        except OSError:  # nobody is there to tell
            return
        finally:
            os.close(self._target)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._target, data) :]
