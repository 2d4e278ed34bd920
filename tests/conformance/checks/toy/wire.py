"""Bytes and lines: a reading thread, a writing thread, and the end of the process."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import stat
import threading
from collections.abc import Callable
from typing import Any

from toy.mutation import broken

MIB = 1024 * 1024
LIMIT = 2 * MIB if broken("IO-07.large") else 64 * MIB
TOO_LONG = b"\0"
"""What a line above the limit is handed on as."""


class Wire:
    """The protocol's stdin and stdout. Lines arrive in the event loop; writing never blocks it."""

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_line = on_line
        self._on_end = on_end
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, daemon=True)
        self.read_anything = False

    def start(self) -> None:
        self._writer.start()
        threading.Thread(target=self._read_all, daemon=True).start()

    def send(self, message: Any) -> None:
        """Queue one message; order is kept."""
        self.send_line(json.dumps(message, ensure_ascii=not broken("IO-02.separators")).encode())

    def send_line(self, line: bytes) -> None:
        if broken("IO-15"):
            self._write(line + b"\n")
        else:
            self._outgoing.put(line + b"\n")

    def close(self) -> None:
        """Write what is queued, for two seconds at most."""
        self._outgoing.put(None)
        self._writer.join(2)

    def _write_all(self) -> None:
        while (line := self._outgoing.get()) is not None:
            self._write(line)

    def _write(self, line: bytes) -> None:
        if broken("IO-12") and stat.S_ISREG(os.fstat(1).st_mode):
            return
        view = memoryview(line)
        while view:
            try:
                view = view[os.write(1, view) :]
            except OSError:
                if broken("IO-14"):
                    return
                os._exit(0)

    def _read_all(self) -> None:
        buffer = bytearray()
        dropping = False
        while data := os.read(0, 65536):
            self.read_anything = True
            if broken("IO-08.split"):
                self._hand_on(data.rstrip(b"\n"))
                continue
            *lines, rest = data.split(b"\n")
            for line in lines[:1] if broken("IO-08.joined") else lines:
                self._hand_on(TOO_LONG if dropping else bytes(buffer + line))
                buffer.clear()
                dropping = False
            buffer += rest
            if len(buffer) > LIMIT:
                if broken("IO-07.large", "IO-07.oversize"):
                    os._exit(1)
                buffer.clear()
                dropping = True
        if buffer and not broken("IO-06.unterminated"):
            self._hand_on(bytes(buffer))
        self._loop.call_soon_threadsafe(self._on_end)

    def _hand_on(self, line: bytes) -> None:
        self._loop.call_soon_threadsafe(self._on_line, line)
