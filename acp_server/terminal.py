"""A running command's output, windowed for a protocol that cannot append.

ACP v1 replaces a call's content with every update, so sending all of it each time would grow
quadratically. This sends the tail, and only when about as much is new: all updates together stay
near the size of the output itself.
"""

from __future__ import annotations

import base64

from acp_server.limits import last
from harness_core.tools.output import Unescaped, last_states

WINDOW = 8_000
"""Characters of output that are shown while a command runs."""

LARGEST = 14_000
"""Bytes that they take at most: one message carries them beside a card."""

PAUSE = 250
"""Milliseconds after which even a little new output is shown."""


class Terminal:
    """Feed it the logged output; it says what to show, and when. Pure: time is the log's."""

    def __init__(self) -> None:
        self._unescaped = Unescaped()
        self._tail = ""
        self._cut = False
        self._new = 0
        self._shown_at: int | None = None

    def feed(self, data: str, time: int) -> str | None:
        """Take base64 ``data`` logged at ``time`` (epoch ms); the text to show, if any."""
        text = self._unescaped.feed(base64.b64decode(data))
        self._new += len(text)
        self._tail += text
        if "\r" in self._tail:  # the last may be the first half of a line ending
            self._tail = last_states(self._tail) + "\r" * self._tail.endswith("\r")
        if len(self._tail) > WINDOW:
            self._tail, self._cut = self._tail[-WINDOW:], True
        enough = self._new >= WINDOW // 2 and self._new >= len(self._tail) // 2
        return self._show(time) if enough else self.rest(time)

    def rest(self, time: int) -> str | None:
        """What to show if nothing more came until ``time``: some of it may have come too soon
        after what was shown before it."""
        due = self._shown_at is None or time - self._shown_at >= PAUSE
        return self._show(time) if due and self._new else None

    def _show(self, time: int) -> str:
        self._new, self._shown_at = 0, time
        return self.text

    @property
    def text(self) -> str:
        """The end of what was printed so far, as plain as the result will be."""
        return ("…\n" if self._cut else "") + last(self._tail.removesuffix("\r"), LARGEST)
