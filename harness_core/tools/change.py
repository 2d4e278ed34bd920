"""A change of a file as its card carries it: whole if it is small, else the changed passages.

``change`` makes the JSON that is kept with a result, ``diffs`` makes cards of it. Both are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from harness_core.content import Json
from harness_core.tools.cards import CARD_BYTES, clipped, cost
from harness_core.tools.text import split, visible
from harness_core.tools.tool import Diff

CONTEXT = 3
"""Unchanged lines shown around a changed passage."""

COMPARED = 2000
"""Lines of which a diff is made; it takes quadratic time. More changed lines are one passage."""

Range: TypeAlias = tuple[int, int, int, int]
"""Lines that changed: start and end before, start and end after."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a file before and after; ``line`` is the first changed one, counted from 1."""

    line: int
    old: str
    new: str


def change(old: str | None, new: str) -> Json:
    """What a result keeps of a change: ``passages``, and how many are ``left_out``."""
    new = visible(new)
    if old is None:
        return {"passages": [{"line": 1, "new": clipped(new)}]}
    old = visible(old)
    passages = list(_passages(old, new))
    if cost(old) + cost(new) <= CARD_BYTES:
        return {"passages": [{"line": passages[0].line if passages else 1, "old": old, "new": new}]}
    kept = _within(passages, CARD_BYTES)
    meta: dict[str, Json] = {"passages": kept}
    if len(kept) < len(passages):
        meta["left_out"] = len(passages) - len(kept)
    return meta


def diffs(path: str, meta: Json) -> tuple[Diff, ...]:
    """The diffs of a change that ``change`` described."""
    return tuple(Diff(path, kept["new"], kept.get("old")) for kept in _kept(meta))


def first_line(meta: Json) -> int:
    """The first line that a change touched, counted from 1."""
    return next((int(kept["line"]) for kept in _kept(meta)), 1)


def _kept(meta: Json) -> list[dict[str, Json]]:
    """The passages of a result's ``meta``; none if something else took the result's place."""
    return meta.get("passages", []) if isinstance(meta, dict) else []


def _within(passages: list[Passage], budget: int) -> list[dict[str, Json]]:
    kept: list[dict[str, Json]] = []
    for passage in passages:
        size = cost(passage.old) + cost(passage.new)
        if size > budget and kept:
            break
        old, new = clipped(passage.old, budget // 2), clipped(passage.new, budget // 2)
        kept.append({"line": passage.line, "old": old, "new": new})
        budget -= size
    return kept


def _passages(old: str, new: str) -> Iterator[Passage]:
    """The changed passages of a text, with some context, in order."""
    before, after = split(old), split(new)
    for i, i_end, j, j_end in _joined(_changed(before, after)):
        a = before[max(0, i - CONTEXT) : i_end + CONTEXT]
        b = after[max(0, j - CONTEXT) : j_end + CONTEXT]
        yield Passage(j + 1, "".join(a), "".join(b))


def _joined(changed: Iterable[Range]) -> Iterator[Range]:
    """Changed ranges, those joined whose context would touch."""
    last: Range | None = None
    for range_ in changed:
        if last and range_[0] - last[1] <= 2 * CONTEXT:
            last = (last[0], range_[1], last[2], range_[3])
            continue
        if last:
            yield last
        last = range_
    if last:
        yield last


def _changed(before: list[str], after: list[str]) -> Iterator[Range]:
    """Where lines differ: line by line if that explains it, else as a diff would say."""
    start, end = _common(before, after)
    a, b = before[start : len(before) - end], after[start : len(after) - end]
    different = [at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    if len(a) == len(b) and len(different) * 2 <= len(a):
        found = [(at, at + 1, at, at + 1) for at in different]
    elif max(len(a), len(b)) > COMPARED:
        found = [(0, len(a), 0, len(b))]
    else:
        found = _diff(a, b)
    return ((start + i, start + i_end, start + j, start + j_end) for i, i_end, j, j_end in found)


def _diff(a: list[str], b: list[str]) -> list[Range]:
    from difflib import SequenceMatcher

    codes = SequenceMatcher(None, a, b).get_opcodes()
    return [code[1:] for code in codes if code[0] != "equal"]


def _common(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines are the same at the start and, beyond those, at the end."""
    start = _same(zip(before, after, strict=False))
    end = _same(zip(reversed(before[start:]), reversed(after[start:]), strict=False))
    return start, end


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
