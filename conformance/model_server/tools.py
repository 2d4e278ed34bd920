"""Semantic tool calls: from a meaning to the offered tool that fits, with its own argument names.

Agents name their tools and arguments differently. A script says ``shell {"command": "ls"}``;
this module finds ``bash``/``run_command``/… in the request's tool list by name and schema. Any
other word finds a tool whose name contains it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model_server.reply import Call, ToolCall
from conformance.model_server.request import OfferedTool

PATH = ("path", "file_path", "filepath", "filename", "file", "absolute_path", "target_file", "uri")


@dataclass(frozen=True, slots=True)
class Kind:
    """One meaning: words that name such tools (best first) and argument names it needs."""

    words: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]]


KINDS: Mapping[str, Kind] = {
    "read": Kind(
        ("read_text_file", "read_file", "readfile", "read", "view", "cat", "open"),
        {"path": PATH},
        {"line": ("line", "offset", "start_line", "start"), "limit": ("limit", "lines")},
    ),
    "write": Kind(
        ("write_text_file", "write_file", "writefile", "write", "create_file", "create", "save"),
        {"path": PATH, "content": ("content", "contents", "text", "file_text", "data")},
        {},
    ),
    "edit": Kind(
        ("edit_file", "edit", "str_replace", "strreplace", "replace", "update_file", "patch"),
        {
            "path": PATH,
            "old": ("old_string", "old_str", "old_text", "oldtext", "old", "search", "find"),
            "new": ("new_string", "new_str", "new_text", "newtext", "new", "replace"),
        },
        {},
    ),
    "shell": Kind(
        ("bash", "shell", "run_command", "run_shell_command", "execute_command", "terminal",
         "execute", "exec", "command", "run"),
        {"command": ("command", "cmd", "script", "commandline", "code")},
        {"timeout": ("timeout", "timeout_seconds", "timeout_ms")},
    ),
    "plan": Kind(
        ("update_plan", "write_plan", "plan", "todo_write", "write_todos", "todos", "todo"),
        {"entries": ("entries", "todos", "plan", "items", "steps", "tasks", "todo_list")},
        {},
    ),
    "ask": Kind(
        ("ask_user_question", "ask_user", "ask", "request_user_input", "elicit", "question"),
        {"question": ("question", "message", "prompt", "text", "questions")},
        {},
    ),
}  # fmt: skip

ITEM_FIELDS: Mapping[str, tuple[str, ...]] = {
    "content": ("content", "question", "step", "title", "text", "task", "description"),
    "status": ("status", "state"),
    "priority": ("priority",),
}


def resolve(call: ToolCall, offered: Sequence[OfferedTool]) -> Call | None:
    """The concrete call for ``call`` among the offered tools, or None if none fits."""
    kind = KINDS.get(call.kind)
    if kind is None:
        named = (tool for tool in offered if _plain(call.kind) in _plain(tool.name))
        return next((Call.of(tool.name, call.arguments, id=call.id) for tool in named), None)
    for tool in _by_name(kind, offered):
        arguments = _arguments(kind, call.arguments, tool)
        if arguments is not None:
            return Call.of(tool.name, arguments, id=call.id, fragments=call.fragments)
    return None


def _by_name(kind: Kind, offered: Sequence[OfferedTool]) -> Iterator[OfferedTool]:
    """Tools whose name says this meaning: exact names first, then names that contain a word."""
    seen: set[str] = set()
    tests: tuple[Callable[[str, str], bool], ...] = (str.__eq__, str.__contains__)
    for fits in tests:
        for word in kind.words:
            for tool in offered:
                if tool.name not in seen and fits(_plain(tool.name), _plain(word)):
                    seen.add(tool.name)
                    yield tool


def _arguments(kind: Kind, given: Mapping[str, Any], tool: OfferedTool) -> dict[str, Any] | None:
    """``given`` under the tool's own argument names; None if the tool lacks a needed one."""
    result: dict[str, Any] = {}
    for key, aliases in kind.needs.items():
        name = _property(aliases, tool.properties)
        if name is None:
            return None
        if key in given:
            result[name] = _shaped(given[key], tool.properties[name])
    for key, aliases in kind.optional.items():
        name = _property(aliases, tool.properties)
        if name is not None and key in given:
            result[name] = given[key]
    return {**_required_defaults(tool, result), **result}


def _property(aliases: Sequence[str], properties: Mapping[str, Any]) -> str | None:
    plain = {_plain(name): name for name in properties}
    return next((plain[_plain(alias)] for alias in aliases if _plain(alias) in plain), None)


def _shaped(value: Any, schema: Any) -> Any:
    """The value in the form the schema asks for: argv lists, and renamed fields of plan items."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, str) and schema.get("type") == "array":
        items = schema.get("items")
        if isinstance(items, dict) and items.get("type") == "object":
            return _shaped([{"content": value}], schema)
        return ["bash", "-c", value]
    if isinstance(value, list):
        items = schema.get("items")
        fields = items.get("properties", {}) if isinstance(items, dict) else {}
        required = items.get("required", []) if isinstance(items, dict) else []
        return [_renamed(entry, fields, required) for entry in value]
    return value


def _renamed(entry: Any, fields: Mapping[str, Any], required: Sequence[str]) -> Any:
    if not isinstance(entry, dict) or not fields:
        return entry
    renamed = {
        name: entry[key]
        for key, aliases in ITEM_FIELDS.items()
        if key in entry and (name := _property(aliases, fields)) is not None
    }
    missing = (name for name in required if name not in renamed and name in fields)
    return {**{name: _default(fields[name], entry) for name in missing}, **renamed}


def _required_defaults(tool: OfferedTool, present: Mapping[str, Any]) -> dict[str, Any]:
    required = tool.schema.get("required") or []
    missing = [name for name in required if name not in present]
    return {name: _default(tool.properties.get(name, {}), {}) for name in missing}


def _default(schema: Any, entry: Mapping[str, Any]) -> Any:
    """A plausible value for a required argument the script said nothing about."""
    if not isinstance(schema, dict):
        return ""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    blanks: dict[str, Any] = {
        "boolean": False,
        "integer": 1,
        "number": 1,
        "array": [],
        "object": {},
    }
    return blanks.get(str(schema.get("type")), str(entry.get("content", "scripted")))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(".", "")
