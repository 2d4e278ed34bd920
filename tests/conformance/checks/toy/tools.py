"""The toy's tools: files, a shell, plans, questions. Each is one async function."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toy.mutation import broken
from toy.peer import Failure, Json, stubborn, unbroken

if TYPE_CHECKING:
    from toy.session import Session

STRING = {"type": "string"}


class ToolError(Exception):
    """The tool failed; the model is told the text."""


def described(name: str, about: str, **properties: Any) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": about, "parameters": schema}


ENTRY = {
    "type": "object",
    "properties": {"content": STRING, "status": STRING, "priority": STRING},
}
DESCRIPTIONS = [
    described("read_file", "Read a file.", path=STRING),
    described("write_file", "Write a file.", path=STRING, content=STRING),
    described("edit_file", "Replace a text.", path=STRING, old_text=STRING, new_text=STRING),
    described("shell", "Run a command.", command=STRING),
    described("update_plan", "Show a plan.", entries={"type": "array", "items": ENTRY}),
    described("ask_user", "Ask the user.", question=STRING),
]
KINDS = {
    "read_file": "read",
    "write_file": "edit",
    "edit_file": "edit",
    "shell": "execute",
    "update_plan": "think",
}
NEEDS_PERMISSION = {"shell"}
Tool = Callable[["Session", Json, str], Awaitable[str]]


async def read_file(session: Session, arguments: Json, _call: str) -> str:
    return await _read(session, session.path(arguments["path"]))


async def write_file(session: Session, arguments: Json, call: str) -> str:
    path = session.path(arguments["path"])
    old = _old_text(path)
    await _write(session, path, arguments["content"])
    _show_diff(session, call, path, old, arguments["content"])
    return f"{path} was written"


def _old_text(path: Path) -> str | None:
    if path.exists():
        return path.read_text()
    return "" if broken("TOOL-03") else None


async def edit_file(session: Session, arguments: Json, call: str) -> str:
    path = session.path(arguments["path"])
    old = await _read(session, path)
    if broken("FS-02.newlines"):
        old = old.replace("\r\n", "\n")
    if arguments["old_text"] not in old:
        raise ToolError("the old text does not occur")
    new = old.replace(arguments["old_text"], arguments["new_text"], 1)
    await _write(session, path, new)
    _show_diff(session, call, path, old, new)
    return f"{path} was edited"


async def update_plan(session: Session, arguments: Json, _call: str) -> str:
    entries = [{"priority": "medium", **entry} for entry in arguments["entries"]]
    if broken("PLAN-01"):
        entries = [entry for entry in entries if entry["status"] != "pending"]
    session.update("plan", entries=entries)
    return "the plan is shown"


async def ask_user(session: Session, arguments: Json, _call: str) -> str:
    offered = session.client.get("elicitation") or {}
    if offered.get("form") is None and not broken("ELIC-01"):
        return "the user cannot be asked"
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    question = {"mode": "form", "message": arguments["question"], "requestedSchema": schema}
    try:
        answer = await session.ask("elicitation/create", question)
    except Failure:
        return "the question failed"
    action = answer.get("action") if isinstance(answer, dict) else None
    if broken("ELIC-02") and action not in {"accept", "decline", "cancel"}:
        raise Failure(-32603, "What is this?")
    accepted = action == "accept" or broken("ELIC-02.content")
    return f"the user said {action}: {answer.get('content') if accepted else None}"


async def shell(session: Session, arguments: Json, call: str) -> str:
    if session.client.get("terminal") is True or broken("TERM-01"):
        return await _terminal(session, arguments["command"], call)
    if broken("IO-01"):
        session.peer.wire.send_line(b"running " + arguments["command"].encode())
    starting = asyncio.create_subprocess_shell(
        arguments["command"],
        cwd=None if broken("NEW-03") else session.cwd,
        stdin=None if broken("TOOL-05") else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    process = await unbroken(starting, _kill)
    try:
        output, _ = await process.communicate()
    finally:
        await _kill(process)
    return f"exit code {process.returncode}\n{output.decode(errors='replace')}"


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None and not broken("CAN-02.process", "IO-10", "CLOSE-01.children"):
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _terminal(session: Session, command: str, call: str) -> str:

    async def drop(terminal: Json) -> None:
        await _release(session, {"terminalId": terminal["terminalId"]}, finished=False)

    asking = session.ask("terminal/create", {"command": command})
    terminal = await (stubborn(asking) if broken("TERM-03") else unbroken(asking, drop))
    where = {"terminalId": terminal["terminalId"]}
    session.update("tool_call_update", toolCallId=call, content=[{"type": "terminal", **where}])
    finished = False
    try:
        status = await session.ask("terminal/wait_for_exit", where)
        output = await session.ask("terminal/output", where)
        finished = True
        return f"exit code {status.get('exitCode')}\n{output['output']}"
    except Failure as failure:
        raise ToolError(failure.message) from None
    finally:
        await _release(session, where, finished)


async def _release(session: Session, where: Json, finished: bool) -> None:
    forgotten = broken("TERM-02") or (
        not finished and broken("TERM-02.error", "TERM-02.cancel", "TERM-02.late")
    )
    if not forgotten:
        session.send("terminal/release", where)


async def _read(session: Session, path: Path) -> str:
    offered = session.client.get("fs") or {}
    readable = offered.get("readTextFile") is True
    if broken("FS-01.read"):
        readable = readable or offered.get("writeTextFile") is True
    if (readable and not broken("FS-02")) or broken("INIT-07"):
        try:
            answer = await session.ask("fs/read_text_file", {"path": str(path)})
        except Failure as failure:
            raise ToolError(failure.message) from None
        return str(answer["content"])
    return _text_of(path)


async def _write(session: Session, path: Path, content: str) -> None:
    offered = session.client.get("fs") or {}
    writable = offered.get("writeTextFile") is True
    if broken("FS-01.write"):
        writable = writable or offered.get("readTextFile") is True
    if writable:
        await session.ask("fs/write_text_file", {"path": str(path), "content": content})
    else:
        _put(path, content)


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise ToolError(str(error)) from None


def _put(path: Path, content: str) -> None:
    path.write_bytes(content.encode())


def _show_diff(session: Session, call: str, path: Path, old: str | None, new: str) -> None:
    diff: Json = {"type": "diff", "path": str(path), "newText": new}
    diff |= {} if old is None else {"oldText": old}
    session.update("tool_call_update", toolCallId=call, content=[diff])


BODIES: dict[str, Tool] = {
    "read_file": read_file,
    "write_file": write_file,
    "edit_file": edit_file,
    "shell": shell,
    "update_plan": update_plan,
    "ask_user": ask_user,
}
