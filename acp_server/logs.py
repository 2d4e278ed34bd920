"""Where log records go: stderr or a file, never stdout, and never in the way.

A client may not read stderr, so records pass through a thread with a bounded queue: when it is
full they are dropped instead of blocking the agent (V1-IO-04).
"""

from __future__ import annotations

import logging
import queue
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness_core.config import Settings

WAITING = 10_000
"""Records that may wait."""


class _Dropping(QueueHandler):
    """Drops a record that finds no room."""

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


def set_up_logging(settings: Settings) -> None:
    """Send records of the settings' level where the settings say."""
    target: logging.Handler
    if settings.log_file:
        target = logging.FileHandler(Path(settings.log_file).expanduser(), encoding="utf-8")
    else:
        target = logging.StreamHandler()
    target.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    records: queue.Queue[logging.LogRecord] = queue.Queue(WAITING)
    QueueListener(records, target).start()
    root = logging.getLogger()
    root.handlers[:] = [_Dropping(records)]
    root.setLevel(settings.log_level.upper())
    for chatty in ("httpx", "httpcore", "jsonrpcserver"):
        logging.getLogger(chatty).setLevel(max(root.level, logging.WARNING))
