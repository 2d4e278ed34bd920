"""Does one frame obey the schema? Requests, notifications, answers and errors.

Pure: a message and what it answers go in, sentences come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.frames import Direction
from conformance.schema.explain import explain
from conformance.schema.keys import surplus
from conformance.schema.library import LATEST, Generation, Kind, Library, load

UNREAD = {"sessionId", "messageId", "toolCallId", "terminalId", "text"}
"""Keys whose strings the schemas leave entirely free."""
ENVELOPE = {
    "Request": {"jsonrpc", "id", "method", "params"},
    "Notification": {"jsonrpc", "method", "params"},
    "Response": {"jsonrpc", "id", "result", "error"},
}


def validate_frame(
    message: dict[str, Any],
    direction: Direction,
    request_method: str | None = None,
    *,
    generation: Generation = LATEST,
    version: int = 1,
) -> list[str]:
    """What is wrong with ``message``, as short sentences; empty if it is valid.

    ``direction`` is the way the message went. ``request_method`` is the method
    of the request it answers; without it only the envelope of a response can be
    judged. ``version`` is the negotiated protocol version. Extension methods
    (``_name``) and unknown ``$/`` notifications are free in form.

    Implements V1-RPC-01, V1-RPC-03 and the schema rules behind every method.
    """
    library = load(generation, version)
    key = ("valid", direction, request_method, shape(message))
    if library.is_sound(key):
        return []
    problems = list(_problems(message, direction, request_method, library))
    if not problems:
        library.note_sound(key)
    return problems


def unknown_keys(
    message: dict[str, Any],
    direction: Direction,
    request_method: str | None = None,
    *,
    generation: Generation = Generation.NOVEMBER_UNSTABLE,
    version: int = 1,
) -> list[str]:
    """Dotted paths of keys that no specified type has, outside ``_meta`` (V1-EXT-01).

    The schemas tolerate extra properties, so this is a question of its own. The
    unstable schema is the default because its fields are specified ones too.
    """
    library = load(generation, version)
    key = ("keys", direction, request_method, shape(message))
    if library.is_sound(key):
        return []
    found = _surplus(message, direction, request_method, library)
    if not found:
        library.note_sound(key)
    return found


def _surplus(
    message: dict[str, Any], direction: Direction, request_method: str | None, library: Library
) -> list[str]:
    extra = [key for key in message if key not in ENVELOPE[kind_of(message)]]
    part, name = _payload(message, direction, request_method, library)
    if part is None or name is None:
        return extra
    return extra + [f"{part}.{path}" for path in surplus(message.get(part), name, library)]


def shape(value: Any) -> str:
    """What decides whether a message is valid: all of it but strings that no rule reads.

    A turn is thousands of messages of a few shapes; each shape is judged once.
    """
    return json.dumps(_blanked(value), sort_keys=True)


def _blanked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "" if key in UNREAD and isinstance(inner, str) else _blanked(inner)
            for key, inner in value.items()
        }
    return [_blanked(item) for item in value] if isinstance(value, list) else value


def kind_of(message: dict[str, Any]) -> Kind:
    """What a JSON-RPC object is meant to be."""
    if "method" not in message:
        return "Response"
    return "Request" if "id" in message else "Notification"


def _problems(
    message: dict[str, Any], direction: Direction, request_method: str | None, library: Library
) -> Iterator[str]:
    yield from _envelope(message, library)
    if "method" in message:
        yield from _method(message, direction, library)
    else:
        yield from _outcome(message)
    part, name = _payload(message, direction, request_method, library)
    if part is not None and name is not None:
        yield from _explained(_value(message, part), name, part, library)


def _envelope(message: dict[str, Any], library: Library) -> Iterator[str]:
    if message.get("jsonrpc") != "2.0":
        yield 'jsonrpc is not "2.0"'
    if "id" in message:
        yield from _explained(message["id"], "RequestId", "id", library)


def _outcome(message: dict[str, Any]) -> Iterator[str]:
    if "id" not in message:
        yield "an answer needs the id of its request"
    if ("result" in message) == ("error" in message):
        yield "an answer has either a result or an error"


def _method(message: dict[str, Any], direction: Direction, library: Library) -> Iterator[str]:
    method, kind = message["method"], kind_of(message)
    if not isinstance(method, str):
        yield "method is not a string"
        return
    other: Kind = "Notification" if kind == "Request" else "Request"
    if free(method) or library.definition(method, kind, direction):
        return
    if library.definition(method, other, direction):
        carries = "carries no id" if other == "Notification" else "needs an id"
        yield f"{method} is a {other.lower()} and {carries}"
    else:
        yield f"{method} is not a method that goes this way"


def free(method: str) -> bool:
    """Whether the specification leaves the form of this method to its users."""
    return method.startswith("_") or (method.startswith("$/") and method != "$/cancel_request")


def _payload(
    message: dict[str, Any], direction: Direction, request_method: str | None, library: Library
) -> tuple[str | None, str | None]:
    """Which member of the message carries a specified type, and the type's name."""
    if isinstance(method := message.get("method"), str):
        return "params", library.definition(method, kind_of(message), direction)
    if "error" in message:
        return "error", "Error"
    if "result" in message and request_method is not None:
        return "result", library.definition(request_method, "Response", other_way(direction))
    return None, None


def other_way(direction: Direction) -> Direction:
    """The way an answer goes to a message that went this way."""
    return Direction.A2C if direction is Direction.C2A else Direction.C2A


def _value(message: dict[str, Any], part: str) -> Any:
    """The payload; absent or null ``params`` count as an empty object."""
    value = message.get(part)
    return {} if part == "params" and value is None else value


def _explained(value: Any, name: str, where: str, library: Library) -> Iterator[str]:
    for error in library.validator(name).iter_errors(value):
        yield explain(error, where)
