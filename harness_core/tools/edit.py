"""``edit``: replace a passage of a file by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness_core.content import Json
from harness_core.tools import cards
from harness_core.tools.change import change, diffs, first_line
from harness_core.tools.files import Files
from harness_core.tools.match import NoMatch, replace
from harness_core.tools.tool import (
    Arguments,
    Card,
    Diff,
    Location,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)


@dataclass(frozen=True, slots=True)
class EditArguments(Arguments):
    path: str = parameter("The file, relative to the working directory or absolute.")
    old_text: str = parameter(
        "The passage to replace, exactly as it stands in the file, without line numbers.",
        min_length=1,
    )
    new_text: str = parameter("What to put in its place.")
    replace_all: bool = parameter(
        "Replace every occurrence; otherwise old_text must occur exactly once.", False
    )


class Edit(Tool[EditArguments]):
    """Replace a passage."""

    name = "edit"
    description = (
        "Replace a passage of a file that was read and has not changed since. old_text must match "
        "exactly, white space included, and must be unique in the file unless replace_all is set. "
        "Line endings and everything else in the file stay as they are."
    )
    effect = "changes"
    kind = "edit"
    schema = Schema(EditArguments)

    async def execute(self, arguments: EditArguments, context: ToolContext) -> ToolOutput:
        path, old, new = await self._edited(arguments, context.files)
        await context.files.write(path, new)
        meta = change(old, new)
        text = f"Changed {context.files.name(path)} at line {first_line(meta)}."
        return ToolOutput.text(text, meta)

    async def foresee(self, arguments: EditArguments, context: ToolContext) -> tuple[Diff, ...]:
        path, old, new = await self._edited(arguments, context.files)
        return diffs(str(path), change(old, new))

    async def _edited(self, arguments: EditArguments, files: Files) -> tuple[Path, str, str]:
        """The file, its text now, and what it is to become."""
        path = files.resolve(arguments.path, write=True)
        if arguments.old_text == arguments.new_text:
            raise ToolError("old_text and new_text are the same: there is nothing to change")
        old = await files.current(path)
        if old is None:
            raise files.missing(path)
        try:
            new = replace(old, arguments.old_text, arguments.new_text, every=arguments.replace_all)
        except NoMatch as failure:
            raise ToolError(f"{files.name(path)} was not changed: {failure}") from None
        return path, old, new

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        path = cards.string(arguments, "path")
        place = cards.absolute(path, cwd)
        half = cards.CARD_BYTES // 2
        old = cards.clipped(cards.string(arguments, "old_text"), half)
        new = cards.clipped(cards.string(arguments, "new_text"), half)
        return Card(
            title=cards.titled(f"Edit {cards.shown(path, cwd)}"),
            kind=self.kind,
            locations=(Location(place),),
            diffs=(Diff(place, new, old),),
        )

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        if outcome.error:
            return Card(content=cards.texts(outcome.content))
        path = cards.absolute(cards.string(arguments, "path"), cwd)
        line = first_line(outcome.meta)
        return Card(locations=(Location(path, line),), diffs=diffs(path, outcome.meta))
