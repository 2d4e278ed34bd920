"""Steps that several checks take: the recurring situations of a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.checks.context import Context
from conformance.checks.editor import Editor, Session, Turn, tool
from conformance.checks.verdict import NotApplicable, fail, require
from conformance.client import AgentRequest
from conformance.faults import Hung
from conformance.incoming import Incoming
from conformance.process import alive

SLEEP_SECONDS = 600


async def refused(editor: Editor, line: bytes, code: int) -> None:
    """Send a broken line; exactly one error with id null and ``code`` answers it."""
    before = len(editor.strays)
    await editor.send_raw(line + b"\n")
    await editor.barrier()
    answers = editor.strays[before:]
    shown = line.decode(errors="replace")[:80]
    require(len(answers) == 1, f"{shown} was answered {len(answers)} times", *answers)
    message = answers[0].message or {}
    error = message.get("error")
    given = error.get("code") if isinstance(error, dict) else None
    require(message.get("id", 0) is None, f"the answer to {shown} has an id", answers[0])
    require(given == code, f"{shown} was answered with {given}, expected {code}", answers[0])


async def silent(editor: Editor, since: int) -> None:
    """Nothing answered the notifications sent since position ``since`` of the strays."""
    await editor.barrier()
    await editor.barrier()
    answers = editor.strays[since:]
    require(not answers, "a notification was answered", *answers)


async def exits(editor: Editor) -> int:
    """The exit code of an agent that has a reason to end. Raises ``Hung``."""
    try:
        return await editor.process.wait(editor.timeout)
    except TimeoutError:
        raise Hung(f"the agent did not exit within {editor.timeout:g} s") from None


@dataclass(slots=True)
class Sleeper:
    """A tool that runs a process which only sleeps."""

    context: Context
    turn: Turn
    pid: int

    async def gone(self) -> None:
        """Wait until the process has ended; that it lives on is a failure."""
        try:
            await self.context.eventually(lambda: not alive(self.pid), "end of the tool's process")
        except Hung:
            fail(f"the process {self.pid} of the tool goes on running")


async def sleeping_tool(ctx: Context, session: Session) -> Sleeper:
    """Start a turn whose shell tool sleeps; returns once its process runs.

    Raises ``NotApplicable`` if the agent ends the turn without running the tool.
    """
    path = ctx.cwd / "sleeper-pid"
    command = f"sleep {SLEEP_SECONDS} & echo $! > '{path}'; wait $!"
    turn = await session.start(tool("shell", command=command))

    def running() -> str | None:
        if turn.sent.response is not None and not path.exists():
            raise NotApplicable("the agent did not run the shell tool")
        return path.read_text().strip() if path.exists() else None

    return Sleeper(ctx, turn, int(await ctx.eventually(running, "process of the tool")))


async def asked_permission(session: Session, turn: Turn) -> AgentRequest:
    """The turn's permission request, waiting for it.

    Raises ``NotApplicable`` if the turn ends without one.
    """
    editor = session.editor

    def look() -> AgentRequest | None:
        asked = [r for r in editor.requests if r.method == "session/request_permission"]
        if not asked and turn.sent.response is not None:
            raise NotApplicable("the tool ran without asking for permission")
        return asked[-1] if asked else None

    return await editor.until(look, "permission request")


def require_stop(turn: Turn, *reasons: str, what: str = "the prompt") -> None:
    """The turn must have ended with one of these stop reasons."""
    wanted = " or ".join(reasons)
    evidence = [turn.sent.response] if turn.sent.response else []
    require(
        turn.stop in reasons,
        f"{what} was answered with {turn.outcome}, expected {wanted}",
        *evidence,
    )


async def still_usable(session: Session) -> None:
    """The session takes another prompt and finishes it."""
    turn = await session.prompt("@say still here")
    require_stop(turn, "end_turn", what="the prompt after it")
    require("still here" in turn.text, "the prompt after it shows no text of the model")


def require_closed(turn: Turn) -> None:
    """No tool call of the turn is left open when it is answered."""
    for call in turn.tools.values():
        require(
            call.closed, f"tool call {call.id} is {call.status} after the answer", *call.seen[-1:]
        )


def positions(updates: list[Incoming], kind: str) -> list[int]:
    """Where in ``updates`` there are updates of one kind."""
    return [index for index, message in enumerate(updates) if message.kind == kind]
