"""NEW: opening sessions: directories, MCP servers, several at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from conformance import answers
from conformance.checks import mcp_server
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Editor, Session, slow, tool
from conformance.checks.steps import require_stop
from conformance.checks.verdict import NotApplicable, fail, require, require_code
from conformance.client import Sent
from conformance.frames import Level
from conformance.incoming import Incoming, encode_line, envelope

SESSIONS = 20
MCP_WORD = "conformance-env-value"


@check("NEW-01", "session ids are unique", Level.MUST, "V1-NEW-01", "session")
async def unique_ids(ctx: Context) -> None:
    """Open twenty sessions. All ids differ."""
    async with ctx.connection() as editor:
        ids = [(await editor.new_session(ctx.cwd)).id for _ in range(SESSIONS)]
    require(len(set(ids)) == len(ids), f"a session id was given twice: {ids}")


@check("NEW-02", "a relative directory", Level.REC, "V1-NEW-02 advice", "session")
async def relative_cwd(ctx: Context) -> None:
    """Open sessions in ``proj`` and in an empty path. Both are refused.

    The path must be absolute, which is the client's duty; nothing says that agents check it.
    """
    async with ctx.connection() as editor:
        for cwd in ("proj", ""):
            error = await (await _open(editor, cwd=cwd)).error()
            require_code(error, what=f"session/new with cwd {cwd!r}")


@check("NEW-02.code", "bad directories are invalid params", Level.REC, "V1-NEW-02 advice")
async def bad_cwd_code(ctx: Context) -> None:
    """Open sessions in a relative path, in null and without a directory.

    Each is refused with -32602.
    """
    async with ctx.connection() as editor:
        for params in ({"cwd": "proj"}, {"cwd": None}, {}):
            sent = await editor.start("session/new", {**params, "mcpServers": []})
            require_code(await sent.error(), -32602, what=f"session/new with {params}")


@check("NEW-03", "the session's directory counts", Level.MUST, "V1-NEW-03", "tool:shell posix")
async def cwd_honoured(ctx: Context) -> None:
    """Start the agent elsewhere; let the model's shell print a file by a relative path.

    It is the file of the session's directory.
    """
    ctx.put("where.txt", "inside the workspace\n")
    async with ctx.session() as session:
        await session.prompt(tool("shell", command="cat where.txt"))
    seen = "inside the workspace" in ctx.model_texts
    require(seen, "the model was not shown the file of the session's directory")


@check("NEW-04", "the answer comes first", Level.REC, "V1-NEW-12", "session")
async def response_first(ctx: Context) -> None:
    """Open a session. Nothing names it before the answer to ``session/new``."""
    async with ctx.connection() as editor:
        session = await editor.new_session(ctx.cwd)
    _require_answer_first(editor, [session.id])


@check("NEW-04.pipelined", "each answer comes first", Level.REC, "V1-NEW-12", "session")
async def responses_first(ctx: Context) -> None:
    """Request three sessions at once. Nothing names any of them before its own answer."""
    async with ctx.connection() as editor:
        ids = [editor.fresh_id() for _ in range(3)]
        params = {"cwd": str(ctx.cwd), "mcpServers": []}
        sent = [editor.expect("session/new", id) for id in ids]
        lines = (encode_line({**envelope("session/new", params), "id": id}) for id in ids)
        await editor.send_raw(b"".join(lines))
        results = [await request.result() for request in sent]
    _require_answer_first(editor, [str(result.get("sessionId")) for result in results])


@check("NEW-05", "MCP servers over stdio", Level.MUST, "V1-NEW-06 V1-NEW-08", "model")
async def mcp_stdio(ctx: Context) -> None:
    """Pass an MCP server with arguments and environment.

    It is launched with both, and the model can call its tool.
    """
    log = ctx.elsewhere / "mcp.log"
    async with ctx.connection() as editor:
        session = await editor.new_session(ctx.cwd, mcpServers=[_mcp(log)])
        call = tool(mcp_server.TOOL, text="from the model")
        await _until_called(ctx, session, call, log)
    launched = _logged(log)
    require(launched, "the MCP server was not launched")
    require(launched[0] == ["argument"], f"the MCP server got the arguments {launched[0]}")
    expected = mcp_server.reply("from the model", MCP_WORD)
    require(expected in ctx.model_texts, "the tool's result did not reach the model")


async def _until_called(ctx: Context, session: Session, call: str, log: Path) -> None:
    """Prompt until the tool is there: an agent may connect in the background."""
    for _ in range(5):
        before = len(ctx.model.requests)
        require_stop(await session.prompt(call), "end_turn")
        if not any(request.unfit for request in ctx.model.requests[before:]):
            return
        await ctx.eventually(lambda: "tools/list" in _log(log), "tools/list at the MCP server")
    if "tools/list" in _log(log):
        raise NotApplicable("the agent knows the MCP server's tool, but does not offer it by name")
    fail("the MCP server's tool was never offered to the model")


@check("NEW-06.transport", "an unsupported MCP transport", Level.REC, "V1-NEW-09", "session")
async def mcp_transport(ctx: Context) -> None:
    """Pass an MCP server over a transport the agent does not announce. It is refused: -32602."""
    absent = [kind for kind in ("sse", "http") if not ctx.profile.offers(f"mcpCapabilities.{kind}")]
    if not absent:
        raise NotApplicable("the agent announces both http and sse")
    server = {"type": absent[0], "name": "x", "url": "http://127.0.0.1:9/", "headers": []}
    async with ctx.connection() as editor:
        error = await (await _open(editor, ctx, mcpServers=[server])).error()
    require_code(error, -32602, what=f"an MCP server over {absent[0]}")


@check("NEW-06.malformed", "a malformed MCP server", Level.REC, "V1-NEW-10", "session")
async def mcp_malformed(ctx: Context) -> None:
    """Pass ``{"type": "x"}`` as an MCP server. It is refused with -32602, not dropped."""
    async with ctx.connection() as editor:
        error = await (await _open(editor, ctx, mcpServers=[{"type": "x"}])).error()
    require_code(error, -32602, what="a malformed MCP server")


@check("NEW-06.absent", "no MCP servers", Level.REC, "V1-NEW-10", "session")
async def mcp_absent(ctx: Context) -> None:
    """Pass ``mcpServers`` as null, and leave it out. Both mean that there are none.

    The schema wants a list; clients that forget it exist, and nothing is lost by being lenient.
    """
    async with ctx.connection() as editor:
        for shown, extra in (("null as mcpServers", {"mcpServers": None}), ("no mcpServers", {})):
            sent = await editor.start("session/new", {"cwd": str(ctx.cwd), **extra})
            require(await sent.error() is None, f"session/new with {shown} was refused")


@check("NEW-07", "an MCP server that does not exist", Level.REC, "V1-NEW-13", "session")
async def mcp_broken(ctx: Context) -> None:
    """Pass an MCP server whose command does not exist. The session is opened and works."""
    missing = str(ctx.elsewhere / "no-such-program")
    server = {"name": "broken", "command": missing, "args": [], "env": []}
    await _opens_with(ctx, server)


@check("NEW-07.silent", "an MCP server that never answers", Level.REC, "V1-NEW-13", "session")
async def mcp_silent(ctx: Context) -> None:
    """Pass an MCP server that says nothing. The session is opened in bounded time."""
    sleep = "import time; time.sleep(600)"
    server = {"name": "silent", "command": sys.executable, "args": ["-c", sleep], "env": []}
    await _opens_with(ctx, server)


async def _opens_with(ctx: Context, server: dict[str, Any]) -> None:
    async with ctx.connection() as editor:
        params = {"cwd": str(ctx.cwd), "mcpServers": [server]}
        result = await editor.request("session/new", params, timeout=2 * ctx.timeout)
        session = Session(editor, str(result["sessionId"]), ctx.cwd, result)
        if not ctx.profile.lacks("model"):
            turn = await session.prompt("@say working", timeout=2 * ctx.timeout)
            require_stop(turn, "end_turn")


@check(
    "NEW-08",
    "additional directories",
    Level.MUST,
    "V1-DIR-03",
    "session agent:sessionCapabilities.additionalDirectories",
)
async def extra_directories(ctx: Context) -> None:
    """Pass an absolute directory, a relative one and an empty string.

    The first is accepted; a list with one of the others is refused, never silently reduced.
    """
    good = str(ctx.folder("extra"))
    async with ctx.connection() as editor:
        await editor.new_session(ctx.cwd, additionalDirectories=[good])
        for bad in ("relative/dir", ""):
            sent = await _open(editor, ctx, additionalDirectories=[good, bad])
            require_code(await sent.error(), what=f"the additional directory {bad!r}")


@check("NEW-09", "two sessions at once", Level.MUST, "V1-NEW-14", "model")
async def interleaved(ctx: Context) -> None:
    """Prompt two sessions at the same time.

    Both finish, and each shows its own text only.
    """
    async with ctx.connection() as editor:
        first, second = [await editor.new_session(ctx.cwd) for _ in range(2)]
        a = await first.start(slow(10, 10, "alpha{i} "))
        b = await second.start(slow(10, 10, "beta{i} "))
        for turn in (a, b):
            await turn.sent.wait()
            require_stop(turn, "end_turn")
    for turn, own, other in ((a, "alpha9", "beta"), (b, "beta9", "alpha")):
        require(own in turn.text, f"text {own!r} is missing from its session")
        require(other not in turn.text, f"text of another session: {turn.text!r}")


@check("NEW-09.waiting", "a session that waits holds up no other", Level.REC, "V1-NEW-14", "model")
async def not_blocked(ctx: Context) -> None:
    """While one session waits for its model, open another and prompt it. It is served at once."""
    async with ctx.connection() as editor:
        waiting = await editor.new_session(ctx.cwd)
        turn = await waiting.start("@say started\n@hang")
        await turn.until_text("started")
        other = await editor.new_session(ctx.cwd)
        require_stop(await other.prompt("@say served"), "end_turn")
        await waiting.cancel()


@check(
    "NEW-09.permission",
    "a question holds up no other session",
    Level.REC,
    "V1-NEW-14",
    "permission",
)
async def not_blocked_by_question(ctx: Context) -> None:
    """While one session waits for a permission, prompt another. It is served at once."""
    async with ctx.connection({answers.PERMISSION: answers.never}) as editor:
        waiting = await editor.new_session(ctx.cwd)
        await waiting.start(ctx.asking_call("unanswered"))
        await editor.until(lambda: editor.requests, "permission request")
        other = await editor.new_session(ctx.cwd)
        require_stop(await other.prompt("@say served"), "end_turn")
        await waiting.cancel()


async def _open(editor: Editor, ctx: Context | None = None, **fields: Any) -> Sent:
    """``session/new`` with these fields, not awaited."""
    cwd = {"cwd": str(ctx.cwd)} if ctx else {}
    return await editor.start("session/new", {**cwd, "mcpServers": [], **fields})


def _require_answer_first(editor: Editor, ids: list[str]) -> None:
    for id in ids:
        named = [m for m in editor.incoming if _names(m, id)]
        first = named[0] if named else None
        require(first and first.is_response, "the session is named before its answer", *named[:1])


def _names(message: Incoming, session: str) -> bool:
    result = (message.message or {}).get("result")
    opened = isinstance(result, dict) and result.get("sessionId") == session
    return opened or message.session == session


def _mcp(log: Path) -> dict[str, Any]:
    env = {"CONFORMANCE_MCP_WORD": MCP_WORD, "CONFORMANCE_MCP_LOG": str(log)}
    return {
        "name": "conformance",
        "command": sys.executable,
        "args": [str(Path(mcp_server.__file__)), "argument"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


def _log(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return []


def _logged(path: Path) -> list[Any]:
    return _log(path)[:1]
