"""Commands and skills that people keep as Markdown files, in a project or for themselves.

A command is ``commands/review.md``, called as ``/review what to look at``; in a folder, as
``/folder:review``. A skill is ``skills/pdf/SKILL.md``: the model is told its name and description
and reads the rest when it needs it. Both may begin with front matter (``description: …``). Pure but
for reading the files; knows no session and no front end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST = 64_000
"""Characters of a file that are used."""

PROJECT_FOLDERS = (".acp-harness", ".claude")
"""Where a project keeps its files; ours first."""

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])")


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


def folders(roots: Iterable[Path], home: Path, config: Path) -> list[Path]:
    """Where files are looked for: the roots' folders, earlier roots first, then the user's own."""
    ours = [root / name for root in roots for name in PROJECT_FOLDERS]
    return [*ours, config, home / ".claude"]


def find_commands(places: Iterable[Path]) -> list[PromptFile]:
    """The commands in ``places``; of two with one name the first is meant."""
    found: dict[str, PromptFile] = {}
    for place in places:
        base = place / "commands"
        for path in _files(base, "*.md"):
            parts = path.relative_to(base).with_suffix("").parts
            name = re.sub(r"\s+", "-", ":".join(parts))
            if (file := _read(path, name)) is not None:
                found.setdefault(name, file)
    return list(found.values())


def find_skills(places: Iterable[Path]) -> list[PromptFile]:
    """The skills in ``places``; of two with one name the first is meant."""
    found: dict[str, PromptFile] = {}
    for place in places:
        for path in _files(place / "skills", "*/SKILL.md"):
            if (file := _read(path, path.parent.name)) is not None:
                found.setdefault(file.name, file)
    return list(found.values())


def _files(base: Path, pattern: str) -> Iterator[Path]:
    """Regular files below ``base``, in a stable order; none if it cannot be read."""
    try:
        paths = sorted(base.glob(pattern if "/" in pattern else f"**/{pattern}"))
    except OSError:
        return
    yield from (path for path in paths if path.is_file())


def _read(path: Path, name: str) -> PromptFile | None:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            text = file.read(LONGEST)
    except OSError:
        return None
    fields, body = split(text)
    called = re.sub(r"\s+", "-", fields.get("name", "")) or name
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# ")), called)
    description = fields.get("description") or first
    return PromptFile(
        called if path.name == "SKILL.md" else name,
        description,
        fields.get("argument-hint", "arguments"),
        path,
        body.strip(),
    )


def split(text: str) -> tuple[Mapping[str, str], str]:
    """Front matter's plain fields, and the text after it. What is not a plain field is ignored."""
    front = _FRONT.match(text)
    if front is None:
        return {}, text
    fields = {name: value.strip("'\"") for name, value in _FIELD.findall(front[1])}
    return fields, text[front.end() :]


def skills_section(skills: Iterable[PromptFile]) -> str:
    """What the system prompt says of the skills; empty if there are none."""
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    if not lines:
        return ""
    head = "Skills. Before work that one of them describes, read its file and follow it:"
    return "\n".join([head, *lines])
