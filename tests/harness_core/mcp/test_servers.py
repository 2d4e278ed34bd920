"""Servers that are processes: started, used, lost, had again and ended with their session."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from harness_core.content import Audio, Image, Resource, ResourceLink, Text
from harness_core.facts import ToolReturned, ToolStarted
from harness_core.plugins.mcp import StdioSpec, servers_of
from tests.harness_core.mcp.bench import (
    alive,
    bench,
    heard,
    pids,
    silent,
    tiny,
    until,
    words,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by POSIX means"),
]


def real(path: Path) -> str:
    return os.path.realpath(path)


def read(path: str) -> str:
    return Path(path).read_text()


# --- being there ----------------------------------------------------------------------------------


async def test_a_server_gets_its_arguments_its_environment_and_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "not for servers")
    async with bench(tiny("tiny", "one", "two words", GREETING="hello"), cwd=tmp_path) as b:
        place = await b.ask("mcp__tiny__where")
        assert place["cwd"] == real(tmp_path)
        assert place["args"] == ["one", "two words"]
        env = await b.ask("mcp__tiny__env")
        assert env["GREETING"] == "hello"
        assert "PATH" in env
        assert "SECRET_API_KEY" not in env


async def test_a_good_server_works_beside_broken_ones(tmp_path: Path) -> None:
    ends = StdioSpec("ends", sys.executable, ("-c", "pass"))
    missing = StdioSpec("missing", str(tmp_path / "no-such-program"))
    settings = {"mcp_wait": 5.0}
    async with bench(tiny(), missing, ends, silent(), settings=settings) as b:
        assert (await b.call("mcp__tiny__echo")).error is None
        await b.world.turn()
        told = {notice.title: notice.severity for notice in b.notices}
        assert [title for title in told if "missing" in title and "was not found" in title]
        assert [title for title in told if "ends" in title and "not available" in title]
        assert told["MCP server silent is still starting"] == "info"
        assert not [title for title in told if "tiny" in title]


async def test_a_turn_waits_for_a_slow_server_once(tmp_path: Path) -> None:
    async with bench(silent(), settings={"mcp_wait": 0.05}) as b:
        for _ in range(3):
            await b.world.turn()
        assert [notice.title for notice in b.notices] == ["MCP server silent is still starting"]


async def test_a_server_that_is_ready_later_joins(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = (
        "import os, runpy, sys, time\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.02)\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    spec = StdioSpec("late", sys.executable, ("-c", wait, tiny().args[0], str(gate)))
    async with bench(spec, settings={"mcp_wait": 0.0}) as b:
        await b.world.turn()
        assert "mcp__late__echo" not in b.tools
        gate.touch()
        await until(lambda: "mcp__late__echo" in b.tools)
        assert (await b.call("mcp__late__echo")).error is None


async def test_what_a_server_prints_elsewhere_goes_to_the_log_alone(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "harness_core.plugins.mcp")
    async with bench(tiny()) as b:
        assert words(await b.call("mcp__tiny__junk")) == "junk was printed"
        await until(lambda: "tiny: nor is this on stderr" in caplog.messages)
    assert capfd.readouterr() == ("", "")


# --- tools ----------------------------------------------------------------------------------------


async def test_a_tool_says_whose_it_is_and_what_it_does() -> None:
    async with bench(tiny("My server!")) as b:
        await b.world.turn()
        echo = b.world.agent.tools.get("mcp__My_server__echo")
        env = b.world.agent.tools.get("mcp__My_server__env")
        assert echo is not None
        assert env is not None
        assert (echo.effect, env.effect) == ("reads", "changes")
        assert echo.present_call({}, "/").title == "Echo it (My server!)"
        assert echo.spec().parameters == {"type": "object", "properties": {}}


async def test_arguments_reach_the_tool_as_they_are() -> None:
    async with bench(tiny()) as b:
        given = {"text": "käse", "deep": {"list": [1, 2.5, None, True]}, "none": None}
        assert await b.ask("mcp__tiny__echo", **given) == given


async def test_every_kind_of_content_is_kept() -> None:
    async with bench(tiny()) as b:
        assert (await b.call("mcp__tiny__rich")).content == (
            Text("words"),
            Image("AAAA", "image/png"),
            Audio("AAAA", "audio/wav"),
            ResourceLink("file:///a", "a", size=3),
            Resource("tiny://t", text="inside"),
            Resource("tiny://b", blob="AAAA"),
        )
        assert await b.ask("mcp__tiny__structured") == {"answer": [1, None]}


async def test_a_failure_is_a_result_that_says_so() -> None:
    async with bench(tiny()) as b:
        wrong = await b.call("mcp__tiny__fail")
        assert (wrong.error, words(wrong)) == ("failed", "it went wrong")
        refused = await b.call("mcp__tiny__refuse")
        assert refused.error == "failed"
        assert words(refused) == "MCP server tiny: there is no tool refuse"


async def test_a_long_text_is_kept_whole_in_a_file() -> None:
    async with bench(tiny()) as b:
        text = words(await b.call("mcp__tiny__long"))
        assert text.startswith("begin\n")
        assert text.endswith("\nend")
        assert len(text) < 40_000
        (path,) = [word for word in text.split() if word.endswith(".txt:")]
        assert read(path.removesuffix(":")).count("long line\n") == 20_000


async def test_tools_come_and_go_as_the_server_says() -> None:
    async with bench(tiny()) as b:
        await b.call("mcp__tiny__grow")
        await until(lambda: "mcp__tiny__grown" in b.tools)
        assert (await b.call("mcp__tiny__grown")).error == "failed"
        await b.call("mcp__tiny__shrink")
        await until(lambda: "mcp__tiny__echo" not in b.tools)


async def test_a_server_may_not_ask_the_model_or_the_user(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log), cwd=tmp_path) as b:
        assert words(await b.call("mcp__tiny__ask")) == "asked"

        def answers() -> dict[str, object] | None:
            found = {e["id"]: e for e in heard(log) if "method" not in e and "id" in e}
            return found if len(found) == 3 else None

        answered = await until(answers)
        assert "error" in answered["e1"]  # type: ignore[operator]
        assert "error" in answered["s1"]  # type: ignore[operator]
        assert tmp_path.as_uri() in str(answered["r1"])


async def test_cancelling_a_turn_cancels_the_call_at_its_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log)) as b:
        b.queue("mcp__tiny__wait")
        b.world.send()
        await b.world.until_logged(ToolStarted)
        await until(lambda: any(e.get("method") == "tools/call" for e in heard(log)))
        b.world.agent.cancel()
        await b.world.idle()
        await until(lambda: any(e.get("method") == "notifications/cancelled" for e in heard(log)))
        assert (await b.call("mcp__tiny__echo")).error is None
        assert len(pids(log)) == 1


# --- ends -----------------------------------------------------------------------------------------


async def test_a_server_that_ends_in_a_call_is_had_again_with_the_next(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log)) as b:
        died = await b.call("mcp__tiny__die")
        assert died.error == "failed"
        assert "outcome is unknown" in words(died)
        for _ in range(2):
            assert (await b.call("mcp__tiny__echo")).error is None
        assert len(pids(log)) == 2


async def test_a_server_that_ends_between_calls_is_had_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log)) as b:
        place = await b.ask("mcp__tiny__where")
        os.kill(place["pid"], signal.SIGKILL)
        await until(lambda: not alive(place["pid"]))
        results: list[ToolReturned] = []
        while not results or results[-1].error:
            results.append(await b.call("mcp__tiny__echo"))
            assert len(results) <= 2, "at most one call finds that it has ended"
        assert len(pids(log)) == 2


async def test_a_server_that_cannot_be_had_again_is_tried_so_often_and_no_more(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with bench(tiny("tiny", "once", log=log)) as b:
        await b.call("mcp__tiny__die")
        gone = await b.call("mcp__tiny__echo")
        assert gone.error == "failed"
        assert "is not running" in words(gone)
        assert len(pids(log)) <= 4
        await b.call("mcp__tiny__echo")
        await b.world.turn()
        assert len(b.notices) == 1


async def test_calls_that_run_when_it_ends_all_have_a_result(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log)) as b:
        ids = b.queue("mcp__tiny__wait", "mcp__tiny__wait")
        b.world.send()
        await until(lambda: len([e for e in heard(log) if e.get("method") == "tools/call"]) == 2)
        os.kill(pids(log)[0], signal.SIGKILL)
        await b.world.idle()
        for id in ids:
            assert "outcome is unknown" in b.world.result_text(id)


async def test_the_end_of_a_session_ends_its_servers_and_no_others(tmp_path: Path) -> None:
    logs = [tmp_path / "one", tmp_path / "two"]
    async with bench(tiny(log=logs[0])) as b:
        other = await b.world.harness.create(str(tmp_path))
        servers_of(other).set([tiny(log=logs[1])])
        await b.world.turn()
        await until(lambda: other.tools.get("mcp__tiny__echo"))
        (one,), (two,) = pids(logs[0]), pids(logs[1])
        assert one != two
        await b.world.harness.dispose(other)
        assert not alive(two)
        assert alive(one)
        assert (await b.call("mcp__tiny__echo")).error is None
    assert not alive(one)


async def test_servers_that_do_not_listen_are_ended_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny("tiny", "stubborn", log=log), silent()) as b:
        await until(lambda: "mcp__tiny__echo" in b.tools)
    assert [pid for pid in pids(log) if alive(pid)] == []


async def test_another_list_ends_some_servers_and_starts_others(tmp_path: Path) -> None:
    logs = {name: tmp_path / name for name in ("kept", "dropped", "changed", "added")}
    kept, dropped = tiny("kept", log=logs["kept"]), tiny("dropped", log=logs["dropped"])
    async with bench(kept, dropped, tiny("changed", log=logs["changed"])) as b:
        await b.world.turn()
        before = {name: pids(log) for name, log in logs.items()}
        changed = tiny("changed", "other", log=logs["changed"])
        b.servers.set([kept, changed, tiny("added", log=logs["added"])])
        assert not [name for name in b.tools if "dropped" in name]
        await b.world.turn()
        assert (await b.ask("mcp__changed__where"))["args"] == ["other"]
        assert (await b.call("mcp__added__echo")).error is None
        assert pids(logs["kept"]) == before["kept"]
        await until(lambda: not alive(before["dropped"][0]))
        await until(lambda: not alive(before["changed"][0]))


async def test_a_session_may_end_while_its_servers_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(tiny(log=log), silent()):
        await anyio.lowlevel.checkpoint()
    assert [pid for pid in pids(log) if alive(pid)] == []
