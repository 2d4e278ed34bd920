"""``elicitation/create``: the person at the client, asked in the modes it announced (C.19).

What may be asked, and what an answer means, is decided here for everybody who asks. What a question
belongs to, a session or a request that is being served, is added by whoever passes it on. ``forms``
is loaded when somebody is asked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from acp_server.capabilities import ClientCapabilities
from acp_server.rpc import ConnectionLost, PeerError
from harness_core.content import Json
from harness_core.person import Answer, Mode, Unanswered, Unasked

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
Tell: TypeAlias = Callable[[str, dict[str, Any]], None]

LONGEST_URL = 8_000

REVEALING = re.compile(
    r"(access|auth|id|refresh)_?token|api_?key|authorization|client_?secret|passw(or)?d|pwd|secret",
    re.IGNORECASE,
)
"""Parameters of a URL that hold a credential."""


class ClientUser:
    """The user of a client with these capabilities, as a ``Person``. ``ask`` adds the scope."""

    def __init__(self, client: ClientCapabilities, ask: Ask, tell: Tell) -> None:
        offered: dict[Mode, bool] = {"form": client.elicit_form, "url": client.elicit_url}
        self.modes = frozenset(mode for mode, is_offered in offered.items() if is_offered)
        self._ask = ask
        self._tell = tell

    async def fill_in(self, message: str, schema: Mapping[str, Json], call: str | None) -> Answer:
        """Have a form filled in; the answer fits it. Raises ``Unasked`` or ``Unanswered``."""
        from acp_server.forms import form_of

        self._require("form", "show forms")
        form = form_of(message, schema)
        return await self._put("form", message, call, requestedSchema=form)

    async def visit(self, page: str, message: str, url: str, call: str | None) -> Answer:
        """Have a URL opened. Raises ``Unasked`` or ``Unanswered``."""
        self._require("url", "open pages")
        require_harmless(url)
        return await self._put("url", message, call, elicitationId=page, url=url)

    def visited(self, page: str) -> None:
        """The page with that id is done with (V1-ELIC-12)."""
        self._tell("elicitation/complete", {"elicitationId": page})

    def _require(self, mode: Mode, what: str) -> None:
        """Nothing is asked in another mode than it was meant for (V1-ELIC-01, -06)."""
        if mode not in self.modes:
            raise Unasked(f"this editor does not {what} for the agent")

    async def _put(self, mode: Mode, message: str, call: str | None, **more: Any) -> Answer:
        from acp_server.forms import answer_of, message_of

        params = {"mode": mode, "message": message_of(message), **more}
        if call is not None:
            params["toolCallId"] = call
        try:
            result = await self._ask("elicitation/create", params)
        except PeerError as error:
            raise Unanswered(f"the editor could not ask: {error.message}") from None
        except ConnectionLost:
            raise Unanswered("the editor has gone") from None
        return answer_of(result, more.get("requestedSchema"))


def require_harmless(url: str) -> None:
    """Raise ``Unasked`` for a URL that people should not be sent to (V1-ELIC-13)."""
    if len(url) > LONGEST_URL or not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        raise Unasked("this is not a URL")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Unasked("this is not a URL") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))):
        raise Unasked("a page to open has an https:// URL, or http:// on this machine")
    names = [name for text in (parts.query, parts.fragment) for name, _ in parse_qsl(text, True)]
    if "@" in parts.netloc or any(map(REVEALING.fullmatch, names)):
        raise Unasked("a URL to open may not hold a password, a key or a token")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
