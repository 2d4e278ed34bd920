"""What an agent is like, found out once before the checks run, so that only fitting checks do.

The needs a check may state:

``initialize``       the agent answers ``initialize`` at all (stated by nearly every check)
``agent:PATH``       a capability of the agent, like ``agent:sessionCapabilities.list``
``session``          sessions can be created (after logging in, if that works unattended)
``model``            prompts reach the scripted model
``tool:KIND``        the agent offers its model such a tool (read, write, edit, shell, plan, ask);
                     ``any`` is read or shell
``permission``       some tool of the agent asks the user before it runs
``modes``            sessions have modes
``config``           sessions have configuration options
``login``            the agent offers a login of type ``agent``
``posix``            the check uses POSIX shells or signals
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from conformance.checks.editor import Editor, Session, advertised, tool
from conformance.faults import AgentFault, RpcError
from conformance.incoming import Json
from conformance.model_server import ModelRequest, ToolCall
from conformance.model_server.tools import KINDS, resolve
from conformance.process import POSIX

AUTH_REQUIRED = -32000
LOGIN_SHARE = 0.5
"""The part of a wait's timeout a login may take before we believe that it waits for a human."""
PROBE_TEXT = "conformance-probe"


@dataclass(slots=True)
class Profile:
    """The facts about one agent command that decide which checks apply."""

    info: Json = field(default_factory=dict)
    """The result of ``initialize``; empty if there was none."""
    opened: Json = field(default_factory=dict)
    """The result of ``session/new``; empty if there was none."""
    commands: list[Json] = field(default_factory=list)
    gated: bool = False
    """``session/new`` wants a login first."""
    login: str | None = None
    """The login method after which ``session/new`` works."""
    troubles: dict[str, str] = field(default_factory=dict)
    """Why a need is not met, by need."""
    tools: frozenset[str] = frozenset()
    asks: str | None = None
    """The kind of tool that asks for permission."""
    exits_on_eof: bool = True

    @property
    def auth_methods(self) -> list[Json]:
        methods = self.info.get("authMethods")
        return [m for m in methods if isinstance(m, dict)] if isinstance(methods, list) else []

    @property
    def agent_logins(self) -> list[str]:
        """Ids of the methods that ``authenticate`` takes; no type means ``agent``."""
        return [str(m.get("id")) for m in self.auth_methods if m.get("type") != "terminal"]

    def offers(self, path: str) -> bool:
        """Whether the agent advertised a capability."""
        return advertised(self.info, path)

    def lacks(self, need: str) -> str:
        """Why ``need`` is not met; empty if it is."""
        if need in self.troubles:
            return self.troubles[need]
        kind, _, rest = need.partition(":")
        match kind:
            case "agent":
                return "" if self.offers(rest) else f"the agent does not advertise {rest}"
            case "tool":
                return self.lacks("model") or self._lacks_tool(rest)
            case "permission":
                missing = "no tool of the agent asked for permission"
                return self.lacks("model") or ("" if self.asks else missing)
            case "modes":
                return "" if self.opened.get("modes") else "the agent's sessions have no modes"
            case "config":
                has = bool(self.opened.get("configOptions"))
                return "" if has else "the agent's sessions have no configuration options"
            case "login":
                return "" if self.agent_logins else "the agent offers no login of type agent"
            case "posix":
                return "" if POSIX else "this check needs a POSIX system"
            case _:
                return ""

    def _lacks_tool(self, kind: str) -> str:
        if kind == "any":
            harmless = self.tools & {"read", "shell"}
            return "" if harmless else "the agent offers its model neither a read nor a shell tool"
        return "" if kind in self.tools else f"the agent offers its model no {kind} tool"

    def unmet(self, needs: Collection[str]) -> str:
        """The first reason why a check with these needs does not apply; empty if it does."""
        return next((reason for need in needs if (reason := self.lacks(need))), "")


class Probe:
    """Finds out a ``Profile`` with one agent process."""

    def __init__(self, editor: Editor, requests: list[ModelRequest]) -> None:
        self._editor = editor
        self._requests = requests
        self.profile = Profile()

    async def run(self, session_cwd: Any, model: bool) -> Profile:
        """Go as far as the agent lets us; what fails becomes a trouble, never an exception."""
        if not model:
            self.profile.troubles["model"] = "checks with a scripted model are switched off"
        await self._attempt("initialize", self._initialize())
        if "initialize" not in self.profile.troubles:
            await self._attempt("session", self._open(session_cwd, model))
        for need, later in (("initialize", "session"), ("session", "model")):
            if need in self.profile.troubles:
                self.profile.troubles.setdefault(later, self.profile.troubles[need])
        self.profile.exits_on_eof = await self._editor.finish(2.0) is not None
        return self.profile

    async def _attempt(self, need: str, step: Any) -> None:
        try:
            await step
        except (AgentFault, RpcError, KeyError, TypeError) as error:
            self.profile.troubles[need] = f"{need} does not work: {error}"

    async def _initialize(self) -> None:
        self.profile.info = await self._editor.initialize()

    async def _open(self, cwd: Any, model: bool) -> None:
        try:
            session = await self._editor.new_session(cwd)
        except RpcError as error:
            if error.code != AUTH_REQUIRED:
                raise
            self.profile.gated = True
            session = await self._log_in(cwd, error)
        self.profile.opened = session.result
        if model:
            await self._attempt("model", self._try_model(session))
        self._commands(session)

    async def _log_in(self, cwd: Any, refused: RpcError) -> Session:
        for method in self.profile.agent_logins:
            try:
                params = {"methodId": method}
                await self._editor.request(
                    "authenticate", params, timeout=LOGIN_SHARE * self._editor.timeout
                )
                session = await self._editor.new_session(cwd)
            except (RpcError, AgentFault):
                continue
            self.profile.login = method
            return session
        raise refused

    async def _try_model(self, session: Session) -> None:
        turn = await session.prompt(f"@say {PROBE_TEXT}")
        if not self._requests:
            self.profile.troubles["model"] = "prompts do not reach the scripted model"
        elif PROBE_TEXT not in turn.text:
            self.profile.troubles["model"] = f"the model's text is not shown: {turn.outcome}"
        else:
            self.profile.tools = self._offered()
            await self._try_permission(session)

    def _offered(self) -> frozenset[str]:
        return frozenset(
            kind
            for kind in KINDS
            for request in self._requests
            if resolve(ToolCall(kind, _sample(kind)), request.tools)
        )

    async def _try_permission(self, session: Session) -> None:
        for kind in ("shell", "write"):
            if kind in self.profile.tools:
                await session.prompt(writing(kind, str(session.cwd / f"probe-{kind}")))
                if self._editor.asked("session/request_permission"):
                    self.profile.asks = kind
                    return

    def _commands(self, session: Session) -> None:
        found = [m for m in session.updates() if m.kind == "available_commands_update"]
        for message in found[-1:]:
            commands = message.update.get("availableCommands") or []
            self.profile.commands = [c for c in commands if isinstance(c, dict)]


def writing(kind: str, path: str) -> str:
    """The directive for a call that leaves a file at ``path`` when it really runs."""
    if kind == "shell":
        return tool("shell", command=f"echo ran > '{path}'")
    return tool("write", path=path, content="ran\n")


def _sample(kind: str) -> Json:
    return dict.fromkeys(KINDS[kind].needs, "x")
