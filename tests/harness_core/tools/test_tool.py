"""Parameters: one dataclass yields the schema for the model, the validation, and the docs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from harness_core.tools.tool import Arguments, Schema, Tool, ToolError, parameter


@dataclass(frozen=True, slots=True)
class Sample(Arguments):
    path: str = parameter("Where.")
    count: int = parameter("How many.", 1, ge=0)
    title: str | None = parameter("Which.", None)


def test_the_schema_is_plain_and_carries_the_docs() -> None:
    assert Schema(Sample).json_schema() == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "count": {"type": "integer", "default": 1, "minimum": 0, "description": "How many."},
            "title": {"type": "string", "description": "Which."},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_null_means_left_out_where_there_is_a_default() -> None:
    schema = Schema(Sample)
    assert schema.validate('{"path": "a", "count": null, "title": null}') == Sample("a")
    with pytest.raises(ToolError, match="path"):
        schema.validate('{"path": null}')


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("", "path: Field required"),
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"path": 1}', "path: Input should be a valid string"),
        ('{"path": "a", "depth": 1}', "depth"),
        ('{"path": "\\ud800"}', "not valid JSON"),
    ],
)
def test_wrong_arguments_are_explained(raw: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as caught:
        Schema(Sample).validate(raw)
    assert caught.value.code == "invalid-arguments"


def test_a_pydantic_model_serves_as_well() -> None:
    class Model(BaseModel):
        model_config = ConfigDict(extra="forbid")
        size: int = 3

    assert Schema(Model).validate('{"size": 4}') == Model(size=4)


def test_every_built_in_tool_explains_its_parameters(tools: dict[str, Tool[Any]]) -> None:
    assert list(tools) == ["read", "write", "edit", "list", "glob", "grep", "shell", "plan"]
    for tool in tools.values():
        spec = tool.spec()
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert all(field["description"] for field in spec.parameters["properties"].values())


def test_loading_the_tools_does_not_load_pydantic() -> None:
    code = "import sys, harness_core.tools.builtin; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
