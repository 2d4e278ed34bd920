"""All scenarios, in the order of the page that lists them."""

from __future__ import annotations

from corpus import editor, ending, keeping, opening, permission, talking, tools, wire

SCENARIOS = (
    *opening.SCENARIOS,
    *talking.SCENARIOS,
    *tools.SCENARIOS,
    *permission.SCENARIOS,
    *ending.SCENARIOS,
    *keeping.SCENARIOS,
    *editor.SCENARIOS,
    *wire.SCENARIOS,
)
