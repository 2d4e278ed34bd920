"""LIST and DEL: the sessions an agent remembers, and forgetting them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Editor, Session
from conformance.checks.steps import require_stop
from conformance.checks.verdict import NotApplicable, require, require_code, require_object
from conformance.frames import Level
from conformance.incoming import Json

LIST = "agent:sessionCapabilities.list"
DELETE = "agent:sessionCapabilities.delete"
MANY = 250
MAKING_SECONDS = 3.0
"""How long sessions are made for the paging check; slow agents get fewer."""
MOST_PAGES = 1000


async def pages(editor: Editor, **params: Any) -> list[Json]:
    """All pages of a listing. An endless listing is a failure."""
    found: list[Json] = []
    params = dict(params)
    while True:
        result = await editor.request("session/list", params)
        page = require_object(result, "the list's result")
        sessions = page.get("sessions")
        require(isinstance(sessions, list), f"sessions is {sessions!r}, expected a list")
        found.append(page)
        if page.get("nextCursor") is None:
            return found
        require(len(found) < MOST_PAGES, f"{MOST_PAGES} pages and still a nextCursor")
        params["cursor"] = page["nextCursor"]


async def listed(editor: Editor, **params: Any) -> list[Json]:
    return [entry for page in await pages(editor, **params) for entry in page["sessions"]]


async def used_session(ctx: Context, editor: Editor, cwd: Path) -> Session:
    """A session that has had a turn, if that is possible: some agents store them only then."""
    session = await editor.new_session(cwd)
    if not ctx.profile.lacks("model"):
        require_stop(await session.prompt("@say listed"), "end_turn")
    return session


@check("LIST-01", "a listing of nothing", Level.MUST, "V1-LIST-02", LIST)
async def empty(ctx: Context) -> None:
    """List the sessions of a directory nobody ever used. ``sessions`` is an empty list."""
    async with ctx.connection() as editor:
        entries = await listed(editor, cwd=str(ctx.folder("never-used")))
    require(entries == [], f"a directory nobody used has sessions: {entries}")


@check(
    "LIST-01.shape", "what a listing says", Level.MUST, "V1-LIST-02 V1-RPC-05", f"session {LIST}"
)
async def shape(ctx: Context) -> None:
    """List all sessions after using one. Every entry has a session id and an absolute path."""
    async with ctx.connection() as editor:
        session = await used_session(ctx, editor, ctx.cwd)
        entries = await listed(editor)
    for entry in entries:
        proper = isinstance(entry, dict) and isinstance(entry.get("sessionId"), str)
        require(proper, f"an entry has no sessionId: {entry}")
        require(Path(str(entry.get("cwd"))).is_absolute(), f"an entry has no absolute cwd: {entry}")
    if not ctx.profile.lacks("model"):
        ids = [entry["sessionId"] for entry in entries]
        require(session.id in ids, "a session that had a turn is not listed")


@check("LIST-02", "a listing by directory", Level.MUST, "V1-LIST-03", f"session {LIST}")
async def by_directory(ctx: Context) -> None:
    """Use sessions in two directories and list one of them. Only its sessions are there."""
    other = ctx.folder("other")
    async with ctx.connection() as editor:
        mine = await used_session(ctx, editor, ctx.cwd)
        foreign = await used_session(ctx, editor, other)
        every = {entry.get("sessionId") for entry in await listed(editor)}
        here = {entry.get("sessionId") for entry in await listed(editor, cwd=str(ctx.cwd))}
    require(foreign.id not in here, "a session of another directory is listed")
    require(mine.id in here or mine.id not in every, "a session of the directory is not listed")


@check("LIST-03", "paging", Level.MUST, "V1-LIST-04", f"session {LIST}")
async def paging(ctx: Context) -> None:
    """Make up to 250 sessions in a directory and walk through all pages of it.

    Every session comes once, and the last page has no cursor.
    """
    async with ctx.connection() as editor:
        deadline = time.monotonic() + MAKING_SECONDS
        made: list[str] = []
        while len(made) < MANY and time.monotonic() < deadline:
            made.append((await editor.new_session(ctx.cwd)).id)
        first = await used_session(ctx, editor, ctx.cwd)
        entries = await listed(editor, cwd=str(ctx.cwd))
    ids = [str(entry.get("sessionId")) for entry in entries]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    require(not twice, f"listed more than once: {twice[:5]}")
    if set(made) & set(ids):
        missing = set(made) - set(ids)
        require(not missing, f"{len(missing)} of {len(made)} sessions are on no page")
    if not ctx.profile.lacks("model"):
        require(first.id in ids, "a session that had a turn is on no page")


@check("LIST-04", "a cursor that is none", Level.SHOULD, "V1-LIST-05", LIST)
async def bad_cursor(ctx: Context) -> None:
    """List with a cursor the agent never gave. It is refused."""
    async with ctx.connection() as editor:
        params = {"cursor": "no-such-cursor!"}
        error = await (await editor.start("session/list", params)).error()
    require_code(error, what="session/list with an invented cursor")


@check("LIST-05", "titles agree", Level.MAY, "V1-INFO-01", f"model {LIST}")
async def titles(ctx: Context) -> None:
    """Use a session. If the agent announces a title for it, the listing says the same."""
    async with ctx.connection() as editor:
        session = await used_session(ctx, editor, ctx.cwd)
        infos = [m for m in session.updates() if "title" in m.update]
        if not infos:
            raise NotApplicable("the agent announced no title")
        await editor.barrier()
        entries = [e for e in await listed(editor) if e.get("sessionId") == session.id]
        told = [m for m in session.updates() if "title" in m.update][-1]
    shown = entries[0].get("title") if entries else None
    require(shown == told.update["title"], f"the listing has the title {shown!r}", told)


@check("DEL-01", "a deleted session is gone", Level.MUST, "V1-DEL-02", f"session {LIST} {DELETE}")
async def deleted(ctx: Context) -> None:
    """Use a session and delete it. No listing shows it any more."""
    async with ctx.connection() as editor:
        session = await used_session(ctx, editor, ctx.cwd)
        await _delete(editor, session.id)
        ids = [entry.get("sessionId") for entry in await listed(editor)]
    require(session.id not in ids, "the deleted session is still listed")


@check("DEL-01.again", "deleting is idempotent", Level.SHOULD, "V1-DEL-03", f"session {DELETE}")
async def deleted_again(ctx: Context) -> None:
    """Delete a session twice, and one that never existed. Each succeeds."""
    async with ctx.connection() as editor:
        session = await used_session(ctx, editor, ctx.cwd)
        for id in (session.id, session.id, "no-such-session"):
            await _delete(editor, id)


async def _delete(editor: Editor, id: str) -> None:
    result = await editor.request("session/delete", {"sessionId": id})
    require_object(result, "the result of session/delete")
