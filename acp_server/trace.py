"""W3C trace context in ``_meta``: passed on as it came, so that a client's trace goes on.

We open no spans of our own, so nothing in it is ours to change. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = re.compile(r"[ \t]*[!-<>-~]+[ \t]*=[ \t!-~]*")

LONGEST = {"tracestate": 512, "baggage": 8192}
"""Characters of a list that is passed on."""


def trace_of(meta: Any) -> Mapping[str, str]:
    """What of a request's ``_meta`` is trace context, by its reserved names (V1-EXT-03, -04).

    What is malformed counts as absent (V1-EXT-02), and a ``tracestate`` belongs to its parent.
    """
    if not isinstance(meta, Mapping):
        return {}
    lists = {name: meta[name] for name in LONGEST if name in meta and _is_list(name, meta[name])}
    parent = meta.get("traceparent")
    if isinstance(parent, str) and _PARENT.fullmatch(parent):
        return {"traceparent": parent, **lists}
    lists.pop("tracestate", None)
    return lists


def _is_list(name: str, value: Any) -> bool:
    """Whether ``value`` is a list of ``key=value`` that can stand in a header."""
    if not isinstance(value, str) or len(value) > LONGEST[name]:
        return False
    members = [member for member in value.split(",") if member.strip(" \t")]
    return bool(members) and all(map(_MEMBER.fullmatch, members))
