"""Shell patterns as regular expressions: the one reading that globs and ignore files share.

``*`` and ``?`` stay within a path component, ``**`` as a whole component spans any number of them,
``[...]`` is a class, ``\\`` takes the next character literally. A pattern without a slash is meant
for the name alone, at any depth. Braces (``{a,b}``) belong to globs only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ALTERNATIVES = 256
"""How many patterns the braces of one glob may stand for."""

POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class BadGlob(ValueError):
    """A pattern that means nothing. The message says why."""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression that matches whole relative paths with forward slashes.

    Raises ``BadGlob``.
    """
    return re.compile("|".join(_anywhere(one) for one in expand(pattern)), re.DOTALL)


def _anywhere(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    return path_regex(pattern if "/" in pattern else f"**/{pattern}")


def expand(pattern: str) -> list[str]:
    """The patterns that ``pattern`` stands for when its braces are written out.

    Raises ``BadGlob`` if they are too many.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        head, choices, tail = _braces(waiting.pop())
        if not choices:
            done.append(head)
        waiting.extend(head + choice + tail for choice in reversed(choices))
        if len(done) + len(waiting) > ALTERNATIVES:
            raise BadGlob(f"the braces stand for more than {ALTERNATIVES} patterns")
    return done


def _braces(pattern: str) -> tuple[str, list[str], str]:
    """Before the first braces, the choices in them, after them; no choices if there are none."""
    depth, start, commas = 0, 0, [0]
    escaped = False
    for at, char in enumerate(pattern):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == "{":
            depth += 1
            if depth == 1:
                start, commas = at, [at]
        elif char == "," and depth == 1:
            commas.append(at)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0 and len(commas) > 1:
                ends = [*commas[1:], at]
                choices = [pattern[a + 1 : b] for a, b in zip(commas, ends, strict=True)]
                return pattern[:start], choices, pattern[at + 1 :]
    return pattern, [], ""


def path_regex(pattern: str) -> str:
    """A regular expression for a path that is read from the top. Raises ``BadGlob``."""
    pattern = pattern.removeprefix("/")
    parts = re.sub(r"\\(.)", lambda two: two[two[1] == "/"], pattern).split("/")
    regex = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part != "**":
            regex += name_regex(part) + ("" if last else "/")
        elif last:
            regex += ".+"
        elif parts[at + 1] != "**":
            regex += "(?:.*/)?"
    return rf"(?:{regex})\Z"


def name_regex(part: str) -> str:
    """A regular expression for one component of a path. Raises ``BadGlob``.

    Each star but the last takes as little as it can and never gives it back (an atomic group):
    that loses no match, and no pattern can be made to take exponential time.
    """
    pieces = ["".join(piece) for piece in _pieces(part)]
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _pieces(part: str) -> Iterator[list[str]]:
    """What stands between the stars of ``part``, each as a list of one-character expressions."""
    piece: list[str] = []
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            yield piece
            piece = []
        elif char == "?":
            piece.append("[^/]")
        elif char == "[":
            regex, at = _class(part, at)
            piece.append(regex)
        elif char == "\\":
            if at == len(part):
                raise BadGlob("the last backslash has nothing to escape")
            piece.append(re.escape(part[at]))
            at += 1
        else:
            piece.append(re.escape(char))
    yield piece


def _class(part: str, at: int) -> tuple[str, int]:
    """The character class that opened before ``at``, and where it ends. Raises ``BadGlob``."""
    negated = part[at : at + 1] in ("!", "^")
    at += negated
    start, items = at, ""
    while at < len(part) and (part[at] != "]" or at == start):
        if named := re.compile(r"\[:(\w*):\]").match(part, at):
            if named[1] not in POSIX:
                raise BadGlob(f"there is no character class [:{named[1]}:]")
            items += POSIX[named[1]]
            at = named.end()
            continue
        low, at = _char(part, at)
        high = low
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in ("", "]"):
            high, at = _char(part, at + 1)
        if low <= high:
            items += f"{_in_class(low)}-{_in_class(high)}"
    if at >= len(part):
        raise BadGlob("a [ is not closed; write \\[ for the bracket itself")
    if not items:
        return ("[^/]" if negated else "(?!)"), at + 1
    return f"(?!/)[{'^' if negated else ''}{items}]", at + 1


def _char(part: str, at: int) -> tuple[str, int]:
    if part[at] == "\\" and at + 1 < len(part):
        return part[at + 1], at + 2
    return part[at], at + 1


def _in_class(char: str) -> str:
    return char if char.isalnum() else "\\" + char
