"""``glob``: find files by the pattern of their path."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

import anyio.to_thread

from harness_core.content import Json
from harness_core.tools import cards
from harness_core.tools.globs import BadGlob, compile_glob
from harness_core.tools.tool import (
    Arguments,
    Card,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)
from harness_core.tools.walk import walk

MOST = 500
"""Files that one call lists."""

PATIENCE = 20.0
"""Seconds after which a walk is ended."""


@dataclass(frozen=True, slots=True)
class GlobArguments(Arguments):
    pattern: str = parameter(
        "The pattern: * and ? within a name, ** across directories, [abc], {a,b}; without a slash "
        "it is matched against names at any depth.",
        min_length=1,
    )
    path: str = parameter("The directory to look in; the pattern is read from there.", ".")


class Glob(Tool[GlobArguments]):
    """Find files by name."""

    name = "glob"
    description = (
        "Find files whose path matches a pattern such as *.py, src/**/*.{ts,tsx} or **/test_*.py. "
        "Files that .gitignore or .ignore leave out are not found."
    )
    effect = "reads"
    kind = "search"
    schema = Schema(GlobArguments)

    async def execute(self, arguments: GlobArguments, context: ToolContext) -> ToolOutput:
        files = context.files
        base = files.resolve(arguments.path)
        with files.explained(base):
            if not base.is_dir():
                raise ToolError(f"{files.name(base)} is not a directory")
        try:
            pattern = compile_glob(arguments.pattern.removeprefix(f"{base.as_posix()}/"))
        except BadGlob as failure:
            raise ToolError(f"{arguments.pattern!r} is not a valid glob: {failure}") from None
        stop = Event()
        try:
            found, stopped = await anyio.to_thread.run_sync(
                _find, base, files.root_of(base), pattern, stop, abandon_on_cancel=True
            )
        finally:
            stop.set()
        shown = [files.name(base / path) for path in found]
        return ToolOutput.text("\n".join([*shown, *_notes(arguments.pattern, found, stopped)]))

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        pattern = cards.inline(cards.string(arguments, "pattern"))
        where = cards.below(cards.string(arguments, "path", "."), cwd)
        return Card(title=cards.titled(f"Find {pattern}{where}"), kind=self.kind)

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        return Card(content=cards.code_blocks(outcome.content))


def _find(
    base: Path, root: Path, pattern: re.Pattern[str], stop: Event
) -> tuple[list[str], Literal["limit", "time"] | None]:
    deadline = time.monotonic() + PATIENCE
    found: list[str] = []
    for file in walk(base, root):
        if stop.is_set() or time.monotonic() > deadline:
            return found, "time"
        if pattern.match(file.path):
            if len(found) == MOST:
                return found, "limit"
            found.append(file.path)
    return found, None


def _notes(pattern: str, found: list[str], stopped: str | None) -> Iterator[str]:
    if not found:
        yield "No files match."
        if "[" in pattern:
            yield "(brackets make a character class; write \\[ for the bracket itself)"
    if stopped == "limit":
        yield f"(only the first {MOST} files: narrow the pattern or the path)"
    if stopped == "time":
        yield "(stopped: the walk took too long; name a smaller path)"
