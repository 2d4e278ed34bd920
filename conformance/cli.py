"""The command line: what can be asked for, in which words. What is done stands in ``commands``.

Exit status: 0 all is well, 1 something was found, 2 the question was wrong.
``record`` leaves with the agent's own status.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

from conformance.frames import Level

FOUND, WRONG = 1, 2
DESCRIPTION = "A black-box conformance kit for any agent that speaks the Agent Client Protocol."
COMMAND_NOTE = "Everything after -- is the command that starts the agent."


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A report somebody wants: its format and where to; ``-`` is stdout."""

    format: str
    path: str


class UsageError(Exception):
    """The question was wrong; the text says what to do."""


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; returns the exit status."""
    ours, agent = split(arguments)
    parser = build_parser()
    options = parser.parse_args(ours)
    if not hasattr(options, "command_name"):
        parser.print_help()
        return WRONG
    needs_agent = options.takes_agent and not getattr(options, "list", False)
    if needs_agent and not agent:
        _refuse(parser, "give the command that starts the agent after --")
    if agent and not options.takes_agent:
        _refuse(parser, f"{options.command_name} takes no agent command")
    options.agent = agent
    try:
        return _do(options)
    except UsageError as error:
        _refuse(parser, str(error))


def _do(options: argparse.Namespace) -> int:
    from conformance import commands

    try:
        return int(getattr(commands, options.command_name.replace("-", "_"))(options))
    except BrokenPipeError:
        # Nobody reads our report any more; the interpreter must not try to flush it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FOUND


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the agent's command after the first ``--``."""
    if "--" not in arguments:
        return list(arguments), []
    at = list(arguments).index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])


def build_parser() -> argparse.ArgumentParser:
    """The parser of everything before ``--``."""
    parser = argparse.ArgumentParser("acp-conformance", description=DESCRIPTION, allow_abbrev=False)
    commands = parser.add_subparsers(metavar="COMMAND")
    _record(commands)
    _replay(commands)
    _lint(commands)
    _check(commands)
    _serve_model(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add(commands: Commands, name: str, text: str, *, agent: bool) -> argparse.ArgumentParser:
    """A subcommand; ``agent`` says that it takes an agent's command after ``--``."""
    note = COMMAND_NOTE if agent else None
    usage = f"acp-conformance {name} [options]" + (" -- AGENT [ARGUMENT ...]" if agent else "")
    parser = commands.add_parser(name, help=text, description=text, epilog=note, allow_abbrev=False)
    if agent:
        parser.usage = usage
    parser.set_defaults(command_name=name, takes_agent=agent)
    return parser


def _record(commands: Commands) -> None:
    parser = _add(
        commands, "record", "Stand between an editor and its agent, and record.", agent=True
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the transcript; FILE-2 and so on if it exists",
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="placeholders for directories, no times: a transcript to keep",
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        metavar="DIR",
        help="keep DIR's small text files in the header, for replay",
    )


def _replay(commands: Commands) -> None:
    parser = _add(
        commands, "replay", "Play a recording's client to an agent and compare.", agent=True
    )
    parser.add_argument("file", type=Path, help="the transcript")
    parser.add_argument(
        "--update", action="store_true", help="take what the agent does now as right"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds for each single wait (default: 10)",
    )
    _add_env(parser)


def _lint(commands: Commands) -> None:
    parser = _add(commands, "lint", "Check recordings against the global rules.", agent=False)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="transcripts")
    parser.add_argument("--client", action="store_true", help="judge the client's duties too")
    parser.add_argument("--strict", action="store_true", help="a recommendation counts as found")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="RULE",
        help="leave out a rule, or several by a pattern such as 'io.*'",
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON lines")
    parser.add_argument("--rules", action="store_true", help="list the rules and stop")


def _check(commands: Commands) -> None:
    parser = _add(commands, "check", "Run the catalogue of checks against an agent.", agent=False)
    parser.usage = "acp-conformance check [options] -- AGENT [ARGUMENT ...]"
    parser.epilog = COMMAND_NOTE
    parser.set_defaults(takes_agent=True)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only this check, or several by a pattern such as 'TURN-*'",
    )
    parser.add_argument(
        "--level",
        action="append",
        default=[],
        type=_level,
        metavar="LEVEL",
        help="only checks of this level: must, should, may, rec",
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        type=_report,
        metavar="FORMAT=PATH",
        help="write text, junit, json, html or badge; PATH may be -",
    )
    parser.add_argument("--jobs", type=_positive, default=2, metavar="N", help="checks at a time")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds for each single wait (default: 10)",
    )
    parser.add_argument(
        "--no-model",
        dest="model",
        action="store_false",
        help="leave out what needs the scripted model",
    )
    parser.add_argument("--verbose", action="store_true", help="show every result as it comes")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    _add_env(parser)


def _serve_model(commands: Commands) -> None:
    parser = _add(commands, "serve-model", "Serve a scripted model on 127.0.0.1.", agent=False)
    parser.add_argument("--port", type=int, default=0, help="TCP port (default: any free one)")


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="set a variable for the agent",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _report(text: str) -> ReportRequest:
    from conformance.report import FORMATS

    name, equals, path = text.partition("=")
    if name not in FORMATS or not (equals and path):
        formats = ", ".join(FORMATS)
        raise argparse.ArgumentTypeError(f"{text!r} is not FORMAT=PATH with one of {formats}")
    return ReportRequest(name, path)


def _level(text: str) -> Level:
    try:
        return Level(text.upper())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is none of must, should, may, rec") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _refuse(parser: argparse.ArgumentParser, text: str) -> NoReturn:
    parser.exit(WRONG, f"acp-conformance: {text}\n")
