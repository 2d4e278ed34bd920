"""``shell``: real commands, and nothing of them left when the call is over."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness_core.content import Text
from harness_core.tools.files import Files
from harness_core.tools.output import Live
from harness_core.tools.tool import ToolError, ToolOutput

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the commands are written for bash"),
]

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells who left the session"
)

Call = Callable[..., Awaitable[ToolOutput]]


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


def running(pid: int) -> bool:
    """Whether a process runs, zombies aside."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state not in (b"Z", b"X")


def pids(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"pid=(\d+)", text)]


async def test_output_and_exit_code_come_back(call: Call) -> None:
    output = await call("shell", command="echo out; echo err >&2")
    assert text_of(output) == "out\nerr\n[exit code 0]"
    assert output.meta == {"bytes": 8, "exit_code": 0}
    assert not output.is_error


async def test_a_failing_command_is_an_error_with_its_code(call: Call) -> None:
    output = await call("shell", command="exit 3")
    assert text_of(output) == "(no output)\n[exit code 3]"
    assert output.is_error


async def test_a_signal_is_named(call: Call) -> None:
    assert "[ended by SIGSEGV]" in text_of(await call("shell", command="kill -SEGV $$"))


async def test_a_command_runs_in_the_sessions_directory(cwd: Path, call: Call) -> None:
    before = os.getcwd()
    assert str(cwd) in text_of(await call("shell", command="pwd -P; echo x > made"))
    assert (cwd / "made").exists()
    assert os.getcwd() == before


async def test_stdin_is_closed_and_there_is_no_terminal(call: Call) -> None:
    command = "cat; read x; echo read=$?; [ -t 0 -o -t 1 -o -t 2 ] || echo none; : </dev/tty"
    shown = text_of(await call("shell", command=command))
    assert shown.startswith("read=1\nnone\n")
    assert "/dev/tty" in shown


@linux
async def test_nothing_else_of_ours_is_inherited(call: Call) -> None:
    ours = os.dup(2)
    os.set_inheritable(ours, True)
    command = f"readlink /proc/$$/fd/0; [ -e /proc/$$/fd/{ours} ] || echo closed"
    assert text_of(await call("shell", command=command)) == "/dev/null\nclosed\n[exit code 0]"
    os.close(ours)


async def test_nobody_is_asked_anything(call: Call) -> None:
    command = "echo $TERM $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $BASH_ENV"
    assert text_of(await call("shell", command=command)) == "dumb cat cat 0\n[exit code 0]"


async def test_bytes_that_are_not_utf8_are_replaced(call: Call, context: Any) -> None:
    output = await call("shell", command=r"printf '\xff\xfe ok \xc3'")
    assert text_of(output) == "\ufffd\ufffd ok \ufffd\n[exit code 0]"
    assert b"".join(context.printed) == b"\xff\xfe ok \xc3"


async def test_escape_sequences_do_not_reach_the_model(call: Call) -> None:
    shown = text_of(await call("shell", command=r"printf '\e]0;title\a\e[31mred\e[0m\n'"))
    assert shown == "red\n[exit code 0]"


async def test_output_is_logged_while_the_command_runs(cwd: Path, call: Call, context: Any) -> None:
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            await context.until_printed(b"one\n")
            (cwd / "go").touch()

        tasks.start_soon(answer)
        output = await call(
            "shell", command="echo one; until [ -e go ]; do sleep 0.02; done; echo two"
        )
    assert text_of(output).startswith("one\ntwo\n")
    assert b"".join(context.printed) == b"one\ntwo\n"


async def test_a_long_output_is_shown_at_both_ends_and_kept_in_a_file(
    call: Call, context: Any
) -> None:
    output = await call("shell", command="seq 1 20000")
    shown = text_of(output)
    assert shown.startswith("1\n2\n")
    assert shown.endswith("\n19999\n20000\n[exit code 0]")
    assert len(shown) < 32 * 1024
    assert await anyio.Path(output.meta["spilled"]).read_bytes() == b"".join(
        b"%d\n" % number for number in range(1, 20001)
    )
    assert output.meta["spilled"] in shown
    page = await call("read", path=output.meta["spilled"], offset=10_000, limit=1)
    assert " 10000\t10000" in text_of(page)


async def test_a_flood_is_bounded_in_memory_and_in_the_log(call: Call, context: Any) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = await call("shell", command="yes | head -c 300000000; echo end")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert output.meta["bytes"] == 300_000_004
    assert text_of(output).endswith("end\n[exit code 0]")
    assert len(await anyio.Path(output.meta["spilled"]).read_bytes()) < 10_000_000
    assert sum(map(len, context.printed)) < 4 * Live.FULL
    assert grown < 100_000_000


async def test_a_timeout_ends_the_command_and_keeps_its_output(call: Call) -> None:
    with pytest.raises(ToolError, match=r"started(.|\n)*not finished after 0.5 s") as caught:
        await call("shell", command="echo started pid=$$; sleep 300", timeout=0.5)
    assert caught.value.code == "timeout"
    assert not any(map(running, pids(str(caught.value))))


async def test_the_longest_time_is_a_setting(call: Call, context: Any) -> None:
    context.settings = {"shell": {"longest": "0.3"}}
    with pytest.raises(ToolError, match=r"after 0.3 s"):
        await call("shell", command="sleep 300", timeout=120_000)
    context.settings = {"shell": {"longest": "soon"}}
    with pytest.raises(ToolError, match="settings of the shell tool"):
        await call("shell", command="true")


TREES = {
    "child": "sleep 300 & echo pid=$!; wait",
    "grandchild": "(sleep 300 & echo pid=$!; wait) & wait",
    "group of its own": "set -m; sleep 300 & echo pid=$!; wait",
    "deaf": "trap '' TERM; sleep 300 & echo pid=$! pid=$$; while :; do sleep 0.1; done",
    "stopped": "sleep 300 & echo pid=$!; kill -STOP $!; wait",
}
STRAYS = {
    "session of its own": "setsid sleep 300 & echo pid=$!; wait",
    "daemon": "(setsid sh -c 'echo pid=$$; exec sleep 300' &) ; sleep 300",
    "daemon without environment": (
        "env -i setsid sh -c 'echo pid=$$; while :; do /bin/sleep 0.1; done' & sleep 300"
    ),
}
CASES = [
    *(pytest.param(command, id=name) for name, command in TREES.items()),
    *(pytest.param(command, id=name, marks=linux) for name, command in STRAYS.items()),
]


@pytest.mark.parametrize("command", CASES)
async def test_cancelling_ends_the_whole_tree(call: Call, context: Any, command: str) -> None:
    context.settings = {"shell": {"grace": 0.3}}
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await call("shell", command=f"echo pid=$$; {command}")

        tasks.start_soon(run)
        await context.until_printed(b"pid=")
        while len(pids(b"".join(context.printed).decode())) < 2:
            context.news = anyio.Event()
            with anyio.fail_after(30):
                await context.news.wait()
        tasks.cancel_scope.cancel()
    started = pids(b"".join(context.printed).decode())
    assert len(started) >= 2
    assert [pid for pid in started if running(pid)] == []


async def test_a_cancelled_task_ends_its_command_too(call: Call, context: Any) -> None:
    task = asyncio.ensure_future(call("shell", command="sleep 300 & echo pid=$! pid=$$; wait"))
    await context.until_printed(b"\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(running, pids(b"".join(context.printed).decode())))


@pytest.mark.parametrize("command", CASES)
async def test_a_timeout_ends_the_whole_tree(call: Call, context: Any, command: str) -> None:
    context.settings = {"shell": {"grace": 0.3}}
    with pytest.raises(ToolError) as caught:
        await call("shell", command=f"echo pid=$$; {command}", timeout=1.5)
    started = pids(str(caught.value))
    assert len(started) >= 2
    assert [pid for pid in started if running(pid)] == []


async def test_a_background_process_does_not_hold_up_the_call(call: Call) -> None:
    output = await call("shell", command="sleep 300 & echo pid=$!")
    assert "[background processes were still running and were ended]" in text_of(output)
    assert not any(map(running, pids(text_of(output))))
    assert not output.is_error


@linux
async def test_a_process_that_left_the_session_on_purpose_outlives_the_call(call: Call) -> None:
    output = await call("shell", command="setsid sleep 300 & echo pid=$!; sleep 0.2")
    (pid,) = pids(text_of(output))
    assert running(pid)
    os.kill(pid, 9)


async def test_late_output_of_a_pipeline_is_not_lost(call: Call) -> None:
    output = await call("shell", command="echo hello > >(sleep 0.1; cat)")
    assert text_of(output).startswith("hello\n")


async def test_commands_side_by_side_keep_to_themselves(tmp_path: Path, call: Call) -> None:
    results: dict[int, str] = {}

    async def run(number: int) -> None:
        results[number] = text_of(await call("shell", command=f"sleep 0.1; echo {number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(run, number)
    assert results == {number: f"{number}\n[exit code 0]" for number in range(4)}


async def test_a_command_that_cannot_start_is_explained(call: Call, context: Any) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await call("shell", command="echo \0")
    context.cwd = context.cwd / "gone"
    context.files = Files(context.cwd)
    with pytest.raises(ToolError, match="does not exist any more"):
        await call("shell", command="true")


@linux
async def test_no_file_descriptor_is_left(call: Call) -> None:
    await call("shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await call("shell", command="true")
        with pytest.raises(ToolError):
            await call("shell", command="sleep 300", timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) == before
