"""What the cards of the built-in tools share: paths, code, and a bound on what a card carries.

Pure, and forgiving: a call is shown before its arguments are known to be right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from json.encoder import encode_basestring

from harness_core.content import Json, ResultBlock, Text

CARD_BYTES = 24 * 1024
"""What one card carries at most, as JSON: a frame of 64 KiB must hold it with room to spare."""

TITLE_CHARS = 160


def string(arguments: Mapping[str, Json], name: str, default: str = "") -> str:
    """A string argument, or ``default`` if it is missing or something else."""
    value = arguments.get(name)
    return value if isinstance(value, str) else default


def number(arguments: Mapping[str, Json], name: str) -> int | None:
    """A whole-number argument, or ``None``."""
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def absolute(path: str, cwd: str) -> str:
    """A path argument as an absolute path (V1-TOOL-07)."""
    return os.path.normpath(os.path.join(cwd, path))


def shown(path: str, cwd: str) -> str:
    """A path argument as people read it: relative if it lies below ``cwd``; nothing if missing."""
    if not path:
        return ""
    place = absolute(path, cwd)
    inside = place.removeprefix(cwd.rstrip(os.sep) + os.sep)
    return inside.replace(os.sep, "/") if inside != place else place


def below(path: str, cwd: str) -> str:
    """ " in src" for a title; nothing for ``cwd`` itself."""
    return "" if absolute(path, cwd) == os.path.normpath(cwd) else f" in {shown(path, cwd)}"


def titled(text: str) -> str:
    """``text`` as a title: one line, of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def inline(code: str) -> str:
    """``code`` as Markdown inline code, whatever backticks it contains; nothing if empty."""
    if not code:
        return ""
    ticks = "`" * (_longest_run(code) + 1)
    pad = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def fenced(code: str) -> str:
    """``code`` as a Markdown code block, whatever backticks it contains."""
    ticks = "`" * max(3, _longest_run(code) + 1)
    end = "" if code.endswith("\n") else "\n"
    return f"{ticks}\n{code}{end}{ticks}"


def cost(text: str) -> int:
    """Bytes that ``text`` takes in a JSON frame."""
    return len(encode_basestring(text).encode("utf-8", "surrogatepass"))


def clipped(text: str, budget: int = CARD_BYTES) -> str:
    """``text``, cut with a marker if it takes more than ``budget`` bytes."""
    spent = cost(text)
    if spent <= budget:
        return text
    cut = text
    while spent > budget:
        cut = cut[: int(len(cut) * budget / spent * 0.95)]
        spent = cost(cut)
    return f"{cut}\n… ({len(text) - len(cut)} more characters)"


def code(text: str, budget: int = CARD_BYTES) -> Text:
    """``text`` as a code block for a card, cut if it is long."""
    return Text(fenced(clipped(text, budget)))


def texts(content: tuple[ResultBlock, ...]) -> tuple[Text, ...]:
    """The texts of a result, cut so that they fit a card together."""
    found = [block.text for block in content if isinstance(block, Text) and block.text]
    return tuple(Text(clipped(text, CARD_BYTES // len(found))) for text in found)


def code_blocks(content: tuple[ResultBlock, ...]) -> tuple[Text, ...]:
    """The same as code blocks."""
    return tuple(Text(fenced(block.text)) for block in texts(content))


def _longest_run(code: str) -> int:
    return max(map(len, re.findall("`+", code)), default=0)
