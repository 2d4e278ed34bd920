"""The report for a terminal, and the lines that show progress while a run goes on."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from conformance.frames import CheckResult, Run, Status
from conformance.report.summary import (
    binding,
    broken,
    headline,
    ok,
    proof,
    show,
    title,
    worst_first,
)

STYLES = {
    Status.PASSED: "green",
    Status.SKIPPED: "dim",
    Status.FAILED: "bold red",
    Status.DIED: "bold magenta",
    Status.HUNG: "bold yellow",
}


def render(run: Run, *, width: int = 100, colour: bool = False) -> str:
    """The run as text; ``width`` in columns."""
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False
    )
    console.print(Text(title(run), style="bold"))
    for result in worst_first(run.results):
        if result.status is not Status.PASSED:
            _print(console, result)
    console.print(Text(headline(run), style="green" if ok(run) else "red"))
    return out.getvalue()


def _print(console: Console, result: CheckResult) -> None:
    console.print(line(result), soft_wrap=True)
    for finding in result.findings:
        console.print(Text(f"    {finding.rule}: {finding.message}"), soft_wrap=True)
    for index, frame in proof(result):
        shown = Text(f"    {index:>4} {show(frame, 160)}", style="dim")
        console.print(shown, overflow="ellipsis", no_wrap=True)


def line(result: CheckResult) -> Text:
    """One result on one line."""
    style = STYLES[result.status] if binding(result) or not broken(result) else "yellow"
    text = Text()
    text.append(f"{result.status:<8}", style=style)
    text.append(f"{result.level:<7}{result.id:<20} {result.title}")
    if result.refs:
        text.append(f"  [{', '.join(result.refs)}]", style="dim")
    if result.reason:
        text.append(f"  {result.reason}", style="dim")
    return text


class Progress:
    """Shows results as they come: one line each, broken ones only unless ``verbose``."""

    def __init__(self, *, verbose: bool = False, file: TextIO | None = None) -> None:
        self._console = Console(file=file or sys.stderr, highlight=False)
        self._verbose = verbose
        self._done = 0
        self._status = self._console.status("starting the agent")

    def __enter__(self) -> Progress:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, result: CheckResult) -> None:
        """Take a result; the callback of ``run_checks``."""
        self._done += 1
        self._status.update(f"{self._done} checks done, last {escape(result.id)}")
        if self._verbose or broken(result):
            self._console.print(line(result), soft_wrap=True)
