"""IO: the stdio transport, from bytes and lines to the end of the process."""

from __future__ import annotations

import asyncio
import json

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import initialize_params, say, tool
from conformance.checks.steps import refused
from conformance.checks.verdict import require
from conformance.frames import Level
from conformance.incoming import encode_line, envelope

UNICODE = "one\ntwo\u2028three\u2029four\u0085five😀six"
RAW_SEPARATORS = [mark.encode() for mark in ("\u2028", "\u2029", "\u0085")]
MIB = 1024 * 1024
LARGE = 20 * MIB
OVERSIZE = 128 * MIB
BETWEEN_BYTES = 0.002
"""Seconds between single bytes, so that the agent reads them one by one."""


def initialize_line(id: int = 0) -> bytes:
    return encode_line({**envelope("initialize", initialize_params()), "id": id})


@check("IO-01", "nothing but messages on stdout", Level.MUST, "V1-IO-03", "session")
async def stdout_is_pure(ctx: Context) -> None:
    """Run a session with warnings switched on and a tool that prints to both of its outputs.

    Every line of stdout, also after stdin was closed, is a JSON-RPC message.
    """
    noisy = ctx.environment(PYTHONWARNINGS="default", TERM="xterm-256color")
    async with ctx.session(env=noisy) as session:
        if not ctx.profile.lacks("model"):
            command = r"echo noise; echo noise >&2; printf '\033]0;title\007'"
            await session.prompt(tool("shell", command=command))
    for message in session.editor.incoming:
        proper = message.message is not None and message.message.get("jsonrpc") == "2.0"
        require(proper, "a line of stdout is not a JSON-RPC message", message)


@check("IO-02", "one line per message, content intact", Level.MUST, "V1-IO-02", "model")
async def framing(ctx: Context) -> None:
    """Let the model say newlines, Unicode separators and an emoji.

    The chunks joined hold exactly that text.
    """
    async with ctx.session() as session:
        turn = await session.prompt(say(UNICODE))
    require(UNICODE in turn.text, f"the model said {UNICODE!r}, the agent showed {turn.text!r}")


@check("IO-02.separators", "separators leave escaped", Level.REC, "V1-IO-02 advice", "model")
async def separators_are_escaped(ctx: Context) -> None:
    """Let the model say U+2028, U+2029 and U+0085.

    They are escaped on the wire: some clients cut lines at them. The specification only forbids
    raw newlines, so this is advice.
    """
    async with ctx.session() as session:
        await session.prompt(say(UNICODE))
    for message in session.editor.incoming:
        raw = session.editor.frames[message.index].raw
        found = [mark for mark in RAW_SEPARATORS if mark in raw]
        require(not found, "a line separator other than the line feed is not escaped", message)


@check("IO-03", "UTF-8 whatever the locale", Level.MUST, "V1-IO-01", "model")
async def utf8(ctx: Context) -> None:
    """Start the agent under a Latin-1 or C locale; prompt and answer hold text beyond it.

    The model sees the prompt unchanged and the client sees the answer unchanged.
    """
    asked, said = "Messgerät 日本 😀", "größer 中文 🎉"
    locale = ctx.environment(
        LC_ALL="C", LANG="C", PYTHONIOENCODING="latin-1", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    async with ctx.session(env=locale) as session:
        turn = await session.prompt(f"{asked}\n{say(said)}")
    require(asked in ctx.model_texts, f"the prompt {asked!r} did not reach the model unchanged")
    require(said in turn.text, f"the model said {said!r}, the agent showed {turn.text!r}")


@check("IO-04", "a line that is not JSON", Level.REC, "V1-IO-05")
async def parse_error(ctx: Context) -> None:
    """Send ``{not json``.

    It is answered by -32700 with id null, and the next request works.
    """
    async with ctx.connection() as editor:
        await refused(editor, b"{not json", -32700)


@check("IO-05", "scalars and arrays", Level.REC, "V1-IO-14")
async def not_an_object(ctx: Context) -> None:
    """Send ``42``, ``"x"``, ``null``, ``[]`` and a batch with one request.

    Each is answered by one -32600 with id null, and the agent goes on.
    """
    batch = json.dumps([{"jsonrpc": "2.0", "id": "batched", "method": "_x/y"}])
    async with ctx.connection() as editor:
        for line in (b"42", b'"x"', b"null", b"[]", batch.encode()):
            await refused(editor, line, -32600)


@check("IO-06.crlf", "a request that ends with CRLF", Level.REC, "V1-IO-09")
async def crlf(ctx: Context) -> None:
    """End a request with CR LF. It is handled like any other."""
    async with ctx.agent() as editor:
        sent = editor.expect("initialize", 0)
        await editor.send_raw(initialize_line().replace(b"\n", b"\r\n"))
        await sent.result()


@check("IO-06.blank", "blank lines", Level.REC, "V1-IO-09")
async def blank_lines(ctx: Context) -> None:
    """Send blank lines before and after a request. They are ignored."""
    async with ctx.agent() as editor:
        sent = editor.expect("initialize", 0)
        await editor.send_raw(b"\n \n\r\n" + initialize_line() + b"\n")
        await sent.result()
        await editor.barrier()
    require(not editor.strays, "a blank line was answered", *editor.strays)


@check("IO-06.unterminated", "a last line without newline", Level.REC, "V1-IO-09")
async def unterminated(ctx: Context) -> None:
    """Send a request without its newline, then close stdin. It is still answered."""
    async with ctx.agent(end=False) as editor:
        sent = editor.expect("initialize", 0)
        await editor.send_raw(initialize_line().rstrip())
        editor.close_stdin()
        await sent.result()


@check("IO-07.large", "a line of 20 MiB", Level.REC, "V1-IO-10")
async def large_line(ctx: Context) -> None:
    """Send an extension request of 20 MiB, the size of a few inline images.

    It is answered (that the method is unknown is fine), and the next request works.
    """
    async with ctx.connection() as editor:
        params = {"filler": "x" * LARGE}
        sent = await editor.start("_conformance.invalid/large", params)
        await sent.wait(3 * ctx.timeout)
        await editor.barrier()


@check("IO-07.oversize", "a line of 128 MiB", Level.REC, "V1-IO-10")
async def oversize_line(ctx: Context) -> None:
    """Send a line of 128 MiB that is not JSON. The next request works."""
    async with ctx.connection() as editor:
        piece = b"x" * MIB
        for _ in range(OVERSIZE // MIB):
            await editor.send_raw(piece)
        await editor.send_raw(b"\n")
        sent = await editor.start("_conformance.invalid/after", {})
        await sent.wait(3 * ctx.timeout)


@check("IO-08.split", "a request in one-byte writes", Level.MUST, "V1-IO-02")
async def split_writes(ctx: Context) -> None:
    """Write a request byte by byte. It is handled once it is complete."""
    async with ctx.connection() as editor:
        sent = editor.expect("_x/y", "split")
        for byte in encode_line({**envelope("_x/y", {}), "id": "split"}):
            await editor.send_raw(bytes([byte]))
            await asyncio.sleep(BETWEEN_BYTES)
        await sent.wait()


@check("IO-08.joined", "three requests in one write", Level.MUST, "V1-IO-02")
async def joined_writes(ctx: Context) -> None:
    """Write three requests at once. All are answered."""
    async with ctx.connection() as editor:
        ids = [editor.fresh_id() for _ in range(3)]
        sent = [editor.expect("_x/y", id) for id in ids]
        lines = (encode_line({**envelope("_x/y", {}), "id": id}) for id in ids)
        await editor.send_raw(b"".join(lines))
        for request in sent:
            await request.wait()
