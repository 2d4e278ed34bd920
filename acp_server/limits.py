"""How much one message may carry, so that its line stays below 64 KiB: older clients die there.

Sizes are bytes of encoded JSON, in which a character takes up to six. Pure; knows no protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_server.framing import encode

WORST = 6
"""Bytes of a character that leaves escaped."""

PUNCTUATION = 4
"""Bytes that stand around a value inside others."""

LONGEST_STRING = 4_000
"""Bytes of one string inside a JSON value that is shown."""

DEEPEST = 20
"""Levels of a JSON value that is shown."""


def cost(value: Any) -> int:
    """Bytes that a JSON value takes in a line."""
    return len(encode(value)) - 1


def cut(text: str, size: int) -> str:
    """``text``, or its beginning and a mark if it would take more than ``size`` bytes."""
    fitting = _fitting(text, size)
    return text if fitting == len(text) else f"{text[:fitting]}… ({len(text) - fitting} more)"


def last(text: str, size: int) -> str:
    """``text``, or a mark and its end if it would take more than ``size`` bytes."""
    fitting = _fitting(text[::-1], size)
    return text if fitting == len(text) else "…" + text[len(text) - fitting :]


def _fitting(text: str, size: int) -> int:
    """How many characters from the beginning of ``text`` are sure to fit, nearly as many as do."""
    size = max(size, 0)
    if len(text) * WORST <= size:
        return len(text)
    text = text[:size]
    while (spent := cost(text) - 2) > size:
        text = text[: int(len(text) * size / spent * 0.95)]
    return len(text)


class Budget:
    """Bytes that are left for the parts of one message."""

    def __init__(self, size: int) -> None:
        self.left = size

    def cut(self, text: str) -> str:
        """As much of ``text`` as there is room for, with a mark where it was cut."""
        shown = cut(text, self.left)
        self.left -= cost(shown)
        return shown

    def take(self, value: Any) -> bool:
        """Whether there is room for the whole of ``value``; if so, it is spent."""
        size = cost(value)
        if size > self.left:
            return False
        self.left -= size
        return True

    def windowed(self, value: Any, depth: int = 0) -> Any:
        """A JSON value with what is too long cut, what is too much and every null member left out
        (V1-TOOL-10)."""
        self.left -= PUNCTUATION
        if depth > DEEPEST:
            return self.cut("…")
        if isinstance(value, str):
            return self.cut(cut(value, LONGEST_STRING))
        if isinstance(value, list | tuple):
            return [self.windowed(item, depth + 1) for item in value if self.left > 0]
        if isinstance(value, Mapping):
            return {
                key: self.windowed(item, depth + 1)
                for key, item in value.items()
                if item is not None and self.take(key)
            }
        self.left -= cost(value)
        return value
