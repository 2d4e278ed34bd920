"""LOAD and RES: sessions that outlive the process that made them."""

from __future__ import annotations

from conformance import answers
from conformance.answers import Terminals
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import CONVERSATION, Session, spoken, tool, tools
from conformance.checks.steps import positions, require_stop, sleeping_tool
from conformance.checks.verdict import NotApplicable, require, require_code, require_object
from conformance.faults import RpcError
from conformance.frames import Level
from conformance.incoming import Incoming

LOAD = "session/load"
RESUME = "session/resume"
FIRST, SECOND = "marker-alpha", "marker-beta"
SAID, LATER = "answer-gamma", "answer-delta"


async def recorded(ctx: Context, *extra: str) -> Session:
    """A session of another process: a first turn with ``extra`` directives, and a second one."""
    async with ctx.session() as session:
        first = [f"{FIRST}", *extra, f"@say {SAID}"]
        require_stop(await session.prompt("\n".join(first)), "end_turn")
        require_stop(await session.prompt(f"{SECOND}\n@say {LATER}"), "end_turn")
        return session


def replayed(session: Session) -> list[Incoming]:
    """The conversation the agent has shown on this connection so far."""
    return [m for m in session.updates() if m.kind in CONVERSATION]


@check(
    "LOAD-01",
    "a load replays the conversation",
    Level.MUST,
    "V1-LOAD-02 V1-LOAD-03",
    "model agent:loadSession",
)
async def replay(ctx: Context) -> None:
    """Make a session of two turns, end the process, load it in a new one.

    What the user and the agent said is replayed in order, and the answer comes after all of it.
    """
    old = await recorded(ctx)
    async with ctx.connection() as editor:
        session = await editor.reopen(LOAD, old)
        before = replayed(session)
        await editor.barrier()
    late = replayed(session)[len(before) :]
    require(not late, "conversation was replayed after the answer", *late)
    _require_order(before)


def _require_order(updates: list[Incoming]) -> None:
    """User and agent text of both turns, each in its own kind of chunk, in order."""
    wanted = [
        ("user_message_chunk", FIRST),
        ("agent_message_chunk", SAID),
        ("user_message_chunk", SECOND),
        ("agent_message_chunk", LATER),
    ]
    place = -1
    for kind, text in wanted:
        found = _place(updates, kind, text)
        require(found is not None, f"the replay has no {kind} with {text!r}", *updates[:1])
        require(found is not None and found >= place, f"{text!r} is replayed out of order")
        place = found if found is not None else place


def _place(updates: list[Incoming], kind: str, text: str) -> int | None:
    """Where the chunks of a kind have first shown ``text`` completely."""
    for index in positions(updates, kind):
        if text in spoken(updates[: index + 1], kind):
            return index
    return None


@check(
    "LOAD-01.details",
    "a load replays thoughts, tools and plans",
    Level.REC,
    "V1-LOAD-02 V1-LOAD-07",
    "tool:any agent:loadSession",
)
async def replay_details(ctx: Context) -> None:
    """Load a session that had reasoning, a tool call and, if there is a tool for it, a plan.

    Every kind of update that was shown live is replayed, and tool calls have a final status.
    """
    plan = [{"content": "one step", "status": "completed", "priority": "high"}]
    steps = ["@think a thought", ctx.harmless_call(), "@then"]
    if "plan" in ctx.profile.tools:
        steps += [tool("plan", entries=plan), "@then"]
    old = await recorded(ctx, *steps)
    async with ctx.connection() as editor:
        session = await editor.reopen(LOAD, old)
        again = replayed(session)
    live = {m.kind for m in replayed(old)} - {"tool_call_update"}
    missing = live - {m.kind for m in again}
    require(not missing, f"not replayed: {', '.join(sorted(missing))}")
    for call in tools(again).values():
        require(call.closed, f"tool call {call.id} is replayed as {call.status}", *call.seen[-1:])


@check(
    "LOAD-01.result",
    "the result of a load is an object",
    Level.REC,
    "V1-LOAD-04 advice",
    "model agent:loadSession",
)
async def load_result(ctx: Context) -> None:
    """Load a session. The result is an object and has what ``session/new`` had: modes, options."""
    old = await recorded(ctx)
    async with ctx.connection() as editor:
        params = {"sessionId": old.id, "cwd": str(old.cwd), "mcpServers": []}
        result = require_object(await editor.request(LOAD, params), "the result of session/load")
    missing = [k for k in ("modes", "configOptions") if old.result.get(k) and not result.get(k)]
    require(not missing, f"the result lacks {' and '.join(missing)}, which session/new had")


@check(
    "LOAD-01.killed",
    "answered is stored",
    Level.REC,
    "V1-LOAD-02 advice",
    "model agent:loadSession",
)
async def killed(ctx: Context) -> None:
    """Kill the agent the moment a prompt is answered; load the session in a new process.

    The last turn is there.
    """
    async with ctx.session(end=False) as old:
        require_stop(await old.prompt(f"{FIRST}\n@say {SAID}"), "end_turn")
        await old.editor.process.kill()
    async with ctx.connection() as editor:
        session = await editor.reopen(LOAD, old)
    text = spoken(replayed(session), "agent_message_chunk")
    require(SAID in text, "the turn that was answered before the kill is not replayed")


@check("LOAD-02", "a loaded session goes on", Level.MUST, "V1-LOAD-02", "model agent:loadSession")
async def continues(ctx: Context) -> None:
    """Load a session and prompt it. The model is shown what was said before."""
    await _remembers(ctx, LOAD)


async def _remembers(ctx: Context, method: str) -> None:
    old = await recorded(ctx)
    async with ctx.connection() as editor:
        session = await editor.reopen(method, old)
        turn = await session.prompt("and-now\n@say after")
        require_stop(turn, "end_turn")
    shown = ctx.shown_with("and-now")
    for text in (FIRST, SAID):
        require(text in shown, f"the model was not shown {text!r} from before")


@check("LOAD-03", "an unknown session", Level.REC, "V1-LOAD-08", "agent:loadSession")
async def unknown_session(ctx: Context) -> None:
    """Load a session that does not exist. It is answered by -32002."""
    async with ctx.connection() as editor:
        params = {"sessionId": "no-such-session", "cwd": str(ctx.cwd), "mcpServers": []}
        error = await (await editor.start(LOAD, params)).error()
    require_code(error, -32002, what="loading an unknown session")


@check("LOAD-04", "no terminals of the past", Level.REC, "V1-LOAD-07", "model agent:loadSession")
async def no_dead_terminals(ctx: Context) -> None:
    """Load a session whose turn used a terminal of the client.

    No replayed tool call shows that terminal: the client does not know it any more.
    """
    async with Terminals() as terminals:
        async with ctx.session(terminals.answers(), capabilities={"terminal": True}) as old:
            await old.prompt(tool("shell", command="echo hello"))
        ctx.require_tools()
    if not terminals.created:
        raise NotApplicable("the agent does not use the client's terminals")
    async with ctx.connection(capabilities={"terminal": True}) as editor:
        session = await editor.reopen(LOAD, old)
    for call in tools(replayed(session)).values():
        shown = call.contents("terminal")
        require(not shown, f"tool call {call.id} is replayed with a terminal", *call.seen)


@check(
    "LOAD-05",
    "interrupted tools are closed",
    Level.REC,
    "V1-LOAD-10",
    "tool:shell agent:loadSession posix",
)
async def interrupted(ctx: Context) -> None:
    """Kill the agent while a tool runs; load the session. No tool call is replayed as open."""
    async with ctx.session(end=False) as old:
        require_stop(await old.prompt(f"{FIRST}\n@say {SAID}"), "end_turn")
        await sleeping_tool(ctx, old)
        await old.editor.process.kill()
    async with ctx.connection() as editor:
        try:
            session = await editor.reopen(LOAD, old)
        except RpcError as error:
            raise NotApplicable(f"the session cannot be loaded after a kill: {error}") from None
        for call in tools(replayed(session)).values():
            require(call.closed, f"tool call {call.id} is replayed as {call.status}", *call.seen)


@check(
    "LOAD-06",
    "additional directories are not restored",
    Level.MUST,
    "V1-DIR-02",
    "tool:read agent:loadSession agent:sessionCapabilities.additionalDirectories",
)
async def roots_not_restored(ctx: Context) -> None:
    """Make a session with an additional directory; load it without.

    The model cannot read that directory any more (if the agent keeps such limits at all).
    """
    secret = ctx.folder("extra") / "secret.txt"
    secret.write_text("extra-secret")
    read = tool("read", path=str(secret))
    refusing = {answers.PERMISSION: answers.reject}
    async with ctx.session(refusing) as session:
        if await _shows(ctx, session, read):
            raise NotApplicable("the agent lets its model read outside the session's directories")
    async with ctx.connection(refusing) as editor:
        extra = [str(secret.parent)]
        old = await editor.new_session(ctx.cwd, additionalDirectories=extra)
        if not await _shows(ctx, old, read):
            raise NotApplicable("the additional directory could not be read in the first place")
    async with ctx.connection(refusing) as editor:
        session = await editor.reopen(LOAD, old)
        again = await _shows(ctx, session, f"{read}\n@then\n@say over")
    require(not again, "a directory that was not passed to session/load can still be read")


async def _shows(ctx: Context, session: Session, prompt: str) -> bool:
    """Whether the tool results of this prompt show the model the secret."""
    before = len(ctx.model.requests)
    await session.prompt(prompt)
    results = [text for request in ctx.model.requests[before:] for text in request.results()]
    return any("extra-secret" in text for text in results)


@check(
    "RES-01",
    "a resume does not replay",
    Level.MUST,
    "V1-RESUME-02",
    "model agent:sessionCapabilities.resume",
)
async def resume_is_silent(ctx: Context) -> None:
    """Resume a session of another process. No conversation comes before the answer."""
    old = await recorded(ctx)
    async with ctx.connection() as editor:
        session = await editor.reopen(RESUME, old)
        shown = replayed(session)
    require(not shown, "conversation was replayed by session/resume", *shown[:3])


@check(
    "RES-01.context",
    "a resumed session remembers",
    Level.MUST,
    "V1-RESUME-03",
    "model agent:sessionCapabilities.resume",
)
async def resume_remembers(ctx: Context) -> None:
    """Resume a session and prompt it. The model is shown what was said before."""
    await _remembers(ctx, RESUME)
