"""A badge for a README: how many of the checks that apply an agent passes."""

from __future__ import annotations

from html import escape

from conformance.frames import Run, Status
from conformance.report.summary import binding, broken, ok

LABEL = "ACP conformance"
GREEN, YELLOW, RED = "#2e7d32", "#b58900", "#c62828"
CHARACTER = 6.6
"""Width of an average character of the font in pixels."""


def render(run: Run) -> str:
    """The badge as a standalone SVG image."""
    value = _value(run)
    left, right = _width(LABEL), _width(value)
    text = escape(f"{LABEL}: {value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" '
        f'role="img" aria-label="{text}">\n'
        f"<title>{text}</title>\n"
        f'<rect width="{left + right}" height="20" rx="3" fill="#444"/>\n'
        f'<rect x="{left}" width="{right}" height="20" rx="3" fill="{_colour(run)}"/>\n'
        f'<rect x="{left}" width="4" height="20" fill="{_colour(run)}"/>\n'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        'text-anchor="middle">\n'
        f'<text x="{left / 2}" y="14">{LABEL}</text>\n'
        f'<text x="{left + right / 2}" y="14">{escape(value)}</text>\n'
        "</g>\n</svg>\n"
    )


def _value(run: Run) -> str:
    duties = [r for r in run.results if binding(r) and r.status is not Status.SKIPPED]
    passed = sum(not broken(result) for result in duties)
    return f"{passed}/{len(duties)}" if duties else "not run"


def _colour(run: Run) -> str:
    if not ok(run) or not run.results:
        return RED
    return YELLOW if any(map(broken, run.results)) else GREEN


def _width(text: str) -> int:
    return round(len(text) * CHARACTER) + 12
