"""Reports over a run, one module per format, each a pure function ``render(run) -> str``.

Formats load when they are asked for, so that a badge costs no terminal library.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from conformance.frames import Run

FORMATS = {
    "text": "conformance.report.terminal",
    "junit": "conformance.report.junit",
    "json": "conformance.report.data",
    "html": "conformance.report.page",
    "badge": "conformance.report.badge",
}
"""Format name -> the module that renders it."""


def renderer(name: str) -> Callable[[Run], str]:
    """The render function of a format; raises ``KeyError`` for an unknown name."""
    render: Callable[[Run], str] = import_module(FORMATS[name]).render
    return render
