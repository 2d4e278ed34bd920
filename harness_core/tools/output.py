"""What becomes of a command's output: what is kept, what is logged live, what the model is told.

Pure state machines over bytes; each is bounded in memory whatever is fed to it, and none cuts a
UTF-8 character in two.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass

KB = 1024


class Window:
    """The first ``head`` and the last ``tail`` bytes of a stream."""

    def __init__(self, head: int = 4096 * KB, tail: int = 4096 * KB) -> None:
        self._room, self._tail_bytes = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0
        """Bytes fed so far."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        fits = self._room - len(self._head)
        self._head += data[:fits]
        rest = data[fits:][-self._tail_bytes :]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_bytes:
            self._tail_size -= len(self._tail.popleft())

    def data(self) -> bytes:
        """What is kept, with a marker where bytes are missing."""
        tail = b"".join(self._tail)[-self._tail_bytes :]
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return bytes(self._head) + tail
        marker = f"\n[… {missing} bytes are missing here …]\n".encode()
        return whole(bytes(self._head)) + marker + from_whole(tail)


class Live:
    """Decides what of a running command's output is logged, and when. Times are in seconds.

    Output is passed on in pieces of ``PIECE`` bytes, or of what has gathered in ``INTERVAL``. After
    ``FULL`` bytes only a glimpse is passed on, now and then, so that a flood cannot fill the log.
    """

    PIECE = 16 * KB
    INTERVAL = 0.05
    FULL = 1024 * KB
    GLIMPSE = 2 * KB
    GLIMPSE_INTERVAL = 1.0

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0
        self._room = self.FULL
        self._last = float("-inf")

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """Take the next bytes; the pieces to log now."""
        self._pending += data
        return self.due(now)

    def due(self, now: float) -> list[bytes]:
        """The pieces to log by now; to be asked every ``INTERVAL``."""
        pieces: list[bytes] = []
        while len(self._pending) >= self.PIECE and self._room > 0:
            pieces.append(self._take(whole(bytes(self._pending[: self.PIECE]))))
        if self._room > 0:
            if now - self._last >= self.INTERVAL and (rest := whole(bytes(self._pending))):
                pieces.append(self._take(rest))
        else:
            self._skip()
            if self._pending and now - self._last >= self.GLIMPSE_INTERVAL:
                pieces.append(self._glimpse())
        if pieces:
            self._last = now
        return pieces

    def rest(self) -> list[bytes]:
        """What is left when the stream is over."""
        pieces = self.due(float("inf"))
        if self._pending:
            pieces.append(self._take(bytes(self._pending)))
        return pieces

    def _take(self, piece: bytes) -> bytes:
        del self._pending[: len(piece)]
        self._room -= len(piece)
        return piece

    def _skip(self) -> None:
        extra = max(0, len(self._pending) - self.GLIMPSE)
        del self._pending[:extra]
        self._skipped += extra

    def _glimpse(self) -> bytes:
        skipped, self._skipped = self._skipped, 0
        piece = self._take(whole(bytes(self._pending)))
        if not skipped:
            return piece
        return f"\n[… {skipped} bytes not shown …]\n".encode() + from_whole(piece)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning and the end of an output as text; ``tail`` is empty if nothing is left out."""

    head: str
    tail: str = ""
    left_out: int = 0
    """Bytes between the two."""


def excerpt(data: bytes, head: int, tail: int) -> Excerpt:
    """At most ``head`` and ``tail`` bytes of ``data``, cut between lines if that costs little."""
    if len(data) <= head + tail:
        return Excerpt(plain(data))
    first, last = data[:head], data[-tail:]
    end, start = first.rfind(b"\n") + 1, last.find(b"\n") + 1
    first = first[:end] if end > head // 2 else whole(first)
    last = last[start:] if 0 < start < tail // 2 else from_whole(last)
    return Excerpt(plain(first), plain(last), len(data) - len(first) - len(last))


_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P^_X]([^\x07\x1b\n]*)\x1b?|[ -/]*)\Z")


def plain(data: bytes) -> str:
    """Output as text: no escape sequences, and of a line drawn over and over the last state."""
    return plain_text(data.decode("utf-8", "replace"))


def plain_text(text: str) -> str:
    """The same of output that is text already."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", _UNFINISHED.sub("", text))
    return last_states(text)


def last_states(text: str) -> str:
    """``text`` with the last state of each line that was drawn over and over."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class Unescaped:
    """Output in pieces as text without escape sequences, wherever the pieces are cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        """The beginning of a sequence."""

    def feed(self, data: bytes) -> str:
        """The text that the next bytes bring."""
        text = self._held + self._decoder.decode(data)
        self._held = ""
        if "\x1b" not in text:
            return text
        if unfinished := _UNFINISHED.search(text):
            text = text[: unfinished.start()]
            self._held = unfinished[0][:2] + unfinished[0][2 + len(unfinished[1] or "") :]
        return _ESCAPE.sub("", text)


def whole(data: bytes) -> bytes:
    """``data`` without a UTF-8 character that its end cuts off."""
    for count, byte in enumerate(reversed(data[-3:]), 1):
        if byte & 0xC0 != 0x80:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-count] if length > count else data
    return data


def from_whole(data: bytes) -> bytes:
    """``data`` without the rest of a UTF-8 character that its start cuts off."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
