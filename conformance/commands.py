"""What each subcommand does: asks the room that knows, prints, and gives the exit status.

Every room is imported by the command that needs it, so that none pays for another.
"""

from __future__ import annotations

import fnmatch
import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cli import FOUND, ReportRequest, UsageError
from conformance.frames import Finding, Level

if TYPE_CHECKING:
    from conformance.frames import Run
    from conformance.transcript import Transcript

SMALL = 64 * 1024
"""Bytes of a file that may stand in a header."""
MANY = 200
"""Files that may stand in a header."""


def record(options: Namespace) -> int:
    """``record``: leaves as the agent left."""
    from conformance.recorder import leave
    from conformance.recorder import record as run

    files = text_files(options.workspace) if options.workspace else {}
    try:
        status = run(options.agent, options.output, make_portable=options.portable, files=files)
    except OSError as error:
        raise UsageError(f"cannot record {' '.join(options.agent)}: {error}") from None
    return leave(status)


def text_files(workspace: Path) -> dict[str, str]:
    """The small text files below ``workspace``, by relative path; nothing hidden."""
    if not workspace.is_dir():
        raise UsageError(f"{workspace} is not a directory")
    found: dict[str, str] = {}
    for path in sorted(workspace.rglob("*")):
        relative = path.relative_to(workspace)
        hidden = any(part.startswith(".") for part in relative.parts)
        if hidden or not path.is_file() or path.stat().st_size > SMALL:
            continue
        try:
            found[relative.as_posix()] = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        if len(found) > MANY:
            raise UsageError(f"{workspace} holds more than {MANY} text files; choose a smaller one")
    return found


def replay(options: Namespace) -> int:
    """``replay``: 0 if the agent does what the recording says."""
    import anyio

    from conformance.replay import replay as start
    from conformance.replay import update
    from conformance.transcript import TranscriptError, render

    transcript = _load(options.file)
    play = partial(start, timeout=options.timeout, env=dict(options.env))
    try:
        result = anyio.run(play, transcript, options.agent)
    except (OSError, TranscriptError) as error:
        raise UsageError(f"cannot replay {options.file}: {error}") from None
    _say(str(result))
    if options.update and result.hung is None and not result.ok:
        options.file.write_bytes(render(update(transcript, result)))
        _say(f"{options.file} is updated")
        return 0
    return 0 if result.ok else FOUND


def lint(options: Namespace) -> int:
    """``lint``: 1 if a duty is broken in any of the files."""
    from conformance.lint import RULES

    if options.rules:
        for rule in RULES.values():
            _say(f"{rule.level:<7}{rule.id:<24}{rule.title}  [{', '.join(rule.refs)}]")
        return 0
    if not options.files:
        raise UsageError("lint needs at least one transcript")
    found = [_lint_file(path, options) for path in options.files]
    return FOUND if any(found) else 0


def _lint_file(path: Path, options: Namespace) -> bool:
    """Print the findings of one file; returns whether any of them counts."""
    from conformance.lint import AGENT, EVERYBODY, RULES, lint
    from conformance.lint.file import left_early, report, report_json

    transcript = _load(path)
    actors = EVERYBODY if options.client else AGENT
    findings = lint(transcript.frames, complete=not left_early(transcript), actors=actors)
    kept = _without(findings, options.ignore)
    _say((report_json if options.json else report)(path, transcript, kept))
    return any(options.strict or _binding(RULES[finding.rule].level) for finding in kept)


def _without(findings: Iterable[Finding], patterns: list[str]) -> list[Finding]:
    return [f for f in findings if not any(fnmatch.fnmatch(f.rule, p) for p in patterns)]


def _binding(level: Level) -> bool:
    return level in (Level.MUST, Level.SHOULD)


def check(options: Namespace) -> int:
    """``check``: 1 if the agent breaks a duty."""
    if options.list:
        return _list_checks()
    import anyio

    from conformance.report.summary import ok
    from conformance.report.terminal import Progress
    from conformance.runner import run_checks

    async def run(progress: Progress) -> Run:
        return await run_checks(
            options.agent,
            ids=select(options.only),
            levels=tuple(options.level or Level),
            model=options.model,
            timeout=options.timeout,
            jobs=options.jobs,
            env=dict(options.env),
            on_result=progress,
        )

    try:
        with Progress(verbose=options.verbose) as progress:
            result = anyio.run(run, progress)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    write_reports(result, options.report or [ReportRequest("text", "-")])
    return 0 if ok(result) else FOUND


def select(wanted: Iterable[str]) -> list[str]:
    """The ids of checks, with patterns such as ``TURN-*`` spelled out.

    Raises ``UsageError`` for a pattern that fits nothing.
    """
    from conformance.checks import CATALOGUE

    found: list[str] = []
    for text in wanted:
        matching = fnmatch.filter([each.id for each in CATALOGUE], text)
        if not matching and set(text) & set("*?["):
            raise UsageError(f"no check fits {text!r}; see acp-conformance check --list")
        found += matching or [text]
    return found


def _list_checks() -> int:
    from conformance.checks import CATALOGUE

    for each in CATALOGUE:
        _say(f"{each.level:<7}{each.id:<21} {each.title}  [{', '.join(each.refs)}]")
    return 0


def write_reports(run: Run, requests: Iterable[ReportRequest]) -> None:
    """Every report that was asked for; raises ``UsageError`` if one cannot be written."""
    from conformance.report import renderer

    for request in requests:
        text = renderer(request.format)(run)
        if request.path == "-":
            _say(text.rstrip("\n"))
            continue
        try:
            Path(request.path).write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise UsageError(f"cannot write the {request.format} report: {error}") from None


def serve_model(options: Namespace) -> int:
    """``serve-model``: serves until it is interrupted."""
    import asyncio
    from contextlib import suppress

    from conformance.model_server import ModelServer

    async def serve() -> None:
        async with ModelServer(port=options.port) as server:
            _say(f"{server.openai_base_url}\n{server.anthropic_base_url}")
            await asyncio.get_running_loop().create_future()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())
    return 0


def _load(path: Path) -> Transcript:
    from conformance.transcript import TranscriptError, load

    try:
        return load(path)
    except (OSError, TranscriptError) as error:
        raise UsageError(str(error)) from None


def _say(text: str) -> None:
    if text:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.flush()
