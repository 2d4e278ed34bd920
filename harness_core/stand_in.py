"""Imports of libraries without what they would load and nobody here needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast


@contextmanager
def standing_in(name: str, module: ModuleType | None) -> Iterator[None]:
    """While this is open an import of ``name`` finds ``module``, or fails for ``None``; unless the
    real one is there already. Several threads may do the same at once."""
    stands = sys.modules.setdefault(name, cast(Any, module)) is module
    try:
        yield
    finally:
        if stands:
            sys.modules.pop(name, None)
