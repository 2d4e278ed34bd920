"""Forms as the client is shown them, and what comes back held against them (V1-ELIC-07, -08).

A form from anywhere is made anew of what the protocol knows; whatever asks for a secret is refused
(V1-ELIC-06), and links are made plain text (V1-ELIC-14). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from math import isfinite
from typing import Any

from acp_server.limits import cost, cut
from harness_core.content import Json
from harness_core.person import Answer, Unanswered, Unasked

LARGEST = 32 * 1024
"""Bytes of a form; with its message it fits in a line that every client reads."""

MESSAGE, LABEL = 8_000, 1_000
"""Bytes of the message, and of what is written beside a field."""

INT64 = 2**63


# --- secrets and links ----------------------------------------------------------------------------

_SECRET = (
    r"(?:pass(?:word|words|wd|phrase|code)|pwd|secrets?|credentials?|mnemonic|t?otp|cvv|cvc"
    r"|(?:api|access|private|secret|signing|ssh|encryption) ?keys?"
    r"|(?:access|api|auth\w*|bearer|bot|deploy|personal|refresh|security|session) ?tokens?"
    r"|(?:one time|verification|security|recovery|2fa|mfa) codes?|(?:seed|recovery) phrase"
    r"|pin (?:code|number)|card number|credit card)"
)
_NAMED = re.compile(rf"\b{_SECRET}\b|\btoken\W*$|^pin$")
_WANTED = re.compile(
    r"\b(?:enter|re ?enter|provide|paste|type|give|send|share|supply|input|insert|submit|tell me"
    rf"|need) (?:\w+ ){{0,4}}?(?:{_SECRET}|token)\b"
    rf"|\bwhat(?:'s| is| are) (?:your|the) (?:\w+ ){{0,2}}?(?:{_SECRET}|token) ?(?:for\b|\W*$)"
)


def _plain(text: str) -> str:
    """``userPassword`` and ``user_password`` as words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_.\-]+", " ", apart).strip().lower()


def defanged(text: str) -> str:
    """``text`` without anything that a client would make a link of; a person can still read it."""
    text = re.sub(r"://([^\s/?#]*)", lambda at: "[:]//" + at[1].replace(".", "[.]"), text)
    text = re.sub(r"\b(mailto):", r"\1[:]", text, flags=re.IGNORECASE)
    text = re.sub(r"\b(www)\.", r"\1[.]", text, flags=re.IGNORECASE)
    return text.replace("](", "] (")


# --- a form ---------------------------------------------------------------------------------------


def message_of(text: str) -> str:
    """What stands above a form."""
    return cut(defanged(text), MESSAGE)


def form_of(message: str, schema: Mapping[str, Json]) -> dict[str, Any]:
    """``schema`` as a form that may be shown below ``message``. Raises ``Unasked``."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise Unasked("a form is an object with properties")
    fields = {str(name): _field(str(name), field) for name, field in properties.items()}
    form: dict[str, Any] = {"type": "object", **_labels(schema), "properties": fields}
    required = schema.get("required")
    if isinstance(required, list):
        form["required"] = [name for name in fields if name in required]
    if cost(form) > LARGEST:
        raise Unasked("the form is too large")
    _require_no_secret(message, form, properties)
    return form


def _require_no_secret(message: str, form: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ``Unasked`` if something that a person writes would be a secret. What can only be
    chosen is none."""
    free = [name for name, field in form["properties"].items() if _is_free(field)]
    named = any(
        given[name].get("format") == "password" or _NAMED.search(_plain(text))
        for name in free
        for text in (name, *_texts(given[name]))
    )
    above = " ".join((message, *_texts(form)))
    if free and (named or _WANTED.search(_plain(above))):
        raise Unasked(
            "a form may not ask for passwords, keys or other secrets: they would pass through the "
            "conversation. Ask for them on a page (URL mode), or have them set in the environment"
        )


def _is_free(field: Mapping[str, Any]) -> bool:
    return field["type"] in ("integer", "number", "string") and _values(field) is None


def _texts(described: Mapping[str, Any]) -> Iterator[str]:
    for key in ("title", "description"):
        if isinstance(text := described.get(key), str):
            yield text


def _labels(described: Mapping[str, Any]) -> dict[str, str]:
    labels = {key: described.get(key) for key in ("title", "description")}
    return {k: cut(defanged(text), LABEL) for k, text in labels.items() if isinstance(text, str)}


def _field(name: str, given: Any) -> dict[str, Any]:
    """One field, of the kinds that the protocol knows."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in ("string", "number", "integer", "boolean", "array"):
        label = cut(defanged(name), LABEL)
        raise Unasked(f"{label!r} is no text, number, yes or no, or choice; a form has no others")
    field: dict[str, Any] = {"type": kind, **_labels(given)}
    if "title" not in field and defanged(name) != name:
        field["title"] = cut(defanged(name), LABEL)
    match kind:
        case "string":
            field |= _choices(given, "oneOf") or _written(given)
        case "array":
            items = given.get("items")
            chosen = _choices(items, "anyOf") if isinstance(items, Mapping) else {}
            if not chosen:
                raise Unasked("a list in a form has choices")
            items = {"type": "string", **chosen} if "enum" in chosen else chosen
            field |= {"items": items, **_limits(given, "minItems", "maxItems")}
        case "integer" | "number":
            field |= _bounds(given, kind)
    default = given.get("default")
    if _fits(default, field) and _shown(default) == default:
        field["default"] = default
    return field


def _shown(value: Any) -> Any:
    return defanged(value) if isinstance(value, str) else value


def _choices(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What can be chosen, under ``key`` if it reads otherwise than it is; empty if anything can be
    written."""
    values, names = given.get("enum"), given.get("enumNames")
    titled: Any = given.get("oneOf") or given.get("anyOf")
    if isinstance(values, list):
        names = names if isinstance(names, list) and len(names) == len(values) else values
        titled = [{"const": v, "title": n} for v, n in zip(values, names, strict=True)]
    if not isinstance(titled, list):
        return {}
    found: dict[str, str] = {}
    for one in titled:
        value = one.get("const") if isinstance(one, Mapping) else None
        if not isinstance(value, str):
            raise Unasked("the choices of a form are texts")
        title = one.get("title")
        label = cut(defanged(title if isinstance(title, str) else value), LABEL)
        found.setdefault(value, label)
    if not found:
        raise Unasked("there is nothing to choose from")
    if all(value == title for value, title in found.items()):
        return {"enum": list(found)}
    return {key: [{"const": value, "title": title} for value, title in found.items()]}


def _written(given: Mapping[str, Any]) -> dict[str, Any]:
    form = {"format": given["format"]} if given.get("format") in FORMATS else {}
    return {**form, **_limits(given, "minLength", "maxLength")}


def _limits(given: Mapping[str, Any], *keys: str) -> dict[str, int]:
    """Lengths and counts."""
    found: dict[str, Any] = {key: given.get(key) for key in keys}
    return {k: n for k, n in found.items() if _is_whole(n) and 0 <= n < 2**32}


def _bounds(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    found = {key: given.get(key) for key in ("minimum", "maximum")}
    return {key: bound for key, bound in found.items() if _fits(bound, {"type": kind})}


# --- an answer ------------------------------------------------------------------------------------


def answer_of(result: Any, form: Mapping[str, Any] | None = None) -> Answer:
    """What a client's answer means. Raises ``Unanswered``: what is none of the three actions is no
    answer, and content counts only if it was accepted (V1-ELIC-09, -17)."""
    match result:
        case {"action": "accept"}:
            return Answer("accept", content_of(result.get("content"), form) if form else {})
        case {"action": "decline" | "cancel" as action}:
            return Answer(action)
    raise Unanswered("the editor gave no answer that could be understood")


def content_of(content: Any, form: Mapping[str, Any]) -> dict[str, Json]:
    """What was filled in, held against the form again. Raises ``Unanswered`` (V1-ELIC-08).

    Null is the same as nothing, and what was not asked for is left out.
    """
    fields = form["properties"]
    given = content if isinstance(content, Mapping) else {}
    filled = {name: given[name] for name in fields if given.get(name) is not None}
    missing = set(form.get("required", ())) - filled.keys()
    if missing or not all(_fits(value, fields[name]) for name, value in filled.items()):
        raise Unanswered("the form was accepted, but what came back is no valid answer to it")
    return filled


def _fits(value: Any, field: Mapping[str, Any]) -> bool:
    match field["type"]:
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str) and _is_text(value, field)
        case "array":
            return isinstance(value, list) and _is_selection(value, field)
        case "integer":
            return _is_whole(value) and _is_between(value, field)
    number = _is_whole(value) or (isinstance(value, float) and isfinite(value))
    return number and _is_between(value, field)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -INT64 <= value < INT64


def _is_between(value: float, field: Mapping[str, Any]) -> bool:
    return bool(field.get("minimum", value) <= value <= field.get("maximum", value))


def _is_text(value: str, field: Mapping[str, Any]) -> bool:
    if (known := _values(field)) is not None:
        return value in known
    length = len(value)
    fitting = field.get("minLength", 0) <= length <= field.get("maxLength", length)
    return fitting and _is_formatted(value, field.get("format"))


def _is_selection(value: list[Any], field: Mapping[str, Any]) -> bool:
    count, known = len(value), _values(field["items"]) or set()
    fitting = field.get("minItems", 0) <= count <= field.get("maxItems", count)
    return fitting and all(isinstance(v, str) and v in known for v in value)


def _values(field: Mapping[str, Any]) -> set[str] | None:
    """What can be chosen; nothing if anything can be written."""
    if "enum" in field:
        return set(field["enum"])
    titled = field.get("oneOf") or field.get("anyOf")
    return {choice["const"] for choice in titled} if titled else None


FORMATS = ("email", "uri", "date", "date-time")


def _is_formatted(value: str, format: str | None) -> bool:
    try:
        match format:
            case "email":
                return re.fullmatch(r"[^\s@]+@[^\s@]+", value) is not None
            case "uri":
                return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+", value) is not None
            case "date":
                return date.fromisoformat(value).isoformat() == value
            case "date-time":
                return "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
    return True
