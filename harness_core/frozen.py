"""JSON values that cannot be changed: what the log holds, nobody can rewrite.

Frozen values are dicts and lists to everybody who reads them; ``dict(…)``, ``list(…)``, slices and
``copy`` give plain ones that may be changed.
"""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change with ``TypeError``."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses every change with ``TypeError``."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return list, (list(self),)


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("what is in the log cannot be changed: change a copy")


_CHANGES: dict[type, str] = {
    FrozenDict: "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update",
    FrozenList: "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove"
    " reverse sort",
}
for _class, _names in _CHANGES.items():
    for _name in _names.split():
        setattr(_class, _name, _refuse)


def freeze(value: Any) -> Any:
    """A copy of a JSON value that nobody can change; a tuple becomes a list."""
    if isinstance(value, dict):
        return FrozenDict((key, freeze(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return FrozenList(freeze(item) for item in value)
    return value


class Frozen:
    """Marks a field, with ``Annotated``, that is read back frozen."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(freeze, handler(source))
