"""Cuts byte streams into lines. Pure; knows nothing of what the lines say."""

from __future__ import annotations


class LineCutter:
    """Cuts a byte stream into lines without their line feed, however it is chunked."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines this chunk completes."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces = [others[-1]]
        return lines

    def rest(self) -> bytes:
        """What came after the last line feed."""
        return b"".join(self._pieces)
