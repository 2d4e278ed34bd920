"""TURN: prompts, their updates and how they end."""

from __future__ import annotations

import base64
from collections import defaultdict

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Session, Turn, say, slow, spoken
from conformance.checks.steps import require_closed, require_stop, still_usable
from conformance.checks.verdict import NotApplicable, require, require_code
from conformance.faults import Hung
from conformance.frames import Level
from conformance.incoming import Json
from conformance.model_server import ModelRequest

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
OPTIONAL_BLOCKS: dict[str, Json] = {
    "image": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "audio": {
        "type": "audio",
        "data": base64.b64encode(b"RIFF").decode(),
        "mimeType": "audio/wav",
    },
    "embeddedContext": {
        "type": "resource",
        "resource": {"uri": "file:///embedded.txt", "text": "embedded words"},
    },
}
"""Prompt blocks by the capability that announces them."""
BUDGET_CALLS = 150
"""Model calls after which an agent is taken to have no limit of its own."""
BUSY_CALLS = 20
"""Model calls after which a turn that goes on is busy, not stuck."""
AT_ONCE = 20


@check("TURN-01", "a turn", Level.MUST, "V1-TURN-02 V1-STOP-01", "model")
async def basic(ctx: Context) -> None:
    """Prompt; the model says a text in three pieces.

    Chunks with that text come before the answer, which is ``end_turn``.
    """
    async with ctx.session() as session:
        turn = await session.prompt("\n".join((say("one "), say("two "), say("three"))))
        await session.editor.barrier()
    require_stop(turn, "end_turn")
    require("one two three" in turn.text, f"the agent showed {turn.text!r}")
    require(not turn.late, "conversation after the answer", *turn.late)


@check("TURN-02", "resource links", Level.MUST, "V1-INIT-13", "model")
async def resource_link(ctx: Context) -> None:
    """Prompt with a link to a file. It is accepted and the model is shown the reference."""
    path = ctx.put("linked-file.txt", "linked words\n")
    link = {"type": "resource_link", "uri": path.as_uri(), "name": "linked-file.txt"}
    async with ctx.session() as session:
        turn = await session.prompt([{"type": "text", "text": "@begin\n@say seen"}, link])
    require_stop(turn, "end_turn")
    seen = "linked-file.txt" in ctx.model_texts or "linked words" in ctx.model_texts
    require(seen, "the model was shown neither the link nor the file behind it")


@check("TURN-02.optional", "advertised blocks", Level.MUST, "V1-INIT-14", "model")
async def optional_blocks(ctx: Context) -> None:
    """Prompt with every kind of block the agent advertises. Each is accepted.

    Embedded text reaches the model.
    """
    kinds = [kind for kind in OPTIONAL_BLOCKS if ctx.profile.offers(f"promptCapabilities.{kind}")]
    if not kinds:
        raise NotApplicable("the agent advertises no optional prompt content")
    async with ctx.session() as session:
        for kind in kinds:
            text = {"type": "text", "text": "@begin\n@say seen"}
            turn = await session.prompt([text, OPTIONAL_BLOCKS[kind]])
            require_stop(turn, "end_turn", what=f"a prompt with {kind}")
    if "embeddedContext" in kinds:
        require("embedded words" in ctx.model_texts, "the model was not shown the embedded text")


@check("TURN-03", "undeclared blocks", Level.REC, "V1-TURN-01", "model")
async def undeclared_blocks(ctx: Context) -> None:
    """Prompt with a kind of block the agent does not advertise.

    It is refused with -32602, and the model is not asked.
    """
    kinds = [k for k in OPTIONAL_BLOCKS if not ctx.profile.offers(f"promptCapabilities.{k}")]
    if not kinds:
        raise NotApplicable("the agent advertises every kind of prompt content")
    async with ctx.session() as session:
        before = len(ctx.model.requests)
        text = {"type": "text", "text": "@begin\n@say seen"}
        turn = await session.prompt([text, OPTIONAL_BLOCKS[kinds[0]]])
        require_code(await turn.sent.error(), -32602, what=f"a prompt with {kinds[0]}")
        require(len(ctx.model.requests) == before, "the model was asked all the same")


@check("TURN-04", "the token limit", Level.MUST, "V1-STOP-02", "model")
async def token_limit(ctx: Context) -> None:
    """Let the model stop by length.

    The prompt is answered ``max_tokens``, unless the agent asked the model to go on.
    """
    async with ctx.session() as session:
        turn = await session.prompt("@say truncated-text\n@finish length")
    if any(_continues(request, "truncated-text") for request in ctx.model.requests):
        raise NotApplicable("the agent lets the model go on after a truncated answer")
    require_stop(turn, "max_tokens")


def _continues(request: ModelRequest, text: str) -> bool:
    """Whether the model is asked again with its truncated answer in view."""
    return any(entry.role == "assistant" and text in entry.text for entry in request.entries)


@check("TURN-05", "the request limit", Level.MUST, "V1-STOP-03", "tool:any")
async def request_limit(ctx: Context) -> None:
    """Let the model call tools without end.

    An agent with a limit answers ``max_turn_requests``. One that goes on for 150 calls, or for
    as many as the time allows, has none that we could see.
    """
    async with ctx.session() as session:
        turn = await session.start(endless(ctx))
        calls = ctx.model.requests

        def over() -> bool:
            return turn.sent.response is not None or len(calls) > BUDGET_CALLS

        try:
            await ctx.eventually(over, "end of the turn", 5 * ctx.timeout)
        except Hung:
            if len(calls) < BUSY_CALLS:
                raise
        if turn.sent.response is None:
            await session.cancel()
            await turn.sent.wait()
            raise NotApplicable(f"the agent has no limit below {len(calls)} model calls")
    if not calls[-1].tools:
        raise NotApplicable("the agent took its tools away to make the model finish")
    require_stop(turn, "max_turn_requests")


def endless(ctx: Context) -> str:
    """The prompt for a model that calls a tool again and again, each time a little differently."""
    calls = (ctx.harmless_call(f"notes-{number}.txt") for number in range(BUDGET_CALLS + 10))
    return "\n@then\n".join(calls)


@check("TURN-06", "a refusal", Level.REC, "V1-STOP-05 advice", "model")
async def refusal(ctx: Context) -> None:
    """Let the model refuse. The prompt is answered ``refusal``.

    When an agent refuses is its own decision; that of its model is the natural occasion.
    """
    async with ctx.session() as session:
        turn = await session.prompt("@say I cannot\n@finish refusal")
    require_stop(turn, "refusal")


@check("TURN-06.context", "a refused prompt is forgotten", Level.MUST, "V1-STOP-05", "model")
async def refused_is_forgotten(ctx: Context) -> None:
    """After a refusal, prompt again. The model is not shown the refused prompt."""
    async with ctx.session() as session:
        turn = await session.prompt("refused-words\n@say I cannot\n@finish refusal")
        if turn.stop != "refusal":
            raise NotApplicable("the agent does not answer refusal")
        require_stop(await session.prompt("later-words\n@say fine"), "end_turn")
    shown = "refused-words" in ctx.shown_with("later-words")
    require(not shown, "the model was shown the refused prompt again")


@check("TURN-07", "the provider refuses the request", Level.REC, "V1-STOP-06", "model")
async def provider_error(ctx: Context) -> None:
    """Let the provider answer HTTP 400, then 401.

    Each prompt is answered by a JSON-RPC error, and the next one works.
    """
    async with ctx.session() as session:
        for status in (400, 401):
            turn = await session.prompt(f"@status {status} the provider says no")
            said = f"HTTP {status} was answered with {turn.outcome}, expected an error"
            require(turn.error is not None, said)
            await still_usable(session)


@check("TURN-07.server", "the provider is down", Level.REC, "V1-STOP-06", "model")
async def provider_down(ctx: Context) -> None:
    """Let the provider answer HTTP 500 to every attempt.

    The prompt is answered by an error, or the agent is still trying and can be cancelled; after
    that the next prompt works.
    """
    async with ctx.session() as session:
        turn = await session.start("@status 500 down")
        try:
            await turn.sent.wait()
            require(turn.error is not None, f"HTTP 500 was answered with {turn.outcome}")
        except Hung:
            await session.cancel()
            await turn.sent.wait()
            require_stop(turn, "cancelled")
        await still_usable(session)


@check("TURN-07.cut", "a cut stream is no answer", Level.REC, "V1-STOP-06", "model")
async def cut_stream(ctx: Context) -> None:
    """Cut the model's stream in the middle; a second attempt would work.

    The agent tries again or answers with an error. What it does not do is to call it a turn.
    """
    async with ctx.session() as session:
        turn = await session.start("@say half\n@cut\n@retry\n@say the whole answer")
        await turn.sent.wait(3 * ctx.timeout)
        require_closed(turn)
        whole = turn.error is not None or "the whole answer" in turn.text
        require(whole, f"a cut stream was answered with {turn.outcome}")
        await still_usable(session)


@check("TURN-08", "two prompts at once", Level.REC, "V1-TURN-07", "model")
async def overlap(ctx: Context) -> None:
    """Send a second prompt while the first runs.

    The first ends as if alone; the second is answered too, by a result or by an error.
    """
    async with ctx.session() as session:
        first = await session.start(slow(20, 10, "first{i} "))
        await first.until_text("first0")
        second = await session.start("@say second")
        await first.sent.wait()
        require_stop(first, "end_turn", what="the first prompt")
        await second.sent.wait()
        everything = spoken(session.updates(), "agent_message_chunk")
    whole = "".join(f"first{i} " for i in range(20)).strip()
    require(whole in everything, "text of the first turn is lost or mixed with another")
    require(second.error is not None or second.stop, "the second prompt has no proper answer")
    if second.stop == "end_turn":
        require("second" in everything, "the second prompt was answered without its text")


@check("TURN-09", "the next prompt at once", Level.REC, "V1-TURN-08", "model")
async def immediate_next(ctx: Context) -> None:
    """Send each of twenty prompts in the moment the one before is answered. All are accepted."""
    async with ctx.session() as session:
        for number in range(AT_ONCE):
            turn = await session.prompt(f"@say number {number}")
            require_stop(turn, "end_turn", what=f"prompt {number}")


@check("TURN-10", "message ids", Level.MUST, "V1-MSG-02", "model")
async def message_ids(ctx: Context) -> None:
    """Two turns, each with a text in several chunks.

    If chunks have message ids: one message has one id, and no id comes again in a later turn or
    for another speaker.
    """
    async with ctx.session() as session:
        turns = [await session.prompt(slow(3, 10, "word{i} ")) for _ in range(2)]
    chunks = [[m for m in turn.updates if m.kind == "agent_message_chunk"] for turn in turns]
    ids = [_ids(turn, "word") for turn in turns]
    if not any(ids):
        raise NotApplicable("the agent sends no message ids")
    for found, shown in zip(ids, chunks, strict=True):
        require(len(found) == 1, f"the chunks of one message have the ids {sorted(found)}", *shown)
    require(not ids[0] & ids[1], f"the message id {ids[0]} is used in two turns", *chunks[1][:1])
    speakers: dict[str, set[str]] = defaultdict(set)
    for message in session.updates():
        if message.kind in {"user_message_chunk", "agent_message_chunk"}:
            speakers[str(message.update.get("messageId"))].add(message.kind)
    shared = [id for id, kinds in speakers.items() if len(kinds) > 1 and id != "None"]
    require(not shared, f"user and agent share the message ids {shared}")


@check("TURN-10.tools", "a message ends at a tool call", Level.REC, "V1-MSG-02 advice", "tool:any")
async def ids_around_tools(ctx: Context) -> None:
    """Let the model speak, call a tool, and speak again. The two messages have different ids."""
    async with ctx.session() as session:
        prompt = f"@say before\n{ctx.harmless_call()}\n@then\n@say after"
        turn = await session.prompt(prompt)
    before, after = _ids(turn, "before"), _ids(turn, "after")
    if not before or not after:
        raise NotApplicable("the agent sends no message ids")
    require(not before & after, f"both messages have the id {before & after}")


def _ids(turn: Turn, text: str) -> set[str]:
    """The message ids of the agent's chunks that hold ``text``."""
    return {
        str(m.update["messageId"])
        for m in turn.updates
        if m.kind == "agent_message_chunk"
        and m.update.get("messageId") is not None
        and text in spoken([m], m.kind)
    }


@check("TURN-11", "a prompt to an unknown session", Level.REC, "V1-RPC-09")
async def unknown_session(ctx: Context) -> None:
    """Prompt a session that does not exist. It is answered by -32002."""
    async with ctx.connection() as editor:
        turn = await Session(editor, "no-such-session", ctx.cwd, {}).prompt("@say no")
        error = await turn.sent.error()
    require_code(error, -32002, what="a prompt to an unknown session")
    require(not turn.updates, "updates for an unknown session", *turn.updates)


@check("TURN-12", "an empty answer", Level.REC, "V1-TURN-05 advice", "model")
async def empty_answer(ctx: Context) -> None:
    """Let the model answer nothing at all. The prompt is answered once, and the next one works."""
    async with ctx.session() as session:
        turn = await session.start("@empty")
        await turn.sent.wait(3 * ctx.timeout)
        await still_usable(session)
