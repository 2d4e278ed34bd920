"""What the list of sessions promises: its order, its pages, and the cursor between them.

Last updated first, then by id. The cursor is a position in that order and not a count, so it stays
right while sessions come and go. It is opaque to whoever carries it, and checked when it returns.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from harness_core.journal.entry import Entry
from harness_core.journal.layout import is_id
from harness_core.journal.protocol import Page, Summary

_TIME_LIMIT = 1 << 63


class Position(NamedTuple):
    """Behind which session a page begins."""

    updated: int
    id: str

    def precedes(self, summary: Summary) -> bool:
        """Whether ``summary`` comes later in the list."""
        return (-self.updated, self.id) < (-summary.updated, summary.id)


def encode_cursor(position: Position) -> str:
    """The text that stands for a position."""
    return base64.urlsafe_b64encode(orjson.dumps(list(position))).decode().rstrip("=")


def decode_cursor(cursor: str) -> Position:
    """The position that a cursor stands for. Raises ``ValueError`` (V1-LIST-05)."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = Position(*orjson.loads(raw))
    except (TypeError, ValueError):
        position = Position(-1, "")
    if not _is_sound(position) or encode_cursor(position) != cursor:
        raise ValueError("this is not a cursor of the session list: begin without one")
    return position


def _is_sound(position: Position) -> bool:
    updated, id = position
    in_range = type(updated) is int and 0 <= updated < _TIME_LIMIT
    return in_range and isinstance(id, str) and is_id(id)


@dataclass(frozen=True, slots=True)
class Query:
    """Which part of the list is wanted: so many, of this directory, with this text, from where."""

    limit: int
    cwd: str | None = None
    matching: str | None = None
    after: Position | None = None

    @classmethod
    def parse(cls, cwd: str | None, cursor: str | None, limit: int, matching: str | None) -> Query:
        """What the arguments of ``Journal.list`` ask for. Raises ``ValueError``."""
        if limit < 1:
            raise ValueError(f"a page holds at least one session, not {limit}")
        after = decode_cursor(cursor) if cursor is not None else None
        return cls(limit, cwd, matching.casefold() if matching else None, after)

    def choose(self, entries: Iterable[Entry]) -> list[Summary]:
        """The sessions asked for, and one more if there are more."""
        shown = (entry.summary for entry in entries if self._fits(entry))
        found = [one for one in shown if one and (not self.after or self.after.precedes(one))]
        return sorted(found, key=lambda one: (-one.updated, one.id))[: self.limit + 1]

    def _fits(self, entry: Entry) -> bool:
        of_directory = self.cwd is None or entry.cwd == self.cwd
        return of_directory and (self.matching is None or self.matching in entry.words)

    def page(self, found: Sequence[Summary]) -> Page:
        """The page that shows ``found``; one more than asked for means that it is not the last."""
        shown = tuple(found[: self.limit])
        if len(found) <= self.limit:
            return Page(shown)
        return Page(shown, encode_cursor(Position(shown[-1].updated, shown[-1].id)))
