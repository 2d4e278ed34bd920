"""Commands and skills that people keep as Markdown files, in a project or for themselves.

A command is ``commands/review.md``, called as ``/review what to look at``; in a folder, as
``/folder:review``. A skill is ``skills/pdf/SKILL.md``: the model is told its name and description
and reads the rest when it needs it. Both may begin with front matter (``description: …``). Pure but
for reading the files; knows no session and no front end.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

LONGEST = 64_000
"""Characters of a file that are used."""

MOST = 1_000
"""Entries of one folder, with all below it, that are looked at."""

SETTLED = 2_000_000_000
"""Nanoseconds after which a file that changes again has another time, whatever the disk."""

PROJECT_FOLDERS = (".acp-harness", ".claude")
"""Where a project keeps its files; ours first."""

_OPENED = re.compile(r"\A---[ \t]*\r?\n")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^[|>][-+\d]*(?: |$)")
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])")

Stamp: TypeAlias = tuple[int, ...]
"""What tells one state of a file from another without reading it."""

Known: TypeAlias = "tuple[Stamp | None, PromptFile | str]"
"""What was read, or why it was not; no stamp if that is to be read again."""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A file's name as it is called, what it says of itself, and its text."""

    name: str
    description: str
    hint: str
    path: Path
    body: str

    def expand(self, arguments: str) -> str:
        """The text with ``$ARGUMENTS`` and ``$1`` … ``$9`` filled in, or the arguments after it."""
        words = arguments.split()

        def fill(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return arguments
            index = int(place[1]) - 1
            return words[index] if index < len(words) else ""

        text, count = _PLACE.subn(fill, self.body)
        return text if count or not arguments else f"{text.rstrip()}\n\n{arguments}"


def folders(roots: Iterable[Path], home: Path, config: Path) -> list[str]:
    """Where files are looked for: the roots' folders, earlier roots first, then the user's own."""
    ours = [os.path.join(root, name) for root in roots for name in PROJECT_FOLDERS]
    return [*ours, str(config), os.path.join(home, ".claude")]


class PromptFiles:
    """The files in ``places``, as of the last ``look``; of two with one name the first is meant.

    A file is read again only when it is another one. One that cannot be used is left out.
    """

    def __init__(self, places: Callable[[], Iterable[str | Path]]) -> None:
        self._places = places
        self._known: dict[str, Known] = {}
        """By path."""
        self.commands: list[PromptFile] = []
        self.skills: list[PromptFile] = []
        self.problems: list[str] = []
        """What is left out, a sentence for each."""
        self.changed: Callable[[], None] = lambda: None
        """Called when a look finds others; a front end sets it."""

    @property
    def named(self) -> list[PromptFile]:
        """What people can call by name: commands, and skills whose name no command has."""
        taken = {file.name for file in self.commands}
        return self.commands + [skill for skill in self.skills if skill.name not in taken]

    def look(self) -> None:
        """Find what there is now. Never fails."""
        before, self._known, self.problems = self._known, {}, []
        commands: dict[str, PromptFile] = {}
        skills: dict[str, PromptFile] = {}
        for place in filter(os.path.isdir, self._places()):
            for path, name in self._markdown(os.path.join(place, "commands")):
                if file := self._file(path, name, before):
                    commands.setdefault(file.name, file)
            for name, folder, _ in self._entries(os.path.join(place, "skills")):
                if file := self._file(os.path.join(folder, "SKILL.md"), name, before):
                    skills.setdefault(file.name, file)
        found = [*commands.values()], [*skills.values()]
        if found != (self.commands, self.skills):
            self.commands, self.skills = found
            self.changed()

    def _markdown(self, base: str) -> Iterator[tuple[str, str]]:
        """The Markdown files below ``base`` and the names they are called by."""
        room, waiting = MOST, [(base, "")]
        while waiting:
            folder, prefix = waiting.pop()
            entries = self._entries(folder)
            room -= len(entries)
            if room < 0:
                self._leave_out(base, f"it holds more than {MOST} entries")
                return
            for name, path, is_folder in entries:
                if is_folder:
                    waiting.append((path, f"{prefix}{name}:"))
                elif name.endswith(".md"):
                    yield path, prefix + name.removesuffix(".md")

    def _entries(self, folder: str) -> list[tuple[str, str, bool]]:
        """What a folder shows, in order: names, paths, and which are folders and no links.

        Nothing if there is none."""
        try:
            with os.scandir(folder) as found:
                shown = (entry for entry in found if not entry.name.startswith("."))
                return sorted(
                    (entry.name, entry.path, entry.is_dir(follow_symlinks=False))
                    for entry in islice(shown, MOST + 1)
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as failure:
            self._leave_out(folder, f"it cannot be read ({failure.strerror})")
            return []

    def _file(self, path: str, name: str, before: Mapping[str, Known]) -> PromptFile | None:
        """The file at ``path``, read again if it has changed; ``None`` if none can be used."""
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):  # gone meanwhile, or a link to nothing
            return None
        except OSError as failure:
            self._leave_out(path, f"it cannot be read ({failure.strerror})")
            return None
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            return None
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        known = before.get(path)
        if known is None or known[0] != stamp:
            settled = time.time_ns() - max(stamp[:2]) > SETTLED
            known = (stamp if settled else None, _read(Path(path), name))
        self._known[path] = known
        if isinstance(known[1], str):
            self._leave_out(path, known[1])
            return None
        return known[1]

    def _leave_out(self, path: str, why: str) -> None:
        shown = os.fsencode(path).decode("utf-8", "replace")
        self.problems.append(f"{shown} is not used: {why}")


def _read(path: Path, name: str) -> PromptFile | str:
    """The file, or why it cannot be used."""
    try:
        str(path).encode()
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read(LONGEST)
        fields, body = split(text)
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except FrontMatterError as failure:
        return str(failure)
    except OSError as failure:
        return f"it cannot be read ({failure.strerror})"
    if path.name == "SKILL.md":
        name = fields.get("name") or name
    name = re.sub(r"\s+", "-", name)
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# ")), name)
    return PromptFile(
        name,
        fields.get("description") or first,
        fields.get("argument-hint", "arguments"),
        path,
        body.strip(),
    )


# --- front matter ------------------------------------------------------------------------------


class FrontMatterError(ValueError):
    """The lines before a file's text are no front matter. The message says what to change."""


def split(text: str) -> tuple[Mapping[str, str], str]:
    """Front matter's fields as texts, and the text after it. Raises ``FrontMatterError``."""
    front = _FRONT.match(text)
    if front is not None:
        return _fields(front[1]), text[front.end() :]
    if _OPENED.match(text):
        raise FrontMatterError("its front matter has no end: put a line --- after it")
    return {}, text


def _fields(front: str) -> Mapping[str, str]:
    """What is said of each name, also on further lines; what else YAML allows is ignored."""
    fields: dict[str, str] = {}
    name = ""
    for number, line in enumerate(front.split("\n"), 2):
        line = line.rstrip()
        if line[:1] in ("", "#", "-", "]", "}"):
            continue
        if line[0].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise FrontMatterError(f"line {number} is no front matter: write it as name: value")
        fields[name] = value.strip()
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: str) -> str:
    """A value without its quotes, or without the mark of a block."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return _BLOCK.sub("", value).strip()


def skills_section(skills: Iterable[PromptFile]) -> str:
    """What the system prompt says of the skills; empty if there are none."""
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    if not lines:
        return ""
    head = "Skills. Before work that one of them describes, read its file and follow it:"
    return "\n".join([head, *lines])
