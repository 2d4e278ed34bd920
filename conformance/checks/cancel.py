"""CAN: cancelling, in every phase of a turn."""

from __future__ import annotations

import time

from conformance import answers
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Session, Turn, slow
from conformance.checks.steps import (
    SPEECH,
    Sleeper,
    asked_permission,
    require_closed,
    require_stop,
    silent,
    sleeping_tool,
    still_usable,
)
from conformance.checks.verdict import NotApplicable, require
from conformance.client import AgentRequest, Answerer
from conformance.faults import Hung
from conformance.frames import Level

RACES = 50
RACE_SECONDS = 5.0
"""The race is run fifty times, or as often as fits into this time."""


@check("CAN-01", "cancelling text", Level.MUST, "V1-CANCEL-03 V1-CANCEL-04 V1-CANCEL-05", "model")
async def streaming(ctx: Context) -> None:
    """Cancel while the model speaks.

    The prompt is answered ``cancelled``, not by an error, and no update follows.
    """
    async with ctx.session() as session:
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        await session.cancel()
        await turn.sent.wait()
        await session.editor.barrier()
    require_stop(turn, "cancelled")
    require(not turn.late, "conversation after the answer", *turn.late)


@check("CAN-01.silent", "cancelling a silent model", Level.SHOULD, "V1-CANCEL-02", "model")
async def before_first_token(ctx: Context) -> None:
    """Cancel before the model has said anything. ``cancelled``, and the next prompt works.

    Model requests should be stopped as soon as possible, not when the model speaks.
    """
    async with ctx.session() as session:
        before = len(ctx.model.requests)
        turn = await session.start("@hang")
        await ctx.model.wait_for(lambda seen: len(seen) > before, ctx.timeout)
        await session.cancel()
        await turn.sent.wait()
        require_stop(turn, "cancelled")
        await still_usable(session)


@check("CAN-01.next", "a prompt right behind a cancel", Level.MUST, "V1-CANCEL-03", "model")
async def prompt_behind_cancel(ctx: Context) -> None:
    """Cancel and prompt again without waiting for the first answer.

    The first is answered ``cancelled``; the second is answered for itself.
    """
    async with ctx.session() as session:
        first = await session.start(SPEECH)
        await first.until_text("word0")
        await session.cancel()
        second = await session.start("@say second answer")
        await first.sent.wait()
        await second.sent.wait()
    require_stop(first, "cancelled", what="the first prompt")
    if second.stop:
        require_stop(second, "end_turn", "cancelled", what="the second prompt")


@check("CAN-02", "cancelling a tool", Level.MUST, "V1-CANCEL-03", "tool:shell posix")
async def in_tool(ctx: Context) -> None:
    """Cancel while a tool's process sleeps. The prompt is answered ``cancelled``."""
    async with ctx.session() as session:
        await _cancelled_tool(ctx, session)


@check(
    "CAN-02.process",
    "cancelling ends the tool's process",
    Level.SHOULD,
    "V1-CANCEL-02",
    "tool:shell posix",
)
async def tool_ends(ctx: Context) -> None:
    """Cancel while a tool's process sleeps. The process ends."""
    async with ctx.session() as session:
        sleeper = await _cancelled_tool(ctx, session)
        await sleeper.gone()


@check(
    "CAN-02.status",
    "a cancelled tool call is closed",
    Level.REC,
    "V1-CANCEL-07 advice",
    "tool:shell posix",
)
async def tool_is_closed(ctx: Context) -> None:
    """Cancel while a tool's process sleeps. The tool call has a final status before the answer.

    Clients should show unfinished calls as cancelled on their own; not all of them do.
    """
    async with ctx.session() as session:
        require_closed((await _cancelled_tool(ctx, session)).turn)


async def _cancelled_tool(ctx: Context, session: Session) -> Sleeper:
    """A tool whose turn was cancelled while its process slept, and was answered so."""
    sleeper = await sleeping_tool(ctx, session)
    await session.cancel()
    await sleeper.turn.sent.wait()
    require_stop(sleeper.turn, "cancelled")
    return sleeper


@check("CAN-03", "cancelling a question", Level.MUST, "V1-CANCEL-03", "permission")
async def at_permission(ctx: Context) -> None:
    """Cancel while a permission is asked for; the client answers ``cancelled``, as it must.

    The prompt is answered ``cancelled`` and the tool does not run.
    """
    await _cancel_question(ctx, answers.constant(answers.CANCELLED))


@check("CAN-03.error", "the question fails", Level.MUST, "V1-CANCEL-03 V1-CANCEL-04", "permission")
async def at_failing_permission(ctx: Context) -> None:
    """The same with a client that answers the question by an error."""
    await _cancel_question(ctx, answers.failing())


@check(
    "CAN-03.never", "the question is never answered", Level.REC, "V1-CANCEL-06 advice", "permission"
)
async def at_unanswered_permission(ctx: Context) -> None:
    """The same with a client that never answers the question, although clients must."""
    await _cancel_question(ctx, answers.never)


async def _cancel_question(ctx: Context, answer: Answerer) -> None:
    async with ctx.session({answers.PERMISSION: answers.never}) as session:
        turn = await session.start(ctx.asking_call("cancelled-tool"))
        request = await asked_permission(session, turn)
        await session.cancel()
        await _answer(request, answer)
        await turn.sent.wait()
        require_stop(turn, "cancelled")
        require(not ctx.ran("cancelled-tool"), "the tool ran without permission")
        await _usable(ctx, session)


async def _answer(request: AgentRequest, answer: Answerer) -> None:
    """Answer a request that was left open before."""
    request.client.answers[request.method] = answer
    await request.client.answer(request)


async def _usable(ctx: Context, session: Session) -> None:
    session.editor.answers[answers.PERMISSION] = answers.allow
    await still_usable(session)


@check("CAN-04", "cancelling nothing", Level.REC, "V1-CANCEL-01", "session")
async def idle(ctx: Context) -> None:
    """Cancel an idle session, twice, and an unknown one. Nothing answers."""
    async with ctx.session() as session:
        for id in (session.id, session.id, "no-such-session"):
            await session.editor.notify("session/cancel", {"sessionId": id, "reason": "idle"})
        await silent(session.editor, 0)
        if not ctx.profile.lacks("model"):
            await still_usable(session)


@check("CAN-05", "cancelling at the last moment", Level.MUST, "V1-TURN-05", "model")
async def race(ctx: Context) -> None:
    """Cancel right after the last chunk, many times.

    Every prompt gets exactly one answer: ``end_turn`` or ``cancelled``.
    """
    async with ctx.session() as session:
        deadline = time.monotonic() + RACE_SECONDS
        turns: list[Turn] = []
        while len(turns) < RACES and time.monotonic() < deadline:
            turn = await session.start("@say last words")
            await turn.until_text("last words")
            await session.cancel()
            await turn.sent.wait()
            turns.append(turn)
        await session.editor.barrier()
    for number, turn in enumerate(turns):
        require_stop(turn, "end_turn", "cancelled", what=f"prompt {number}")
        times = len(turn.sent.responses)
        require(times == 1, f"prompt {number} was answered {times} times", *turn.sent.responses)


@check("CAN-06", "$/cancel_request for a prompt", Level.MUST, "V1-CREQ-02 V1-CREQ-05", "model")
async def by_request_id(ctx: Context) -> None:
    """Send ``$/cancel_request`` for a prompt that would end by itself after a second.

    The prompt is answered in any case: ``cancelled``, -32800, or as if nothing had happened.
    """
    async with ctx.session() as session:
        turn = await session.start(slow(50, 20, "word "))
        await turn.until_text("word")
        await session.editor.notify("$/cancel_request", {"requestId": turn.sent.id})
        await turn.sent.wait()
        if turn.error is not None:
            code = turn.error.get("code")
            require(code == -32800, f"the cancelled request was answered with {turn.outcome}")
        else:
            require_stop(turn, "cancelled", "end_turn")
        await still_usable(session)


@check("CAN-07", "$/cancel_request for nothing", Level.REC, "V1-CREQ-06 V1-CREQ-07", "model")
async def by_other_ids(ctx: Context) -> None:
    """Send ``$/cancel_request`` with an unknown id, a malformed one and the prompt's id as text.

    All are ignored: the prompt ends by itself.
    """
    async with ctx.session() as session:
        turn = await session.start(slow(20, 20, "word "))
        await turn.until_text("word")
        for id in ("unknown", 987654, str(turn.sent.id), None, {"a": 1}):
            await session.editor.notify("$/cancel_request", {"requestId": id})
        await silent(session.editor, 0)
        await turn.sent.wait()
    require_stop(turn, "end_turn")


@check("CAN-08", "an answer after the cancel", Level.REC, "V1-CANCEL-08", "permission")
async def late_answer(ctx: Context) -> None:
    """Cancel while a permission is asked for, and allow it after the prompt was answered.

    The tool does not run, and the next prompt works.
    """
    async with ctx.session({answers.PERMISSION: answers.never}) as session:
        turn = await session.start(ctx.asking_call("late-tool"))
        request = await asked_permission(session, turn)
        await session.cancel()
        try:
            await turn.sent.wait()
        except Hung:
            raise NotApplicable("the agent waits for the answer to its question") from None
        await _answer(request, answers.allow)
        await session.editor.barrier()
        await _usable(ctx, session)
    require(not ctx.ran("late-tool"), "the tool ran after its turn was cancelled")
    strays = session.editor.strays
    require(not strays, "the late answer was answered", *strays)


@check("CAN-09", "a cancelled session remembers", Level.REC, "V1-CANCEL-03 advice", "model")
async def remembers(ctx: Context) -> None:
    """A turn, a cancelled turn, and a third: the model is shown the first one."""
    async with ctx.session() as session:
        await session.prompt("first-words\n@say fine")
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        await session.cancel()
        await turn.sent.wait()
        require_stop(await session.prompt("third-words\n@say third"), "end_turn")
    require(
        "first-words" in ctx.shown_with("third-words"),
        "the model was not shown the turn before the cancelled one",
    )
