"""INIT: version negotiation, capabilities and what works before a session exists."""

from __future__ import annotations

from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import Editor, initialize_params, tool
from conformance.checks.verdict import fail, require, require_code, require_object
from conformance.frames import Level
from conformance.incoming import ABSENT, Incoming, encode_line, envelope

KNOWN_VERSIONS = (0, 1, 2)
UNSUPPORTED_VERSION = -32022
GATED = {
    "loadSession": ("session/load", {"sessionId": "nope", "cwd": "/", "mcpServers": []}),
    "sessionCapabilities.resume": ("session/resume", {"sessionId": "nope", "cwd": "/"}),
    "sessionCapabilities.list": ("session/list", {}),
    "sessionCapabilities.delete": ("session/delete", {"sessionId": "nope"}),
    "sessionCapabilities.close": ("session/close", {"sessionId": "nope"}),
    "sessionCapabilities.fork": ("session/fork", {"sessionId": "nope", "cwd": "/"}),
    "auth.logout": ("logout", {}),
}
"""Methods by the capability that announces them, with params that are harmless."""
CLIENT_METHODS = ("fs/", "terminal/", "elicitation/")
GATED_UPDATES = ("notice", "compaction_update", "compaction_summary_chunk")


@check("INIT-01", "version 1", Level.MUST, "V1-INIT-03 V1-INIT-07 V1-INIT-08", "nothing")
async def version_one(ctx: Context) -> None:
    """Ask for protocol version 1.

    The answer says 1. If there are capabilities, they are an object; if there is ``agentInfo``, it
    has a name and a version.
    """
    async with ctx.agent() as editor:
        result = await editor.initialize()
    version = result.get("protocolVersion")
    require(version == 1 and version is not True, f"protocolVersion is {version!r}, expected 1")
    require_object(result.get("agentCapabilities", {}), "agentCapabilities")
    info = result.get("agentInfo")
    if info is not None:
        named = isinstance(info, dict) and info.get("name") and "version" in info
        require(named, f"agentInfo is {info!r}, without a name or a version")


@check("INIT-01.info", "the agent names itself", Level.SHOULD, "V1-INIT-08")
async def agent_info(ctx: Context) -> None:
    """The answer to ``initialize`` has ``agentInfo``."""
    async with ctx.agent() as editor:
        result = await editor.initialize()
    require_object(result.get("agentInfo"), "agentInfo")


@check("INIT-01.capabilities", "the agent states its capabilities", Level.SHOULD, "V1-INIT-11")
async def capabilities_stated(ctx: Context) -> None:
    """The answer to ``initialize`` has a capability object."""
    async with ctx.agent() as editor:
        result = await editor.initialize()
    require_object(result.get("agentCapabilities"), "agentCapabilities")


@check("INIT-02", "a newer version", Level.MUST, "V1-INIT-04")
async def newer_version(ctx: Context) -> None:
    """Ask for the versions 2, 999 and 65535, with what both versions 1 and 2 want to know.

    Each is answered with a version the agent speaks, never with an error.
    """
    later = {"info": {"name": "later", "version": "9"}, "capabilities": {}}
    for version in (2, 999, 65535):
        async with ctx.agent() as editor:
            result = await editor.initialize(version=version, **later)
        given = result.get("protocolVersion")
        require(given in KNOWN_VERSIONS, f"version {version} was answered with {given!r}")


@check("INIT-03", "version 0", Level.MUST, "V1-INIT-04")
async def version_zero(ctx: Context) -> None:
    """Ask for version 0. It is answered with a version the agent speaks, not with an error.

    An agent that speaks version 2 as well may follow its rule: nothing is that old, -32022.
    """
    async with ctx.agent() as editor:
        sent = await editor.start("initialize", initialize_params(version=0))
        error = await sent.error()
        given = None if error else (await sent.result()).get("protocolVersion")
    if error is not None:
        require_code(error, UNSUPPORTED_VERSION, what="version 0")
        return
    require(given in KNOWN_VERSIONS, f"version 0 was answered with {given!r}")


@check("INIT-04", "a version that is none", Level.REC, "V1-INIT-15")
async def bad_version(ctx: Context) -> None:
    """Leave the version out, then send ``"1"``, -1, 70000 and 1.5.

    Each is answered by -32602, and a correct ``initialize`` works after that.
    """
    async with ctx.agent() as editor:
        for version in (ABSENT, "1", -1, 70000, 1.5):
            params = initialize_params(version=version)
            if version is ABSENT:
                del params["protocolVersion"]
            error = await (await editor.start("initialize", params)).error()
            shown = "no version" if version is ABSENT else repr(version)
            require_code(error, -32602, what=f"initialize with {shown}")
        await editor.initialize()


@check("INIT-05", "a session before initialize", Level.REC, "V1-INIT-16")
async def before_initialize(ctx: Context) -> None:
    """Send ``session/new`` first. It is answered by -32600, and ``initialize`` works then."""
    async with ctx.agent() as editor:
        params = {"cwd": str(ctx.cwd), "mcpServers": []}
        error = await (await editor.start("session/new", params)).error()
        require_code(error, -32600, what="session/new before initialize")
        await editor.initialize()


@check("INIT-06", "session/new right behind initialize", Level.REC, "V1-INIT-18", "session")
async def pipelined(ctx: Context) -> None:
    """Write ``initialize`` and ``session/new`` at once. Both are answered, in this order."""
    async with ctx.agent() as editor:
        methods = {
            "initialize": initialize_params(),
            "session/new": {"cwd": str(ctx.cwd), "mcpServers": []},
        }
        sent = [editor.expect(method, id) for id, method in enumerate(methods)]
        messages = (
            {**envelope(method, params), "id": id}
            for id, (method, params) in enumerate(methods.items())
        )
        await editor.send_raw(b"".join(map(encode_line, messages)))
        first, second = [await request.wait() for request in sent]
        require(first.index < second.index, "the answers came in the wrong order", first, second)
        if not ctx.profile.gated:
            await sent[1].result()


@check("INIT-07", "a client without capabilities", Level.MUST, "V1-INIT-09", "session")
async def no_capabilities(ctx: Context) -> None:
    """Send no capabilities and let the model use every tool it has.

    The agent uses no file, terminal or question of the client, no boolean option, no gated
    update.
    """
    await _uses_nothing(ctx, ABSENT)


@check("INIT-07.malformed", "malformed capabilities", Level.REC, "V1-INIT-19", "session")
async def malformed_capabilities(ctx: Context) -> None:
    """Send capabilities as null, as a number, and with fields of the wrong type.

    They count as absent, as the schema advises, and nothing is used.
    """
    for capabilities in (None, 5, {"fs": 5, "terminal": "yes", "elicitation": [], "session": 1}):
        await _uses_nothing(ctx, capabilities)


async def _uses_nothing(ctx: Context, capabilities: Any) -> None:
    async with ctx.session(capabilities=capabilities) as session:
        if not ctx.profile.lacks("model"):
            await session.prompt(_every_tool(ctx))
    _require_nothing_used(session.editor)


def _every_tool(ctx: Context) -> str:
    """One call of each kind of tool the agent offers."""
    path = str(ctx.put("every.txt", "alpha\n"))
    calls = {
        "read": tool("read", path=path),
        "edit": tool("edit", path=path, old="alpha", new="beta"),
        "write": tool("write", path=str(ctx.cwd / "new.txt"), content="new\n"),
        "shell": tool("shell", command="echo hello"),
        "ask": tool("ask", question="Which colour?"),
    }
    wanted = [call for kind, call in calls.items() if kind in ctx.profile.tools]
    return "\n@then\n".join([*wanted, "@say finished"])


def _require_nothing_used(editor: Editor) -> None:
    used = editor.asked(*CLIENT_METHODS)
    require(not used, "the agent used what the client did not announce", *used)
    gated = [m for m in editor.incoming if m.kind in GATED_UPDATES]
    require(not gated, "the agent sent an update the client did not announce", *gated)
    boolean = [m for m in editor.incoming if _boolean_option(m)]
    require(not boolean, "the agent sent a boolean option the client did not announce", *boolean)


def _boolean_option(message: Incoming) -> bool:
    result = (message.message or {}).get("result")
    for source in (result, message.update):
        options = source.get("configOptions") if isinstance(source, dict) else None
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("type") == "boolean":
                return True
    return False


@check("INIT-08", "no credentials", Level.REC, "V1-INIT-17", "nothing")
async def no_credentials(ctx: Context) -> None:
    """Start the agent with an empty home and no keys. ``initialize`` works."""
    async with ctx.agent(env=ctx.environment(model=False)) as editor:
        await editor.initialize()


@check("INIT-09", "the first line", Level.REC, "REG", "nothing")
async def first_line(ctx: Context) -> None:
    """The first line on stdout is the answer to ``initialize``."""
    async with ctx.agent() as editor:
        sent = await editor.start("initialize", initialize_params())
        await sent.wait()
    require(editor.incoming[0] is sent.response, "another line came first", editor.incoming[0])


@check("INIT-10.advertised", "advertised methods exist", Level.MUST, "V1-INIT-11")
async def advertised_methods(ctx: Context) -> None:
    """Call the method behind each advertised capability. None is answered by -32601."""
    async with ctx.connection() as editor:
        for path, (method, params) in GATED.items():
            if editor.offers(path):
                error = await (await editor.start(method, params)).error()
                if error is not None and error.code == -32601:
                    fail(f"{path} is advertised, but {method} is not known")


@check("INIT-10.absent", "other methods do not", Level.REC, "V1-LOAD-01 V1-AUTH-11 advice")
async def absent_methods(ctx: Context) -> None:
    """Call the method behind each capability that is not advertised.

    Each is answered by -32601. Clients must not call them, so the code is advice.
    """
    async with ctx.connection() as editor:
        for path, (method, params) in GATED.items():
            if not editor.offers(path):
                error = await (await editor.start(method, params)).error()
                require_code(error, -32601, what=f"{method}, which is not advertised,")
