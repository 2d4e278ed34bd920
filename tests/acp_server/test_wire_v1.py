"""Parameters of requests: lenient where the protocol is, and every refusal names the field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.framing import INVALID_PARAMS, encode
from acp_server.rpc import RpcError
from acp_server.wire import v1

STDIO = {"name": "files", "command": "/bin/files", "args": ["-v"], "env": []}
TEXT_BLOCK = {"type": "text", "text": "hello"}
VALID: dict[type[v1.Wire], dict[str, Any]] = {
    v1.NewSession: {"cwd": "/p", "mcpServers": [STDIO], "additionalDirectories": ["/q"]},
    v1.OldSession: {"sessionId": "s", "cwd": "/p", "mcpServers": []},
    v1.OfSession: {"sessionId": "s"},
    v1.ListSessions: {"cwd": "/p", "cursor": "c"},
    v1.Authenticate: {"methodId": "m"},
    v1.Prompt: {"sessionId": "s", "prompt": [TEXT_BLOCK]},
}
MODELS = pytest.mark.parametrize("model", VALID, ids=lambda model: model.__name__)


def refused(model: type[v1.Wire], params: dict[str, Any]) -> RpcError:
    with pytest.raises(RpcError) as caught:
        v1.validate(model, params)
    assert caught.value.code == INVALID_PARAMS
    return caught.value


@MODELS
@pytest.mark.parametrize("meta", [5, None, [], {"a": {"b": 1}}, {"sessionId": "other"}, "x"])
def test_unknown_fields_and_any_meta_are_ignored(model: type[v1.Wire], meta: Any) -> None:
    params = VALID[model]
    noisy = {**params, "_meta": meta, "session_id": "other", "x": {"y": 1}}
    assert v1.validate(model, noisy) == v1.validate(model, params)


@MODELS
def test_names_are_those_of_the_protocol_only(model: type[v1.Wire]) -> None:
    for name in VALID[model]:
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        if snake != name and model.model_fields[snake].is_required():
            params = {**VALID[model], snake: VALID[model][name]}
            del params[name]
            refused(model, params)


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", [{}, {"mcpServers": None, "additionalDirectories": None}])
def test_missing_or_null_lists_are_empty(lists: dict[str, Any]) -> None:
    session = v1.validate(v1.NewSession, {"cwd": "/p", **lists})
    assert (session.mcp_servers, session.additional_directories) == ([], [])


@pytest.mark.parametrize("cwd", [None, "", "proj", "./p", "~", 5, ["/p"], "/p\0q"])
def test_a_directory_must_be_an_absolute_path(cwd: Any) -> None:
    assert "cwd" in refused(v1.NewSession, {"cwd": cwd}).message


def test_a_directory_may_not_be_missing() -> None:
    assert "cwd" in refused(v1.NewSession, {}).message


@pytest.mark.parametrize("path", ["", "rel", None, 5, "/p\0"])
def test_no_directory_is_dropped_silently(path: Any) -> None:
    error = refused(v1.NewSession, {"cwd": "/p", "additionalDirectories": ["/q", path]})
    assert "additionalDirectories.1" in error.message


def test_a_server_started_as_a_process_needs_no_type() -> None:
    plain, typed, nullish = v1.validate(
        v1.NewSession,
        {
            "cwd": "/p",
            "mcpServers": [
                STDIO,
                {**STDIO, "name": "typed", "type": "stdio"},
                {"name": "n", "command": "/c", "type": None, "args": None, "env": None},
            ],
        },
    ).mcp_servers
    assert plain == v1.StdioServer(name="files", command="/bin/files", args=["-v"])
    assert typed == v1.StdioServer(name="typed", command="/bin/files", args=["-v"])
    assert nullish == v1.StdioServer(name="n", command="/c")


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_behind_a_url_is_understood(kind: str) -> None:
    headers = [{"name": "Authorization", "value": "Bearer x"}]
    server = {"type": kind, "name": "n", "url": "http://127.0.0.1:1", "headers": headers}
    (parsed,) = v1.validate(v1.NewSession, {"cwd": "/p", "mcpServers": [server]}).mcp_servers
    assert isinstance(parsed, v1.RemoteServer)
    assert (parsed.type, parsed.headers[0].value) == (kind, "Bearer x")


@pytest.mark.parametrize(
    "server",
    [
        {"type": "x", "name": "n", "url": "http://127.0.0.1"},
        {"type": 5},
        {"name": "n"},
        {"command": "/c"},
        {"name": "n", "command": "/c", "args": "-v"},
        {"name": "n", "command": "/c", "args": [1]},
        {"name": "n", "command": "/c", "env": {"A": "b"}},
        {"name": "n", "command": "/c", "env": [{"name": "A"}]},
        {"type": "http", "name": "n"},
        {"type": "http", "name": "n", "url": "file:///etc/passwd", "headers": []},
        {},
        None,
        "files",
        5,
    ],
)
def test_a_malformed_server_fails_the_request(server: Any) -> None:
    error = refused(v1.NewSession, {"cwd": "/p", "mcpServers": [STDIO, server]})
    assert "mcpServers.1" in error.message


def test_a_name_is_given_to_one_server_only() -> None:
    remote = {"type": "http", "name": STDIO["name"], "url": "http://127.0.0.1:1"}
    error = refused(v1.NewSession, {"cwd": "/p", "mcpServers": [STDIO, remote]})
    assert "the same name" in error.message


@pytest.mark.parametrize("servers", [{}, "x", 5, True])
def test_servers_must_be_a_list(servers: Any) -> None:
    assert "mcpServers" in refused(v1.NewSession, {"cwd": "/p", "mcpServers": servers}).message


@pytest.mark.parametrize("id", [None, 5, ["s"], {}])
@pytest.mark.parametrize("model", [v1.OldSession, v1.OfSession, v1.Prompt])
def test_a_session_id_is_a_string(model: type[v1.Wire], id: Any) -> None:
    assert "sessionId" in refused(model, {**VALID[model], "sessionId": id}).message


@pytest.mark.parametrize("params", [{}, {"cwd": None, "cursor": None}])
def test_a_list_needs_no_parameters(params: dict[str, Any]) -> None:
    assert v1.validate(v1.ListSessions, params) == v1.ListSessions()


@pytest.mark.parametrize("params", [{"cwd": "rel"}, {"cursor": 5}])
def test_a_list_is_refused_by_the_name_of_its_field(params: dict[str, Any]) -> None:
    assert next(iter(params)) in refused(v1.ListSessions, params).message


# --- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"type": "text"}, "text"),
        ({"type": "text", "text": None}, "text"),
        ({"type": "text", "text": 5}, "text"),
        ({"type": "image", "data": "AA=="}, "mimeType"),
        ({"type": "image", "data": "AA==", "mimeType": ""}, "mimeType: must be a media type"),
        ({"type": "image", "data": "AA==", "mimeType": "png"}, "mimeType: must be a media type"),
        ({"type": "image", "data": "AA==", "mimeType": "image/"}, "mimeType"),
        ({"type": "image", "data": "", "mimeType": "image/png"}, "data: must not be empty"),
        ({"type": "image", "data": " \n", "mimeType": "image/png"}, "data: must not be empty"),
        ({"type": "image", "data": "A", "mimeType": "image/png"}, "data: must be base64"),
        ({"type": "image", "data": "AAAA=", "mimeType": "image/png"}, "data: must be base64"),
        ({"type": "image", "data": "%%%", "mimeType": "image/png"}, "data: must be base64"),
        ({"type": "image", "data": "-_AA", "mimeType": "image/png"}, "data: must be base64"),
        (
            {"type": "image", "data": "data:image/png;base64,AAAA", "mimeType": "image/png"},
            "without a data: prefix",
        ),
        ({"type": "audio", "data": "?", "mimeType": "audio/wav"}, "data: must be base64"),
        ({"type": "resource", "resource": {"uri": "a", "blob": "%"}}, "blob: must be base64"),
        ({"type": "resource", "resource": {"uri": "a", "text": None, "blob": "%"}}, "blob"),
        ({"type": "resource", "resource": {"uri": "a", "text": 5}}, "text"),
        ({"type": "resource_link", "uri": "file:///a"}, "name"),
        ({"type": "resource_link", "uri": "file:///a", "name": "a", "size": "5"}, "size"),
        ({"type": "resource", "resource": {"uri": "file:///a"}}, "resource"),
        ({"type": "resource", "resource": {"text": "a"}}, "uri"),
        ({"type": "resource"}, "resource"),
        ({"type": "video", "data": ""}, "type"),
        ({"text": "a"}, "type"),
        ({}, "type"),
        (None, "prompt.1"),
        ("hello", "prompt.1"),
    ],
)
def test_a_malformed_block_is_named(block: Any, field: str) -> None:
    error = refused(v1.Prompt, {"sessionId": "s", "prompt": [TEXT_BLOCK, block]})
    assert "prompt.1" in error.message
    assert field in error.message


@pytest.mark.parametrize("prompt", [None, "hello", {}, 5])
def test_a_prompt_is_a_list_of_blocks(prompt: Any) -> None:
    assert "prompt" in refused(v1.Prompt, {"sessionId": "s", "prompt": prompt}).message


def test_a_prompt_under_another_name_is_missed() -> None:
    error = refused(v1.Prompt, {"sessionId": "s", "content": [TEXT_BLOCK]})
    assert "prompt" in error.message


# --- whatever a client sends ----------------------------------------------------------------------

NAMES = [
    "cwd",
    "mcpServers",
    "additionalDirectories",
    "sessionId",
    "prompt",
    "type",
    "text",
    "name",
    "command",
    "resource",
    "_meta",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "/p", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=8,
)


@given(st.sampled_from(list(VALID)), st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_parameters_are_taken_or_refused_in_a_sentence(
    model: type[v1.Wire], params: dict[str, Any]
) -> None:
    refusal = None
    try:
        v1.validate(model, {**VALID[model], **params})
    except RpcError as error:
        refusal = error
    if refusal is not None:
        assert refusal.code == INVALID_PARAMS
        assert "\n" not in refusal.message


def test_a_refusal_does_not_repeat_what_was_sent() -> None:
    secret = "secret" * 10_000
    for params in (
        {"sessionId": "s", "prompt": [{"type": secret}]},
        {"sessionId": "s", "prompt": [{"type": "text", "text": {"a": secret}}]},
        {"sessionId": {"a": secret}, "prompt": []},
    ):
        error = refused(v1.Prompt, params)
        assert "secretsecret" not in error.message
        assert len(encode(error.body())) < 1_000
