"""Which facts need no reading back: those made of text and whole numbers alone.

A streamed answer is thousands of small facts. One whose fields hold exactly what they declare, all
the way down, and that has nothing in it that could be changed, is certain to read back as it is.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from harness_core.facts import field_names

_SCALARS = frozenset((str, int, bool, NoneType))


def plain(value: Any) -> bool:
    """Whether ``value``, a frozen dataclass, is made of text and whole numbers, as declared."""
    cls: Any = type(value)
    shape = _shape(cls)
    if shape is None:
        return False
    for name, scalars, classes, literals in shape:
        item = getattr(value, name)
        kind = type(item)
        if kind in scalars:
            if literals and item not in literals:
                return False
        elif not (kind in classes and plain(item)):
            return False
    return True


_Field = tuple[str, frozenset[type], frozenset[type], frozenset[Any]]


@cache
def _shape(cls: Hashable) -> tuple[_Field, ...] | None:
    """What each field may hold; ``None`` if one may hold anything else."""
    if not (isinstance(cls, type) and is_dataclass(cls)):
        return None
    hints = get_type_hints(cls)
    fields = [_field(name, hints[name]) for name in field_names(cls)]
    return None if any(field is None for field in fields) else tuple(filter(None, fields))


def _field(name: str, hint: Any) -> _Field | None:
    """What a field may hold. Of a union some members may be plain: the others are read back."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    values = [value for m in members if get_origin(m) is Literal for value in get_args(m)]
    scalars = {member for member in members if member in _SCALARS}
    if values:
        literals = frozenset(values) | ({None} if NoneType in scalars else frozenset())
        return name, frozenset(map(type, literals)), frozenset(), literals
    classes = frozenset(m for m in members if m not in _SCALARS and _shape(m) is not None)
    return (name, frozenset(scalars), classes, frozenset()) if scalars or classes else None
