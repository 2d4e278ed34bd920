"""``grep``: search the text of files for a regular expression."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL

import anyio

import harness_core
from harness_core.content import Json
from harness_core.tools import cards, search
from harness_core.tools.disk import regular, size_of
from harness_core.tools.search import LARGEST, Query
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

PATIENCE = 30.0
"""Seconds after which a search is ended even if it hangs in one regular expression."""

_BOOT = "import sys; sys.path.append(sys.argv[1]); from {0} import main; main()"


@dataclass(frozen=True, slots=True)
class GrepArguments(Arguments):
    pattern: str = parameter(
        "What to look for: a regular expression (Python's), matched within single lines.",
        min_length=1,
    )
    path: str = parameter("The file or directory to search.", ".")
    glob: str | None = parameter(
        "Search only files that match this glob, such as *.py or src/**/*.ts.", None
    )
    literal: bool = parameter("Take the pattern literally, not as a regular expression.", False)
    ignore_case: bool = parameter("Let upper and lower case match each other.", False)
    context: int = parameter("How many lines to show around each match.", 0, ge=0, le=20)
    files_only: bool = parameter("Only list the files, with their number of matches.", False)


class Grep(Tool[GrepArguments]):
    """Search in files."""

    name = "grep"
    description = (
        "Search the text of files for a regular expression. Shows file, line number and line. "
        "Files that .gitignore or .ignore leave out, and binary files, are not searched."
    )
    effect = "reads"
    kind = "search"
    schema = Schema(GrepArguments)

    async def execute(self, arguments: GrepArguments, context: ToolContext) -> ToolOutput:
        files = context.files
        base = files.resolve(arguments.path)
        with files.explained(base):
            file = base.name if not base.is_dir() and regular(base) else None
        directory = base if file is None else base.parent
        root = files.root_of(directory)
        lines = await _ask(_query(arguments, directory, root, file))
        end = lines.pop()
        if "error" in end:
            raise ToolError(f"{arguments.pattern!r} cannot be searched for: {end['error']}")
        shown = [row for line in lines for row in _shown(line, directory, files.name)]
        return ToolOutput.text("\n".join([*shown, *_notes(lines, end["end"])]))

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        pattern = cards.inline(cards.string(arguments, "pattern"))
        where = cards.below(cards.string(arguments, "path", "."), cwd)
        return Card(title=cards.titled(f"Search {pattern}{where}"), kind=self.kind)

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        return Card(content=cards.code_blocks(outcome.content))


def _query(arguments: GrepArguments, directory: Path, root: Path, file: str | None) -> Query:
    return Query(
        pattern=arguments.pattern,
        directory=str(directory),
        root=str(root),
        file=file,
        glob=arguments.glob,
        literal=arguments.literal,
        ignore_case=arguments.ignore_case,
        names=arguments.files_only,
        context=arguments.context,
    )


async def _ask(query: Query) -> list[Json]:
    """The answer of a search process, line by line. Raises ``ToolError``."""
    home = str(Path(harness_core.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", _BOOT.format(search.__name__), home]
    try:
        with anyio.fail_after(PATIENCE):
            done = await anyio.run_process(
                command, input=json.dumps(asdict(query)).encode(), stderr=DEVNULL, check=False
            )
    except TimeoutError:
        raise ToolError(
            f"the search took longer than {PATIENCE:.0f} s and was ended: simplify the pattern "
            "(nested repetitions are slow) or name a smaller path",
            code="timeout",
        ) from None
    if done.returncode:
        raise ToolError(f"the search failed (exit status {done.returncode})")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _shown(line: Json, directory: Path, name: Callable[[Path], str]) -> Iterator[str]:
    """The rows of one file under its name; ``:`` after the number of a match, ``-`` of others."""
    path = name(directory / line["path"])
    if not line["rows"]:
        yield f"{path} ({line['count']})"
        return
    yield path
    previous = 0
    for number, text, matches in line["rows"]:
        if previous and number > previous + 1:
            yield "--"
        yield f"{number}{':' if matches else '-'}{text}"
        previous = number


def _notes(lines: Sequence[Json], end: Json) -> Iterator[str]:
    if not lines:
        yield f"No matches in {end['files']} files."
    if end["stopped"] == "limit":
        yield "(there are more matches: narrow the pattern, the path or the glob)"
    if end["stopped"] == "time":
        yield "(stopped: the search took too long; name a smaller path)"
    if end["large"]:
        yield f"({end['large']} files over {size_of(LARGEST)} were not searched)"
