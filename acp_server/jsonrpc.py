"""jsonrpcserver, loaded when first needed and without what it does not need.

It makes a JSON Schema validator when it is imported, which this server replaces by a check of its
own; loading jsonschema for it would take more time and memory than all the rest. The validator is
made when somebody uses it.
"""

from __future__ import annotations

import warnings
from functools import cache
from types import ModuleType
from typing import Any

from harness_core.stand_in import standing_in


@cache
def jsonrpcserver() -> Any:
    """The library. It opens its schema in a way that some Pythons warn of, and stderr is the
    user's."""
    validators = ModuleType("jsonschema.validators")
    vars(validators)["validator_for"] = lambda _: Later
    with warnings.catch_warnings(), standing_in(validators.__name__, validators):
        warnings.simplefilter("ignore", DeprecationWarning)
        import jsonrpcserver
    return jsonrpcserver


class Later:
    """A validator that is made when it is first used."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    @staticmethod
    def check_schema(schema: Any) -> None:
        """The library's own schema is right."""

    def validate(self, instance: Any) -> None:
        """Raises ``jsonschema.ValidationError``."""
        from jsonschema.validators import validator_for

        validator_for(self._schema)(self._schema).validate(instance)
