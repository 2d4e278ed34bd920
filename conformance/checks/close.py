"""CLOSE: ending a session while the connection goes on."""

from __future__ import annotations

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import CONVERSATION, spoken
from conformance.checks.load import LOAD
from conformance.checks.steps import SPEECH, require_stop, sleeping_tool
from conformance.checks.verdict import require, require_object
from conformance.frames import Level

CLOSE = "agent:sessionCapabilities.close"


@check("CLOSE-01", "closing cancels", Level.MUST, "V1-CLOSE-02 V1-CLOSE-03", f"model {CLOSE}")
async def cancels(ctx: Context) -> None:
    """Close a session while its prompt runs.

    The prompt is answered ``cancelled`` and the close by an object.
    """
    async with ctx.session() as session:
        turn = await session.start("@say started\n@hang")
        await turn.until_text("started")
        closing = await session.close()
        require_object(await closing.result(), "the result of session/close")
        await turn.sent.wait()
    require_stop(turn, "cancelled")


@check("CLOSE-01.order", "a closed session is quiet", Level.REC, "V1-CLOSE-05", f"model {CLOSE}")
async def quiet(ctx: Context) -> None:
    """Close a session while its prompt runs.

    The prompt is answered before the close, and nothing of the session comes after it.
    """
    async with ctx.session() as session:
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        closed = await (await session.close()).wait()
        answered = await turn.sent.wait()
        await session.editor.barrier()
    require(answered.index < closed.index, "the close was answered before the prompt", closed)
    after = [m for m in session.updates() if m.index > closed.index]
    require(not after, "an update of the closed session", *after[:3])


@check(
    "CLOSE-01.children",
    "closing ends processes",
    Level.MUST,
    "V1-CLOSE-02",
    f"tool:shell posix {CLOSE}",
)
async def ends_processes(ctx: Context) -> None:
    """Close a session while a tool's process sleeps. The process ends."""
    async with ctx.session() as session:
        sleeper = await sleeping_tool(ctx, session)
        await (await session.close()).result()
        await sleeper.gone()


@check(
    "CLOSE-02",
    "a closed session can be loaded",
    Level.REC,
    "V1-CLOSE-06",
    f"model agent:loadSession {CLOSE}",
)
async def loads_again(ctx: Context) -> None:
    """Close a session that has had a turn, and load it on the same connection. It is replayed."""
    async with ctx.session() as session:
        require_stop(await session.prompt("@say remembered"), "end_turn")
        await (await session.close()).result()
        since = len(session.editor.incoming)
        again = await session.editor.reopen(LOAD, session)
    shown = [m for m in again.updates(since) if m.kind in CONVERSATION]
    text = spoken(shown, "agent_message_chunk")
    require("remembered" in text, "the closed session is loaded without its conversation")
