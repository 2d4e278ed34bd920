"""Turns a validator's error tree into one short sentence a person can act on.

A union that fails reports every branch; a reader wants the branch that was meant.
The branch that was meant is the one whose discriminator matched. Knows the shape
of ``jsonschema`` errors and nothing about ACP.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

LONGEST = 60


def explain(error: ValidationError, where: str) -> str:
    """The error as a sentence; ``where`` names the value that was validated."""
    while error.validator in ("anyOf", "oneOf") and error.context:
        meant = _meant(error)
        if meant is None:
            return _no_branch(error, where)
        error = meant
    return f"{_path(error, where)} {_complaint(error)}"


def _meant(error: ValidationError) -> ValidationError | None:
    """The first error of the branch that was meant, if one can be told."""
    branches: dict[Any, list[ValidationError]] = defaultdict(list)
    for item in error.context or ():
        branches[item.schema_path[0]].append(item)
    alive = [branch for branch in branches.values() if not any(map(_other_kind, branch))]
    return min(alive, key=len)[0] if alive else None


def _other_kind(error: ValidationError) -> bool:
    """Whether this error says that the value was never meant to be this branch."""
    depth = len(error.relative_path)
    return (error.validator in ("const", "enum") and depth <= 1) or (
        error.validator == "type" and depth == 0
    )


def _no_branch(error: ValidationError, where: str) -> str:
    """No branch fits: list the values, or else the types, that would have."""
    context = error.context or []
    options = [item for item in context if item.validator in ("const", "enum")]
    found = options[0] if options else error
    allowed = [name for item in options for name in _allowed(item)]
    kinds = [str(item.validator_value) for item in context]
    wanted = f"one of {', '.join(dict.fromkeys(allowed))}" if options else " or ".join(kinds)
    return f"{_path(found, where)} is {show(found.instance)}; expected {wanted}"


def _allowed(error: ValidationError) -> list[str]:
    rule = error.validator_value
    return [show(rule)] if error.validator == "const" else [show(value) for value in rule]


def _complaint(error: ValidationError) -> str:
    given, rule = error.instance, error.validator_value
    match error.validator:
        case "required":
            return f"lacks {', '.join(name for name in rule if name not in given)}"
        case "type":
            wanted = " or ".join(rule) if isinstance(rule, list) else rule
            return f"is {show(given)}; expected {wanted}"
        case "const":
            return f"is {show(given)}; expected {show(rule)}"
        case "enum":
            return f"is {show(given)}; expected one of {', '.join(map(show, rule))}"
        case "format":
            return f"is {show(given)}, which is no {rule}"
        case "minimum" | "maximum" | "minItems" | "minLength" | "pattern":
            return f"is {show(given)}; {error.validator} is {rule}"
        case _:
            return f"is {show(given)}, which breaks the rule {error.validator}"


def _path(error: ValidationError, where: str) -> str:
    """``params.update.content[0]``; walks up through the unions that led here."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path]
    return where + "".join(steps)


def show(value: Any) -> str:
    """A value as JSON, cut where it gets long."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
