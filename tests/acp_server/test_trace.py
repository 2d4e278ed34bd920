"""Trace context: what comes with a prompt goes on to whoever the turn asks, and no further."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.trace import trace_of
from conformance.answers import Files, Terminals, allow, constant
from conformance.model_server import ModelServer
from tests.acp_server.editor import Editor, local, prompt_params
from tests.acp_server.test_mcp import tiny
from tests.harness_core.mcp.bench import heard

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = {"traceparent": PARENT, "tracestate": "a=1, b@c=2", "baggage": "user=ada%20l;p=1,x=y"}
EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}},
}
SCRIPT = """\
!call read {"path": "a.txt"}
!call write {"path": "b.txt", "content": "b"}
!call shell {"command": "true"}
!call ask {"question": "Which?"}
!call mcp__tiny__echo {}
!say done"""


# --- what is trace context ------------------------------------------------------------------------


def test_what_is_well_formed_is_taken_and_nothing_else() -> None:
    assert trace_of({**TRACE, "requestId": "r", "sessionId": "other"}) == TRACE
    assert trace_of({"traceparent": PARENT}) == {"traceparent": PARENT}
    assert trace_of({"baggage": "a=b"}) == {"baggage": "a=b"}


@pytest.mark.parametrize(
    "parent",
    [
        None,
        5,
        "",
        "00",
        PARENT.upper(),
        f"{PARENT}-00",
        f"{PARENT}\n",
        f" {PARENT}",
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_a_malformed_parent_counts_as_absent_and_so_does_its_state(parent: Any) -> None:
    assert trace_of({"traceparent": parent, "tracestate": "a=1"}) == {}


@pytest.mark.parametrize(
    "value", [None, 5, "", ",", "a", "a=1,b", "a=\r\nx: y", "a=é", "a=" + "x" * 9_000]
)
def test_a_malformed_list_counts_as_absent(value: Any) -> None:
    assert trace_of({"traceparent": PARENT, "tracestate": value, "baggage": value}) == {
        "traceparent": PARENT
    }


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.just(PARENT),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*TRACE, "x"]), inner),
    max_leaves=5,
)


@given(JSON | st.fixed_dictionaries(dict.fromkeys(TRACE, st.text('a=,; \n\t"é-0'))))
def test_whatever_metadata_is_what_is_taken_can_stand_in_a_header(meta: Any) -> None:
    for name, value in trace_of(meta).items():
        assert name in TRACE
        assert value.isascii()
        assert value.replace("\t", " ").isprintable()


# --- where it goes --------------------------------------------------------------------------------


async def traced(editor: Editor, session: str, text: str, meta: Any = TRACE) -> str:
    params = {**prompt_params(session, text), "_meta": meta}
    return str((await editor.request("session/prompt", params))["stopReason"])


async def test_all_that_a_turn_asks_carries_the_trace_of_its_prompt(
    tmp_path: Path, flags: Flags
) -> None:
    """Requirement V1-EXT-04: permission, files, terminals, questions, and tools of MCP servers."""
    (tmp_path / "a.txt").write_text("a")
    log = tmp_path / "log"
    accepted = {"action": "accept", "content": {"answer": "this"}}
    async with Terminals() as terminals:
        answers = {
            **Files().answers(),
            **terminals.answers(),
            "session/request_permission": allow,
            "elicitation/create": constant(accepted),
        }
        async with local({**flags, "mcp_wait": 60.0}, answers=answers) as editor:
            await editor.initialize(EVERYTHING)
            session = await editor.new(tmp_path, mcpServers=[tiny(log=log)])
            assert await traced(editor, session, SCRIPT) == "end_turn"
            asked = {request.method for request in editor.requests}
            assert asked >= {
                "elicitation/create",
                "fs/read_text_file",
                "fs/write_text_file",
                "session/request_permission",
                "terminal/create",
                "terminal/release",
            }
            assert [r.params["_meta"] for r in editor.requests] == [TRACE] * len(editor.requests)
            since = len(editor.requests)
            assert await editor.turn(session, SCRIPT) == "end_turn"
            assert not [r for r in editor.requests[since:] if "_meta" in r.params]
    called = [entry for entry in heard(log) if entry.get("method") == "tools/call"]
    metas = [entry["params"].get("_meta", {}) for entry in called]
    assert [{k: v for k, v in meta.items() if k in TRACE} for meta in metas] == [TRACE, {}]


async def test_a_queued_prompt_has_a_trace_of_its_own(tmp_path: Path, flags: Flags) -> None:
    answers = {"session/request_permission": allow}
    parents = [PARENT, None, PARENT.replace("4bf9", "1111")]
    write = '!call write {{"path": "{}.txt", "content": "x"}}\n!say ok'
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path)
        sent = [
            await editor.start(
                "session/prompt",
                {**prompt_params(session, write.format(n)), "_meta": {"traceparent": parent}},
            )
            for n, parent in enumerate(parents)
        ]
        for prompt in sent:
            await prompt.result()
        metas = [request.params.get("_meta", {}) for request in editor.requests]
        assert [meta.get("traceparent") for meta in metas] == parents


async def test_the_provider_is_told_of_the_trace_but_not_who_it_is_about(
    tmp_path: Path, flags: Flags
) -> None:
    async with ModelServer() as server:
        acme = {"kind": "openai", "base_url": server.openai_base_url}
        settings = {**flags, "model": "acme:m", "providers": {"acme": acme}}
        async with local(settings) as editor:
            session = await editor.open(tmp_path)
            assert await traced(editor, session, "@say hello") == "end_turn"
            assert await editor.turn(session, "@say hello") == "end_turn"
        first, second = [
            {name: value for name, value in request.headers.items() if name in TRACE}
            for request in server.requests
        ]
    assert first == {"traceparent": PARENT, "tracestate": TRACE["tracestate"]}
    assert second == {}
