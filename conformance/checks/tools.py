"""TOOL, PERM and PLAN: what an agent shows of its tools, and what it asks before it uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance import answers
from conformance.answers import option_of, selected
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Tool, Turn, tool
from conformance.checks.steps import asked_permission, require_closed, require_stop
from conformance.checks.verdict import NotApplicable, require
from conformance.client import AgentRequest, Answerer
from conformance.frames import Level

OPTION_KINDS = {"allow_once", "allow_always", "reject_once", "reject_always"}


def shown_tool(turn: Turn) -> Tool:
    """The turn's first tool call. Raises ``NotApplicable`` if none is shown."""
    if not turn.tools:
        raise NotApplicable("the agent shows no tool calls")
    return next(iter(turn.tools.values()))


@check(
    "TOOL-01", "the life of a tool call", Level.MUST, "V1-TOOL-01 V1-TOOL-03 V1-TOOL-06", "tool:any"
)
async def lifecycle(ctx: Context) -> None:
    """Let the model call a tool that works.

    A ``tool_call`` with a title comes first, its updates have the same id, and the last status is
    ``completed`` before the prompt is answered.
    """
    async with ctx.session() as session:
        turn = await session.prompt(ctx.harmless_call())
    call = shown_tool(turn)
    first = call.seen[0]
    require(first.kind == "tool_call", "an update came before its tool_call", first)
    require(isinstance(first.update.get("title"), str), "the tool_call has no title", first)
    require(call.status == "completed", f"the tool call ends as {call.status}", call.seen[-1])


@check("TOOL-01.parallel", "four calls at once", Level.MUST, "V1-TOOL-02 V1-TOOL-06", "tool:any")
async def parallel(ctx: Context) -> None:
    """Let the model call a tool four times in one answer. Each call has its own id and end.

    The calls differ, because the same one again and again is what some agents stop.
    """
    calls = [ctx.harmless_call(f"notes-{number}.txt") for number in range(4)]
    async with ctx.session() as session:
        turn = await session.prompt("\n".join(calls))
    require_stop(turn, "end_turn")
    started = [m for m in turn.updates if m.kind == "tool_call"]
    if not started:
        raise NotApplicable("the agent shows no tool calls")
    ids = {m.update.get("toolCallId") for m in started}
    require(len(ids) == len(started), "a tool call was announced twice", *started)
    require(len(ids) == 4, f"four calls are shown as {len(ids)}", *started)
    require_closed(turn)


@check("TOOL-02", "a tool that fails", Level.MUST, "V1-TOOL-06", "tool:read")
async def failing_tool(ctx: Context) -> None:
    """Let the model read a file that does not exist, then speak.

    The tool call reaches a final status and the turn goes on to its end.
    """
    missing = tool("read", path=str(ctx.cwd / "no-such-file.txt"))
    async with ctx.session() as session:
        turn = await session.prompt(f"{missing}\n@then\n@say I saw the error")
    require_stop(turn, "end_turn")
    require_closed(turn)
    require("I saw the error" in turn.text, "the turn did not go on after the failing tool")


@check("TOOL-02.status", "a failure is called one", Level.REC, "V1-TOOL-06 advice", "tool:read")
async def failing_status(ctx: Context) -> None:
    """Let the model read a file that does not exist. The tool call ends as ``failed``."""
    missing = tool("read", path=str(ctx.cwd / "no-such-file.txt"))
    async with ctx.session() as session:
        turn = await session.prompt(missing)
    call = shown_tool(turn)
    require(call.status == "failed", f"the failing call ends as {call.status}", call.seen[-1])


@check("TOOL-02.unknown", "a tool that does not exist", Level.REC, "V1-TOOL-06 advice", "model")
async def unknown_tool(ctx: Context) -> None:
    """Let the model call a tool the agent does not have, and with arguments that are not JSON.

    The turn goes on to its end, and no call stays open.
    """
    broken = '@call no_such_tool {}\n@then\n@call no_such_tool {"a": \n@then\n@say carried on'
    async with ctx.session() as session:
        turn = await session.prompt(broken)
    require_stop(turn, "end_turn")
    require("carried on" in turn.text, "the turn did not go on after the unknown tool")
    require_closed(turn)


@check("TOOL-03", "diffs", Level.MUST, "V1-TOOL-07 V1-TOOL-08", "tool:write")
async def diffs(ctx: Context) -> None:
    """Let the model create a file and, if there is a tool for it, edit one.

    Diffs have an absolute path and the right texts; a new file has no old text.
    """
    created, edited = ctx.cwd / "created.txt", ctx.put("edited.txt", "alpha\nbeta\n")
    async with ctx.session() as session:
        turn = await session.prompt(tool("write", path=str(created), content="brand new\n"))
        shown = [_diffs(turn, created)]
        for diff in shown[0]:
            old = diff.get("oldText")
            require(old is None, f"a new file has the old text {old!r}")
            require("brand new" in str(diff.get("newText")), f"the diff of a new file: {diff}")
        if "edit" in ctx.profile.tools:
            await session.prompt(tool("read", path=str(edited)))
            change = tool("edit", path=str(edited), old="beta", new="gamma")
            shown.append(_diffs(await session.prompt(change), edited))
            for diff in shown[1]:
                before, after = str(diff.get("oldText")), str(diff.get("newText"))
                proper = "beta" in before and "gamma" in after and "gamma" not in before
                require(proper, f"the diff of beta to gamma says {before!r} to {after!r}")
    if not any(shown):
        raise NotApplicable("the agent shows no diffs")


def _diffs(turn: Turn, path: Path) -> list[dict[str, Any]]:
    """The diffs of a turn; every path is absolute, and they are about this file."""
    found = [diff for call in turn.tools.values() for diff in call.contents("diff")]
    for diff in found:
        given = Path(str(diff.get("path")))
        require(given.is_absolute(), f"a diff has the path {diff.get('path')!r}")
    return [diff for diff in found if Path(str(diff["path"])).name == path.name]


@check("TOOL-04", "the provider repeats its ids", Level.MUST, "V1-TOOL-02", "tool:any")
async def repeated_ids(ctx: Context) -> None:
    """Let the provider use the same call id in two turns. The shown ids differ."""
    async with ctx.session() as session:
        call = f"@id call_same\n{ctx.harmless_call()}"
        turns = [await session.prompt(call) for _ in range(2)]
    shown = [set(turn.tools) for turn in turns]
    if not all(shown):
        raise NotApplicable("the agent shows no tool calls")
    require(not shown[0] & shown[1], f"the tool call id {shown[0] & shown[1]} is used in two turns")


@check(
    "TOOL-05", "a tool does not take our stdin", Level.REC, "V1-IO-03 advice", "tool:shell posix"
)
async def stdin_is_ours(ctx: Context) -> None:
    """Let a tool read its stdin to the end, and send a request meanwhile.

    The request is answered and the tool ends: it does not read the protocol's stdin.
    """
    async with ctx.session() as session:
        turn = await session.start(tool("shell", command="cat; echo over"))
        await turn.until_tool()
        await session.editor.barrier()
        await turn.sent.wait()
    require_stop(turn, "end_turn")


@check("PERM-01", "what can be chosen", Level.MUST, "V1-PERM-02", "permission")
async def options(ctx: Context) -> None:
    """Let a tool ask.

    The request names the tool call and has options with known kinds and different ids, at least
    one to allow and one to reject.
    """
    async with ctx.session() as session:
        turn = await session.start(ctx.asking_call("asked"))
        request = await asked_permission(session, turn)
        await turn.sent.wait()
    call = request.params.get("toolCall")
    named = isinstance(call, dict) and isinstance(call.get("toolCallId"), str)
    require(named, f"toolCall is {call!r}", request.incoming)
    offered = [option for option in request.params.get("options") or [] if isinstance(option, dict)]
    ids = [option.get("optionId") for option in offered]
    kinds = {str(option.get("kind")) for option in offered}
    require(len(set(ids)) == len(ids), f"an option id is offered twice: {ids}", request.incoming)
    require(kinds <= OPTION_KINDS, f"unknown kinds: {kinds - OPTION_KINDS}", request.incoming)
    for word in ("allow", "reject"):
        some = any(kind.startswith(word) for kind in kinds)
        require(some, f"there is no option to {word}", request.incoming)


@check("PERM-02", "a rejection", Level.MUST, "V1-PERM-02 V1-TOOL-06", "permission")
async def rejected(ctx: Context) -> None:
    """Reject the tool. It does not run, its call is closed, and the prompt is answered."""
    async with ctx.session({answers.PERMISSION: answers.reject}) as session:
        turn = await session.prompt(ctx.asking_call("rejected"))
        await asked_permission(session, turn)
    require(not ctx.ran("rejected"), "the rejected tool ran")
    require_closed(turn)


@check("PERM-02.status", "a rejection is shown as failed", Level.REC, "V1-PERM-07", "permission")
async def rejected_status(ctx: Context) -> None:
    """Reject the tool. Its call ends as ``failed`` and the turn goes on."""
    async with ctx.session({answers.PERMISSION: answers.reject}) as session:
        turn = await session.prompt(f"{ctx.asking_call('rejected')}\n@then\n@say what else")
        request = await asked_permission(session, turn)
    call = turn.tools.get(str((request.params.get("toolCall") or {}).get("toolCallId")))
    require(call, "the permission request names no tool call that was shown", request.incoming)
    status = call.status if call else ""
    require(status == "failed", f"the rejected tool call ends as {status}")
    require_stop(turn, "end_turn")


async def _never_runs(ctx: Context, answer: Answerer) -> None:
    """With this answer to its question the tool must not run; the session survives."""
    async with ctx.session({answers.PERMISSION: answer}) as session:
        turn = await session.prompt(ctx.asking_call("hostile"))
        await asked_permission(session, turn)
        await session.editor.barrier()
    require(not ctx.ran("hostile"), "the tool ran without permission")
    require_closed(turn)


@check("PERM-03.option", "an option nobody offered", Level.REC, "V1-PERM-05", "permission")
async def unknown_option(ctx: Context) -> None:
    """Answer with an option id that was not offered. The tool does not run."""
    await _never_runs(ctx, answers.constant(selected("no-such-option")))


@check("PERM-03.outcome", "an unknown outcome", Level.REC, "V1-PERM-05", "permission")
async def unknown_outcome(ctx: Context) -> None:
    """Answer with an outcome of the future that names an allowing option. It does not run."""

    def answer(request: AgentRequest) -> Any:
        allowing = option_of(request, "allow")
        return {"outcome": {"outcome": "postponed", "optionId": allowing}}

    await _never_runs(ctx, answer)


@check("PERM-03.error", "an error", Level.REC, "V1-PERM-05", "permission")
async def failing_answer(ctx: Context) -> None:
    """Answer with an error. The tool does not run."""
    await _never_runs(ctx, answers.failing())


@check("PERM-03.malformed", "nonsense", Level.REC, "V1-PERM-05", "permission")
async def malformed_answer(ctx: Context) -> None:
    """Answer with null, with a number and with a bare word. The tool does not run."""
    for result in (None, 5, {"outcome": "allow_once"}):
        await _never_runs(ctx, answers.constant(result))


@check("PERM-04", "always means always", Level.REC, "V1-PERM-06", "permission")
async def always(ctx: Context) -> None:
    """Allow a tool always and let the model call it again the same way. Nobody is asked twice."""
    async with ctx.session({answers.PERMISSION: answers.select("allow_always")}) as session:
        turn = await session.prompt(ctx.asking_call("always"))
        request = await asked_permission(session, turn)
        if option_of(request, "allow_always") is None:
            raise NotApplicable("the agent does not offer to allow always")
        await session.prompt(ctx.asking_call("always"))
    asked = session.editor.asked(answers.PERMISSION)
    require(len(asked) == 1, f"the user was asked {len(asked)} times", *asked)


@check("PLAN-01", "plans are complete", Level.MUST, "V1-PLAN-02", "tool:plan")
async def full_plans(ctx: Context) -> None:
    """Let the model write a plan of three entries and then mark its progress.

    Every ``plan`` update has all three entries.
    """
    steps = ("one", "two", "three")
    progress = (("pending",) * 3, ("completed", "in_progress", "pending"))
    calls = [
        tool("plan", entries=[_entry(s, status) for s, status in zip(steps, marks, strict=True)])
        for marks in progress
    ]
    async with ctx.session() as session:
        turn = await session.prompt("\n@then\n".join(calls))
    plans = [m for m in turn.updates if m.kind == "plan"]
    if not plans:
        raise NotApplicable("the agent shows no plans")
    for plan in plans:
        shown = [str(entry.get("content")) for entry in plan.update.get("entries") or []]
        missing = [step for step in steps if not any(step in text for text in shown)]
        require(not missing, f"a plan update lacks the entries {missing}", plan)


def _entry(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "priority": "medium"}
