"""What ``.gitignore`` and ``.ignore`` files leave out: git's rules, as one decision per file.

Pure but for ``Ignore.read``. Each file speaks for its directory and below; the deeper file wins,
the later line wins, and within a directory ``.ignore`` wins over ``.gitignore``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from harness_core.tools.globs import BadGlob, name_regex, path_regex

FILES = (".gitignore", ".ignore")


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of an ignore file: ``by_name`` at any depth, else on the path from its directory."""

    regex: str
    again: bool
    """The rule takes files in again (``!``)."""
    directories: bool
    """The rule is for directories alone."""
    by_name: bool


def parse(line: str) -> Rule | None:
    """The rule on a line of an ignore file; ``None`` for a comment or what git takes as nothing."""
    line = line.rstrip("\r\n")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    again = line.startswith("!")
    pattern = line.removeprefix("!")
    directories = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    by_name = "/" not in pattern
    try:
        regex = rf"(?:{name_regex(pattern)})\Z" if by_name else path_regex(pattern)
    except BadGlob:
        return None
    return Rule(regex, again, directories, by_name)


class Ignore:
    """The rules of one directory, ready to decide."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [rule for rule in map(parse, lines) if rule]
        self._runs = [
            (again, _Run(list(run))) for again, run in groupby(rules, lambda rule: rule.again)
        ][::-1]

    def __bool__(self) -> bool:
        return bool(self._runs)

    @classmethod
    def read(cls, directory: Path) -> Ignore:
        """The rules in the ignore files of ``directory``; none if there are no such files."""
        lines: list[str] = []
        for name in FILES:
            try:
                text = (directory / name).read_bytes().decode("utf-8", "surrogateescape")
            except OSError:
                continue
            lines += text.removeprefix("\ufeff").split("\n")
        return cls(lines)

    def decides(self, name: str, path: str, is_directory: bool) -> bool | None:
        """Whether an entry is ignored: yes, no, or nothing said. ``path`` is from the directory."""
        for again, run in self._runs:
            if run.matches(name, path, is_directory):
                return not again
        return None


class _Run:
    """Consecutive rules with the same outcome, as at most four regular expressions."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._names = _either(rule for rule in rules if rule.by_name and not rule.directories)
        self._paths = _either(rule for rule in rules if not rule.by_name and not rule.directories)
        self._directory_names = _either(rule for rule in rules if rule.by_name)
        self._directory_paths = _either(rule for rule in rules if not rule.by_name)

    def matches(self, name: str, path: str, is_directory: bool) -> bool:
        names = self._directory_names if is_directory else self._names
        paths = self._directory_paths if is_directory else self._paths
        return bool((names and names.match(name)) or (paths and paths.match(path)))


def _either(rules: Iterable[Rule]) -> re.Pattern[str] | None:
    regex = "|".join(rule.regex for rule in rules)
    return re.compile(regex, re.DOTALL) if regex else None
