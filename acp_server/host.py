"""The methods that need a harness. Loaded after ``initialize`` was answered.

One function per method: validate, ask the harness, answer. Knows no framing and no capability.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_server.capabilities import ClientCapabilities
from acp_server.content import blocks_of
from acp_server.fork import fork_point
from acp_server.framing import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND
from acp_server.keys import Keys
from acp_server.lanes import Lanes
from acp_server.projection import timestamp
from acp_server.rpc import Inbound, Params, Peer, RpcError
from acp_server.sessions import AcpSession
from acp_server.wire import v1
from harness_core.agent import Agent
from harness_core.config import ConfigError
from harness_core.content import UserMessage
from harness_core.credentials import Vault
from harness_core.facts import FactError
from harness_core.harness import ForkError, Harness, new_id
from harness_core.journal import JournalError, SessionNotFound, Summary
from harness_core.model.http import preload
from harness_core.plugins.mcp import RemoteSpec, ServerSpec, StdioSpec, servers_of
from harness_core.plugins.options import MODE, set_option

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds after the first session until providers are asked for their models."""


class Host:
    """The sessions of one connection over one harness."""

    def __init__(
        self, harness: Harness, peer: Peer, client: ClientCapabilities, vault: Vault
    ) -> None:
        self.harness = harness
        self.peer = peer
        self.client = client
        self.keys = Keys(harness, peer, client, vault)
        self._models = harness.models()
        self._search: asyncio.Task[None] | None = None
        self.sessions: dict[str, AcpSession] = {}
        self._lanes = Lanes()
        self._leaving = False

    # --- sign-in -------------------------------------------------------------------------------

    async def authenticate(self, inbound: Inbound, params: Params) -> Params:
        """``authenticate``."""
        method = v1.validate(v1.Authenticate, params).method_id
        return await self.keys.authenticate(inbound, method)

    async def logout(self, _: Inbound, __: Params) -> Params:
        """``logout``."""
        return await self.keys.logout()

    # --- sessions ------------------------------------------------------------------------------

    async def new(self, inbound: Inbound, params: Params) -> Params:
        """``session/new``."""
        request = v1.validate(v1.NewSession, params)
        cwd, roots = _directories(request)
        if self.keys.signed_out:
            self.keys.require()
        with _explained():
            agent = await self.harness.create(cwd, roots)
        servers_of(agent).set(_servers(request))
        set_option(agent, MODE, agent.settings.mode, initial=True)
        session = self._adopt(agent)
        return {"sessionId": session.id, **self._introduce(session, inbound)}

    async def load(self, inbound: Inbound, params: Params) -> Params:
        """``session/load``: everything is replayed before the answer (V1-LOAD-03)."""
        session = await self._open(inbound, params)
        session.replay()
        return self._introduce(session, inbound)

    async def resume(self, inbound: Inbound, params: Params) -> Params:
        """``session/resume``: as load, without replay (V1-RESUME-02)."""
        return self._introduce(await self._open(inbound, params), inbound)

    async def fork(self, inbound: Inbound, params: Params) -> Params:
        """``session/fork``: a new session with the past of another, which stays as it is."""
        request = v1.validate(v1.ForkSession, params)
        cwd, roots = _directories(request)
        id, at = request.session_id, None
        with _explained(id):
            if request.message:
                at = fork_point((await self.harness.read(id)).events, request.message)
            agent = await self.harness.fork(id, cwd, roots, at)
        servers_of(agent).set(_servers(request))
        session = self._adopt(agent)
        return {"sessionId": session.id, **self._introduce(session, inbound)}

    async def list_sessions(self, _: Inbound, params: Params) -> Params:
        """``session/list``."""
        request = v1.validate(v1.ListSessions, params)
        try:
            page = await self.harness.list(request.cwd, request.cursor)
        except ValueError:
            raise RpcError(INVALID_PARAMS, "this cursor is not one of ours") from None
        result: dict[str, Any] = {
            "sessions": [_info(s) for s in page.sessions if s.title is not None]
        }
        if page.cursor is not None:
            result["nextCursor"] = page.cursor
        return result

    async def close(self, _: Inbound, params: Params) -> Params:
        """``session/close``: succeeds for a session that is not open, too (V1-CLOSE-04)."""
        id = v1.validate(v1.OfSession, params).session_id
        async with self._lanes.lane(id):
            await self._close(id)
        return {}

    async def delete(self, _: Inbound, params: Params) -> Params:
        """``session/delete``: closed first if it is open; succeeds if there is none (V1-DEL-03)."""
        id = v1.validate(v1.OfSession, params).session_id
        async with self._lanes.lane(id):
            await self._close(id)
            with _explained(id):
                await self.harness.delete(id)
        return {}

    async def set_mode(self, _: Inbound, params: Params) -> Params:
        """``session/set_mode``, also while a turn runs (V1-MODE-02)."""
        request = v1.validate(v1.SetMode, params)
        async with self._lanes.lane(request.session_id):
            self._session(request.session_id).options.set(MODE, request.mode_id)
        return {}

    async def set_option(self, _: Inbound, params: Params) -> Params:
        """``session/set_config_option``; answered with the complete list (V1-CFG-03)."""
        request = v1.validate(v1.SetOption, params)
        async with self._lanes.lane(request.session_id):
            options = self._session(request.session_id).options
            options.set(request.config_id, request.value)
            return {"configOptions": options.listed()}

    # --- turns ---------------------------------------------------------------------------------

    async def prompt(self, inbound: Inbound, params: Params) -> Params:
        """``session/prompt``."""
        request = v1.validate(v1.Prompt, params)
        content = blocks_of(request.prompt)
        async with self._lanes.lane(request.session_id):
            session = self._session(request.session_id)
            waiter = session.send(inbound, content, request.trace)
            if self._leaving:
                session.cancel()
        return await session.answer(waiter)

    async def steer(self, _: Inbound, params: Params) -> Params:
        """``_session/steering``: a message for the turn that runs, or for one of its own."""
        request = v1.validate(v1.Steering, params)
        content = blocks_of(request.prompt)
        async with self._lanes.lane(request.session_id):
            agent = self._session(request.session_id).agent
            if agent.turn is None and request.prompt_required:
                return {"outcome": "promptRequired", "reason": "noRunningTurn"}
            outcome = "startedNewTurn" if agent.turn is None else "injected"
            agent.steer(UserMessage(new_id(), content, source="steering"))
            return {"outcome": outcome}

    async def cancel(self, _: Inbound, params: Params) -> Params:
        """``session/cancel``: never answered, harmless at any time (V1-CANCEL-01)."""
        id = v1.validate(v1.OfSession, params).session_id
        async with self._lanes.lane(id):
            session = self.sessions.get(id)
            if session is not None:
                session.cancel()
        return {}

    # --- the end -------------------------------------------------------------------------------

    def leave(self) -> None:
        """The client has gone: whatever runs, and whatever still comes to run, is cancelled."""
        self._leaving = True
        self.keys.leave()
        for session in self.sessions.values():
            session.cancel()

    async def aclose(self) -> None:
        """End what the host itself has begun."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.wait({self._search})

    # --- small things --------------------------------------------------------------------------

    def _session(self, id: str) -> AcpSession:
        """The open session of that id. Raises ``RpcError`` (V1-RPC-09)."""
        session = self.sessions.get(id)
        if session is None:
            raise _unknown(id)
        return session

    def _adopt(self, agent: Agent) -> AcpSession:
        session = AcpSession(agent, self.peer, self.client, self._models)
        self.sessions[session.id] = session
        return session

    def _introduce(self, session: AcpSession, inbound: Inbound) -> Params:
        """What the answer that opens a session says of it; the rest is told after that answer."""
        inbound.after.append(lambda: self._announce(session))
        return session.options.state()

    def _announce(self, session: AcpSession) -> None:
        """What a client is told only after it knows the session (V1-NEW-12, V1-CMD-01)."""
        session.commands.announce()
        if self._search is None:
            self._search = asyncio.ensure_future(self._find_models())

    async def _find_models(self) -> None:
        """Ask the providers for their models, once, when there is nothing better to do."""
        await asyncio.sleep(PATIENCE)
        await asyncio.to_thread(preload)
        found = await self.harness.find_models()
        if found != self._models:
            self._models = found
            for session in self.sessions.values():
                session.offer(found)

    async def _open(self, inbound: Inbound, params: Params) -> AcpSession:
        request = v1.validate(v1.OldSession, params)
        id = request.session_id
        cwd, roots = _directories(request)
        async with self._lanes.lane(id):
            session = await self._open_in_lane(id, cwd, roots)
            servers_of(session.agent).set(_servers(request))
            session.owe(inbound)
            return session

    async def _open_in_lane(self, id: str, cwd: str, roots: list[Path]) -> AcpSession:
        session = self.sessions.get(id)
        if session is None:
            with _explained(id):
                _same_directory((await self.harness.header(id)).cwd, cwd)
                session = self._adopt(await self.harness.resume(id, roots))
        else:
            _same_directory(str(session.agent.cwd), cwd)
            session.agent.set_roots(roots)
        return session

    async def _close(self, id: str) -> None:
        session = self.sessions.get(id)
        if session is not None:
            await session.close()
            self.sessions.pop(id, None)


def _directories(request: v1.NewSession) -> tuple[str, list[Path]]:
    """The session's directory and additional ones; all must be there (V1-NEW-02, V1-DIR-03)."""
    for path in (request.cwd, *request.additional_directories):
        if not os.path.isdir(path):
            raise RpcError(INVALID_PARAMS, f"{path} is not a directory on this machine")
    return request.cwd, list(dict.fromkeys(map(Path, request.additional_directories)))


def _servers(request: v1.NewSession) -> list[ServerSpec]:
    """The MCP servers that the client names (V1-NEW-08)."""
    return [_server(server) for server in request.mcp_servers]


def _server(server: v1.StdioServer | v1.RemoteServer) -> ServerSpec:
    if isinstance(server, v1.StdioServer):
        env = {pair.name: pair.value for pair in server.env}
        return StdioSpec(server.name, server.command, tuple(server.args), env)
    headers = {pair.name: pair.value for pair in server.headers}
    return RemoteSpec(server.name, server.type, server.url, headers)


def _same_directory(stored: str, given: str) -> None:
    """A session lives in one directory; another one is refused, never silently ignored."""
    if os.path.realpath(stored) != os.path.realpath(given):
        raise RpcError(INVALID_PARAMS, f"this session belongs to {stored}; open it with that cwd")


def _unknown(id: str) -> RpcError:
    return RpcError(
        NOT_FOUND, "there is no open session with this id: load it first", {"sessionId": id[:128]}
    )


@contextmanager
def _explained(session: str = "") -> Iterator[None]:
    """What may be wrong with a stored session, or with the settings, as ``RpcError``."""
    try:
        yield
    except JournalError as failure:
        code = NOT_FOUND if isinstance(failure, SessionNotFound) else INTERNAL_ERROR
        raise RpcError(code, str(failure), {"sessionId": session[:128]}) from None
    except ForkError as failure:
        raise RpcError(INVALID_PARAMS, str(failure)) from None
    except FactError as failure:
        raise RpcError(INTERNAL_ERROR, str(failure), {"sessionId": session[:128]}) from None
    except ConfigError as failure:
        raise RpcError(INTERNAL_ERROR, str(failure), {"reason": "settings"}) from None


def _info(summary: Summary) -> dict[str, Any]:
    info: dict[str, Any] = {
        "sessionId": summary.id,
        "cwd": summary.cwd,
        "updatedAt": timestamp(summary.updated),
    }
    return info if summary.title is None else {**info, "title": summary.title}
