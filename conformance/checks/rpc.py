"""RPC: JSON-RPC envelopes, ids, errors and what must be ignored."""

from __future__ import annotations

import json
import re
from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import API_KEY, Context
from conformance.checks.editor import capability
from conformance.checks.steps import SPEECH, require_stop, silent, still_usable
from conformance.checks.verdict import NotApplicable, require, require_code
from conformance.client import Sent
from conformance.frames import Level
from conformance.incoming import ABSENT, envelope

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@check("RPC-01", "an unknown request", Level.SHOULD, "V1-EXT-06")
async def unknown_request(ctx: Context) -> None:
    """Request ``foo/bar``. It is answered by -32601."""
    async with ctx.connection() as editor:
        error = await (await editor.start("foo/bar", {})).error()
    require_code(error, -32601, what="foo/bar")


@check("RPC-02", "unknown notifications", Level.SHOULD, "V1-EXT-06 V1-RPC-02 V1-CREQ-01")
async def unknown_notifications(ctx: Context) -> None:
    """Send the notifications ``foo/bar`` and ``$/foo``. Nothing answers them."""
    async with ctx.connection() as editor:
        for method in ("foo/bar", "$/foo"):
            await editor.notify(method, {})
        await silent(editor, 0)


@check("RPC-03", "ids come back unchanged", Level.MUST, "V1-RPC-03")
async def id_types(ctx: Context) -> None:
    """Use the ids ``"a"``, ``"7"``, 0, -5 and 2^53. Each answer has the same value and type."""
    async with ctx.connection() as editor:
        for id in ("a", "7", 0, -5, 2**53):
            sent = await editor.start("_conformance.invalid/id", {}, id=id)
            await _answered_somehow(sent)
            shown = f"the request with id {json.dumps(id)} was answered under another id"
            require(sent.response is not None, shown, *editor.strays)


async def _answered_somehow(sent: Sent) -> None:
    """Wait for an answer, under whatever id it comes."""
    editor = sent.client
    await editor.until(
        lambda: sent.response or editor.strays, f"answer with the id {json.dumps(sent.id)}"
    )


@check("RPC-04", "a response to nothing", Level.REC, "V1-RPC-07")
async def stray_response(ctx: Context) -> None:
    """Send a result and an error with ids the agent never used. They are ignored."""
    async with ctx.connection() as editor:
        error = {"code": -32603, "message": "never asked"}
        await editor.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
        await editor.send({"jsonrpc": "2.0", "id": "nobody", "error": error})
        await editor.barrier()
    require(not editor.strays, "a response was answered", *editor.strays)


@check("RPC-05", "an id that is in use", Level.REC, "V1-RPC-10", "model", judged=False)
async def duplicate_id(ctx: Context) -> None:
    """Send a second request with the id of a prompt that is still running.

    The second is answered by -32600 and the prompt goes on until it is cancelled.
    """
    async with ctx.session() as session:
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        second = session.editor.expect("_x/y", turn.sent.id)
        await session.editor.send({**envelope("_x/y", {}), "id": turn.sent.id})
        await session.editor.barrier()
        await session.cancel()
        await session.editor.until(
            lambda: len(turn.sent.responses + second.responses) > 1, "answer to both requests"
        )
        answers = turn.sent.responses + second.responses
    codes = [m.message["error"].get("code") for m in answers if m.message and "error" in m.message]
    require(codes == [-32600], f"the two requests got the errors {codes}", *answers)


@check("RPC-06", "params left out", Level.REC, "A.0")
async def missing_params(ctx: Context) -> None:
    """Call methods without required params, with none and with ``params: null``.

    Both count as ``{}``.
    """
    gates = {
        "session/list": "sessionCapabilities.list",
        "logout": "auth.logout",
    }
    methods = [method for method, gate in gates.items() if ctx.profile.offers(gate)]
    if not methods:
        raise NotApplicable("the agent advertises neither session/list nor logout")
    async with ctx.connection() as editor:
        for method in methods:
            for params in (ABSENT, None):
                await editor.request(method, params)


@check("RPC-07", "unknown fields", Level.REC, "V1-EXT-08", "session")
async def unknown_fields(ctx: Context) -> None:
    """Add fields of a future version to requests. They are ignored."""
    future: dict[str, Any] = {"fromTheFuture": {"a": [1, None]}, "alsoNew": True}
    async with ctx.agent() as editor:
        await editor.initialize({"newCapability": {}}, **future)
        if ctx.profile.login:
            await editor.request("authenticate", {"methodId": ctx.profile.login, **future})
        session = await editor.new_session(ctx.cwd, **future)
        if not ctx.profile.lacks("model"):
            block = {"type": "text", "text": "@begin\n@say fine", **future}
            require_stop(await session.prompt([block], **future), "end_turn")


@check("RPC-08", "_meta that looks like params", Level.REC, "V1-EXT-09", "model")
async def meta_collision(ctx: Context) -> None:
    """Prompt with ``_meta`` holding another ``sessionId`` (in two spellings) and ``prompt``.

    The real session and prompt are used.
    """
    other = {"sessionId": "other", "session_id": "other", "prompt": [], "cwd": "/"}
    async with ctx.session() as session:
        turn = await session.prompt("@say the right one", _meta=other)
    require_stop(turn, "end_turn")
    require("the right one" in turn.text, "the prompt was answered without the model's text")


@check("RPC-09", "_meta of any content", Level.MUST, "V1-EXT-02", "session")
async def meta_contents(ctx: Context) -> None:
    """Send ``_meta`` as null, empty, and as a nested object. It changes nothing."""
    await _with_meta(ctx, None, {}, {"deep": {"er": [None, {"x": 1}]}})


@check("RPC-09.malformed", "_meta that is no object", Level.REC, "V1-EXT-02 advice", "session")
async def meta_garbage(ctx: Context) -> None:
    """Send ``_meta`` as a number, a text and a list. It counts as absent, as the schema advises."""
    await _with_meta(ctx, 5, "text", [])


async def _with_meta(ctx: Context, *shapes: Any) -> None:
    async with ctx.connection() as editor:
        for shape in shapes:
            session = await editor.new_session(ctx.cwd, _meta=shape)
            if not ctx.profile.lacks("model"):
                require_stop(await session.prompt("@say fine", _meta=shape), "end_turn")


@check("RPC-10", "trace context", Level.MAY, "V1-EXT-04", "permission")
async def trace_context(ctx: Context) -> None:
    """Prompt with ``_meta.traceparent`` and a tool that asks for permission.

    If the agent's requests carry a trace parent, it is well-formed and of the same trace.
    """
    meta = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}
    async with ctx.session() as session:
        await session.prompt(ctx.asking_call("traced"), _meta=meta)
    for request in session.editor.requests:
        given = capability(request.params, "_meta.traceparent")
        if given is not None:
            match = TRACEPARENT.fullmatch(str(given))
            require(match, f"{given!r} is not a trace parent", request.incoming)
            same = match is not None and match[1] == TRACE_ID
            require(same, f"{given!r} is another trace than the prompt's", request.incoming)


@check("RPC-11", "no secrets in errors", Level.REC, "V1-RPC-08", "model")
async def error_hygiene(ctx: Context) -> None:
    """Let the provider refuse the key and repeat it in its error.

    No message of the agent holds the key or a traceback.
    """
    async with ctx.session() as session:
        refusal = json.dumps(f"Incorrect API key provided: {API_KEY}")
        await session.prompt(f"@status 401 {refusal}")
        await still_usable(session)
    for message in session.editor.incoming:
        raw = session.editor.frames[message.index].raw.decode(errors="replace")
        require(API_KEY not in raw, "a message shows the API key", message)
        require("Traceback (most recent" not in raw, "a message shows a traceback", message)


@check("EXT-01", "custom methods", Level.MUST, "V1-EXT-05 V1-RPC-02")
async def custom_methods(ctx: Context) -> None:
    """Send an unknown request and an unknown notification whose names begin with ``_``.

    The request is answered with its id, the notification by nothing.
    """
    async with ctx.connection() as editor:
        await (await editor.start("_conformance.invalid/custom", {"a": 1})).wait()
        await editor.notify("_conformance.invalid/custom", {"a": 1})
        await silent(editor, 0)


@check("EXT-01.code", "unknown custom methods are not found", Level.SHOULD, "V1-EXT-06")
async def custom_method_code(ctx: Context) -> None:
    """Send an unknown request whose name begins with ``_``. It is answered by -32601."""
    async with ctx.connection() as editor:
        error = await (await editor.start("_conformance.invalid/custom", {"a": 1})).error()
    require_code(error, -32601, what="an unknown custom request")
