"""``initialize``: what a client offers is read leniently, what we offer is valid and honest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.capabilities import ClientCapabilities, initialize_result, requested_version
from acp_server.framing import INVALID_PARAMS
from acp_server.rpc import RpcError
from tests.acp_server.judge import faults

NAMES = [
    "fs",
    "readTextFile",
    "writeTextFile",
    "terminal",
    "auth",
    "session",
    "configOptions",
    "boolean",
    "elicitation",
    "form",
    "url",
    "notices",
    "compaction",
]
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.just(False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=10,
)


def test_everything_offered_is_seen() -> None:
    offered = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "auth": {"terminal": True},
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "elicitation": {"form": {}, "url": {}},
    }
    assert ClientCapabilities.parse(offered) == ClientCapabilities(*[True] * 9)


@given(JSON)
def test_garbage_offers_nothing_that_needs_a_yes(value: Any) -> None:
    seen = ClientCapabilities.parse(value)
    needs_a_yes = (seen.read_files, seen.write_files, seen.terminal, seen.terminal_auth)
    assert needs_a_yes == (False,) * 4


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"fs": None}, {"elicitation": {}}])
def test_nothing_offered_is_nothing(value: Any) -> None:
    assert ClientCapabilities.parse(value) == ClientCapabilities()


@pytest.mark.parametrize("version", [0, 1, 2, 999, 65535])
def test_a_version_is_a_number_of_sixteen_bits(version: int) -> None:
    assert requested_version({"protocolVersion": version}) == version


@pytest.mark.parametrize("version", [None, "1", "2024-11-05", -1, 65536, 1.0, 1.5, True, [1], {}])
def test_anything_else_is_no_version(version: Any) -> None:
    for params in ({"protocolVersion": version}, {}):
        with pytest.raises(RpcError) as caught:
            requested_version(params)
        assert caught.value.code == INVALID_PARAMS
        assert "protocolVersion" in caught.value.message


@pytest.mark.parametrize("client", [ClientCapabilities(), ClientCapabilities(*[True] * 9)])
def test_the_answer_is_valid_and_names_who_answers(client: ClientCapabilities) -> None:
    result = initialize_result(client)
    assert faults({"jsonrpc": "2.0", "id": 1, "result": result}, "initialize") == []
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"]
    assert result["agentInfo"]["version"]
    assert result["authMethods"]


def test_extensions_are_announced_under_a_key_of_our_own() -> None:
    """And steering where the clients that know it look for it."""
    result = initialize_result(ClientCapabilities())
    ours = {"steering": {"supported": True}, "fork": {"message": True}}
    assert result["agentCapabilities"]["_meta"] == {"acp-harness": ours}
    assert result["_meta"] == {"steering": {"supported": True}}


@pytest.mark.parametrize("offered", [False, True])
def test_a_terminal_is_used_to_sign_in_only_if_the_client_has_one(offered: bool) -> None:
    methods = initialize_result(ClientCapabilities(terminal_auth=offered))["authMethods"]
    assert ("terminal" in [method.get("type") for method in methods]) is offered
