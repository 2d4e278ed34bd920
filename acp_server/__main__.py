"""``acp-harness``: with no arguments it serves ACP on stdio.

The guard on the standard streams stands before anything else is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

UTF8 = ["-X", "utf8"]
"""Python's options for UTF-8 in everything."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in ([], ["acp"]):
        return serve_stdio({})
    from acp_server.cli.command import run

    return run(arguments)


def serve_stdio(flags: dict[str, object]) -> int:
    """Serve ACP on the process's standard streams until the client has gone."""
    _speak_utf8()
    from acp_server.stdio import guard

    source, target = guard()
    import asyncio
    import gc

    from acp_server.server import serve

    # Modules and facts stay, and facts have no cycles: looking for some is work for nothing.
    gc.set_threshold(10_000, 20, 20)
    asyncio.run(serve(source, target, flags))
    return 0


def _speak_utf8() -> None:
    """Begin again, as the same process, if names of files are something else than UTF-8 here:
    editors write them in UTF-8 whatever the locale."""
    if sys.getfilesystemencoding() != "utf-8" and sys.orig_argv[1:3] != UTF8:
        os.execv(sys.executable, [sys.executable, *UTF8, *sys.orig_argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
