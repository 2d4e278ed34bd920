"""The JSON-RPC peer over an in-memory sink: one answer each, ids as they came, nothing leaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.framing import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    parse,
)
from acp_server.outbox import Outbox
from acp_server.rpc import ConnectionLost, Inbound, Params, Peer, PeerError, RpcError
from tests.acp_server.sink import MemorySink

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"
HEARD = ("echo", "refuse", "crash", "cancelled", "wait")
TICKS = 20
"""More turns of the event loop than any handler here needs to its answer."""


class Methods:
    """Handlers that do what their name says, and a record of the order they were started in."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.go = asyncio.Event()
        self.after: list[str] = []

    async def echo(self, _: Inbound, params: Params) -> Params:
        self.started.append(params.get("n"))
        return {"params": dict(params)}

    async def wait(self, inbound: Inbound, params: Params) -> Params:
        self.started.append(params.get("n"))
        inbound.when_unwanted(inbound.abort)
        await self.go.wait()
        return {"waited": True}

    async def finish(self, _: Inbound, params: Params) -> Params:
        await self.go.wait()
        return {"waited": True}

    async def graceful(self, inbound: Inbound, _: Params) -> Params:
        gone = asyncio.Event()
        inbound.when_unwanted(gone.set)
        await gone.wait()
        return {"stopReason": "cancelled"}

    async def refuse(self, _: Inbound, __: Params) -> Params:
        raise RpcError(INVALID_PARAMS, "no", {"why": "because"})

    async def crash(self, _: Inbound, __: Params) -> Params:
        raise RuntimeError(SECRET)

    async def cancelled(self, _: Inbound, __: Params) -> Params:
        raise asyncio.CancelledError

    async def announce(self, inbound: Inbound, _: Params) -> Params:
        inbound.after.append(lambda: self.after.append("after"))
        return {}

    def table(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in (
                "echo",
                "wait",
                "finish",
                "graceful",
                "refuse",
                "crash",
                "cancelled",
                "announce",
            )
        }


class Wire:
    """A peer and the client's end of its connection."""

    def __init__(self, refused: Mapping[str, RpcError] | None = None) -> None:
        self.sink = MemorySink()
        self.methods = Methods()
        self.outbox = Outbox(self.sink)
        self.refused = refused or {}
        immediate = {"now": lambda params: {"now": params.get("n")}}
        table = self.methods.table()
        self.peer = Peer(self.outbox, table, immediate, self._admit, HEARD)

    def _admit(self, method: str) -> None:
        if method in self.refused:
            raise self.refused[method]

    def send(self, **message: Any) -> None:
        """The client writes a line."""
        line = parse(json.dumps({"jsonrpc": "2.0", **message}).encode())
        assert line is not None
        self.peer.receive(line)

    async def settled(self) -> list[dict[str, Any]]:
        """Everything the client has got when nothing moves any more; no handler here takes long."""
        for _ in range(TICKS):
            await asyncio.sleep(0)
        return self.sink.messages


# --- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [0, 1, -5, 2**53 + 1, "a", "1", "", None])
@pytest.mark.parametrize("method", ["echo", "now", "refuse", "unknown"])
async def test_the_id_comes_back_as_it_was(id: Any, method: str) -> None:
    wire = Wire()
    wire.send(id=id, method=method, params={})
    (message,) = await wire.settled()
    assert message["id"] == id
    assert type(message["id"]) is type(id)


async def test_params_reach_the_handler_whatever_they_are_called() -> None:
    wire = Wire()
    params = {"inbound": 1, "self": 2, "params": {"a": None}, "": 3, "ü": 4}
    wire.send(id=1, method="echo", params=params)
    assert (await wire.settled())[0]["result"] == {"params": params}


async def test_an_unknown_method_is_named_but_not_at_length() -> None:
    wire = Wire()
    wire.send(id=1, method="foo/bar")
    wire.send(id=2, method="x" * 100_000)
    first, second = await wire.settled()
    assert first["error"]["code"] == second["error"]["code"] == METHOD_NOT_FOUND
    assert "foo/bar" in first["error"]["message"]
    assert len(second["error"]["message"]) < 300


async def test_an_error_of_ours_has_its_code_and_its_data() -> None:
    wire = Wire()
    wire.send(id=1, method="refuse")
    (message,) = await wire.settled()
    assert message["error"] == {"code": INVALID_PARAMS, "message": "no", "data": {"why": "because"}}


async def test_an_unexpected_failure_tells_no_text_of_its_own() -> None:
    """And never -32000, which is jsonrpcserver's word for it and means something else in ACP."""
    wire = Wire()
    wire.send(id=1, method="crash")
    (message,) = await wire.settled()
    assert message["error"]["code"] == INTERNAL_ERROR
    assert SECRET not in json.dumps(message)
    assert "Traceback" not in json.dumps(message)


async def test_a_handler_that_ends_as_cancelled_is_answered_so() -> None:
    wire = Wire()
    wire.send(id=1, method="cancelled")
    (message,) = await wire.settled()
    assert message["error"]["code"] == CANCELLED


async def test_an_error_that_the_client_gave_us_is_not_given_back_as_ours() -> None:
    wire = Wire()

    async def ask(_: Inbound, __: Params) -> Params:
        return dict(await wire.peer.request("fs/read_text_file", {}))

    peer = Peer(wire.outbox, {"ask": ask}, {}, lambda _: None)
    wire.peer = peer
    wire.send(id=1, method="ask")
    (question,) = await wire.settled()
    wire.send(id=question["id"], error={"code": AUTH_REQUIRED, "message": "no"})
    assert (await wire.settled())[-1]["error"]["code"] == INTERNAL_ERROR


@pytest.mark.parametrize("line", [b"{", b"42", b"[]"])
async def test_a_line_that_is_no_message_is_answered_without_an_id(line: bytes) -> None:
    wire = Wire()
    message = parse(line)
    assert message is not None
    wire.peer.receive(message)
    (answer,) = await wire.settled()
    assert answer["id"] is None
    assert answer["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST)


async def test_a_line_that_could_not_be_read_is_answered_without_an_id() -> None:
    wire = Wire()
    wire.peer.refuse(RpcError(INVALID_REQUEST, "too long"))
    (answer,) = await wire.settled()
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)


async def test_a_refused_request_is_told_why_and_its_handler_never_starts() -> None:
    wire = Wire({"echo": RpcError(INVALID_REQUEST, "not yet")})
    wire.send(id=1, method="echo", params={"n": 1})
    wire.send(method="echo", params={"n": 2})
    (answer,) = await wire.settled()
    assert answer["error"] == {"code": INVALID_REQUEST, "message": "not yet"}
    assert wire.methods.started == []


# --- one request at a time under one id ----------------------------------------------------------


async def test_an_id_in_use_is_refused_and_the_first_request_is_not_disturbed() -> None:
    wire = Wire()
    wire.send(id=1, method="wait")
    wire.send(id=1, method="echo")
    wire.send(id=1, method="now")
    wire.send(id="1", method="echo")
    *refused, other = await wire.settled()
    assert [(m["id"], m["error"]["code"]) for m in refused] == [(1, INVALID_REQUEST)] * 2
    assert other["id"] == "1"
    wire.methods.go.set()
    assert (await wire.settled())[-1] == {"jsonrpc": "2.0", "id": 1, "result": {"waited": True}}
    wire.send(id=1, method="echo")
    assert "result" in (await wire.settled())[-1]


async def test_handlers_start_in_the_order_of_their_messages() -> None:
    wire = Wire()
    for n in range(20):
        id = {} if n % 3 == 0 else {"id": n}
        wire.send(**id, method="wait" if n % 2 else "echo", params={"n": n})
    await wire.settled()
    assert wire.methods.started == list(range(20))


async def test_an_immediate_method_is_answered_before_the_next_line_is_read() -> None:
    wire = Wire()
    wire.send(id=1, method="echo")
    wire.send(id=2, method="now")
    assert [m["id"] for m in await wire.settled()] == [2, 1]


async def test_what_follows_an_answer_follows_it() -> None:
    wire = Wire()

    async def new(inbound: Inbound, _: Params) -> Params:
        inbound.after.append(lambda: wire.peer.notify("session/update", {"n": 1}))
        return {"sessionId": "s"}

    wire.peer = Peer(wire.outbox, {"new": new}, {}, lambda _: None)
    wire.send(id=1, method="new")
    wire.send(id=2, method="new")
    shown = [m.get("id", m.get("method")) for m in await wire.settled()]
    assert shown == [1, "session/update", 2, "session/update"]


# --- notifications --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["echo", "refuse", "crash", "cancelled", "unknown", "$/unknown", "now"]
)
async def test_a_notification_is_never_answered(method: str) -> None:
    wire = Wire()
    wire.send(method=method)
    wire.send(method=method, params=[1])
    assert await wire.settled() == []


async def test_what_has_to_be_answered_is_not_done_for_a_notification() -> None:
    wire = Wire()
    wire.send(method="announce")
    wire.send(method="now")
    await wire.settled()
    assert wire.methods.after == []


# --- cancelling what the client asked for ---------------------------------------------------------


@pytest.mark.parametrize("ticks", range(6))
async def test_a_cancelled_request_is_answered_as_cancelled(ticks: int) -> None:
    wire = Wire()
    wire.send(id=1, method="wait")
    for _ in range(ticks):
        await asyncio.sleep(0)
    wire.send(method="$/cancel_request", params={"requestId": 1})
    (answer,) = await wire.settled()
    assert (answer["id"], answer["error"]["code"]) == (1, CANCELLED)


@pytest.mark.parametrize("ticks", range(6))
async def test_a_handler_may_answer_a_cancellation_in_its_own_way(ticks: int) -> None:
    """However early the cancellation comes."""
    wire = Wire()
    wire.send(id="p", method="graceful")
    for _ in range(ticks):
        await asyncio.sleep(0)
    wire.send(method="$/cancel_request", params={"requestId": "p"})
    (answer,) = await wire.settled()
    assert answer["result"] == {"stopReason": "cancelled"}


@pytest.mark.parametrize("ticks", range(6))
async def test_a_handler_finishes_what_it_has_begun_unless_it_says_otherwise(ticks: int) -> None:
    wire = Wire()
    wire.send(id=1, method="finish")
    for _ in range(ticks):
        await asyncio.sleep(0)
    wire.send(method="$/cancel_request", params={"requestId": 1})
    wire.send(method="$/cancel_request", params={"requestId": 1})
    assert await wire.settled() == []
    wire.methods.go.set()
    assert (await wire.settled())[0]["result"] == {"waited": True}


@pytest.mark.parametrize("id", ["1", 2, 1.0, True, None, [1], {}, "x" * 10])
async def test_only_the_very_id_of_a_request_cancels_it(id: Any) -> None:
    wire = Wire()
    wire.send(id=1, method="wait")
    wire.send(id=None, method="wait")
    await wire.settled()
    wire.send(method="$/cancel_request", params={"requestId": id})
    wire.send(method="$/cancel_request", params={})
    wire.send(method="$/cancel_request")
    assert await wire.settled() == []
    wire.methods.go.set()
    assert len(await wire.settled()) == 2


async def test_a_cancellation_means_what_came_before_it() -> None:
    wire = Wire()
    wire.send(method="$/cancel_request", params={"requestId": 1})
    wire.send(id=1, method="echo")
    assert "result" in (await wire.settled())[0]


async def test_cancelling_what_is_answered_already_has_no_effect() -> None:
    wire = Wire()
    wire.send(id=1, method="echo")
    await wire.settled()
    wire.send(method="$/cancel_request", params={"requestId": 1})
    assert len(await wire.settled()) == 1


# --- what we ask the client -----------------------------------------------------------------------


async def asked(wire: Wire, *answers: dict[str, Any]) -> Any:
    """Ask, let the client answer this, and return what came of it."""
    task = asyncio.ensure_future(wire.peer.request("session/request_permission", {"a": 1}))
    question = (await wire.settled())[-1]
    assert question == {
        "jsonrpc": "2.0",
        "id": question["id"],
        "method": "session/request_permission",
        "params": {"a": 1},
    }
    for answer in answers:
        wire.send(id=question["id"], **answer)
    with anyio.fail_after(5):
        return await task


async def test_an_answer_reaches_whoever_asked() -> None:
    wire = Wire()
    assert await asked(wire, {"result": {"x": 1}}) == {"x": 1}
    assert await asked(wire, {"result": None}) is None


async def test_only_the_first_answer_counts() -> None:
    wire = Wire()
    assert await asked(wire, {"result": 1}, {"result": 2}, {"error": {}}) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": -32603, "message": "Permission denied"}, -32603),
        ({"code": "x", "message": 5}, INTERNAL_ERROR),
        ({"code": True}, INTERNAL_ERROR),
        ({}, INTERNAL_ERROR),
        ("no", INTERNAL_ERROR),
        (7, INTERNAL_ERROR),
        ([], INTERNAL_ERROR),
    ],
)
async def test_any_error_is_an_error(error: Any, code: int) -> None:
    with pytest.raises(PeerError) as caught:
        await asked(Wire(), {"error": error})
    assert caught.value.code == code


async def test_questions_have_ids_of_their_own_in_the_order_they_were_asked() -> None:
    wire = Wire()
    tasks = [asyncio.ensure_future(wire.peer.request("m", {"n": n})) for n in range(3)]
    questions = await wire.settled()
    assert [m["params"]["n"] for m in questions] == [0, 1, 2]
    ids = [m["id"] for m in questions]
    assert len(set(ids)) == 3
    for id in reversed(ids):
        wire.send(id=id, result=id)
    assert await asyncio.gather(*tasks) == ids


@pytest.mark.parametrize("id", [99, -1, "0", None, True, 0.0, 2**80, {}])
async def test_an_answer_to_nothing_is_ignored(id: Any) -> None:
    wire = Wire()
    task = asyncio.ensure_future(wire.peer.request("m", {}))
    await wire.settled()
    wire.send(id=id, result={})
    wire.send(id=id, error={"code": 1, "message": "x"})
    assert len(await wire.settled()) == 1
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_question_nobody_waits_for_is_taken_back_and_a_late_answer_ignored() -> None:
    wire = Wire()
    task = asyncio.ensure_future(wire.peer.request("m", {}))
    (question,) = await wire.settled()
    task.cancel()
    await wire.settled()
    assert task.cancelled()
    assert wire.sink.messages[1:] == [
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": question["id"]}}
    ]
    wire.send(id=question["id"], result={})
    assert len(await wire.settled()) == 2


async def test_an_answer_that_came_in_time_is_not_taken_back() -> None:
    wire = Wire()
    task = asyncio.ensure_future(wire.peer.request("m", {}))
    (question,) = await wire.settled()
    wire.send(id=question["id"], result={})
    task.cancel()
    assert len(await wire.settled()) == 1


async def test_facts_are_handed_over_before_a_question_leaves() -> None:
    wire = Wire()

    def drain() -> None:
        wire.sink.order.append("drain")

    task = asyncio.ensure_future(wire.peer.request("m", {}, drain))
    await wire.settled()
    assert wire.sink.order == ["drain", "write"]
    task.cancel()
    await wire.settled()


# --- the end --------------------------------------------------------------------------------------


async def test_when_the_client_has_gone_nobody_waits_for_it() -> None:
    wire = Wire()
    task = asyncio.ensure_future(wire.peer.request("m", {}))
    await wire.settled()
    wire.peer.lose()
    with pytest.raises(ConnectionLost):
        await task
    with pytest.raises(ConnectionLost):
        await wire.peer.request("m", {})


async def test_the_end_waits_for_answers() -> None:
    wire = Wire()
    wire.send(id=1, method="wait")
    await wire.settled()
    ending = asyncio.ensure_future(wire.peer.settle(60))
    await wire.settled()
    assert not ending.done()
    wire.methods.go.set()
    await ending
    assert "result" in (await wire.settled())[0]


async def test_the_end_does_not_wait_for_ever() -> None:
    wire = Wire()
    wire.send(id=1, method="wait")
    wire.send(method="wait")
    await wire.settled()
    with anyio.fail_after(10):
        await wire.peer.settle(0.01)
    (answer,) = await wire.settled()
    assert answer["error"]["code"] == CANCELLED


async def test_the_end_of_an_idle_connection_waits_for_nothing() -> None:
    with anyio.fail_after(5):
        await Wire().peer.settle(60)


# --- whatever comes -------------------------------------------------------------------------------

IDS = st.integers(0, 4) | st.sampled_from(["0", "1", "a"]) | st.none()
NAMES = st.sampled_from([*Methods().table(), "now", "unknown", "$/unknown"])
INCOMING = st.lists(
    st.fixed_dictionaries({"id": IDS, "method": NAMES})
    | st.fixed_dictionaries({"method": NAMES})
    | st.fixed_dictionaries({"id": IDS, "result": st.none()})
    | st.builds(lambda id: {"method": "$/cancel_request", "params": {"requestId": id}}, IDS)
    | st.sampled_from(["tick", "go"]),
)


@given(INCOMING)
async def test_every_request_has_exactly_one_answer(steps: list[dict[str, Any] | str]) -> None:
    wire = Wire()
    asked = []
    for step in steps:
        match step:
            case "tick":
                await asyncio.sleep(0)
            case "go":
                wire.methods.go.set()
            case dict():
                asked += [step["id"]] if step.keys() >= {"id", "method"} else []
                wire.send(**step)
    await wire.settled()
    wire.methods.go.set()
    await wire.peer.settle(0.001)
    answered = [message["id"] for message in await wire.settled()]
    assert sorted(map(repr, answered)) == sorted(map(repr, asked))
