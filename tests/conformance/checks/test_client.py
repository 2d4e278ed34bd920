"""The scripted client: what it sends, what it answers, and how it notices that an agent fails."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import Files, Terminals, allow, failing, never, reject, select
from conformance.client import Answerer, Client, Died, Hung, RpcError
from conformance.frames import Direction
from conformance.process import alive, survivors

pytestmark = pytest.mark.anyio

PRELUDE = """
import json, os, sys, time
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
def lines():
    for line in sys.stdin:
        yield json.loads(line)
"""
ECHO = PRELUDE + "for m in lines():\n    send(id=m['id'], result=m)"
ASKING = """
send(id=7, method="ask/me", params={"a": 1})
for m in lines():
    if m.get("id") == 7: send(method="told", params=m)
    elif "id" in m: send(id=m["id"], result={})
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def agent(
    program: str, answers: Mapping[str, Answerer] | None = None, timeout: float = 10.0
) -> AsyncIterator[Client]:
    """A client of a small Python program."""
    async with Client.launch(
        [sys.executable, "-S", "-c", program],
        cwd=Path.cwd(),
        env={"PATH": os.environ["PATH"]},
        answers=answers,
        timeout=timeout,
    ) as client:
        yield client


async def told(client: Client) -> dict[str, Any]:
    """What the program says it was answered."""
    return (await client.seen(lambda m: m.method == "told", "report")).params


async def test_requests_get_their_results_and_both_directions_are_recorded() -> None:
    async with agent(ECHO) as client:
        result = await client.request("a/b", {"x": "ü\u2028"})
    assert result["params"] == {"x": "ü\u2028"}
    assert [frame.direction for frame in client.frames] == [Direction.C2A, Direction.A2C]
    assert json.loads(client.frames[0].raw)["method"] == "a/b"


async def test_params_can_be_left_out_and_ids_chosen() -> None:
    async with agent(ECHO) as client:
        assert "params" not in await client.request("a/b")
        sent = await client.start("a/b", None, id="mine")
        assert await sent.result() == {
            "jsonrpc": "2.0",
            "method": "a/b",
            "params": None,
            "id": "mine",
        }


async def test_an_error_answer_is_raised_with_its_code() -> None:
    program = PRELUDE + "for m in lines(): send(id=m['id'], error={'code': -5, 'message': 'no'})"
    async with agent(program) as client:
        with pytest.raises(RpcError, match="-5: no"):
            await client.request("a/b")


async def test_answers_of_another_type_of_id_are_strays() -> None:
    program = PRELUDE + "for m in lines(): send(id=str(m['id']), result=1); send(id=None, result=2)"
    async with agent(program) as client:
        sent = await client.start("a/b")
        await client.until(lambda: len(client.strays) == 2, "two answers")
    assert sent.response is None


@pytest.mark.parametrize("answered", [True, False])
async def test_unknown_methods_are_refused_and_known_ones_answered(answered: bool) -> None:
    answers: dict[str, Answerer] = {"ask/me": lambda request: request.params} if answered else {}
    async with agent(PRELUDE + ASKING, answers) as client:
        message = await told(client)
    if answered:
        assert message["result"] == {"a": 1}
    else:
        assert message["error"]["code"] == -32601


async def test_a_request_can_be_left_open_and_answered_later() -> None:
    async with agent(PRELUDE + ASKING, {"ask/me": never}) as client:
        await client.until(lambda: client.requests, "request")
        await client.barrier()
        client.answers["ask/me"] = failing(-1, "late")
        await client.answer(client.requests[0])
        assert (await told(client))["error"] == {"code": -1, "message": "late"}


async def test_a_silent_agent_has_hung() -> None:
    async with agent("import time; time.sleep(60)", timeout=0.2) as client:
        with pytest.raises(Hung, match=r"answer to a/b within 0\.2 s"):
            await client.request("a/b")


async def test_an_agent_that_does_not_read_has_hung() -> None:
    async with agent("import time; time.sleep(60)", timeout=0.2) as client:
        with pytest.raises(Hung, match="did not read"):
            await client.send_raw(b"x" * 10_000_000)


async def test_an_agent_that_ends_has_died_and_its_last_words_are_told() -> None:
    async with agent("import sys; sys.exit('ValueError: enough')") as client:
        with pytest.raises(Died, match="ValueError: enough"):
            await client.request("a/b")


async def test_a_closed_stdout_is_death_too() -> None:
    async with agent("import os, time; os.close(1); time.sleep(60)") as client:
        with pytest.raises(Died, match="closed its stdout"):
            await client.request("a/b")


async def test_output_without_its_line_feed_is_recorded_as_such() -> None:
    async with agent("print('{}'); print('half', end='')") as client:
        await client.until(lambda: len(client.incoming) == 2, "two lines")
    assert [(f.raw, f.terminated) for f in client.frames] == [(b"{}", True), (b"half", False)]
    assert client.incoming[1].message is None


async def test_input_without_its_line_feed_is_recorded_when_stdin_closes() -> None:
    async with agent(ECHO) as client:
        sent = client.expect("a/b", 1)
        await client.send_raw(b'{"id": 1}')
        client.close_stdin()
        await sent.result()
    assert [frame.terminated for frame in client.frames] == [False, True]


async def test_one_long_line_is_one_message() -> None:
    async with agent(ECHO) as client:
        assert (
            len((await client.request("a/b", {"x": "y" * 3_000_000}))["params"]["x"]) == 3_000_000
        )


async def test_a_paused_stdout_is_read_later() -> None:
    async with agent(ECHO) as client:
        await client.request("a/b")
        client.process.pause(1)
        sent = await client.start("a/b")
        client.process.resume(1)
        await sent.result()


async def test_finishing_tells_the_exit_code_and_whether_all_was_answered() -> None:
    async with agent(ECHO) as client:
        await client.request("a/b")
        assert await client.finish(10) == 0
        assert client.complete
    async with agent(PRELUDE + "for m in lines(): pass") as client:
        await client.start("a/b")
        assert await client.finish(10) == 0
        assert not client.complete
        assert client.left_in_peace


async def test_an_agent_that_stays_after_eof_is_told_and_killed() -> None:
    async with agent("import time; time.sleep(60)") as client:
        assert await client.finish(0.2) is None
        pid = client.process.pid
    assert not alive(pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes through /proc")
async def test_what_the_agent_started_is_killed_with_it() -> None:
    program = PRELUDE + (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "send(method='told', params={'pid': child.pid})\n"
        "time.sleep(60)"
    )
    async with agent(program) as client:
        pid = (await told(client))["pid"]
        assert pid in survivors(client.process.marker)
    async with asyncio.timeout(10):
        while alive(pid):  # noqa: ASYNC110 - a process elsewhere tells nobody that it ended
            await asyncio.sleep(0.01)


OPTIONS = [
    {"optionId": "1", "kind": "allow_always"},
    {"optionId": "2", "kind": "allow_once"},
    {"optionId": "3", "kind": "reject_once"},
]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (allow, {"outcome": "selected", "optionId": "2"}),
        (select("allow_always"), {"outcome": "selected", "optionId": "1"}),
        (reject, {"outcome": "selected", "optionId": "3"}),
        (select("reject_always"), {"outcome": "cancelled"}),
    ],
)
async def test_permissions_choose_among_what_is_offered(answer: Answerer, outcome: Any) -> None:
    program = PRELUDE + ASKING.replace('{"a": 1}', repr({"options": OPTIONS}))
    async with agent(program, {"ask/me": answer}) as client:
        assert (await told(client))["result"]["outcome"] == outcome


async def asked(answers: Mapping[str, Answerer], *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers a client with these answerers gives to the calls, in order."""
    program = PRELUDE + (
        f"calls = {calls!r}\n"
        "for n, (method, params) in enumerate(calls):\n"
        "    send(id=n, method=method, params=params)\n"
        "    send(method='told', params=next(lines()))\n"
    )
    async with agent(program, answers) as client:
        await client.until(
            lambda: sum(m.method == "told" for m in client.incoming) == len(calls), "reports"
        )
        return [
            m.params.get("result", m.params.get("error"))
            for m in client.incoming
            if m.method == "told"
        ]


async def test_files_are_buffers_over_the_disk(tmp_path: Path) -> None:
    disk, new = tmp_path / "disk.txt", tmp_path / "deep" / "new.txt"
    disk.write_text("one\ntwo\nthree\n")
    files = Files({"/unsaved": "buffer"})
    found = await asked(
        files.answers(),
        ("fs/read_text_file", {"path": "/unsaved"}),
        ("fs/read_text_file", {"path": str(disk), "line": 2, "limit": 1}),
        ("fs/read_text_file", {"path": str(tmp_path / "missing")}),
        ("fs/write_text_file", {"path": str(new), "content": "a\r\n"}),
        ("fs/read_text_file", {"path": str(new)}),
    )
    assert [f.get("content", f.get("code")) for f in found] == [
        "buffer",
        "two\n",
        -32002,
        None,
        "a\r\n",
    ]
    assert new.read_bytes() == b"a\r\n"


async def test_terminals_run_commands_and_remember_their_release() -> None:
    where = {"terminalId": "terminal-1"}
    async with Terminals() as terminals:
        found = await asked(
            terminals.answers(),
            ("terminal/create", {"command": "sh", "args": ["-c", "echo $WORD; exit 3"],
                                 "env": [{"name": "WORD", "value": "hi"}]}),
            ("terminal/wait_for_exit", where),
            ("terminal/output", where),
            ("terminal/release", where),
            ("terminal/output", where),
        )  # fmt: skip
    assert found[0] == where
    assert found[1] == {"exitCode": 3, "signal": None}
    assert (found[2]["output"], found[2]["exitStatus"]["exitCode"]) == ("hi\n", 3)
    assert found[4]["code"] == -32002
    assert (terminals.created, terminals.released) == (["terminal-1"], ["terminal-1"])
    assert terminals.used_after_release == ["terminal-1"]


async def test_a_killed_terminal_tells_its_signal() -> None:
    where = {"terminalId": "terminal-1"}
    async with Terminals() as terminals:
        found = await asked(
            terminals.answers(),
            ("terminal/create", {"command": "sleep 60"}),
            ("terminal/kill", where),
            ("terminal/wait_for_exit", where),
        )
    assert found[2] == {"exitCode": None, "signal": "9"}
