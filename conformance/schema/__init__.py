"""The official ACP JSON schemas and the question whether a frame obeys them.

``validate_frame`` and ``unknown_keys`` are the whole face of this room. It knows
single messages only: nothing about sessions, order or what was answered when.
Importing it is cheap; ``jsonschema`` and the schema files load at the first
question.
"""

from conformance.schema.library import GENERATIONS, LATEST, Generation
from conformance.schema.validate import unknown_keys, validate_frame

__all__ = ["GENERATIONS", "LATEST", "Generation", "unknown_keys", "validate_frame"]
