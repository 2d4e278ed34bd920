"""CMD, ELIC, USE, NOTE, COMP: commands, questions, usage and the gated updates."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from conformance import answers
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Editor, Session, tool
from conformance.checks.init import GATED_UPDATES
from conformance.checks.profile import LOGIN_SHARE
from conformance.checks.steps import still_usable
from conformance.checks.verdict import NotApplicable, fail, require
from conformance.client import AgentRequest, Answerer
from conformance.faults import Hung, RpcError
from conformance.frames import Level
from conformance.incoming import Incoming, Json

ACCEPT: Json = {"action": "accept", "content": {}}
DECLINE: Json = {"action": "decline"}
SECRET = re.compile(r"\b(pass(word|phrase)|secret|api[ _-]?key|access[ _-]?token)\b", re.I)
COMPACTION = ("compaction_update", "compaction_summary_chunk")


@check("CMD-01", "commands", Level.MAY, "V1-CMD-01 V1-CMD-03", "session")
async def command_list(ctx: Context) -> None:
    """Open a session.

    If commands are announced: after the answer to ``session/new``, with names that are unique and
    have no slash and no blank.
    """
    if not ctx.profile.commands:
        raise NotApplicable("the agent announces no commands")
    async with ctx.session() as session:
        message = await session.editor.seen(
            lambda m: m.kind == "available_commands_update", "available_commands_update"
        )
    opened = next(m for m in session.editor.incoming if _opens(m, session))
    require(opened.index < message.index, "the commands came before their session", message)
    names = [str(c.get("name")) for c in message.update.get("availableCommands") or []]
    bad = [name for name in names if re.search(r"\s|^/", name) or not name]
    require(not bad, f"these are no command names: {bad}", message)
    require(len(set(names)) == len(names), f"a command comes twice: {names}", message)


def _opens(message: Incoming, session: Session) -> bool:
    result = (message.message or {}).get("result")
    return isinstance(result, dict) and result.get("sessionId") == session.id


@check("CMD-01.unknown", "an unknown command", Level.MAY, "V1-CMD-04", "model")
async def unknown_command(ctx: Context) -> None:
    """Prompt with ``/no-such-command``. The prompt is answered, and the next one works."""
    async with ctx.session() as session:
        text = {"type": "text", "text": "/no-such-command at all\n@begin\n@say never heard of it"}
        await session.prompt([text])
        await still_usable(session)


@check("CMD-01.known", "a known command", Level.MAY, "V1-CMD-02 V1-CMD-04", "model")
async def known_command(ctx: Context) -> None:
    """Prompt with the first announced command.

    The prompt is answered, at the latest when it is cancelled.
    """
    if not ctx.profile.commands:
        raise NotApplicable("the agent announces no commands")
    name = ctx.profile.commands[0].get("name")
    async with ctx.session() as session:
        turn = await session.start([{"type": "text", "text": f"/{name}"}])
        try:
            await turn.sent.wait()
        except Hung:
            await session.cancel()
            await turn.sent.wait()
        await still_usable(session)


ASK = f"{tool('ask', question='Which colour?')}\n@then\n@say asked"
"""A prompt in which an agent with questions asks one. Many have some only for clients that show
them, so that the profile knows nothing of it."""
MARK = "conformance-unaccepted"


def _elicitations(editor: Editor) -> list[Incoming]:
    return editor.asked(answers.ELICITATION)


@check("ELIC-01", "questions only as offered", Level.MUST, "V1-ELIC-01 V1-ELIC-03", "session")
async def elicitation_gating(ctx: Context) -> None:
    """Offer nothing, an empty object, forms only and URLs only.

    Only what was offered is used, and every question names its mode.
    """
    offers: dict[str, tuple[Any, set[str]]] = {
        "nothing": ({}, set()),
        "elicitation: {}": ({"elicitation": {}}, set()),
        "forms": ({"elicitation": {"form": {}}}, {"form"}),
        "URLs": ({"elicitation": {"url": {}}}, {"url"}),
    }
    for shown, (capabilities, allowed) in offers.items():
        declining = {answers.ELICITATION: answers.constant(DECLINE)}
        async with ctx.session(declining, capabilities=capabilities) as session:
            if not ctx.profile.lacks("model"):
                await session.prompt(ASK)
        for question in _elicitations(session.editor):
            mode = question.params.get("mode")
            require(mode in allowed, f"mode {mode!r} was used; offered: {shown}", question)


@check("ELIC-02", "every answer to a question", Level.MUST, "V1-ELIC-09", "model")
async def elicitation_answers(ctx: Context) -> None:
    """Answer questions by accept, accept without content, wrong content, decline, cancel, an
    unknown action and an error.

    Each turn is answered and the session goes on.
    """
    replies: list[Answerer] = [
        answers.constant(ACCEPT),
        answers.constant({"action": "accept"}),
        answers.constant({"action": "accept", "content": {"colour": [1, {"no": None}]}}),
        answers.constant(DECLINE),
        answers.constant({"action": "cancel"}),
        answers.constant({"action": "_x"}),
        answers.failing(),
    ]
    offered: Json = {"elicitation": {"form": {}}}
    async with ctx.session(capabilities=offered) as session:
        for reply in replies:
            session.editor.answers[answers.ELICITATION] = reply
            turn = await session.prompt(ASK)
            ctx.require_tools()
            require(turn.stop, f"the turn with the question was answered with {turn.outcome}")
        asked = _elicitations(session.editor)
    if not asked:
        raise NotApplicable("the agent asks no questions")


@check("ELIC-02.content", "content that nobody accepted", Level.REC, "V1-ELIC-17", "model")
async def unaccepted_content(ctx: Context) -> None:
    """Decline and cancel a question, and answer it by an unknown action, each with content.

    The model is not shown the content.
    """

    def filled_in(action: str) -> Answerer:
        def answer(request: AgentRequest) -> Json:
            schema = request.params.get("requestedSchema") or {}
            content = dict.fromkeys(schema.get("properties") or {}, MARK)
            return {"action": action, "content": content}

        return answer

    offered: Json = {"elicitation": {"form": {}}}
    async with ctx.session(capabilities=offered) as session:
        for action in ("decline", "cancel", "_x"):
            session.editor.answers[answers.ELICITATION] = filled_in(action)
            await session.prompt(ASK)
            ctx.require_tools()
        asked = _elicitations(session.editor)
    if not asked:
        raise NotApplicable("the agent asks no questions")
    require(MARK not in ctx.model_texts, "the model was shown content that nobody accepted", *asked)


@check("ELIC-03", "no secrets in forms", Level.MUST, "V1-ELIC-06", "session")
async def no_secrets(ctx: Context) -> None:
    """Offer forms only; start without credentials, log in, open a session, ask.

    No form has a field for a password, a key or a token.
    """
    offered: Json = {"elicitation": {"form": {}}}
    declining = {answers.ELICITATION: answers.constant(DECLINE)}
    env = ctx.environment(model=False, **ctx.settings)
    async with ctx.agent(declining, env=env) as editor:
        await editor.initialize(offered)
        await _try(editor, "session/new", {"cwd": str(ctx.cwd), "mcpServers": []})
        for method in ctx.profile.agent_logins:
            await _try(editor, "authenticate", {"methodId": method})
        for form in _elicitations(editor):
            _require_no_secret(form)


@check("ELIC-03.url", "a login by URL", Level.MUST, "V1-ELIC-04 V1-ELIC-10", "login")
async def url_login(ctx: Context) -> None:
    """Offer URLs only; start without credentials and log in. Decline the question; agree to it and
    cancel the login.

    The question belongs to the login, and neither answer logs in.
    """
    offered: Json = {"elicitation": {"url": {}}}
    env = ctx.environment(model=False, **ctx.settings)
    async with ctx.agent(env=env) as editor:
        await editor.initialize(offered)
        for method in ctx.profile.agent_logins:
            for reply in (DECLINE, {"action": "accept"}):
                editor.answers[answers.ELICITATION] = answers.constant(reply)
                await _fail_to_log_in(editor, method, cancel=reply is not DECLINE)
    if not _elicitations(editor):
        raise NotApplicable("the agent sends nobody to a page to log in")


async def _fail_to_log_in(editor: Editor, method: str, cancel: bool) -> None:
    before = len(_elicitations(editor))
    login = await editor.start("authenticate", {"methodId": method})
    with suppress(Hung):  # one that waits for a human in a way of its own
        await editor.until(
            lambda: login.response or len(_elicitations(editor)) > before,
            "question or answer",
            LOGIN_SHARE * editor.timeout,
        )
    questions = _elicitations(editor)[before:]
    if not questions:
        return
    named = [question.params.get("requestId") for question in questions]
    require(named[0] == login.id, f"the question is about request {named[0]!r}", *questions)
    if cancel:
        await editor.notify("$/cancel_request", {"requestId": login.id})
    require(await login.error() is not None, "the login succeeded all the same", *questions)


async def _try(editor: Editor, method: str, params: Json) -> None:
    """A request that may fail; a login may wait for a human."""
    try:
        await editor.request(method, params, timeout=LOGIN_SHARE * editor.timeout)
    except (RpcError, Hung):
        return


def _require_no_secret(form: Incoming) -> None:
    if form.params.get("mode") != "form":
        return
    schema = form.params.get("requestedSchema") or {}
    for name, field in (schema.get("properties") or {}).items():
        words = f"{name} {field.get('title', '')}".replace("_", " ")
        require(not SECRET.search(words), f"a form asks for {words.strip()!r}", form)


@check("USE-01", "usage", Level.MAY, "V1-USE-01 V1-USE-02", "model")
async def usage(ctx: Context) -> None:
    """Three turns. If usage is reported: whole numbers, used at most size, cost never falling."""
    async with ctx.session() as session:
        for _ in range(3):
            await session.prompt('@say used\n@usage {"input": 500, "output": 20}')
    reports = [m for m in session.updates() if m.kind == "usage_update"]
    if not reports:
        raise NotApplicable("the agent reports no usage")
    spent = 0.0
    for report in reports:
        used, size = report.update.get("used"), report.update.get("size")
        if not isinstance(used, int) or not isinstance(size, int):
            fail(f"used is {used!r} and size is {size!r}", report)
        require(0 <= used <= size, f"{used} of {size} tokens are used", report)
        cost = report.update.get("cost")
        if cost is not None:
            amount = cost.get("amount", -1)
            require(amount >= spent, f"the cost falls from {spent} to {amount}", report)
            spent = amount


@check(
    "NOTE-01",
    "notices and compactions only as offered",
    Level.MUST,
    "V1-NOTE-01 V1-COMP-01",
    "model",
)
async def notice_gating(ctx: Context) -> None:
    """Without ``session.notices`` and ``session.compaction``: neither is sent, whatever happens.

    The session has a broken MCP server, a failing provider and, if there is one, a compaction.
    """
    missing = str(ctx.elsewhere / "no-such-program")
    server = {"name": "broken", "command": missing, "args": [], "env": []}
    async with ctx.connection(capabilities={}) as editor:
        try:
            session = await editor.new_session(ctx.cwd, mcpServers=[server])
        except RpcError:
            session = await editor.new_session(ctx.cwd)
        await session.prompt("@status 400 no")
        await session.prompt("@say fine")
        if _compact(ctx):
            await session.prompt([{"type": "text", "text": "/compact"}])
    sent = [m for m in editor.incoming if m.kind in GATED_UPDATES]
    require(not sent, "an update the client did not announce", *sent)


@check("COMP-01", "the life of a compaction", Level.MUST, "V1-COMP-02 V1-COMP-03", "model")
async def compaction(ctx: Context) -> None:
    """Compact a session on command, and cancel a second compaction.

    Each ``compactionId`` gets exactly one final status, which nothing changes after that.
    """
    if not _compact(ctx):
        raise NotApplicable("the agent has no command to compact")
    offered: Json = {"session": {"compaction": {}}}
    async with ctx.session(capabilities=offered) as session:
        await session.prompt("long-talk\n@say fine")
        await session.prompt([{"type": "text", "text": "/compact"}])
        turn = await session.start([{"type": "text", "text": "/compact"}])
        await session.cancel()
        await turn.sent.wait()
    updates = [m for m in session.updates() if m.kind in COMPACTION]
    if not updates:
        raise NotApplicable("the agent shows no compaction")
    _require_one_end(updates)


def _require_one_end(updates: list[Incoming]) -> None:
    """Every compaction ends once, and stays as it ended: only that may be said again."""
    ends: dict[str, Any] = {}
    seen: set[str] = set()
    for message in updates:
        id, status = str(message.update.get("compactionId")), message.update.get("status")
        same = id not in ends or ends[id] == status
        require(same, f"an update of compaction {id} after its end", message)
        seen.add(id)
        if status in {"completed", "failed", "cancelled"}:
            ends[id] = status
    require(seen == ends.keys(), f"without an end: {', '.join(sorted(seen - ends.keys()))}")


def _compact(ctx: Context) -> bool:
    return any(command.get("name") == "compact" for command in ctx.profile.commands)
