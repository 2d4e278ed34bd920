"""MODE, CFG and BOOL: what a user can set in a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Session
from conformance.checks.steps import SPEECH
from conformance.checks.verdict import NotApplicable, require, require_code, require_object
from conformance.client import Sent
from conformance.frames import Level
from conformance.incoming import Json

WITH_BOOLEANS: Json = {"session": {"configOptions": {"boolean": {}}}}


def mode_ids(session: Session) -> list[str]:
    """The ids of the session's modes, the current one last."""
    modes = session.result.get("modes") or {}
    ids = [str(mode["id"]) for mode in modes.get("availableModes") or []]
    current = str(modes.get("currentModeId"))
    return [id for id in ids if id != current] + [current]


def options(source: Any) -> list[Json]:
    """The configuration options in a result or an update."""
    found = source.get("configOptions") if isinstance(source, dict) else None
    return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []


def values(option: Json) -> list[str]:
    """The values a select offers, groups included."""
    return list(_values(option.get("options") or []))


def _values(entries: list[Json]) -> Iterator[str]:
    for entry in entries:
        if "options" in entry:
            yield from _values(entry["options"])
        else:
            yield str(entry.get("value"))


async def set_mode(session: Session, mode: str) -> Sent:
    params = {"sessionId": session.id, "modeId": mode}
    return await session.editor.start("session/set_mode", params)


async def set_option(session: Session, id: Any, value: Any, **fields: Any) -> Sent:
    params = {"sessionId": session.id, "configId": id, "value": value, **fields}
    return await session.editor.start("session/set_config_option", params)


@check("MODE-01", "setting a mode", Level.MUST, "V1-MODE-02", "modes")
async def valid_modes(ctx: Context) -> None:
    """The current mode is among the available ones; each can be set and set back."""
    async with ctx.session() as session:
        modes = mode_ids(session)
        listed = [mode["id"] for mode in session.result["modes"].get("availableModes") or []]
        require(modes[-1] in listed, f"the current mode {modes[-1]!r} is not available: {listed}")
        for mode in (modes[0], modes[-1]):
            result = await (await set_mode(session, mode)).result()
            require_object(result, "the result of session/set_mode")


@check("MODE-01.unknown", "an unknown mode", Level.REC, "V1-MODE-02 advice", "modes")
async def unknown_mode(ctx: Context) -> None:
    """Set a mode that is not available. It is refused.

    Only available modes may be asked for, which is the client's duty.
    """
    async with ctx.session() as session:
        error = await (await set_mode(session, "no-such-mode")).error()
    require_code(error, what="an unknown mode")


@check(
    "MODE-01.code", "an unknown mode is an invalid param", Level.REC, "V1-MODE-02 advice", "modes"
)
async def unknown_mode_code(ctx: Context) -> None:
    """Set a mode that is not available. It is refused with -32602."""
    async with ctx.session() as session:
        error = await (await set_mode(session, "no-such-mode")).error()
    require_code(error, -32602, what="an unknown mode")


@check("MODE-01.running", "setting a mode during a turn", Level.MUST, "V1-MODE-02", "modes model")
async def mode_mid_turn(ctx: Context) -> None:
    """Set a mode while the model speaks. It is accepted before the turn ends."""
    async with ctx.session() as session:
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        await (await set_mode(session, mode_ids(session)[0])).result()
        require(turn.sent.response is None, "setting the mode ended the turn")
        await session.cancel()
        await turn.sent.wait()


@check("CFG-01", "setting an option", Level.MUST, "V1-CFG-03 V1-CFG-07", "config")
async def valid_option(ctx: Context) -> None:
    """Set an option to the value it has, then to another.

    Both answers list all options, the second with the new value.
    """
    async with ctx.session() as session:
        option = _select(session)
        id, current = option["id"], option["currentValue"]
        same = options(await (await set_option(session, id, current)).result())
        missing = {o["id"] for o in options(session.result)} - {o.get("id") for o in same}
        require(not missing, f"the answer lacks the options {sorted(missing)}")
        other = next(value for value in values(option) if value != current)
        changed = options(await (await set_option(session, id, other)).result())
        shown = next((o.get("currentValue") for o in changed if o.get("id") == id), None)
        require(shown == other, f"{id} was set to {other!r} and is shown as {shown!r}")


@check("CFG-01.unknown", "unknown options and values", Level.REC, "V1-CFG-08", "config")
async def unknown_option(ctx: Context) -> None:
    """Set an unknown option, and a known one to an unknown value.

    Both are refused with -32602 and change nothing.
    """
    async with ctx.session() as session:
        option = _select(session)
        id, current = option["id"], option["currentValue"]
        error = await (await set_option(session, "no-such-option", "x")).error()
        require_code(error, -32602, what="an unknown option")
        error = await (await set_option(session, id, "no-such-value")).error()
        require_code(error, -32602, what="an unknown value")
        other = next((o for o in options(session.result) if o["id"] != id), option)
        listed = options(
            await (await set_option(session, other["id"], other["currentValue"])).result()
        )
        shown = next((o.get("currentValue") for o in listed if o.get("id") == id), None)
        require(shown == current, f"{id} is {shown!r} after a refused change, it was {current!r}")


@check("CFG-01.default", "options have valid values", Level.MUST, "V1-CFG-02 V1-CFG-07", "config")
async def defaults(ctx: Context) -> None:
    """Every select has a current value that is one of its values, and ids are unique."""
    async with ctx.session() as session:
        found = options(session.result)
    ids = [option.get("id") for option in found]
    require(len(set(ids)) == len(ids), f"an option id comes twice: {ids}")
    for option in found:
        if option.get("type") == "select":
            current = option.get("currentValue")
            require(current in values(option), f"{option.get('id')} has the value {current!r}")


@check("CFG-01.running", "setting an option during a turn", Level.MUST, "V1-CFG-04", "config model")
async def option_mid_turn(ctx: Context) -> None:
    """Set an option while the model speaks. It is accepted before the turn ends."""
    async with ctx.session() as session:
        option = _select(session)
        turn = await session.start(SPEECH)
        await turn.until_text("word0")
        await (await set_option(session, option["id"], option["currentValue"])).result()
        require(turn.sent.response is None, "setting the option ended the turn")
        await session.cancel()
        await turn.sent.wait()


@check("CFG-02", "modes and options agree", Level.SHOULD, "V1-MODE-04", "modes config")
async def in_step(ctx: Context) -> None:
    """Where the mode is also an option: change it through one, see it through the other."""
    async with ctx.session() as session:
        option = _mode_option(session)
        other, current = mode_ids(session)[0], mode_ids(session)[-1]
        if option is None or other not in values(option) or other == current:
            raise NotApplicable("no option of the session is its mode")
        await (await set_option(session, option["id"], other)).result()
        await _mode_is(session, other)
        await (await set_mode(session, current)).result()
        await _option_is(session, option["id"], current)


async def _mode_is(session: Session, mode: str) -> None:
    """The client is told about the new mode."""
    await session.editor.seen(
        lambda m: m.kind == "current_mode_update" and m.update.get("currentModeId") == mode,
        f"current_mode_update to {mode!r} after the option was set",
    )


async def _option_is(session: Session, id: str, value: str) -> None:
    """The client is told about the option's new value."""

    def told() -> bool:
        updates = [m.update for m in session.updates() if m.kind == "config_option_update"]
        last = options(updates[-1]) if updates else []
        return any(o.get("id") == id and o.get("currentValue") == value for o in last)

    await session.editor.until(
        told, f"config_option_update of {id} to {value!r} after the mode was set"
    )


@check("BOOL-01", "boolean options only if offered", Level.MUST, "V1-BOOL-01", "config")
async def boolean_gating(ctx: Context) -> None:
    """Without ``session.configOptions.boolean``: no option of type boolean anywhere."""
    async with ctx.session(capabilities={}) as session:
        option = _select(session)
        result = await (await set_option(session, option["id"], option["currentValue"])).result()
        shown = options(session.result) + options(result)
        shown += [o for m in session.updates() for o in options(m.update)]
    found = [o.get("id") for o in shown if o.get("type") == "boolean"]
    require(not found, f"boolean options for a client that does not know them: {found}")


@check("BOOL-01.set", "boolean options can be set", Level.MUST, "V1-BOOL-03", "config")
async def boolean_set(ctx: Context) -> None:
    """With ``session.configOptions.boolean``: a boolean option takes a boolean."""
    async with ctx.session(capabilities=WITH_BOOLEANS) as session:
        found = [o for o in options(session.result) if o.get("type") == "boolean"]
        if not found:
            raise NotApplicable("the agent has no boolean options")
        id, wanted = found[0]["id"], not found[0].get("currentValue")
        result = await (await set_option(session, id, wanted, type="boolean")).result()
        shown = next((o.get("currentValue") for o in options(result) if o.get("id") == id), None)
    require(shown is wanted, f"{id} was set to {wanted} and is shown as {shown!r}")


def _select(session: Session) -> Json:
    """A select with a choice; the model is only taken if there is nothing else."""
    found = [o for o in options(session.result) if len(values(o)) > 1]
    found.sort(key=lambda option: option.get("category") == "model")
    if not found:
        raise NotApplicable("no option of the session has a choice")
    return found[0]


def _mode_option(session: Session) -> Json | None:
    found = options(session.result)
    return next((option for option in found if option.get("category") == "mode"), None)
