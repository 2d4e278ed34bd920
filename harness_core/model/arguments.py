"""The arguments of a tool call, on their way back to a model.

A model may have written nonsense, and a provider that parses the history would refuse every later
request for it. So what is not a JSON object is quoted inside one.
"""

from __future__ import annotations

import orjson

from harness_core.content import Json


def sendable(arguments: str) -> tuple[str, dict[str, Json]]:
    """Raw argument text as JSON text of an object, and as that object."""
    if not arguments.strip():
        return "{}", {}
    try:
        value = orjson.loads(arguments)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return arguments, value
    quoted = {"not_a_json_object": arguments}
    return orjson.dumps(quoted).decode(), quoted
