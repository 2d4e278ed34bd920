"""IO: the life of the process: its end, unusual files for its pipes, clients that do not read."""

from __future__ import annotations

import asyncio
import tempfile

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Editor, chunks
from conformance.checks.io import initialize_line
from conformance.checks.steps import exits, sleeping_tool
from conformance.checks.verdict import fail, require
from conformance.faults import Hung
from conformance.frames import Level
from conformance.incoming import Incoming, decode_line, encode_line, envelope
from conformance.process import run_to_exit

NOISE_LINES = 2000
STREAMED = 5000


@check("IO-09", "stdin closes while idle", Level.REC, "V1-IO-08")
async def eof_idle(ctx: Context) -> None:
    """Close stdin after ``initialize``.

    The agent exits with code 0 and leaves no process behind.
    """
    async with ctx.connection(end=False) as editor:
        editor.close_stdin()
        code = await exits(editor)
        require(code == 0, f"the agent exited with code {code}")
        await _leaves_nothing(ctx, editor)


@check("IO-10", "stdin closes while a tool runs", Level.REC, "V1-IO-08", "tool:shell posix")
async def eof_mid_turn(ctx: Context) -> None:
    """Close stdin while a tool's process sleeps. The agent exits and the process is gone."""
    async with ctx.session(end=False) as session:
        sleeper = await sleeping_tool(ctx, session)
        session.editor.close_stdin()
        await exits(session.editor)
        await sleeper.gone()
        await _leaves_nothing(ctx, session.editor)


@check("IO-11", "stdin is at its end from the start", Level.REC, "V1-IO-08", "nothing")
async def no_stdin(ctx: Context) -> None:
    """Start the agent on an empty stdin. It exits with code 0 and prints nothing."""
    code, printed = await _run_on_files(ctx, b"")
    require(code == 0, f"the agent exited with code {code}")
    require(not printed, f"the agent printed {printed[:200]!r}")


@check("IO-12", "stdin and stdout are regular files", Level.REC, "V1-IO-12")
async def regular_files(ctx: Context) -> None:
    """Give the agent files for stdin and stdout. It answers as on pipes."""
    _code, printed = await _run_on_files(ctx, initialize_line())
    first = Incoming(0, decode_line(printed.split(b"\n", 1)[0]))
    require(first.is_response, f"the output file begins with {printed[:200]!r}")


@check("IO-13", "nobody reads stderr", Level.REC, "V1-IO-04")
async def stderr_is_full(ctx: Context) -> None:
    """Never read stderr, ask for debug logs, and send thousands of unknown notifications.

    The next request is answered: logging must not block the protocol.
    """
    chatty = ctx.environment(DEBUG="*", LOG_LEVEL="debug", RUST_LOG="debug", LOGLEVEL="DEBUG")
    async with ctx.connection(env=chatty) as editor:
        editor.process.pause(2)
        line = encode_line(envelope("_conformance.invalid/noise", {"filler": "x" * 200}))
        await editor.send_raw(line * NOISE_LINES)
        await editor.barrier()
        editor.process.resume(2)


@check("IO-14", "stdout is closed", Level.REC, "V1-IO-15")
async def stdout_is_closed(ctx: Context) -> None:
    """Close the reading end of the agent's stdout and make it write.

    The process ends, though its stdin is still open.
    """
    async with ctx.connection(end=False) as editor:
        editor.process.close_stdout()
        await ctx.eventually(lambda: editor.process.ended, "end of the agent's stdout")
        for _ in range(3):
            await editor.start("_conformance.invalid/write", {})
        await exits(editor)


@check("IO-15", "the client reads slowly", Level.REC, "V1-IO-11", "model")
async def slow_reader(ctx: Context) -> None:
    """Stop reading while the model streams, and cancel.

    The agent still takes the cancel (its model request ends). When reading goes on, the text is
    a beginning of what the model said, in order, and the prompt is answered ``cancelled``.
    """
    async with ctx.session() as session:
        turn = await session.start(f"{chunks(STREAMED, 'word{i} ')}\n@hang")
        await turn.until_text("word0 ")
        session.editor.process.pause(1)
        await session.cancel()
        await _aborted(ctx)
        session.editor.process.resume(1)
        await turn.sent.wait()
    whole = "".join(f"word{i} " for i in range(STREAMED))
    shown = turn.text[turn.text.index("word0 ") :]
    require(whole.startswith(shown.rstrip()), "text was lost or reordered")
    require(turn.stop == "cancelled", f"the cancelled prompt was answered with {turn.outcome}")


async def _aborted(ctx: Context) -> None:
    """Wait until the agent has let go of its model request."""
    request = ctx.model.requests[-1]
    try:
        async with asyncio.timeout(ctx.timeout):
            await request.finished.wait()
    except TimeoutError:
        raise Hung("the model request went on after the cancel") from None


async def _leaves_nothing(ctx: Context, editor: Editor) -> None:
    try:
        await ctx.eventually(lambda: not editor.children(), "end of the agent's children")
    except Hung:
        fail(f"processes outlive the agent: {editor.children()}")


async def _run_on_files(ctx: Context, content: bytes) -> tuple[int, bytes]:
    """Run the agent from a file into a file: its exit code and what it printed."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
        stdin.write(content)
        stdin.seek(0)
        try:
            code = await run_to_exit(
                ctx.command,
                cwd=ctx.start,
                env=ctx.environment(),
                stdin=stdin,
                stdout=stdout,
                timeout=ctx.timeout,
            )
        except TimeoutError:
            raise Hung(f"the agent did not exit within {ctx.timeout:g} s") from None
        stdout.seek(0)
        return code, stdout.read()
