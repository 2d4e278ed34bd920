"""The form of a text file: byte order mark, line endings, final newline. Pure functions.

A file's text is kept as it is (``\\r\\n``, the mark, bytes that are not UTF-8 as surrogates), so
that what is not changed is written back byte for byte. The model sees ``visible`` text.
"""

from __future__ import annotations

import re

BOM = "\ufeff"

_ENDING = re.compile("\r?\n")
_LINE = re.compile("[^\n]*\n|[^\n]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(data: bytes) -> str:
    """The text of a file's bytes; ``encode`` gives the very same bytes back."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a file's text."""
    return text.encode("utf-8", "surrogateescape")


def visible(text: str) -> str:
    """``text`` as it may be shown: no byte order mark, no surrogates."""
    return _SURROGATE.sub("\ufffd", text.removeprefix(BOM))


def lines(text: str) -> list[str]:
    """The lines without their endings (``\\n`` or ``\\r\\n``, nothing else ends a line)."""
    found = _ENDING.split(text)
    if not found[-1]:
        found.pop()
    return found


def split(text: str) -> list[str]:
    """The lines with their endings; joined they are ``text``."""
    return _LINE.findall(text)


def newline_of(text: str) -> str | None:
    """The line ending that prevails in ``text``, ``None`` if it has no line ending."""
    feeds = text.count("\n")
    if not feeds:
        return None
    return "\r\n" if text.count("\r\n") * 2 > feeds else "\n"


def with_newline(text: str, newline: str | None) -> str:
    """``text`` with every line ending made ``newline``; ``None`` leaves them alone."""
    return _ENDING.sub(lambda _: newline, text) if newline else text


def in_form_of(old: str, new: str) -> str:
    """``new`` with the line endings, byte order mark and final newline that ``old`` has.

    Line endings that ``new`` spells out itself (``\\r\\n``) are left as they are.
    """
    newline = newline_of(old)
    if "\r\n" not in new:
        new = with_newline(new, newline)
    if old.endswith("\n") and new and not new.endswith("\n"):
        new += newline or "\n"
    if old.startswith(BOM) and not new.startswith(BOM):
        new = BOM + new
    return new
