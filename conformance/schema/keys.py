"""Which keys of a value does no specified type know?

ACP keeps every type's root for itself and gives extensions ``_meta``; the
published schemas allow extra properties all the same. This walk follows a value
and its schema together and collects the keys that no matching branch names.
Knows schema keywords, nothing about ACP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.schema.compiler import fits
from conformance.schema.library import Library, Schema

UNIONS = ("anyOf", "oneOf")


def surplus(value: Any, name: str, library: Library) -> list[str]:
    """Dotted paths inside ``value`` of keys unknown to the definition ``name``."""
    return list(dict.fromkeys(_walk(value, [{"$ref": f"#/$defs/{name}"}], library)))


def _walk(value: Any, schemas: list[Schema], library: Library) -> Iterator[str]:
    flat = [part for schema in schemas for part in _flatten(value, schema, library)]
    if isinstance(value, list):
        items = [part["items"] for part in flat if "items" in part]
        for index, item in enumerate(value):
            yield from (f"[{index}]{_dot(path)}" for path in _walk(item, items, library))
    elif isinstance(value, dict):
        yield from _walk_object(value, flat, library)


def _walk_object(value: dict[str, Any], flat: list[Schema], library: Library) -> Iterator[str]:
    known = _properties(flat)
    rest = [part["additionalProperties"] for part in flat if part.get("additionalProperties")]
    for key, inner in value.items():
        if key in known or rest:
            inside = _walk(inner, known.get(key, rest), library)
            yield from (f"{key}{_dot(path)}" for path in inside)
        elif known:
            yield key


def _properties(flat: list[Schema]) -> dict[str, list[Schema]]:
    known: dict[str, list[Schema]] = {}
    for part in flat:
        for key, schema in part.get("properties", {}).items():
            known.setdefault(key, []).append(schema)
    return known


def _flatten(value: Any, schema: Schema | bool, library: Library) -> Iterator[Schema]:
    """The schema and everything it is made of, as far as it applies to this value."""
    if isinstance(schema, bool):
        return
    yield schema
    if "$ref" in schema:
        yield from _flatten(value, library.defs[schema["$ref"].rsplit("/", 1)[-1]], library)
    for part in schema.get("allOf", ()):
        yield from _flatten(value, part, library)
    for union in UNIONS:
        for part in _applying(value, schema.get(union, []), library):
            yield from _flatten(value, part, library)


def _applying(value: Any, branches: list[Schema], library: Library) -> list[Schema]:
    """The branches the value satisfies, else those it may be meant for."""
    meant = [branch for branch in branches if fits(branch, value)]
    if len(meant) == 1:
        return meant
    return [branch for branch in meant if library.holds(branch, value)] or meant or branches


def _dot(path: str) -> str:
    return path if path.startswith("[") else f".{path}"
