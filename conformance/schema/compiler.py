"""Compiles schemas for ``jsonschema``, with two things the plain dialect lacks.

Integer widths (``uint16`` …) are judged, and a union looks at the discriminator
before it tries a branch: most of a frame's cost would be branches that were never
meant. Knows ``jsonschema`` and nothing about ACP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

Schema = dict[str, Any]
Rule = Callable[["Validator", list[Schema], Any, Schema], "Iterator[ValidationError]"]


def compile_schema(schema: Schema) -> Validator:
    """A validator for ``schema``, which is trusted to be a correct schema."""
    validator: Validator = _dialect()(schema, format_checker=_integer_formats())
    return validator


@cache
def _dialect() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    rules = Draft202012Validator.VALIDATORS
    unions = {name: _discriminating(rules[name]) for name in ("anyOf", "oneOf")}
    return extend(Draft202012Validator, unions)


def _discriminating(rule: Rule) -> Rule:
    """The same union rule, tried only on branches whose constants fit the value."""

    def narrowed(
        validator: Validator, branches: list[Schema], value: Any, schema: Schema
    ) -> Iterator[ValidationError]:
        meant = [branch for branch in branches if fits(branch, value)]
        return rule(validator, meant or branches, value, schema)

    return narrowed


def fits(branch: Schema, value: Any) -> bool:
    """False only if a constant in the branch makes it impossible."""
    if "const" in branch:
        return bool(branch["const"] == value)
    if not isinstance(value, dict):
        return True
    properties = branch.get("properties", {})
    return all(
        "const" not in properties[name] or properties[name]["const"] == value[name]
        for name in properties.keys() & value.keys()
    )


@cache
def _integer_formats() -> Any:
    """A format checker for the integer widths the schemas name; no other format is judged."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for bits in (32, 64):
        checker.checks(f"int{bits}")(_within(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    for bits in (16, 32, 64):
        checker.checks(f"uint{bits}")(_within(0, 2**bits - 1))
    return checker


def _within(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, int) or low <= value <= high
