"""FS and TERM: the client's files and terminals, used only where they are offered."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.answers import Files, Terminals, never
from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Session, Turn, tool
from conformance.checks.steps import require_stop
from conformance.checks.verdict import NotApplicable, require
from conformance.client import AgentRequest, Client
from conformance.frames import Level

TERMINAL = {"terminal": True}


@check("FS-01.read", "no reading if only writing is offered", Level.MUST, "V1-FS-02", "tool:read")
async def no_reading(ctx: Context) -> None:
    """Offer ``fs.writeTextFile`` only; let the model read, write and edit.

    ``fs/read_text_file`` is never called.
    """
    await _never_calls(ctx, "fs/read_text_file", read=False, write=True)


@check("FS-01.write", "no writing if only reading is offered", Level.MUST, "V1-FS-02", "tool:write")
async def no_writing(ctx: Context) -> None:
    """Offer ``fs.readTextFile`` only; let the model read, write and edit.

    ``fs/write_text_file`` is never called.
    """
    await _never_calls(ctx, "fs/write_text_file", read=True, write=False)


async def _never_calls(ctx: Context, method: str, *, read: bool, write: bool) -> None:
    path = str(ctx.put("file.txt", "alpha\n"))
    calls = {
        "read": tool("read", path=path),
        "write": tool("write", path=str(ctx.cwd / "new.txt"), content="new\n"),
        "edit": tool("edit", path=path, old="alpha", new="beta"),
    }
    wanted = [call for kind, call in calls.items() if kind in ctx.profile.tools]
    offered = {"fs": {"readTextFile": read, "writeTextFile": write}}
    async with ctx.session(Files().answers(), capabilities=offered) as session:
        turn = await session.prompt("\n@then\n".join(wanted))
    require_stop(turn, "end_turn")
    called = session.editor.asked(method)
    require(not called, f"{method} was called, which the client did not offer", *called)


@check("FS-02", "unsaved text", Level.REC, "V1-FS-06", "tool:read")
async def unsaved_buffer(ctx: Context) -> None:
    """Offer file reading; the editor's text of a file differs from the disk.

    The model reads the editor's text.
    """
    path = str(ctx.put("open.txt", "text on disk\n"))
    files = Files({path: "text in the editor\n"})
    offered = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with ctx.session(files.answers(), capabilities=offered) as session:
        await session.prompt(tool("read", path=path))
    ctx.require_tools()
    require("text in the editor" in ctx.model_texts, "the model was not shown the editor's text")


@check(
    "FS-02.newlines", "line endings survive", Level.REC, "V1-FS-06 advice", "tool:read tool:edit"
)
async def line_endings(ctx: Context) -> None:
    """Offer files; let the model edit one line of a file with CR LF endings.

    What is written back has CR LF everywhere.
    """
    path = str(ctx.put("crlf.txt", "alpha\r\nbeta\r\ngamma\r\n"))
    files = Files({path: "alpha\r\nbeta\r\ngamma\r\n"})
    offered = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with ctx.session(files.answers(), capabilities=offered) as session:
        read, edit = tool("read", path=path), tool("edit", path=path, old="beta", new="delta")
        await session.prompt(f"{read}\n@then\n{edit}")
    written = files.buffers[path]
    if "delta" not in written:
        raise NotApplicable("the agent did not write through the client")
    require(written == "alpha\r\ndelta\r\ngamma\r\n", f"the file was written back as {written!r}")


@check("TERM-01", "no terminals unless offered", Level.MUST, "V1-TERM-01", "tool:shell")
async def terminal_gating(ctx: Context) -> None:
    """Offer no terminals; let the model use its shell. No ``terminal/`` method is called."""
    for capabilities in ({}, {"terminal": False}):
        async with ctx.session(capabilities=capabilities) as session:
            await session.prompt(tool("shell", command="echo hello"))
        called = session.editor.asked("terminal/")
        require(not called, "a terminal was used, which the client did not offer", *called)


@check("TERM-02", "terminals are released", Level.MUST, "V1-TERM-02 V1-TERM-05", "model posix")
async def released(ctx: Context) -> None:
    """Let a command run in the client's terminal to its end.

    The terminal is released exactly once and not used after that.
    """
    async with (
        Terminals() as terminals,
        ctx.session(terminals.answers(), capabilities=TERMINAL) as session,
    ):
        await session.prompt(tool("shell", command="echo hello"))
        await _all_released(ctx, session, terminals)


@check(
    "TERM-02.cancel",
    "terminals are released after a cancel",
    Level.MUST,
    "V1-TERM-02",
    "model posix",
)
async def released_after_cancel(ctx: Context) -> None:
    """Cancel while a command sleeps in the client's terminal. The terminal is released."""
    async with (
        Terminals() as terminals,
        ctx.session(terminals.answers(), capabilities=TERMINAL) as session,
    ):
        await _uses_terminals(ctx, session, terminals)
        watched = terminals.watched
        turn = await session.start(tool("shell", command="sleep 600"))
        await session.editor.until(lambda: terminals.watched > watched, "wait for the command")
        await session.cancel()
        await turn.sent.wait()
        require_stop(turn, "cancelled", "end_turn")
        await _all_released(ctx, session, terminals)


@check(
    "TERM-02.late",
    "terminals are released that come after the cancel",
    Level.MUST,
    "V1-TERM-02",
    "model posix",
)
async def released_late(ctx: Context) -> None:
    """Cancel while ``terminal/create`` is still unanswered; then answer it.

    The agent releases the terminal, though its turn is over.
    """
    async with (
        Terminals() as terminals,
        ctx.session(terminals.answers(), capabilities=TERMINAL) as session,
    ):
        await _uses_terminals(ctx, session, terminals)
        request, turn = await _unanswered_create(session)
        await session.cancel()
        session.editor.answers |= terminals.answers()
        await session.editor.answer(request)
        await turn.sent.wait()
        await _all_released(ctx, session, terminals)
    require_stop(turn, "cancelled")


@check(
    "TERM-02.error",
    "terminals are released after an error",
    Level.MUST,
    "V1-TERM-02",
    "model posix",
)
async def released_after_error(ctx: Context) -> None:
    """The client fails ``wait_for_exit`` and ``output``. The terminal is released all the same."""
    broken = ("terminal/wait_for_exit", "terminal/output")
    async with (
        Terminals(failing=broken) as terminals,
        ctx.session(terminals.answers(), capabilities=TERMINAL) as session,
    ):
        turn = await session.prompt(tool("shell", command="echo hello"))
        await _all_released(ctx, session, terminals)
        require(turn.stop or turn.error, "the prompt has no proper answer")


@check("TERM-03", "a client that never answers", Level.REC, "V1-CANCEL-03 advice", "model posix")
async def silent_client(ctx: Context) -> None:
    """The client never answers ``terminal/create``; cancel. The prompt is answered cancelled."""
    async with (
        Terminals() as terminals,
        ctx.session(terminals.answers(), capabilities=TERMINAL) as session,
    ):
        await _uses_terminals(ctx, session, terminals)
        _request, turn = await _unanswered_create(session)
        await session.cancel()
        await turn.sent.wait()
    require_stop(turn, "cancelled")


async def _uses_terminals(ctx: Context, session: Session, terminals: Terminals) -> None:
    """Run a short command; ``NotApplicable`` if it does not run in a terminal of the client."""
    await session.prompt(tool("shell", command="echo hello"))
    await _all_released(ctx, session, terminals)


async def _unanswered_create(session: Session) -> tuple[AgentRequest, Turn]:
    """A turn that waits for the answer to its ``terminal/create``."""
    editor = session.editor
    editor.answers["terminal/create"] = never
    known = len(editor.requests)
    turn = await session.start(tool("shell", command="sleep 600"))

    def look() -> AgentRequest | None:
        new = (r for r in editor.requests[known:] if r.method == "terminal/create")
        return next(new, None)

    return await editor.until(look, "request for a terminal"), turn


async def _all_released(ctx: Context, session: Session, terminals: Terminals) -> None:
    ctx.require_tools()
    if not terminals.created:
        raise NotApplicable("the agent does not use the client's terminals")
    await session.editor.until(
        lambda: set(terminals.created) <= set(terminals.released), "release of the terminal"
    )
    await session.editor.barrier()
    evidence = session.editor.asked("terminal/")
    _require_once(terminals.created, terminals.released, session.editor)
    require(not terminals.used_after_release, "a terminal was used after its release", *evidence)


def _require_once(created: Sequence[str], released: Sequence[str], editor: Client) -> None:
    twice = [name for name in created if released.count(name) != 1]
    evidence = [r.incoming for r in editor.requests if r.method == "terminal/release"]
    require(not twice, f"released more than once: {', '.join(twice)}", *evidence)
