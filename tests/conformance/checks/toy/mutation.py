"""Which fault is switched on: the id of the check that must notice it, or none."""

from __future__ import annotations

import sys


def _chosen() -> str:
    if "--mutation" in sys.argv:
        return sys.argv[sys.argv.index("--mutation") + 1]
    return ""


ACTIVE = _chosen()


def broken(*ids: str) -> bool:
    """Whether the agent is to be wrong in the way one of these checks looks for."""
    return ACTIVE in ids
