"""A walk through a directory tree that leaves out what ignore files name.

The one selection that ``list``, ``glob`` and ``grep`` share, so that they agree. Plain blocking
code that is lazy, keeps a stable order, and stops when its consumer does: it runs in a thread or a
process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness_core.tools.ignore import FILES, Ignore

Entry = os.DirEntry[str]

HIDDEN = frozenset((".git", ".hg", ".svn", ".jj"))
"""Version control's own data: never part of a walk."""

Rules = tuple[tuple[Ignore, str], ...]
"""Ignore files in force, the deepest first, each with the way from its directory to here."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a walk: its path from the walked directory, with forward slashes, and its entry."""

    path: str
    entry: Entry


def walk(directory: Path, root: Path) -> Iterator[Found]:
    """The files below ``directory``, in order; ``root`` see ``Level.at``.

    Links to directories are not followed; links to files count as files. What cannot be opened is
    left out.
    """
    level = Level.at(directory, root)
    open_levels = [(level, iter(level), "")]
    while open_levels:
        level, rest, way = open_levels[-1]
        for entry, ignored in rest:
            if ignored:
                continue
            if is_directory(entry):
                inner = level.enter(entry)
                open_levels.append((inner, iter(inner), f"{way}{entry.name}/"))
                break
            if is_file(entry):
                yield Found(way + entry.name, entry)
        else:
            open_levels.pop()


class Level:
    """A directory of a walk: its entries, and the ignore files in force there."""

    def __init__(self, path: str, rules: Rules) -> None:
        try:
            with os.scandir(path) as found:
                self._entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            self._entries = []
        own = any(entry.name in FILES for entry in self._entries) and Ignore.read(Path(path))
        self._rules: Rules = ((own, ""), *rules) if own else rules

    @classmethod
    def at(cls, directory: Path, root: Path) -> Level:
        """``directory`` itself. Ignore files count from the repository that it is in downwards.

        Outside a repository they count from ``root``, if that is above, else from ``directory``.
        """
        rules: Rules = ()
        parts = directory.relative_to(_top(directory, root)).parts
        for depth in range(len(parts), 0, -1):
            ignore = Ignore.read(directory.parents[depth - 1])
            way = "/".join(parts[-depth:]) + "/"
            rules = ((ignore, way), *rules) if ignore else rules
        return cls(str(directory), rules)

    def enter(self, entry: Entry) -> Level:
        """The directory that ``entry`` is."""
        rules = tuple((ignore, f"{way}{entry.name}/") for ignore, way in self._rules)
        return Level(entry.path, rules)

    def __iter__(self) -> Iterator[tuple[Entry, bool]]:
        """The entries, sorted by name, each with whether it is ignored."""
        return ((e, self._ignores(e)) for e in self._entries if e.name not in HIDDEN)

    def _ignores(self, entry: Entry) -> bool:
        directory = is_directory(entry)
        for ignore, way in self._rules:
            decision = ignore.decides(entry.name, way + entry.name, directory)
            if decision is not None:
                return decision
        return False


def is_directory(entry: Entry) -> bool:
    """Whether an entry is a directory, and not a link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def is_file(entry: Entry) -> bool:
    """Whether an entry is a regular file or a link to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _top(directory: Path, root: Path) -> Path:
    for place in (directory, *directory.parents):
        if _is_repository(place):
            return place
    return root if directory.is_relative_to(root) else directory


def _is_repository(place: Path) -> bool:
    """Whether git's own data is here, or a file that says where; an empty folder is neither."""
    mark = place / ".git"
    return mark.is_file() or (mark / "HEAD").exists()
