"""``acp-conformance`` and ``python -m conformance``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    from conformance.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
