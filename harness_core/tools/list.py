"""``list``: the entries of a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness_core.content import Json
from harness_core.tools import cards
from harness_core.tools.text import visible
from harness_core.tools.tool import (
    Arguments,
    Card,
    Location,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)
from harness_core.tools.walk import Entry, Level, is_directory

MOST = 1000
"""Entries that one call lists."""

NAMED = 20
"""Ignored entries that are called by name."""


@dataclass(frozen=True, slots=True)
class ListArguments(Arguments):
    path: str = parameter("The directory, relative to the working directory or absolute.", ".")


class List(Tool[ListArguments]):
    """List a directory."""

    name = "list"
    description = (
        "List the entries of a directory; directories end with a slash. Entries that .gitignore or "
        ".ignore leave out are only named at the end."
    )
    effect = "reads"
    kind = "search"
    schema = Schema(ListArguments)

    async def execute(self, arguments: ListArguments, context: ToolContext) -> ToolOutput:
        files = context.files
        base = files.resolve(arguments.path)
        with files.explained(base):
            if not base.is_dir():
                base.stat()
                raise ToolError(f"{files.name(base)} is not a directory: use read")
            os.scandir(base).close()
        entries = list(Level.at(base, files.root_of(base)))
        shown = [_line(entry) for entry, ignored in entries if not ignored]
        left_out = [visible(entry.name) for entry, ignored in entries if ignored]
        return ToolOutput.text("\n".join([*shown[:MOST], *_notes(len(shown), left_out)]))

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        path = cards.string(arguments, "path", ".")
        return Card(
            title=cards.titled(f"List {cards.shown(path, cwd)}"),
            kind=self.kind,
            locations=(Location(cards.absolute(path, cwd)),),
        )

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        return Card(content=cards.code_blocks(outcome.content))


def _line(entry: Entry) -> str:
    if entry.is_symlink():
        return visible(f"{entry.name} -> {os.readlink(entry.path)}")
    return visible(entry.name) + ("/" if is_directory(entry) else "")


def _notes(count: int, left_out: list[str]) -> Iterator[str]:
    if count > MOST:
        yield f"(only the first {MOST} of {count} entries: use glob to find the others)"
    if not count and not left_out:
        yield "(the directory is empty)"
    if left_out:
        more = ", …" if len(left_out) > NAMED else ""
        yield f"({len(left_out)} ignored: {', '.join(left_out[:NAMED])}{more})"
