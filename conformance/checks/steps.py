"""Steps that several checks take: the recurring situations of a conversation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from conformance.checks.context import Context
from conformance.checks.editor import Editor, Session, Turn, slow, tool
from conformance.checks.verdict import NotApplicable, fail, require
from conformance.client import AgentRequest
from conformance.faults import Hung
from conformance.incoming import Incoming

SLEEP_SECONDS = 600
SPEECH = slow(3000, 10, "word{i} ")
"""A model that goes on for half a minute, so that a slow agent is interrupted in time too."""


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
    """A tool that runs a process which only sleeps and holds a pipe open meanwhile.

    The pipe tells whether it lives. An id would not: agents run tools in process namespaces.
    """

    context: Context
    turn: Turn
    pipe: Path

    def alive(self) -> bool:
        """Whether the process holds its pipe open."""
        try:
            os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    async def gone(self) -> None:
        """Wait until the process has ended; that it lives on is a failure."""
        try:
            await self.context.eventually(lambda: not self.alive(), "end of the tool's process")
        except Hung:
            fail("the process of the tool goes on running")


async def sleeping_tool(ctx: Context, session: Session) -> Sleeper:
    """Start a turn whose shell tool sleeps; returns once its process runs.

    Raises ``NotApplicable`` if the agent ends the turn without running the tool.
    """
    pipe = ctx.cwd / "sleeper-pipe"
    os.mkfifo(pipe)
    command = f"exec 9<> '{pipe}'; sleep {SLEEP_SECONDS} & wait $!"
    sleeper = Sleeper(ctx, await session.start(tool("shell", command=command)), pipe)

    def running() -> bool:
        if sleeper.turn.sent.response is not None:
            raise NotApplicable("the agent did not run the shell tool")
        return sleeper.alive()

    await ctx.eventually(running, "process of the tool")
    return sleeper


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
