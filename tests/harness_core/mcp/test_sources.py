"""Servers from the user's settings and from a project's ``.mcp.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness_core.config import Config, ConfigError, Settings
from harness_core.plugins.mcp import RemoteSpec, StdioSpec
from harness_core.plugins.mcp.sources import expand, from_project, from_settings, merged
from tests.harness_core.mcp.bench import bench, tiny

ENV = {"WORD": "wörd", "EMPTY": ""}


def project(path: Path, servers: Any) -> tuple[list[Any], list[str]]:
    (path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return from_project(path, ENV)


def settings(**servers: Any) -> Settings:
    return Config(user={"mcp_servers": servers}).for_cwd(None)


def test_servers_of_the_settings() -> None:
    found = from_settings(
        settings(
            files={"command": "files", "args": ["-v"], "env": {"A": "b"}},
            web={"url": "https://h/mcp", "headers": {"X": "y"}},
            old={"url": "http://h/sse", "type": "sse"},
            new={"url": "http://h/mcp", "type": "streamable-http"},
        )
    )
    assert found == [
        StdioSpec("files", "files", ("-v",), {"A": "b"}),
        RemoteSpec("web", "http", "https://h/mcp", {"X": "y"}),
        RemoteSpec("old", "sse", "http://h/sse"),
        RemoteSpec("new", "http", "http://h/mcp"),
    ]


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({}, "either a command or a url"),
        ({"command": "c", "url": "http://h"}, "either a command or a url"),
        ({"command": "c", "type": "http"}, "type stdio goes with a command"),
        ({"url": "h/mcp"}, "url"),
        ({"command": "c", "arg": []}, "arg"),
    ],
)
def test_a_mistake_in_the_settings_is_told(server: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"mcp_servers.*x.*{problem}"):
        settings(x=server)


def test_a_project_names_servers_as_everywhere(tmp_path: Path) -> None:
    found, problems = project(
        tmp_path,
        {
            "files": {"command": "${HOME:-/home}/files", "args": ["${WORD}"], "timeout": 5},
            "web": {"type": "http", "url": "https://${WORD}/", "headers": {"A": "Bearer ${WORD}"}},
        },
    )
    assert problems == []
    assert found == [
        StdioSpec("files", "/home/files", ("wörd",)),
        RemoteSpec("web", "http", "https://wörd/", {"A": "Bearer wörd"}),
    ]


def test_what_is_wrong_with_one_server_spares_the_others(tmp_path: Path) -> None:
    servers = {"a": {"command": "${NOT_SET}"}, "b": 5, "c": {"args": []}, "good": {"command": "c"}}
    found, problems = project(tmp_path, servers)
    assert [spec.name for spec in found] == ["good"]
    assert "NOT_SET is not set" in problems[0]
    assert "server b: must be an object" in problems[1]
    assert "either a command or a url" in problems[2]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mcpServers": []}', "\xff", "[" * 100_000])
def test_a_file_that_is_none_is_one_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text, encoding="latin-1")
    found, problems = from_project(tmp_path, ENV)
    assert found == []
    (problem,) = problems
    assert str(tmp_path / ".mcp.json") in problem


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert from_project(tmp_path, ENV) == ([], [])
    (tmp_path / ".mcp.json").mkdir()
    assert from_project(tmp_path, ENV) == ([], [])


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${WORD}", "wörd"),
        ("a${WORD}b${WORD}", "awördbwörd"),
        ("${NONE:-}", ""),
        ("${NONE:-a:b}", "a:b"),
        ("${EMPTY:-full}", "full"),
        ("${EMPTY}", ""),
        ("$WORD ${ WORD}", "$WORD ${ WORD}"),
    ],
)
def test_variables(text: str, expanded: str) -> None:
    assert expand({"k": [text, 5]}, ENV) == {"k": [expanded, 5]}


def test_the_later_source_wins() -> None:
    one, other = StdioSpec("n", "one"), StdioSpec("n", "other")
    assert merged([one, StdioSpec("m", "m")], [other]) == [other, StdioSpec("m", "m")]


# --- in a session ---------------------------------------------------------------------------------


def entry(name: str) -> dict[str, Any]:
    spec = tiny(name)
    return {"command": spec.command, "args": list(spec.args)}


@pytest.mark.anyio
async def test_a_project_starts_servers_only_if_the_user_allows_it(tmp_path: Path) -> None:
    file = {"mcpServers": {"project": entry("project"), "broken": {}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(file))
    given = {"mcp_servers": {"mine": entry("mine")}}
    async with bench(cwd=tmp_path, settings=given) as b:
        await b.world.turn()
        assert {"mcp__mine__echo"} == {name for name in b.tools if name.endswith("__echo")}
        assert b.notices == []
    async with bench(cwd=tmp_path, settings={**given, "project_mcp": True}) as b:
        await b.world.turn()
        assert {"mcp__mine__echo", "mcp__project__echo"} <= b.tools
        (notice,) = b.notices
        assert "server broken" in notice.title


@pytest.mark.anyio
async def test_a_clients_server_takes_the_place_of_a_configured_one_of_that_name() -> None:
    given = {"mcp_servers": {"tiny": entry("tiny"), "other": entry("other")}}
    async with bench(tiny("tiny", "from the client"), settings=given) as b:
        assert (await b.ask("mcp__tiny__where"))["args"] == ["from the client"]
        assert "mcp__other__echo" in b.tools
