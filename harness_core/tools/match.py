"""Finding and replacing a passage of a text, and saying why it cannot be found. Pure functions.

A line break in what is looked for stands for ``\\n`` and ``\\r\\n`` alike, so that a model need not
know a file's line endings; what is put in takes the endings of what it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from harness_core.tools.text import lines, newline_of, visible, with_newline

SEARCHED = 5000
"""Lines that are looked through for a similar passage."""

QUOTED = 20
"""Lines that a hint quotes at most."""


class NoMatch(Exception):
    """The passage cannot be replaced as asked. The message says why, with a hint."""


def replace(text: str, old: str, new: str, *, every: bool = False) -> str:
    """``text`` with the one ``old`` (with ``every`` of them) replaced by ``new``.

    Everything else stays byte for byte. Raises ``NoMatch``.
    """
    pattern = _pattern(old)
    starts = list(_starts(pattern, text))
    if not starts:
        raise NoMatch(explain(text, old, new))
    if len(starts) > 1 and not every:
        numbers = ", ".join(str(text.count("\n", 0, start) + 1) for start in starts[:10])
        more = "" if len(starts) <= 10 else ", …"
        raise NoMatch(
            f"old_text occurs {len(starts)} times (lines {numbers}{more}): add surrounding lines "
            "to make it unique, or set replace_all"
        )
    usual = newline_of(text)
    return pattern.sub(lambda found: with_newline(new, newline_of(found.group()) or usual), text)


def _pattern(old: str) -> re.Pattern[str]:
    return re.compile("\r?\n".join(re.escape(line) for line in re.split("\r?\n", old)))


def _starts(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """Where ``pattern`` occurs, overlapping occurrences included: any could have been meant."""
    at = 0
    while found := pattern.search(text, at):
        yield found.start()
        at = found.start() + 1


def explain(text: str, old: str, new: str) -> str:
    """Why ``old`` is not in ``text``: the likeliest mistake, with what the file really says."""
    have, want = lines(visible(text)), lines(old)
    bare = [re.sub(r"^\s*\d+\t", "", line) for line in want]
    if want != bare and _pattern("\n".join(bare)).search(text):
        return "old_text was not found: leave out the line numbers that read puts before each line"
    if at := _place(have, want, _squeezed):
        return (
            "old_text was not found, but lines that differ only in white space were:\n"
            f"{_quote(have, at, len(want))}"
        )
    if new.strip() and (found := _pattern(new).search(text)):
        number = text.count("\n", 0, found.start()) + 1
        return f"old_text was not found, and new_text is there already, at line {number}"
    if at := _similar(have, want):
        return (
            f"old_text was not found; the most similar passage is:\n{_quote(have, at, len(want))}"
        )
    return "old_text was not found in the file: read it again and copy the passage exactly"


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _place(have: Sequence[str], want: Sequence[str], key: Callable[[str], str]) -> int | None:
    """The number of the line of ``have`` where ``want`` stands, compared by ``key``."""
    wanted = [key(line) for line in want]
    if not any(wanted):
        return None
    keyed = [key(line) for line in have]
    for start in range(len(keyed) - len(wanted) + 1):
        if keyed[start] == wanted[0] and keyed[start : start + len(wanted)] == wanted:
            return start + 1
    return None


def _similar(have: Sequence[str], want: Sequence[str]) -> int | None:
    """The number of the line where what is most like ``want``, by its longest line, starts."""
    from difflib import get_close_matches

    anchor = max(want, key=lambda line: len(line.strip()))
    known: dict[str, int] = {}
    for number, line in enumerate(have[:SEARCHED]):
        known.setdefault(line.strip()[:500], number)
    close = get_close_matches(anchor.strip()[:500], known, 1, 0.6)
    return max(0, known[close[0]] - want.index(anchor)) + 1 if close else None


def _quote(have: Sequence[str], at: int, count: int) -> str:
    passage = have[at - 1 : at - 1 + min(count, QUOTED)]
    return "\n".join(f"{number:6}\t{line[:500]}" for number, line in enumerate(passage, at))
