"""AUTH: logging in and out."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress
from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.profile import AUTH_REQUIRED, LOGIN_SHARE
from conformance.checks.verdict import NotApplicable, fail, require, require_code, require_object
from conformance.faults import Hung, RpcError
from conformance.frames import Level
from conformance.incoming import Json
from conformance.process import kill_group

SETTLING_SECONDS = 3.0
"""How long a login program is left alone before its terminal is closed."""
TERMINAL_LOGIN = {"auth": {"terminal": True}}


@check("AUTH-01", "sessions without credentials", Level.MAY, "V1-AUTH-09")
async def gated_new(ctx: Context) -> None:
    """Open a session with no credentials at all.

    It works, or the error is -32000; and -32000 only if there is a way to log in.
    """
    async with ctx.agent(env=ctx.environment(model=False)) as editor:
        methods = (await editor.initialize()).get("authMethods")
        try:
            await editor.new_session(ctx.cwd)
        except RpcError as error:
            require_code(error, AUTH_REQUIRED, what="session/new without credentials")
            require(methods, "a login is required, but authMethods is empty")


@check("AUTH-02", "logging in", Level.MUST, "V1-AUTH-05", "login")
async def authenticate(ctx: Context) -> None:
    """Call ``authenticate`` with an offered method of type ``agent``.

    If it succeeds, the result is an object and ``session/new`` asks for no login any more. A
    login that needs a human is no failure.
    """
    method = ctx.profile.login or ctx.profile.agent_logins[0]
    async with ctx.agent() as editor:
        await editor.initialize()
        try:
            params = {"methodId": method}
            result = await editor.request("authenticate", params, timeout=LOGIN_SHARE * ctx.timeout)
        except Hung:
            raise NotApplicable(f"the login {method!r} seems to wait for a human") from None
        except RpcError as error:
            if error.code == -32601:
                fail(f"{method!r} is offered, but authenticate is not known")
            raise NotApplicable(f"the login {method!r} did not succeed: {error}") from None
        require_object(result, "the result of authenticate")
        refusal = await _new_session_error(editor, ctx)
    refused = refusal is not None and refusal.code == AUTH_REQUIRED
    require(not refused, "session/new asks for a login after a successful login")


@check("AUTH-03", "an unknown login method", Level.REC, "V1-AUTH-04")
async def unknown_method(ctx: Context) -> None:
    """Call ``authenticate`` with an id that was not offered. It is answered by -32602."""
    async with ctx.agent() as editor:
        await editor.initialize()
        params = {"methodId": "no-such-login"}
        error = await (await editor.start("authenticate", params)).error()
    require_code(error, -32602, what="authenticate with an unknown method")


@check("AUTH-03.terminal", "a terminal login passed to authenticate", Level.REC, "V1-AUTH-04")
async def terminal_method(ctx: Context) -> None:
    """Call ``authenticate`` with the id of a terminal login. It is answered by -32602."""
    async with ctx.agent() as editor:
        login = _terminal_login(await editor.initialize(TERMINAL_LOGIN))
        params = {"methodId": login.get("id")}
        error = await (await editor.start("authenticate", params)).error()
    require_code(error, -32602, what="authenticate with a terminal login")


@check("AUTH-04", "terminal logins only for terminals", Level.MUST, "V1-AUTH-03")
async def terminal_gating(ctx: Context) -> None:
    """Initialize without ``auth.terminal``, and with it set to false.

    No login of type ``terminal`` is offered.
    """
    offers: tuple[Json, ...] = ({}, {"auth": {}}, {"auth": {"terminal": False}})
    for capabilities in offers:
        async with ctx.agent() as editor:
            methods = (await editor.initialize(capabilities)).get("authMethods") or []
        offered = [m for m in methods if isinstance(m, dict) and m.get("type") == "terminal"]
        require(not offered, f"a terminal login is offered to a client with {capabilities}")


@check("AUTH-04.unique", "login methods have ids and names", Level.MUST, "V1-AUTH-01")
async def method_shape(ctx: Context) -> None:
    """Every offered login has an id and a name, and no id is offered twice."""
    async with ctx.agent() as editor:
        methods = (await editor.initialize(TERMINAL_LOGIN)).get("authMethods") or []
    require(isinstance(methods, list), f"authMethods is {methods!r}, expected a list")
    for method in methods:
        named = isinstance(method, dict) and method.get("id") and method.get("name")
        require(named, f"the login {method!r} has no id or no name")
    ids = [method["id"] for method in methods]
    require(len(set(ids)) == len(ids), f"a login id is offered twice: {ids}")


@check("AUTH-05", "the terminal login is a program", Level.SHOULD, "V1-AUTH-06", "posix")
async def login_process(ctx: Context) -> None:
    """Run the command with the arguments of the terminal login on a pseudo-terminal; hang up.

    The process ends, and not with the exit code 0, which would say that the login succeeded.
    """
    async with ctx.agent() as editor:
        login = _terminal_login(await editor.initialize(TERMINAL_LOGIN))
    env = ctx.environment(model=False) | _pairs(login.get("env"))
    process = _on_terminal((*ctx.command, *map(str, login.get("args") or [])), ctx, env)
    try:
        by_itself = await _ended(ctx, process, SETTLING_SECONDS)
        process.hang_up()
        ended = await _ended(ctx, process, ctx.timeout)
    finally:
        process.close()
    require(ended, "the login goes on after its terminal was closed")
    aborted = by_itself or process.process.returncode != 0
    require(aborted, "the aborted login ended with exit code 0, as if it had succeeded")


@check("AUTH-06", "logging out", Level.MUST, "V1-AUTH-12", "agent:auth.logout")
async def logout(ctx: Context) -> None:
    """Log in if that is possible, then call ``logout``.

    The result is an object. Where sessions needed a login before, they need it again.
    """
    async with ctx.connection() as editor:
        require_object(await editor.request("logout", {}), "the result of logout")
        if ctx.profile.gated:
            error = await _new_session_error(editor, ctx)
            require_code(error, AUTH_REQUIRED, what="session/new after logout")


async def _new_session_error(editor: Any, ctx: Context) -> RpcError | None:
    try:
        await editor.new_session(ctx.cwd)
    except RpcError as error:
        return error
    return None


def _terminal_login(initialized: Json) -> Json:
    methods = initialized.get("authMethods") or []
    for method in methods:
        if isinstance(method, dict) and method.get("type") == "terminal":
            return method
    raise NotApplicable("the agent offers no terminal login")


def _pairs(env: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {}


class _OnTerminal:
    """A process with a pseudo-terminal as its controlling terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal: int | None = terminal
        asyncio.get_running_loop().add_reader(terminal, self._drain)

    def _drain(self) -> None:
        with suppress(OSError):
            if self._terminal is not None and os.read(self._terminal, 65536):
                return
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._terminal is not None:
            asyncio.get_running_loop().remove_reader(self._terminal)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window would."""
        self._stop_reading()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def close(self) -> None:
        self.hang_up()
        kill_group(self.process.pid)
        self.process.wait()


def _on_terminal(command: tuple[str, ...], ctx: Context, env: dict[str, str]) -> _OnTerminal:
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            command,
            cwd=ctx.start,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=lambda: os.login_tty(theirs),
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return _OnTerminal(process, ours)


async def _ended(ctx: Context, running: _OnTerminal, timeout: float) -> bool:
    """Whether the process has ended within ``timeout`` seconds."""
    try:
        await ctx.eventually(lambda: running.process.poll() is not None, "end", timeout)
    except Hung:
        return False
    return True
