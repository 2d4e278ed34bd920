"""The arguments of ``acp-harness``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness_core import __version__


def run(arguments: Sequence[str]) -> int:
    """Parse ``arguments`` and do what they say; returns the exit status."""
    options = _parser().parse_args(arguments)
    flags: dict[str, object] = {}
    if options.model:
        flags["model"] = options.model
    from acp_server.__main__ import serve_stdio

    return serve_stdio(flags)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acp-harness",
        description="A coding agent that editors drive over the Agent Client Protocol on stdio.",
        epilog="With no model configured the built-in offline demo model answers.",
    )
    parser.add_argument("command", nargs="?", choices=["acp"], help="serve ACP (the default)")
    parser.add_argument("--model", metavar="PROVIDER:NAME", help="the model to use")
    parser.add_argument("--version", action="version", version=f"acp-harness {__version__}")
    return parser
