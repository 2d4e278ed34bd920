"""Searching files for a pattern, in a process of its own. Standard library only.

A regular expression can take exponential time and holds the interpreter's lock while it does: a
process can be killed, a thread cannot. The parent writes one JSON request to stdin and reads JSON
lines: the path, count and rows of each file with matches, and last an ``end`` or an ``error``.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness_core.tools.globs import compile_glob
from harness_core.tools.walk import walk

LARGEST = 64 * 1024 * 1024
"""Bytes of a file that is searched; larger ones are counted and left out."""

LINE_CHARS = 300
"""Characters shown of a line; a longer one is cut around its match."""

Row = tuple[int, str, bool]
"""A line to show: its number, counted from 1, its text, and whether it matches."""

_TOKEN = re.compile(
    r"""
      (?P<one> [^\\\[\](){}*+?.^$|\n] | \\[^\w\s] )
    | (?P<repeat> (?: [*+?] | \{\d*(?:,\d*)?\} ) [?+]? )
    | (?P<open> \( (?:\?:)? (?!\?) )
    | (?P<close> \) )
    | (?P<other> \\[AbBdDsSwWZ] | [.^$] | \[ \^? \]? (?: \\. | [^\]\\] )* \] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for, and where. ``limit`` counts matching lines (with ``names``: files)."""

    pattern: str
    directory: str
    root: str
    """Where ignore files start to count outside a repository."""
    file: str | None = None
    """Only this file of the directory, ignored or not."""
    glob: str | None = None
    literal: bool = False
    ignore_case: bool = False
    names: bool = False
    """Only say which files match."""
    context: int = 0
    limit: int = 200
    budget: int = 32 * 1024
    """Characters of all rows together."""
    seconds: float = 20.0

    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled. Raises ``re.error``."""
        pattern = re.escape(self.pattern) if self.literal else self.pattern
        return re.compile(pattern, re.IGNORECASE if self.ignore_case else 0)

    def needle(self) -> str:
        """What every matching line contains, case aside if ``ignore_case``."""
        return self.pattern if self.literal else needle(self.pattern)


def needle(pattern: str) -> str:
    """The longest text that each match of ``pattern`` contains; empty if none is plain to see.

    Looking for it first spares most files the regular expression.
    """
    best = run = ""
    depth = at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if not token and not (depth and pattern[at] == "|"):
            return ""
        kind, text = (token.lastgroup, token[0]) if token else ("other", "|")
        at += len(text)
        depth += (kind == "open") - (kind == "close")
        if kind == "one" and not depth:
            run += text[-1]
            continue
        if kind == "repeat" and not text.startswith("+"):
            run = run[:-1]
        best, run = max(best, run, key=len), ""
    return max(best, run, key=len)


@dataclass(slots=True)
class Tally:
    """How a search went: files searched, files too large, and what stopped it before its end."""

    files: int = 0
    large: int = 0
    stopped: str | None = None


def search(query: Query) -> Iterator[dict[str, Any]]:
    """The answer to a query, line by line. Raises ``re.error`` or ``BadGlob``."""
    regex, tally = query.regex(), Tally()
    left, budget = query.limit, query.budget
    for path, lines, matching in _matches(query, regex, tally):
        if left <= 0 or budget <= 0:
            tally.stopped = "limit"
            break
        rows = [] if query.names else _rows(lines, matching[:left], regex, query.context)
        yield {"path": path, "count": len(matching), "rows": rows}
        if not query.names and len(matching) > left:
            tally.stopped = "limit"
            break
        left -= 1 if query.names else len(matching)
        budget -= sum(len(text) for _, text, _ in rows)
    yield {"end": asdict(tally)}


def _matches(
    query: Query, regex: re.Pattern[str], tally: Tally
) -> Iterator[tuple[str, list[str], list[int]]]:
    """The files that match: their path, their lines, and the indices of the matching ones."""
    required = query.needle().encode()
    deadline = time.monotonic() + query.seconds
    for path, file in _files(query):
        if time.monotonic() > deadline:
            tally.stopped = "time"
            return
        data = _data(file)
        tally.large += data is None
        tally.files += data is not None
        if data and not _hopeless(data, required, query.ignore_case):
            lines = _lines(data)
            if matching := [at for at, line in enumerate(lines) if regex.search(line)]:
                yield path, lines, matching


def _files(query: Query) -> Iterator[tuple[str, Path]]:
    """The files to search, but no links: the path from the directory, and the whole path."""
    directory = Path(query.directory)
    if query.file is not None:
        yield query.file, directory / query.file
        return
    wanted = compile_glob(query.glob) if query.glob else None
    for found in walk(directory, Path(query.root)):
        if not found.entry.is_symlink() and (not wanted or wanted.match(found.path)):
            yield found.path, Path(found.entry.path)


def _data(file: Path) -> bytes | None:
    """What is in a file, nothing if it is binary or cannot be read, ``None`` if it is too large."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError:
        return b""
    if len(data) > LARGEST:
        return None
    return b"" if b"\0" in data else data


def _hopeless(data: bytes, required: bytes, ignore_case: bool) -> bool:
    """Whether it is plain that no line matches. Beyond ASCII, case is not plain."""
    if not ignore_case:
        return required not in data
    return required.isascii() and data.isascii() and required.lower() not in data.lower()


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def _rows(
    lines: Sequence[str], matching: Sequence[int], regex: re.Pattern[str], context: int
) -> list[Row]:
    """The matching lines with the lines around them, in order, each once."""
    hits = set(matching)
    near = {at for hit in hits for at in range(hit - context, hit + context + 1)}
    return [
        (at + 1, _cut(lines[at], regex), at in hits) for at in sorted(near) if 0 <= at < len(lines)
    ]


def _cut(line: str, regex: re.Pattern[str]) -> str:
    if len(line) <= LINE_CHARS:
        return line
    found = regex.search(line)
    start = max(0, found.start() - LINE_CHARS // 3) if found else 0
    end = start + LINE_CHARS
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def main() -> None:
    """Answer the one request on stdin."""
    query = Query(**json.load(sys.stdin.buffer))
    try:
        for line in search(query):
            _say(line)
    except (re.error, ValueError, OverflowError, RecursionError, MemoryError) as failure:
        _say({"error": str(failure) or type(failure).__name__})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
