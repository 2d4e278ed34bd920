"""FORK: a session that begins as a copy of another. The method is not stable yet."""

from __future__ import annotations

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Session
from conformance.checks.steps import require_stop
from conformance.checks.verdict import require, require_object
from conformance.frames import Level

FORK = "model agent:sessionCapabilities.fork"


async def forked(source: Session) -> Session:
    """A fork of ``source`` on the same connection."""
    params = {"sessionId": source.id, "cwd": str(source.cwd), "mcpServers": []}
    answer = await source.editor.request("session/fork", params)
    result = require_object(answer, "the result of session/fork")
    require(isinstance(result.get("sessionId"), str), f"no sessionId in {result}")
    return Session(source.editor, result["sessionId"], source.cwd, result)


@check("FORK-01", "a fork remembers", Level.REC, "V1-FORK-01 advice", FORK)
async def remembers(ctx: Context) -> None:
    """Fork a session that has had a turn, and prompt the fork.

    It has an id of its own, and the model is shown what was said before.
    """
    async with ctx.session() as source:
        require_stop(await source.prompt("before-the-fork\n@say fine"), "end_turn")
        fork = await forked(source)
        require(fork.id != source.id, "the fork has the id of its source")
        require_stop(await fork.prompt("in-the-fork\n@say fine"), "end_turn")
    shown = "before-the-fork" in ctx.shown_with("in-the-fork")
    require(shown, "the model was not shown what was said before the fork")


@check("FORK-01.source", "the source is untouched", Level.REC, "V1-FORK-01 advice", FORK)
async def source_untouched(ctx: Context) -> None:
    """Prompt the fork, then its source. The model is not shown the fork's words there."""
    async with ctx.session() as source:
        require_stop(await source.prompt("@say fine"), "end_turn")
        fork = await forked(source)
        require_stop(await fork.prompt("words-of-the-fork\n@say fine"), "end_turn")
        require_stop(await source.prompt("in-the-source\n@say fine"), "end_turn")
    leaked = "words-of-the-fork" in ctx.shown_with("in-the-source")
    require(not leaked, "the model was shown the words of the fork in its source")
