"""The installed command on its streams: bytes in any shape in, one valid line a message out."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import encode_line, envelope
from conformance.process import run_to_exit
from tests.acp_server.editor import COMMAND, TIMEOUT, Editor, prompt_params, spawned

pytestmark = pytest.mark.anyio

Env = Mapping[str, str]

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells, signals and sockets")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def request(id: Any, method: str, params: Any) -> bytes:
    return encode_line({**envelope(method, params), "id": id})


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """Every line as JSON; each must be terminated."""
    assert data.endswith(b"\n") or not data
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


INITIALIZE = request(0, "initialize", {"protocolVersion": 1})


# --- what comes in --------------------------------------------------------------------------------


async def test_garbage_is_answered_and_the_next_line_works(tmp_path: Path, env: Env) -> None:
    garbage: list[tuple[bytes, int | None]] = [
        (b"Welcome back\n", -32700),
        (b"{not json\n", -32700),
        (b"{\n", -32700),
        (b"\x1b]0;t\x07" + INITIALIZE, -32700),
        (b'{"a":"\xff\xfe"}\n', -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"42\n", -32600),
        (b'"x"\n', -32600),
        (b"null\n", -32600),
        (b"[]\n", -32600),
        (b"[" + INITIALIZE.strip() + b"]\n", -32600),
        (b"\n", None),
        (b" \t\r\n", None),
        (b"\xef\xbb\xbf\n", None),
    ]
    async with spawned(tmp_path, env) as editor:
        await editor.send_raw(b"".join(line for line, _ in garbage))
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "!say still here") == "end_turn"
        answers = [(stray.message or {}) for stray in editor.strays]
        assert {answer["id"] for answer in answers} == {None}
        codes = [answer["error"]["code"] for answer in answers]
        assert codes == [code for _, code in garbage if code is not None]


@pytest.mark.parametrize(
    "frame",
    ["{}\r\n", "\n\n{}\n\n", " {} \n", "\ufeff{}\n"],
    ids=["CRLF", "blank lines", "spaces", "BOM"],
)
async def test_a_line_may_be_framed_in_other_ways(tmp_path: Path, env: Env, frame: str) -> None:
    async with spawned(tmp_path, env) as editor:
        sent = editor.expect("initialize", 0)
        await editor.send_raw(frame.format(INITIALIZE.decode().strip()).encode())
        assert (await sent.result())["protocolVersion"] == 1


async def test_writes_may_be_cut_and_joined_anywhere(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env) as editor:
        sent = editor.expect("initialize", 0)
        for byte in INITIALIZE:
            await editor.send_raw(bytes([byte]))
        assert await sent.result()
        asked = [editor.expect("session/list", id) for id in ("a", 2**53, -5)]
        await editor.send_raw(b"".join(request(sent.id, "session/list", {}) for sent in asked))
        for sent in asked:
            assert await sent.result() == {"sessions": []}


async def test_separators_are_text_in_both_directions(tmp_path: Path, env: Env) -> None:
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\u0000h\U0001f600"
    async with spawned(tmp_path, env) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, f"!say {text}")
        assert editor.screen(session).text() == text
        for frame in editor.frames:
            if frame.direction == "a2c":
                assert len(frame.raw.decode().splitlines()) == 1


ODD = "Messgerät 日本 😀"
LOCALES = {
    "latin-1": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"},
    "cp1252": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252:strict"},
    "uncoerced": {"LC_CTYPE": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "utf-16": {"LC_ALL": "C", "PYTHONIOENCODING": "utf-16"},
    "unknown": {"LC_ALL": "tr_TR.ISO-8859-9", "LANG": "zh_CN.GBK"},
    "none": {},
}


@pytest.mark.parametrize("locale", LOCALES)
async def test_text_is_utf8_whatever_the_locale(tmp_path: Path, env: Env, locale: str) -> None:
    """On the pipes, in files and their names, in what commands are and print, and in the log."""
    place, log = tmp_path / ODD, tmp_path / "log"
    place.mkdir()
    (place / "AGENTS.md").write_text(f"rules: {ODD}", encoding="utf-8")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write", {"path": f"{ODD}.txt", "content": f"{ODD}\r\nlast\n"}),
        ("read", {"path": f"{ODD}.txt"}),
        ("edit", {"path": f"{ODD}.txt", "old_text": "日本", "new_text": "日本語"}),
        ("grep", {"pattern": "日本語"}),
        ("shell", {"command": f"echo '{ODD}'; echo '{ODD}' > printed"}),
    ]
    script = "\n!say then\n".join(f"!call {name} {json.dumps(given)}" for name, given in calls)
    settings = {"MODE": "auto", "LOG_FILE": str(log), "LOG_LEVEL": "info"}
    odd = {**LOCALES[locale], **{f"ACP_HARNESS_{name}": to for name, to in settings.items()}}
    async with spawned(tmp_path, {**env, **odd}) as editor:
        await editor.initialize()
        missing = {"name": ODD, "command": "/no/such/program", "args": [], "env": []}
        session = await editor.new(place, mcpServers=[missing])
        await editor.turn(session, f"!say {ODD}\n{script}\n!context system")
        screen = editor.screen(session)
        assert [call["status"] for call in screen.calls.values()] == ["completed"] * len(calls)
        assert all("Messgerät 日本" in str(call["content"]) for call in screen.calls.values())
        assert f"MCP server {ODD} is not available" in screen.text()
        assert f"rules: {ODD}" in screen.text()
        assert len((await editor.request("session/list", {"cwd": str(place)}))["sessions"]) == 1
    assert (place / f"{ODD}.txt").read_bytes() == f"{ODD}\r\nlast\n".replace("本", "本語").encode()
    assert (place / "printed").read_bytes() == f"{ODD}\n".encode()
    (stored,) = Path(env["ACP_HARNESS_DATA_DIR"]).rglob("log.jsonl")
    assert ODD in stored.read_text(encoding="utf-8")
    assert ODD in log.read_text(encoding="utf-8")


# --- sizes ----------------------------------------------------------------------------------------


@linux
async def test_large_lines_are_read_and_larger_ones_refused_without_their_memory(
    tmp_path: Path, env: Env
) -> None:
    picture = {"type": "image", "data": "A" * 20_000_000, "mimeType": "image/png"}
    async with spawned(tmp_path, env) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "!say text", "x" * 5_000_000) == "end_turn"
        assert await editor.turn(session, "!say picture", picture) == "end_turn"
        before = peak_memory(editor.process.pid)
        await editor.send_raw(b'{"x":"')
        for _ in range(200):
            await editor.process.write(b"x" * 1_000_000)
        await editor.send_raw(b'"}\n')
        await editor.until(lambda: editor.strays, "refusal")
        (refusal,) = [stray.message or {} for stray in editor.strays]
        assert refusal["error"]["code"] == -32600
        assert peak_memory(editor.process.pid) - before < 150_000_000
        assert await editor.turn(session, "!say still here") == "end_turn"


def peak_memory(pid: int) -> int:
    """The most memory that a process had so far, in bytes."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


# --- what goes out --------------------------------------------------------------------------------


async def test_stdout_holds_messages_only(tmp_path: Path, env: Env) -> None:
    """Whatever commands print, and with every warning on."""
    command = r"printf '\033]0;title\007'; echo out; echo err >&2; python3 -c 'print(1)'"
    async with spawned(
        tmp_path, {**env, "ACP_HARNESS_MODE": "auto", "PYTHONWARNINGS": "default", "TERM": "xterm"}
    ) as editor:
        session = await editor.open(tmp_path)
        script = f"!call shell {json.dumps({'command': command})}\n!result"
        assert await editor.turn(session, script) == "end_turn"
        assert "out" in editor.screen(session).text()


@posix
async def test_a_command_does_not_read_what_the_client_writes(tmp_path: Path, env: Env) -> None:
    command = "cat; read x; echo read=$x; sleep 600"
    async with spawned(tmp_path, {**env, "ACP_HARNESS_MODE": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, f'!call shell {{"command": "{command}"}}')
        await editor.shown(session, lambda screen: "read=\\n" in repr(screen.calls))
        assert await editor.request("session/list", {})
        await editor.cancel(session)
        assert await prompt.result() == {"stopReason": "cancelled"}


async def test_each_session_works_in_its_own_directory(tmp_path: Path, env: Env) -> None:
    async with spawned(Path("/"), {**env, "ACP_HARNESS_MODE": "auto"}) as editor:
        await editor.initialize()
        places = [tmp_path / "a", tmp_path / "b"]
        for place in places:
            place.mkdir()
        sessions = [await editor.new(place) for place in places]
        script = '!call shell {"command": "pwd > here; sleep 0.1; pwd >> here"}\n!context system'
        prompts = [await editor.prompt(session, script) for session in sessions]
        for place, session, prompt in zip(places, sessions, prompts, strict=True):
            await prompt.result()
            assert (place / "here").read_text().split() == [str(place.resolve())] * 2
            assert str(place) in editor.screen(session).text()


# --- other streams --------------------------------------------------------------------------------


async def test_files_will_do(tmp_path: Path, env: Env) -> None:
    """And a last line without its line feed."""
    asked = INITIALIZE + request(1, "session/new", {"cwd": str(tmp_path)})
    asked += request(2, "session/list", {}).rstrip(b"\n")
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(asked)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        code = await run_to_exit(
            COMMAND, cwd=tmp_path, env=env, stdin=stdin, stdout=stdout, timeout=TIMEOUT
        )
    assert code == 0
    messages = lines_of(target.read_bytes())
    assert messages[0]["id"] == 0
    assert {message["id"] for message in messages if "id" in message} == {0, 1, 2}
    assert all("result" in message for message in messages if "id" in message)


async def test_an_agent_without_a_client_ends_at_once_and_says_nothing(
    tmp_path: Path, env: Env
) -> None:
    target = tmp_path / "out"
    nothing = asyncio.subprocess.DEVNULL
    with target.open("wb") as stdout:
        code = await run_to_exit(
            COMMAND, cwd=tmp_path, env=env, stdin=nothing, stdout=stdout, timeout=TIMEOUT
        )
    assert code == 0
    assert target.read_bytes() == b""


@posix
@pytest.mark.parametrize("missing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_an_agent_without_one_of_its_streams_ends_in_peace(
    tmp_path: Path, env: Env, missing: str
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(INITIALIZE)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        code = await run_to_exit(
            ("/bin/sh", "-c", f"exec {COMMAND[0]} {missing}"),
            cwd=tmp_path,
            env=env,
            stdin=stdin,
            stdout=stdout,
            timeout=TIMEOUT,
        )
    assert code == 0
    assert bool(target.read_bytes()) is (missing == "2>&-")


@posix
async def test_a_socket_will_do(tmp_path: Path, env: Env) -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    with theirs:
        run = asyncio.ensure_future(
            run_to_exit(
                COMMAND,
                cwd=tmp_path,
                env=env,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                timeout=TIMEOUT,
            )
        )
        writer.write(INITIALIZE + request(1, "session/list", {}))
        async with asyncio.timeout(TIMEOUT):
            for id in (0, 1):
                assert json.loads(await reader.readline())["id"] == id
            writer.write_eof()
            assert await run == 0
    writer.close()


async def test_a_whole_conversation_through_the_installed_command(tmp_path: Path, env: Env) -> None:
    """Also with a home that is empty, and a client that says next to nothing of itself."""
    async with spawned(tmp_path, env) as editor:
        result = await editor.request("initialize", {"protocolVersion": 1})
        assert result["authMethods"]
        session = await editor.new(tmp_path)
        await conversation(editor, session)


async def conversation(editor: Editor, session: str) -> None:
    assert await editor.turn(session, "!think hm\n!plan one; two\n!say there") == "end_turn"
    await editor.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "?"}})
    await editor.notify("foo/bar", {})
    with_another_name = {"sessionId": session, "content": prompt_params(session, "x")["prompt"]}
    error = await (await editor.start("session/prompt", with_another_name)).error()
    assert error is not None
    assert error.code == -32602
    assert await editor.turn(session, "!context") == "end_turn"
