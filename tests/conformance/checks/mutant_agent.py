"""The toy agent as a program: its methods, its login, its end.

``python mutant_agent.py [--mutation CHECK-ID] [--gated]``; with ``--login`` it is the terminal
login. Everything a check looks at works, but for the one thing the named check looks for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from toy import store
from toy.mcp import Server
from toy.mutation import broken
from toy.peer import (
    AUTH_REQUIRED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_ANSWER,
    NO_RESOURCE,
    NOT_FOUND,
    Failure,
    Json,
    Peer,
    chatter,
)
from toy.session import Session

CAPABILITIES: Json = {
    "loadSession": True,
    "promptCapabilities": {"embeddedContext": True, "image": False},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "close": {},
        "delete": {},
        "additionalDirectories": {},
        "fork": {},
    },
    "auth": {"logout": {}},
}
KEY_LOGIN: Json = {"id": "key", "name": "API key"}
TERMINAL_LOGIN: Json = {"type": "terminal", "id": "tty", "name": "Sign in", "args": ["--login"]}
GATED = "--gated" in sys.argv
PARAMS = {
    "session/new": {"cwd", "mcpServers", "additionalDirectories", "_meta"},
    "initialize": {"protocolVersion", "clientCapabilities", "clientInfo", "_meta"},
    "session/prompt": {"sessionId", "prompt", "_meta"},
}


class Agent:
    """All methods of the agent side."""

    def __init__(self) -> None:
        self.peer = Peer(self.request, self.notification, self.end)
        self.sessions: dict[str, Session] = {}
        self.client: Json | None = None
        self.over = asyncio.Event()
        self.code = 0
        self._refusing = False
        self._pages: dict[Any, asyncio.Event] = {}
        self._last_prompt: Any = None
        self._finishing: asyncio.Future[None] | None = None

    async def request(self, method: str, params: Json, id: Any) -> Any:
        self._strictness(method, params)
        if self.client is None and method != "initialize" and not broken("INIT-05"):
            raise Failure(INVALID_REQUEST, "Initialize first")
        match method:
            case "initialize":
                if broken("INIT-06"):
                    await asyncio.sleep(0.05)
                return self.initialize(params)
            case "authenticate":
                return await self.authenticate(params, id)
            case "logout":
                store.LOGIN.unlink(missing_ok=True)
                return None if broken("AUTH-06") else {}
            case "session/new":
                return await self.new(params)
            case "session/load" | "session/resume":
                return await self.reopen(params, replay=method.endswith("load"))
            case "session/fork":
                return await self.fork(params)
            case "session/list":
                return store.listing(params.get("cwd"), params.get("cursor"))
            case "session/delete":
                return await self.delete(params)
            case "session/close" if not broken("INIT-10.advertised"):
                return await self.close(params)
            case "session/prompt":
                return await self.prompt(params, id)
            case "session/set_mode":
                return await self.set_mode(params)
            case "session/set_config_option":
                return await self.set_option(params)
        if method.startswith("_") and broken("EXT-01", "EXT-01.code"):
            return {} if broken("EXT-01.code") else NO_ANSWER
        raise Failure(INTERNAL if broken("RPC-01") else NOT_FOUND, f"There is no method {method}")

    def _strictness(self, method: str, params: Json) -> None:
        if "\0" in params:
            raise Failure(INVALID_PARAMS, "There are no params")
        if broken("RPC-07") and set(params) - PARAMS.get(method, set(params)):
            raise Failure(INVALID_PARAMS, "There are unknown fields")
        meta = params.get("_meta", {})
        if broken("RPC-09.malformed") and not isinstance(meta, dict | None):
            raise Failure(INVALID_PARAMS, "_meta is no object")
        if broken("RPC-09") and (meta is None or "deep" in meta):
            raise Failure(INVALID_PARAMS, "_meta is strange")

    def notification(self, method: str, params: Json) -> None:
        if method == "session/cancel":
            session = self.sessions.get(params.get("sessionId", ""))
            if session is not None:
                session.cancel()
            if broken("CAN-04"):
                self.peer.wire.send({"jsonrpc": "2.0", "id": None, "result": {}})
            if broken("CAN-05"):
                answer = {"id": self._last_prompt, "result": {"stopReason": "cancelled"}}
                self.peer.wire.send({"jsonrpc": "2.0", **answer})
        elif method == "$/cancel_request":
            self._cancel_request(params.get("requestId"))
        elif broken("RPC-02"):
            body = Failure(NOT_FOUND, "There is no such notification").body()
            self.peer.wire.send({"jsonrpc": "2.0", "id": None, "error": body})
        elif broken("IO-13"):
            chatter(f"unknown notification {method} {params}")

    def _cancel_request(self, id: Any) -> None:
        if id in self._pages:
            self._pages[id].set()
        for session in self.sessions.values():
            for turn in session.turns:
                same = turn.request == id and type(turn.request) is type(id)
                if same or (broken("CAN-07") and str(turn.request) == str(id)):
                    turn.cancel()

    def initialize(self, params: Json) -> Json:
        version = params.get("protocolVersion")
        proper = (
            isinstance(version, int) and not isinstance(version, bool) and version in range(65536)
        )
        if not proper and not broken("INIT-04"):
            raise Failure(INVALID_PARAMS, "protocolVersion is a number from 0 to 65535")
        if broken("INIT-08") and "OPENAI_API_KEY" not in os.environ:
            raise Failure(INTERNAL, "There is no key")
        if broken("INIT-03") and version == 0:
            raise Failure(INVALID_PARAMS, "Version 0 is too old")
        client = params.get("clientCapabilities", {})
        if broken("INIT-07.malformed") and not isinstance(client, dict):
            raise Failure(INVALID_PARAMS, "clientCapabilities is no object")
        self.client = sanitized(client)
        if broken("INIT-09"):
            self.peer.notify("_toy/hello", {})
        result: Json = {
            "protocolVersion": version if broken("INIT-02") else 1,
            "agentCapabilities": CAPABILITIES,
            "agentInfo": {"name": "toy", "version": "1.0"},
            "authMethods": self._logins(),
        }
        if broken("INIT-01"):
            result["protocolVersion"] = 2
        if broken("INIT-01.capabilities"):
            del result["agentCapabilities"]
        if broken("INIT-10.absent"):
            sessions = {**CAPABILITIES["sessionCapabilities"]}
            del sessions["delete"]
            result["agentCapabilities"] = {**CAPABILITIES, "sessionCapabilities": sessions}
        if broken("INIT-01.info"):
            del result["agentInfo"]
        return result

    def _logins(self) -> list[Json]:
        if broken("REG-01"):
            return [{**KEY_LOGIN, "type": "mystery"}]
        methods = [KEY_LOGIN, KEY_LOGIN] if broken("AUTH-04.unique") else [KEY_LOGIN]
        terminal = (self.client or {}).get("auth", {}).get("terminal") is True
        return [*methods, TERMINAL_LOGIN] if terminal or broken("AUTH-04") else methods

    async def authenticate(self, params: Json, id: Any) -> Json:
        method = params.get("methodId")
        allowed = ["key"]
        allowed += ["tty"] if broken("AUTH-03.terminal") else []
        if method not in allowed and not broken("AUTH-03"):
            raise Failure(INVALID_PARAMS, "There is no such login")
        if broken("ELIC-03"):
            schema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
            form = {"mode": "form", "message": "Your key?", "requestedSchema": schema}
            await self.peer.ask("elicitation/create", {"requestId": id, **form})
        if self._sends_to_pages() and "OPENAI_API_KEY" not in os.environ:
            await self._by_page(id)
        store.ROOT.mkdir(parents=True, exist_ok=True)
        store.LOGIN.touch()
        self._refusing = broken("AUTH-02")
        return {}

    def _sends_to_pages(self) -> bool:
        return ((self.client or {}).get("elicitation") or {}).get("url") is not None

    async def _by_page(self, id: Any) -> None:
        """Nobody ever completes the page; the login ends when it is declined or cancelled."""
        page = {"mode": "url", "message": "Sign in", "url": "https://toy.example/sign-in"}
        asked = {"requestId": id, "elicitationId": uuid.uuid4().hex, **page}
        cancelled = self._pages[id] = asyncio.Event()
        answer = await self.peer.ask("elicitation/create", asked)
        if broken("ELIC-03.url"):
            return
        if answer.get("action") == "accept":
            await cancelled.wait()
        raise Failure(AUTH_REQUIRED, "Nobody signed in")

    def _require_login(self) -> None:
        ready = store.LOGIN.exists() or ("OPENAI_API_KEY" in os.environ and not GATED)
        if not ready or self._refusing:
            code = INTERNAL if broken("AUTH-01") else AUTH_REQUIRED
            raise Failure(code, "Log in first")

    async def new(self, params: Json) -> Json:
        self._require_login()
        cwd, roots = directories(params)
        configs = servers(params)
        session = self._opened(self._fresh_id(), cwd, roots)
        await self._connect(session, configs)
        created = time.time_ns()
        session.log.append("header", {"cwd": cwd, "roots": roots, "created": created})
        early = broken("NEW-04") or (broken("NEW-04.pipelined") and len(self.sessions) > 1)
        if early:
            session.announce()
        else:
            asyncio.get_running_loop().call_soon(session.announce)
        return {"sessionId": session.id, **session.state()}

    def _fresh_id(self) -> str:
        return "session" if broken("NEW-01") else str(uuid.uuid4())

    def _opened(self, id: str, cwd: str, roots: list[str]) -> Session:
        session = Session(self.peer, id, cwd, self.client or {}, roots)
        self.sessions[id] = session
        Session.last = id
        return session

    async def _connect(self, session: Session, configs: list[Json]) -> None:
        if broken("NEW-05"):
            return
        try:
            started = await asyncio.gather(*map(Server.start, configs))
        except OSError:
            raise Failure(INTERNAL, "An MCP server could not be started") from None
        session.servers = [server for server in started if server is not None]

    async def reopen(self, params: Json, replay: bool) -> Any:
        id = params.get("sessionId", "")
        log = store.Log(id)
        if not log.exists() and not broken("LOAD-03"):
            raise unknown(id)
        cwd, roots = directories(params)
        if broken("LOAD-06"):
            roots = log.entries("header")[0]["roots"]
        session = self._opened(id, cwd, roots)
        await self._connect(session, servers(params))
        if log.exists() and not broken("LOAD-02", "RES-01.context"):
            session.restore()
        if log.exists() and (replay or broken("RES-01")):
            session.replay()
        return None if broken("LOAD-01.result") else session.state()

    async def fork(self, params: Json) -> Json:
        source = store.Log(params.get("sessionId", ""))
        if not source.exists():
            raise unknown(params.get("sessionId"))
        cwd, roots = directories(params)
        fork = self._opened(str(uuid.uuid4()), cwd, roots)
        fork.log.append("header", {"cwd": cwd, "roots": roots, "created": time.time_ns()})
        for kind in () if broken("FORK-01") else ("update", "message", "refused"):
            for value in source.entries(kind):
                fork.log.append(kind, value)
        fork.restore()
        if broken("FORK-01.source"):
            fork.messages = self._session(params).messages
        return {"sessionId": fork.id, **fork.state()}

    async def delete(self, params: Json) -> Json:
        id = str(params.get("sessionId"))
        if id in self.sessions:
            await self.close(params)
        if broken("DEL-01.again") and not store.Log(id).exists():
            raise unknown(id)
        store.Log(id).delete()
        return {}

    async def close(self, params: Json) -> Json:
        session = self.sessions.pop(params.get("sessionId", ""), None)
        if session is not None:
            await session.close()
            session.closed = not broken("CLOSE-01.order")
            if broken("CLOSE-02"):
                session.log.path.unlink()
        return {}

    def _session(self, params: Json) -> Session:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            raise unknown(params.get("sessionId"))
        return session

    async def prompt(self, params: Json, id: Any) -> Any:
        self._last_prompt = id
        if broken("TURN-11") and params.get("sessionId") not in self.sessions:
            raise Failure(INTERNAL, "There is no such session")
        return await self._session(params).prompt(params, id)

    async def set_mode(self, params: Json) -> Json:
        session = self._session(params)
        if broken("MODE-01.running"):
            await session.idle()
        return session.settings.set_mode(params.get("modeId"))

    async def set_option(self, params: Json) -> Json:
        session = self._session(params)
        if broken("CFG-01.running"):
            await session.idle()
        settings = session.settings
        return settings.set_option(params.get("configId"), params.get("value"), params.get("type"))

    def end(self) -> None:
        """Nothing more comes: finish what runs and leave."""
        self._finishing = asyncio.ensure_future(self._finish())

    async def _finish(self) -> None:
        await asyncio.gather(*(session.close() for session in self.sessions.values()))
        pending = list(self.peer.tasks.values())
        if pending:
            await asyncio.wait(pending, timeout=1)
        if broken("IO-09"):
            self.code = 3
        if broken("IO-11") and not self.peer.wire.read_anything:
            self.code = 1
        self.over.set()


def sanitized(client: Any) -> Json:
    """Capabilities with everything malformed taken as absent."""
    if not isinstance(client, dict):
        return {}
    groups = ("fs", "auth", "session", "elicitation")
    found = {name: client[name] for name in groups if isinstance(client.get(name), dict)}
    return {**found, "terminal": client.get("terminal") is True}


def directories(params: Json) -> tuple[str, list[str]]:
    """The session's directory and its additional ones. Raises ``Failure``."""
    cwd = params.get("cwd")
    absolute = isinstance(cwd, str) and Path(cwd).is_absolute()
    if not absolute and not broken("NEW-02"):
        code = INTERNAL if broken("NEW-02.code") else INVALID_PARAMS
        raise Failure(code, "cwd is an absolute path")
    roots = params.get("additionalDirectories") or []
    good = [root for root in roots if isinstance(root, str) and Path(root).is_absolute()]
    if good != roots and not broken("NEW-08"):
        raise Failure(INVALID_PARAMS, "additionalDirectories are absolute paths")
    return str(cwd), good


def servers(params: Json) -> list[Json]:
    """The MCP servers of a request. Raises ``Failure`` for what cannot be served."""
    given = params.get("mcpServers")
    if given is None and broken("NEW-06.absent"):
        raise Failure(INVALID_PARAMS, "mcpServers is a list")
    found = []
    for server in given or []:
        kind = server.get("type", "stdio")
        if kind in {"http", "sse"}:
            if not broken("NEW-06.transport"):
                raise Failure(INVALID_PARAMS, f"MCP over {kind} is not supported")
        elif kind != "stdio" or not {"name", "command", "args", "env"} <= set(server):
            if not broken("NEW-06.malformed"):
                raise Failure(INVALID_PARAMS, "This is no MCP server")
        else:
            found.append(server)
    return found


def unknown(id: Any) -> Failure:
    return Failure(NO_RESOURCE, "There is no such session", {"sessionId": id})


def login() -> int:
    """The terminal login: a line typed is a login, the end of the terminal is none."""
    if broken("AUTH-05"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        time.sleep(600)
    if not sys.stdin.readline():
        return 1
    store.ROOT.mkdir(parents=True, exist_ok=True)
    store.LOGIN.touch()
    return 0


async def serve() -> int:
    agent = Agent()
    agent.peer.wire.start()
    await agent.over.wait()
    agent.peer.wire.close()
    return agent.code


def main() -> None:
    if broken("PERF-01"):
        time.sleep(1.2)
    code = login() if "--login" in sys.argv else asyncio.run(serve())
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
