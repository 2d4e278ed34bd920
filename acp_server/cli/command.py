"""The arguments of ``acp-harness``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness_core import __version__

VERBS = {
    "allow": "never ask for this again",
    "reject": "refuse this without asking",
    "revoke": "take one back",
}
"""How a lasting permission is changed."""


def run(arguments: Sequence[str]) -> int:
    """Parse ``arguments`` and do what they say; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.login or options.command == "login":
        from acp_server.cli.login import login

        return login(options.name)
    if options.command == "logout":
        from acp_server.cli.login import logout

        return logout()
    if options.command == "permissions":
        from acp_server.cli.permissions import permissions

        changes = {verb: scope for verb in VERBS if (scope := getattr(options, verb)) is not None}
        return permissions(options.project, changes)
    from acp_server.__main__ import serve_stdio

    return serve_stdio({"model": options.model} if options.model else {})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acp-harness",
        description="A coding agent that editors drive over the Agent Client Protocol on stdio.",
        epilog="With no model configured the built-in offline demo model answers.",
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["acp", "login", "logout", "permissions"],
        help="serve ACP (the default); keep or forget provider keys; list lasting permissions",
    )
    parser.add_argument("name", nargs="?", help="login: the provider, or a variable's name")
    parser.add_argument("--login", action="store_true", help="the same as login, after acp too")
    parser.add_argument("--model", metavar="PROVIDER:NAME", help="the model to use")
    for verb, what in VERBS.items():
        parser.add_argument(f"--{verb}", metavar="SCOPE", help=f"permissions: {what}")
    parser.add_argument(
        "--project", metavar="DIR", default=".", help="permissions: of this project, not here"
    )
    parser.add_argument("--version", action="version", version=f"acp-harness {__version__}")
    return parser
