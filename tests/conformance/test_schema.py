"""The official schemas: what they accept and refuse, in sentences people can use."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acp.schema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conformance.dialogue import Dialogue, Message, Role
from conformance.frames import Direction
from conformance.schema import GENERATIONS, LATEST, Generation, unknown_keys, validate_frame
from conformance.schema.library import load
from conformance.schema.validate import UNREAD, shape
from tests.conformance.talk import full_talk

A2C, C2A = Direction.A2C, Direction.C2A
ROOT = Path(__file__).parents[2]


def update(**fields: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "update": fields}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def answer(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


CHUNK = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
CALL = {"toolCallId": "1", "title": "x"}
INITIALIZED = answer({"protocolVersion": 1, "authMethods": [{"id": "a", "name": "A"}]})


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("message", "direction", "method"),
    [
        (CHUNK, A2C, None),
        (update(sessionUpdate="tool_call_update", toolCallId="1", status=None), A2C, None),
        (INITIALIZED, A2C, "initialize"),
        (answer({"stopReason": "end_turn"}), A2C, "session/prompt"),
        (answer({}), A2C, "session/load"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}}, A2C, None),
        ({"jsonrpc": "2.0", "id": "a", "error": {"code": 7, "message": "x"}}, A2C, "session/new"),
        (request("initialize", protocolVersion=1), C2A, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "session/list"}, C2A, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": None}, C2A, None),
        (request("fs/read_text_file", sessionId="s", path="/a"), A2C, None),
        (answer({"content": "x"}), C2A, "fs/read_text_file"),
        (request("_vendor/x", anything=[1]), A2C, None),
        ({"jsonrpc": "2.0", "method": "$/whatever", "params": 5}, A2C, None),
        (answer({"anything": 1}), A2C, "_vendor/x"),
    ],
)
def test_valid_messages_are_valid_in_every_generation(
    generation: Generation, message: dict[str, Any], direction: Direction, method: str | None
) -> None:
    assert validate_frame(message, direction, method, generation=generation) == []
    assert unknown_keys(message, direction, method) == []


@pytest.mark.parametrize(
    ("message", "method", "problem"),
    [
        (
            update(sessionUpdate="tool_call", **CALL, status="done"),
            None,
            'params.update.status is "done"; expected one of "pending", "in_progress", '
            '"completed", "failed"',
        ),
        (
            update(sessionUpdate="agent_message_chunk", content={"type": "text"}),
            None,
            "params.update.content lacks text",
        ),
        (update(), None, "params.update lacks sessionUpdate"),
        (
            update(sessionUpdate="tool_call", **CALL, content=[{"type": "text", "text": "x"}]),
            None,
            'params.update.content[0].type is "text"; expected one of "content", "diff", '
            '"terminal"',
        ),
        (answer(None), "session/load", "result is null; expected object"),
        (
            answer({"stopReason": "error"}),
            "session/prompt",
            'result.stopReason is "error"; expected one of "end_turn", "max_tokens", '
            '"max_turn_requests", "refusal", "cancelled"',
        ),
        (answer({"protocolVersion": "1"}), "initialize", 'result.protocolVersion is "1"; expected'),
        (answer({"protocolVersion": 70_000}), "initialize", "maximum is 65535"),
        ({**CHUNK, "id": 3}, None, "session/update is a notification and carries no id"),
        (
            {"jsonrpc": "2.0", "method": "fs/read_text_file"},
            None,
            "fs/read_text_file is a request and needs an id",
        ),
        (request("fs/read_text_file", sessionId="s"), None, "params lacks path"),
        (request("session/new"), None, "session/new is not a method that goes this way"),
        (request("session/dance"), None, "session/dance is not a method that goes this way"),
        ({"jsonrpc": "2.0", "id": True, "result": {}}, None, "id is true; expected null or"),
        ({"jsonrpc": "2.0", "id": 1}, None, "an answer has either a result or an error"),
        (
            {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
            None,
            "an answer has either a result or an error",
        ),
        ({"jsonrpc": "2.0", "result": {}}, None, "an answer needs the id of its request"),
        ({"id": 1, "result": {}}, None, 'jsonrpc is not "2.0"'),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1.5}}, None, "error.code is 1.5; expected"),
        ({"jsonrpc": "2.0", "method": 5}, None, "method is not a string"),
        (
            update(sessionUpdate="usage_update", used=-1, size=2),
            None,
            "params.update.used is -1, which is no uint64",
        ),
    ],
)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_is_wrong_is_said_in_a_sentence(
    generation: Generation, message: dict[str, Any], method: str | None, problem: str
) -> None:
    problems = validate_frame(message, A2C, method, generation=generation)
    assert any(said.startswith(problem) or problem in said for said in problems), problems


@pytest.mark.parametrize(
    ("message", "method", "keys"),
    [
        (update(sessionUpdate="usage_update", used=1, size=2, x=1), None, ["params.update.x"]),
        (
            update(
                sessionUpdate="agent_message_chunk", content={"type": "text", "text": "", "y": 1}
            ),
            None,
            ["params.update.content.y"],
        ),
        ({**CHUNK, "trace": 1}, None, ["trace"]),
        (
            answer(
                {"protocolVersion": 1, "authMethods": [{"id": "a", "name": "b", "z": 1}], "q": 2}
            ),
            "initialize",
            ["result.authMethods[0].z", "result.q"],
        ),
        (update(sessionUpdate="tool_call", **CALL, rawInput={"free": {"form": 1}}), None, []),
        (update(sessionUpdate="tool_call", **CALL, _meta={"mine": 1}), None, []),
        (answer({"stopReason": "end_turn", "usage": {"totalTokens": 1}}), "session/prompt", []),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "error": {"code": 1, "message": "", "data": {"a": 1}, "b": 2},
            },
            None,
            ["error.b"],
        ),
    ],
)
def test_keys_nobody_specified_are_named(
    message: dict[str, Any], method: str | None, keys: list[str]
) -> None:
    assert sorted(unknown_keys(message, A2C, method)) == sorted(keys)


def test_the_generations_differ_where_the_protocol_moved() -> None:
    removed = update(sessionUpdate="plan_removed", planId="p")
    assert validate_frame(removed, A2C, generation=Generation.NOVEMBER)
    assert not validate_frame(removed, A2C, generation=Generation.NOVEMBER_UNSTABLE)
    connect = request("mcp/connect", serverId="x")
    assert not validate_frame(connect, A2C, generation=Generation.AUGUST_UNSTABLE)
    assert validate_frame(connect, A2C, generation=Generation.NOVEMBER_UNSTABLE)


def test_the_second_version_has_schemas_of_its_own() -> None:
    running = update(sessionUpdate="state_update", state="running")
    assert validate_frame(running, A2C)
    assert validate_frame(running, A2C, version=2) == []
    with pytest.raises(LookupError, match="protocol version 3"):
        validate_frame(running, A2C, version=3)


# The files


@pytest.mark.parametrize("path", sorted((ROOT / "conformance" / "schema").rglob("*.json")), ids=str)
def test_the_schema_files_are_schemas_without_prose(path: Path) -> None:
    schema = json.loads(path.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    assert not [key for key in _keywords(schema) if key in ("description", "title")]


def _keywords(schema: Any) -> Iterator[str]:
    """Every keyword of a schema, without the names of properties and definitions."""
    if isinstance(schema, list):
        for item in schema:
            yield from _keywords(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            named = key in ("properties", "$defs")
            yield from _keywords(list(value.values()) if named else value)


def test_the_generator_drops_words_and_keeps_names() -> None:
    spec = importlib.util.spec_from_file_location("make", ROOT / "scripts" / "make_schema.py")
    assert spec
    assert spec.loader
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    schema = {
        "description": "words",
        "$defs": {
            "T": {
                "title": "T",
                "properties": {"title": {"type": "string", "description": "more words"}},
                "default": {"description": "a value"},
            }
        },
    }
    kept = {"properties": {"title": {"type": "string"}}, "default": {"description": "a value"}}
    assert make.strip(schema) == {"$defs": {"T": kept}}
    assert json.loads(make.render(make.strip(schema))) == {"$defs": {"T": kept}}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("version", [1, 2])
def test_strings_a_shape_leaves_out_are_really_free(generation: Generation, version: int) -> None:
    """The cache of judged shapes is sound only if no schema restricts these strings."""
    library = load(generation, version)
    restrictions = {"pattern", "format", "enum", "minLength", "maxLength", "const"}
    for name, definition in library.defs.items():
        for key, schema in definition.get("properties", {}).items():
            if key in UNREAD:
                target = json.dumps(_resolved(schema, library.defs))
                assert not [word for word in restrictions if f'"{word}"' in target], (name, key)


def _resolved(schema: Any, defs: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _resolved(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
        return {key: _resolved(value, defs) for key, value in schema.items()}
    return [_resolved(item, defs) for item in schema] if isinstance(schema, list) else schema


# Against plain jsonschema and against the official SDK

scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["text", "image", "content", "diff", "terminal"]) | inner,
                "text": inner,
                "content": inner,
                "path": inner,
                "newText": inner,
                "terminalId": inner,
                "data": inner,
                "mimeType": inner,
                "status": st.sampled_from(["pending", "failed"]) | inner,
                "title": inner,
                "toolCallId": inner,
                "locations": inner,
                "_meta": inner,
            },
        )
    ),
    max_leaves=8,
)
kinds = st.sampled_from(["tool_call", "tool_call_update", "agent_message_chunk", "plan", "x"])


@given(
    st.dictionaries(st.sampled_from(["content", "toolCallId", "title", "status"]), scraps), kinds
)
def test_the_verdict_is_that_of_plain_jsonschema(fields: dict[str, Any], kind: str) -> None:
    message = update(**{**fields, "sessionUpdate": kind})
    defs = load(LATEST).defs
    plain = Draft202012Validator({"$ref": "#/$defs/SessionNotification", "$defs": defs})
    assert (validate_frame(message, A2C) == []) == plain.is_valid(message["params"])
    assert (validate_frame(message, A2C) == []) == plain.is_valid(message["params"]), "when cached"
    unknown_keys(message, A2C)


def test_shapes_tell_apart_what_the_schemas_tell_apart() -> None:
    texts = [update(sessionUpdate="x", content={"type": "text", "text": t}) for t in ("a", "b")]
    assert shape(texts[0]) == shape(texts[1])
    numbers = [update(sessionUpdate="x", content={"type": "text", "text": t}) for t in ("a", 5)]
    assert shape(numbers[0]) != shape(numbers[1])


MODELS: dict[str, type[pydantic.BaseModel]] = {
    "initialize": acp.schema.InitializeResponse,
    "session/new": acp.schema.NewSessionResponse,
    "session/load": acp.schema.LoadSessionResponse,
    "session/prompt": acp.schema.PromptResponse,
    "session/list": acp.schema.ListSessionsResponse,
    "session/request_permission": acp.schema.RequestPermissionRequest,
    "fs/read_text_file": acp.schema.ReadTextFileRequest,
    "fs/write_text_file": acp.schema.WriteTextFileRequest,
    "terminal/create": acp.schema.CreateTerminalRequest,
    "terminal/release": acp.schema.ReleaseTerminalRequest,
    "session/update": acp.schema.SessionNotification,
}
NEWER = {"notice", "compaction_update"}
"""Updates the SDK's older schema does not have."""


def test_the_official_sdk_reads_what_we_call_valid() -> None:
    read = [message for message in Dialogue(full_talk()).sent(A2C) if _known_to_sdk(message)]
    assert len(read) > 20
    for message in read:
        method = message.method if message.role is Role.ANSWER else None
        assert validate_frame(message.value, A2C, method) == []
        MODELS[str(message.method)].model_validate(_payload(message))


def _known_to_sdk(message: Message) -> bool:
    return message.method in MODELS and message.kind not in NEWER and _payload(message) is not None


def _payload(message: Message) -> Any:
    return message.value.get("result") if message.role is Role.ANSWER else message.params


@pytest.mark.parametrize(
    ("message", "method"),
    [
        (update(sessionUpdate="tool_call", toolCallId="1"), "session/update"),
        (update(sessionUpdate="nonsense"), "session/update"),
        (answer({"stopReason": "error"}), "session/prompt"),
        (answer({}), "initialize"),
        (request("terminal/create", sessionId="s"), "terminal/create"),
    ],
)
def test_the_official_sdk_refuses_what_we_refuse(message: dict[str, Any], method: str) -> None:
    asked = method if "result" in message else None
    assert validate_frame(message, A2C, asked)
    with pytest.raises(pydantic.ValidationError):
        MODELS[method].model_validate(message.get("result", message.get("params")))
