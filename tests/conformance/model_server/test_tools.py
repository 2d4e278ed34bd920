"""A call by meaning finds the offered tool that fits, with its own argument names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from conformance.model_server import OfferedTool, ToolCall
from conformance.model_server.tools import resolve


def tool(name: str, required: tuple[str, ...] = (), /, **properties: Any) -> OfferedTool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return OfferedTool(name, "", schema)


TEXT = {"type": "string"}
BASH = tool("Bash", ("command",), command=TEXT, description=TEXT)
READ = tool("Read", ("file_path",), file_path=TEXT, offset={"type": "integer"})
OPENCODE_EDIT = tool("edit", filePath=TEXT, oldString=TEXT, newString=TEXT)


def called(kind: str, arguments: Mapping[str, Any], *offered: OfferedTool) -> tuple[str, Any]:
    call = resolve(ToolCall(kind, arguments), offered)
    assert call is not None
    return call.name, json.loads(call.arguments)


@pytest.mark.parametrize("name", ["bash", "Shell", "run_command", "execute-command", "my.terminal"])
def test_shells_are_found_by_name(name: str) -> None:
    offered = tool(name, cmd=TEXT)
    assert called("shell", {"command": "ls"}, READ, offered) == (name, {"cmd": "ls"})


def test_an_exact_name_wins_over_a_name_that_contains_the_word() -> None:
    background = tool("bash_output_reader", command=TEXT)
    assert called("shell", {"command": "ls"}, background, BASH)[0] == "Bash"


def test_a_tool_without_the_needed_argument_does_not_fit() -> None:
    assert resolve(ToolCall("shell", {"command": "ls"}), [tool("bash", id=TEXT)]) is None


def test_argv_shells_get_a_list() -> None:
    offered = tool("shell", command={"type": "array", "items": TEXT})
    assert called("shell", {"command": "ls"}, offered)[1] == {"command": ["bash", "-c", "ls"]}


def test_required_arguments_nobody_spoke_of_get_a_default() -> None:
    offered = tool("bash", ("command", "safe", "why"), command=TEXT, safe={"type": "boolean"}, why={"enum": ["a"]})  # fmt: skip  # noqa: E501
    arguments = called("shell", {"command": "ls"}, offered)[1]
    assert arguments == {"command": "ls", "safe": False, "why": "a"}


def test_names_in_camel_case_fit() -> None:
    given = {"path": "/f", "old": "a", "new": "b"}
    expected = {"filePath": "/f", "oldString": "a", "newString": "b"}
    assert called("edit", given, OPENCODE_EDIT) == ("edit", expected)


def test_optional_arguments_are_passed_where_they_exist() -> None:
    assert called("read", {"path": "/f", "line": 3}, READ)[1] == {"file_path": "/f", "offset": 3}


def test_plan_items_get_the_fields_of_the_tool() -> None:
    fields = {"step": TEXT, "status": TEXT, "id": TEXT}
    items = {"type": "object", "properties": fields, "required": ["step", "status", "id"]}
    offered = tool("update_plan", plan={"type": "array", "items": items})
    entries = [{"content": "one", "status": "pending", "priority": "high"}]
    arguments = called("plan", {"entries": entries}, offered)[1]
    assert arguments == {"plan": [{"step": "one", "status": "pending", "id": "one"}]}


def test_any_other_word_finds_a_tool_by_a_part_of_its_name() -> None:
    offered = tool("mcp__server__lookup-word", word=TEXT)
    assert called("lookup_word", {"word": "x"}, BASH, offered) == (offered.name, {"word": "x"})


def test_an_unknown_meaning_fits_nothing() -> None:
    assert resolve(ToolCall("dance", {}), [BASH]) is None
