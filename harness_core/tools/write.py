"""``write``: create a file, or replace one that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness_core.content import Json
from harness_core.tools import cards
from harness_core.tools.change import change, diffs, first_line
from harness_core.tools.files import Files
from harness_core.tools.text import in_form_of, lines
from harness_core.tools.tool import (
    Arguments,
    Card,
    Diff,
    Location,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolOutput,
    parameter,
)


@dataclass(frozen=True, slots=True)
class WriteArguments(Arguments):
    path: str = parameter("The file, relative to the working directory or absolute.")
    content: str = parameter("The whole new content.")


class Write(Tool[WriteArguments]):
    """Create or replace a file."""

    name = "write"
    description = (
        "Create a file, or replace the whole content of one that was read and has not changed "
        "since. Missing directories are made. A replaced file keeps its mode, its line endings and "
        "its final newline. To change a part of a file, use edit."
    )
    effect = "changes"
    kind = "edit"
    schema = Schema(WriteArguments)

    async def execute(self, arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        path, old, new = await self._written(arguments, context.files)
        await context.files.write(path, new)
        did = "Created" if old is None else "Replaced"
        text = f"{did} {context.files.name(path)} ({len(lines(new))} lines)."
        return ToolOutput.text(text, change(old, new))

    async def foresee(self, arguments: WriteArguments, context: ToolContext) -> tuple[Diff, ...]:
        path, old, new = await self._written(arguments, context.files)
        return diffs(str(path), change(old, new))

    async def _written(
        self, arguments: WriteArguments, files: Files
    ) -> tuple[Path, str | None, str]:
        """The file, its text now if there is one, and what it is to become."""
        path = files.resolve(arguments.path, write=True)
        old = await files.current(path)
        new = arguments.content if old is None else in_form_of(old, arguments.content)
        return path, old, new

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        path = cards.string(arguments, "path")
        place = cards.absolute(path, cwd)
        content = cards.clipped(cards.string(arguments, "content"))
        return Card(
            title=cards.titled(f"Write {cards.shown(path, cwd)}"),
            kind=self.kind,
            locations=(Location(place),),
            diffs=(Diff(place, content),),
        )

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        if outcome.error:
            return Card(content=cards.texts(outcome.content))
        path = cards.absolute(cards.string(arguments, "path"), cwd)
        line = first_line(outcome.meta)
        return Card(locations=(Location(path, line),), diffs=diffs(path, outcome.meta))
